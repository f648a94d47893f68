"""Content blocks: what prompts, messages and tool results are made of (ACP ``ContentBlock``)."""

import base64
import binascii
import struct
from typing import Literal, NamedTuple, TypeAlias

from .values import AcpValue

__all__ = [
    "Annotations",
    "AudioContent",
    "ContentBlock",
    "EmbeddedResource",
    "ImageContent",
    "ImageFacts",
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


class ImageFacts(NamedTuple):
    """What the first bytes of an image say."""

    kind: str
    """``PNG``, ``GIF``, ``JPEG`` or ``WebP``; empty: it is none of these."""
    width: int | None = None
    height: int | None = None
    """None: not known."""

    def __str__(self) -> str:
        """As ``PNG 640×480``."""
        return self.kind if self.width is None else f"{self.kind} {self.width}×{self.height}"


def read_image_facts(data: str) -> ImageFacts:
    """What the first bytes of an image in base 64 say.

    Reads PNG, GIF, JPEG and WebP, and never raises.
    """
    try:
        return _facts(base64.b64decode(data[:_HEAD]))
    except (binascii.Error, ValueError, struct.error, IndexError):
        return ImageFacts("")


def _facts(head: bytes) -> ImageFacts:
    if head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR":
        return ImageFacts("PNG", *struct.unpack(">II", head[16:24]))
    if head[:6] in (b"GIF87a", b"GIF89a"):
        return ImageFacts("GIF", *struct.unpack("<HH", head[6:10]))
    if head[:3] == b"\xff\xd8\xff":
        return _read_jpeg(head)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _read_webp(head)
    return ImageFacts("")


def _read_webp(head: bytes) -> ImageFacts:
    """The size stands in the first chunk, whose kind tells how."""
    if len(head) < 30:
        return ImageFacts("WebP")
    if head[12:16] == b"VP8X":
        wide, high = (int.from_bytes(head[at : at + 3], "little") + 1 for at in (24, 27))
        return ImageFacts("WebP", wide, high)
    if head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return ImageFacts("WebP", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    wide, high = struct.unpack("<HH", head[26:30])
    return ImageFacts("WebP", wide & 0x3FFF, high & 0x3FFF)


def _read_jpeg(head: bytes) -> ImageFacts:
    """The size stands in the first frame, behind other segments."""
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        kind = head[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return ImageFacts("JPEG", width, height)
        at += 2 + max(2, struct.unpack(">H", head[at + 2 : at + 4])[0])
    return ImageFacts("JPEG")
