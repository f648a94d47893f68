"""Options, prompts and tool servers in the form that Claude Code takes."""

from collections.abc import Iterable
from dataclasses import dataclass
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
from quarterdeck.wire.session_options import AgentMcpServer

from ...agent_process import Launch
from ...command_line import render_agent_mode, render_option
from ...driver import DriverSessionOptions
from ...errors import UnsupportedError

__all__ = ["DIALECTS", "ClaudeDialect", "blocks_of", "command_words", "mcp_config"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeDialect:
    """One program's variant of the language."""

    words: tuple[str, ...]
    """Make it speak the language in both directions."""
    asking: tuple[str, ...]
    """Make it ask us about every call that it would ask a person about."""
    login: tuple[str, ...] = ()
    """The command for a terminal that logs a person in."""


_BOTH_WAYS = ("--input-format", "stream-json", "--output-format", "stream-json")

DIALECTS = {
    "claude": ClaudeDialect(
        words=(
            *("-p", *_BOTH_WAYS, "--verbose", "--include-partial-messages"),
            *("--permission-prompt-tool", "stdio", "--replay-user-messages"),
        ),
        # Its own default may be a mode in which a model decides instead of a person.
        asking=("--permission-mode", "default"),
        login=("claude", "auth", "login"),
    ),
    "qwen": ClaudeDialect(
        words=(*_BOTH_WAYS, "--include-partial-messages"),
        asking=("--approval-mode", "default"),
        login=("qwen",),
    ),
}


def command_words(
    launch: Launch,
    opening: DriverSessionOptions,
    transport: str,
    *,
    session: str | None,
    mcp: str | None,
) -> tuple[str, ...]:
    """The words of the command line for a session.

    ``session``: the id for a new session; ``mcp``: the file that names tool servers.

    Raises:
        UnsupportedError: an option that the agent has no words for.
    """
    if opening.options.fork and opening.options.resume is None:
        raise UnsupportedError(launch.agent, transport, "fork a session without 'resume'")
    dialect = DIALECTS[launch.dialect or "claude"]
    options = {
        "model": opening.options.model,
        "resume": opening.options.resume,
        "fork": opening.options.fork,
        "session": session,
        # Our log has the title; it is passed to the agent where there is an option for it.
        "title": opening.title if "title" in launch.words else None,
        "system_prompt": opening.options.system_prompt,
        "mcp": mcp,
        "roots": opening.options.roots,
    }
    words = list(dialect.words)
    words += render_agent_mode(launch, transport, opening.options.agent_mode) or dialect.asking
    for option, value in options.items():
        words += render_option(launch, transport, option, value)
    return tuple(words)


def blocks_of(content: Iterable[ContentBlock]) -> list[dict[str, Any]]:
    """The blocks of a user's message; resources become text or documents.

    Raises:
        ValueError: a kind of content that it cannot take.
    """
    return [_block(one) for one in content]


def mcp_config(servers: Iterable[AgentMcpServer]) -> dict[str, Any]:
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
        text = f'<context ref="{resource.uri}">\n{resource.text}\n</context>'
        return {"type": "text", "text": text}
    mime_type = resource.mime_type or ""
    if mime_type.startswith("image/"):
        return _data("image", mime_type, resource.blob or "")
    if mime_type == "application/pdf":
        return _data("document", mime_type, resource.blob or "")
    raise ValueError(f"accept a resource of type {mime_type!r}")


def _server(server: AgentMcpServer) -> dict[str, Any]:
    if server.url:
        return {"type": "http", "url": server.url, "headers": server.sent_headers}
    command, *arguments = server.command
    return {
        "type": "stdio",
        "command": command,
        "args": arguments,
        "env": server.variables,
    }
