"""Content blocks: what prompts, messages and tool results are made of (ACP ``ContentBlock``)."""

import base64
import binascii
import struct
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
    "read_image_facts",
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


_HEAD = 65_536
"""Characters of base 64 that are read to tell what an image is."""


def read_image_facts(data: str) -> str:
    """What the first bytes of an image in base 64 say: ``PNG 640×480``; empty: it is none.

    Reads PNG, GIF, JPEG and WebP, and never raises.
    """
    try:
        head = base64.b64decode(data[:_HEAD])
    except (binascii.Error, ValueError):
        return ""
    try:
        return _facts(head)
    except (struct.error, IndexError):
        return ""


def _facts(head: bytes) -> str:
    if head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR":
        return "PNG {}×{}".format(*struct.unpack(">II", head[16:24]))
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return "GIF {}×{}".format(*struct.unpack("<HH", head[6:10]))
    if head[:3] == b"\xff\xd8\xff":
        return _read_jpeg(head)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WebP"
    return ""


def _read_jpeg(head: bytes) -> str:
    """The size stands in the first frame, behind other segments."""
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        kind = head[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return f"JPEG {width}×{height}"
        at += 2 + max(2, struct.unpack(">H", head[at + 2 : at + 4])[0])
    return "JPEG"
