"""The images of a transcript: what blocks keep of them, and where their bytes are.

The bytes stay in the log, and are read when someone looks: an image may be larger than all texts.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct

from quarterdeck.wire.content import (
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ImageFacts,
    read_image_facts,
)
from quarterdeck.wire.conversation import ImagePart
from quarterdeck.wire.event_text import describe_content
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    Prompted,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
)
from quarterdeck.wire.tool_calls import ContentItem, ToolCallContent

if TYPE_CHECKING:
    from ..rasters import Raster

__all__ = [
    "BlockImage",
    "describe_part",
    "find_image",
    "has_images",
    "list_images",
    "note_images",
]


class BlockImage(Struct, kw_only=True):
    """An image of a block: what it is, and where in the log its bytes are."""

    seq: int
    """The record that has it."""
    at: int
    """Which image of the record it is."""
    facts: ImageFacts
    size: int
    """Bytes, about."""
    name: str = ""
    raster: "Raster | None" = None
    """Its pixels, as soon as someone looked at it."""
    problem: str = ""
    """Why it cannot be drawn."""
    is_wanted: bool = False
    """Its pixels are being read."""
    is_away: bool = False
    """Its pixels could not be read, because the host is away."""


def list_images(event: Event) -> list[ImageContent]:
    """The images of an event, in the order in which blocks count them."""
    contents: list[ContentBlock] = []
    match event:
        case Prompted(content=content):
            contents += content
        case MessageChunk(content=content) | ThoughtChunk(content=content):
            contents.append(content)
        case ToolCallStarted() | ToolCallUpdated() | ToolCallEnded():
            if event.content is not UNSET and has_images(event.content):
                contents += (one.content for one in event.content if isinstance(one, ContentItem))
            elif isinstance(event, ToolCallEnded) and event.result is not None:
                contents += (
                    ImageContent(data=part.data, mime_type=part.mime_type)
                    for part in event.result.content
                    if isinstance(part, ImagePart)
                )
        case _:
            pass
    return [image for one in contents if (image := find_image(one)) is not None]


def has_images(items: Sequence[ToolCallContent]) -> bool:
    """Whether there is an image among the content of a call."""
    return any(isinstance(one, ContentItem) and find_image(one.content) for one in items)


def find_image(content: ContentBlock) -> ImageContent | None:
    """The image that a part of some content is; None: it is none."""
    if isinstance(content, EmbeddedResource):
        inner = content.resource
        if inner.blob is None or not (inner.mime_type or "").startswith("image/"):
            return None
        return ImageContent(data=inner.blob, mime_type=inner.mime_type or "", uri=inner.uri)
    return content if isinstance(content, ImageContent) else None


def note_images(
    seq: int, images: Sequence[ImageContent], before: Sequence[BlockImage] = ()
) -> tuple[BlockImage, ...]:
    """What a block keeps of images; those that were there before keep what was drawn of them."""
    found: list[BlockImage] = []
    for at, image in enumerate(images):
        facts, size = read_image_facts(image.data), len(image.data) * 3 // 4
        noted = BlockImage(seq=seq, at=at, facts=facts, size=size, name=image.uri or "")
        known = before[at] if at < len(before) else None
        if known is not None and (known.facts, known.size, known.name) == (facts, size, noted.name):
            noted.raster, noted.problem = known.raster, known.problem
        found.append(noted)
    return tuple(found)


def describe_part(content: ContentBlock) -> str:
    """A block of content as text; of an image also what its first bytes say."""
    if not isinstance(content, ImageContent):
        return describe_content(content)
    facts = read_image_facts(content.data)
    name = f" {content.uri}" if content.uri else ""
    words = describe_content(content).removesuffix("]")
    return f"{words}, {facts if facts.kind else 'not readable as an image'}{name}]"
