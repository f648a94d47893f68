"""Content blocks in words."""

from typing import Any

import msgspec

from quarterdeck.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

from .blocks import MOST_TEXT

__all__ = ["as_json", "kept", "told"]


def told(content: ContentBlock) -> str:
    """The text of a block; of another kind what it is."""
    match content:
        case TextContent(text=text):
            return text
        case ImageContent(mime_type=kind, data=data):
            return f"[image {kind}, {len(data) * 3 // 4:,} bytes]"
        case AudioContent(mime_type=kind, data=data):
            return f"[sound {kind}, {len(data) * 3 // 4:,} bytes]"
        case ResourceLink(uri=uri, name=name):
            return f"[{name}: {uri}]"
        case EmbeddedResource(resource=resource):
            return f"[{resource.uri}]" + (f"\n{resource.text}" if resource.text else "")


def kept(text: str, most: int | None = MOST_TEXT) -> str:
    """The beginning of a text, with a note where it is longer than may be kept; None: all."""
    if most is None or len(text) <= most:
        return text
    return f"{text[:most]}\n… {len(text) - most:,} more characters are in the log"


def as_json(value: Any) -> str:
    """A value as a person reads it: one text as it is, all else as indented JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (TypeError, ValueError, msgspec.MsgspecError):
        return repr(value)
