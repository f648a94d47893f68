"""A prompt in the blocks that an agent takes."""

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    text,
)

from ..errors import Unsupported

__all__ = ["blocks_for"]


def blocks_for(
    agent: str, content: tuple[ContentBlock, ...], able: acp.PromptCapabilities
) -> tuple[ContentBlock, ...]:
    """The blocks to send: resources that the agent does not take become text or links.

    Raises:
        Unsupported: images or sounds that it does not take.
    """
    return tuple(_block(agent, block, able) for block in content)


def _block(agent: str, block: ContentBlock, able: acp.PromptCapabilities) -> ContentBlock:
    match block:
        case ImageContent() if not able.image:
            raise Unsupported(agent, "acp", "take images")
        case AudioContent() if not able.audio:
            raise Unsupported(agent, "acp", "take audio")
        case EmbeddedResource(resource=resource) if not able.embedded_context:
            if resource.text is None:
                return ResourceLink(uri=resource.uri, name=resource.uri.rpartition("/")[2])
            return text(f'<resource uri="{resource.uri}">\n{resource.text}\n</resource>')
        case _:
            return block
