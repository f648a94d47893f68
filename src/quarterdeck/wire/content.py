"""Content blocks: what prompts, messages and tool results are made of (ACP ``ContentBlock``)."""

from typing import Literal, TypeAlias

from .values import AcpValue

__all__ = [
    "Annotations",
    "AudioContent",
    "ContentBlock",
    "EmbeddedResource",
    "ImageContent",
    "ResourceContents",
    "ResourceLink",
    "Role",
    "TextContent",
    "text",
]

Role: TypeAlias = Literal["assistant", "user"]


class Annotations(AcpValue, frozen=True, kw_only=True):
    """Hints on how a block is meant to be used."""

    audience: tuple[Role, ...] | None = None
    last_modified: str | None = None
    priority: float | None = None


class TextContent(AcpValue, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Text, plain or Markdown."""

    text: str
    annotations: Annotations | None = None


class ImageContent(AcpValue, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image, base 64 in ``data``."""

    data: str
    mime_type: str
    uri: str | None = None
    annotations: Annotations | None = None


class AudioContent(AcpValue, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    """A sound, base 64 in ``data``."""

    data: str
    mime_type: str
    annotations: Annotations | None = None


class ResourceLink(AcpValue, frozen=True, kw_only=True, tag_field="type", tag="resource_link"):
    """A pointer to something that the agent can fetch itself."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None


class ResourceContents(AcpValue, frozen=True, kw_only=True):
    """The contents of a resource: exactly one of ``text`` and ``blob`` (base 64) is set."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class EmbeddedResource(AcpValue, frozen=True, kw_only=True, tag_field="type", tag="resource"):
    """A resource with its contents."""

    resource: ResourceContents
    annotations: Annotations | None = None


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
)


def text(content: str) -> TextContent:
    """Make a text block."""
    return TextContent(text=content)
