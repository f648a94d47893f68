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

__all__ = ["as_json", "told"]


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


def as_json(value: Any) -> str:
    """A value as a person reads it: one text as it is, all else as indented JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    except (TypeError, ValueError, msgspec.MsgspecError):
        return repr(value)
