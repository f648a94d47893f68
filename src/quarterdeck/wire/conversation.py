"""What was sent to a model, and its replies, free of any vendor's form.

These are the persisted values from which the native agent rebuilds its requests byte for byte;
what people see (chunks, diffs, terminals) are events of their own.
"""

from typing import Any, Literal, TypeAlias

from .values import Value

__all__ = [
    "ImagePart",
    "Message",
    "OpaquePart",
    "Part",
    "RequestDigest",
    "ResultPart",
    "TextPart",
    "ThinkingPart",
    "ToolResultPart",
    "ToolUsePart",
]


class TextPart(Value, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Text of either side."""

    text: str
    signature: str | None = None
    """The vendor's seal on this text, given back as it came (Gemini puts one on text)."""


class ImagePart(Value, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image, base 64 in ``data``."""

    data: str
    mime_type: str


class ThinkingPart(Value, frozen=True, kw_only=True, tag_field="type", tag="thinking"):
    """The model's reasoning.

    ``signature`` and ``redacted`` are the vendor's own bytes and go back unchanged, to the same
    vendor only.
    """

    text: str
    vendor: str
    signature: str | None = None
    redacted: str | None = None


class ToolUsePart(Value, frozen=True, kw_only=True, tag_field="type", tag="tool_use"):
    """A tool call as the model wrote it; ``arguments`` is its JSON text, valid or not."""

    id: str
    name: str
    arguments: str
    signature: str | None = None


ResultPart: TypeAlias = TextPart | ImagePart


class ToolResultPart(Value, frozen=True, kw_only=True, tag_field="type", tag="tool_result"):
    """The result of a tool call as it is sent to the model."""

    id: str
    content: tuple[ResultPart, ...]
    is_error: bool = False


class OpaquePart(Value, frozen=True, kw_only=True, tag_field="type", tag="opaque"):
    """Something that only ``vendor`` understands and wants back as it was."""

    vendor: str
    raw: Any


Part: TypeAlias = TextPart | ImagePart | ThinkingPart | ToolUsePart | ToolResultPart | OpaquePart


class Message(Value, frozen=True, kw_only=True):
    """One entry of a conversation."""

    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]


class RequestDigest(Value, frozen=True, kw_only=True):
    """What a request has besides its messages, as checksums: enough to see that it changed.

    A checksum is the CRC-32 of the text in hexadecimal, a hyphen, and its length in bytes.
    """

    system: str
    """Of the system prompt."""
    tools: dict[str, str]
    """Of each tool's description and schema, by its name, in the order in which they are sent."""
