"""A prompt's content, and the tool servers of a session, in the form that Claude Code takes."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote, urlsplit

from quarterdeck.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

from ..driver import McpServer

__all__ = ["blocks_of", "mcp_config"]


def blocks_of(content: Iterable[ContentBlock]) -> list[dict[str, Any]]:
    """The blocks of a user's message; resources become text or documents.

    Raises:
        ValueError: a kind of content that it cannot take.
    """
    return [_block(one) for one in content]


def mcp_config(servers: Iterable[McpServer]) -> dict[str, Any]:
    """The content of a file that names tool servers."""
    return {"mcpServers": {server.name: _server(server) for server in servers}}


def _block(content: ContentBlock) -> dict[str, Any]:
    match content:
        case TextContent():
            return {"type": "text", "text": content.text}
        case ImageContent():
            return _data("image", content.mime_type, content.data)
        case ResourceLink():
            return {"type": "text", "text": _mention(content)}
        case EmbeddedResource():
            return _resource(content)
        case AudioContent():
            raise ValueError("take sound")


def _data(kind: str, mime_type: str, data: str) -> dict[str, Any]:
    return {"type": kind, "source": {"type": "base64", "media_type": mime_type, "data": data}}


def _mention(link: ResourceLink) -> str:
    parts = urlsplit(link.uri)
    return f"@{unquote(parts.path)}" if parts.scheme == "file" else f"[{link.name}]({link.uri})"


def _resource(content: EmbeddedResource) -> dict[str, Any]:
    resource = content.resource
    if resource.text is not None:
        told = f'<context ref="{resource.uri}">\n{resource.text}\n</context>'
        return {"type": "text", "text": told}
    mime_type = resource.mime_type or ""
    if mime_type.startswith("image/"):
        return _data("image", mime_type, resource.blob or "")
    if mime_type == "application/pdf":
        return _data("document", mime_type, resource.blob or "")
    raise ValueError(f"take a resource of the kind {mime_type!r}")


def _server(server: McpServer) -> dict[str, Any]:
    if server.url:
        return {"type": "http", "url": server.url, "headers": dict(server.headers)}
    command, *arguments = server.command
    return {
        "type": "stdio",
        "command": command,
        "args": arguments,
        "env": dict(server.environment),
    }
