"""How prompt content is sent to a model: content blocks become conversation parts."""

from typing import assert_never

from quarterdeck.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)
from quarterdeck.wire.conversation import ImagePart, Part, TextPart
from quarterdeck.wire.events import Prompted

__all__ = ["model_content", "parts_of"]


def model_content(prompted: Prompted) -> tuple[ContentBlock, ...]:
    """What the model is sent of a prompt; empty: it never hears of it."""
    return prompted.content if prompted.model_content is None else prompted.model_content


def parts_of(content: tuple[ContentBlock, ...]) -> tuple[Part, ...]:
    """Turn prompt content into parts, in order; what a model cannot take is described in words."""
    return tuple(_part(block) for block in content)


def _part(block: ContentBlock) -> Part:
    match block:
        case TextContent():
            return TextPart(text=block.text)
        case ImageContent():
            return ImagePart(data=block.data, mime_type=block.mime_type)
        case AudioContent():
            return TextPart(text=f"[Audio ({block.mime_type}), which cannot be played here.]")
        case ResourceLink():
            return TextPart(text=_link(block))
        case EmbeddedResource():
            return _resource(block)
        case _:
            assert_never(block)


def _link(link: ResourceLink) -> str:
    facts = [f"name: {link.title or link.name}", f"uri: {link.uri}"]
    if link.description:
        facts.append(f"about: {link.description}")
    if link.mime_type:
        facts.append(f"type: {link.mime_type}")
    if link.size is not None:
        facts.append(f"size: {link.size} bytes")
    return "[Referenced by the user: " + "; ".join(facts) + "]"


def _resource(block: EmbeddedResource) -> Part:
    resource = block.resource
    if resource.text is not None:
        return TextPart(text=f'<resource uri="{resource.uri}">\n{resource.text}\n</resource>')
    if resource.blob is not None and (resource.mime_type or "").startswith("image/"):
        return ImagePart(data=resource.blob, mime_type=resource.mime_type or "image/png")
    kind = resource.mime_type or "unknown type"
    return TextPart(text=f"[Attached by the user: {resource.uri}, {kind}, not readable as text.]")
