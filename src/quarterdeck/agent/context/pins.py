"""Messages that a person wants to survive every compaction."""

from quarterdeck.wire.content import ContentBlock, TextContent, text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import MessagePinned, MessageUnpinned
from quarterdeck.wire.ids import new_message_id

from .gauge import bytes_of
from .memory import Memory

__all__ = ["PinError", "pinned", "unpinned"]


class PinError(QuarterdeckError):
    """A pin cannot be set or taken away; the message says why."""


def pinned(memory: Memory, words: str, most: int) -> MessagePinned:
    """The event that pins a text, or what was said last if there is none.

    ``most``: bytes that all pins together may have.

    Raises:
        PinError: nothing was said yet, or the pins would be too large.
    """
    content = (text(words),) if words.strip() else memory.last
    if not content:
        raise PinError("nothing was said yet that could be pinned; give the words: /pin TEXT")
    if sum(map(_size, (*memory.pins.values(), content))) > most:
        raise PinError(f"pins may have {most} bytes together; unpin some, or pin less")
    return MessagePinned(message=new_message_id(), content=content, new=bool(words.strip()))


def _size(content: tuple[ContentBlock, ...]) -> int:
    return sum(bytes_of(block.text) for block in content if isinstance(block, TextContent))


def unpinned(memory: Memory, number: int | None) -> tuple[MessageUnpinned, ...]:
    """The events that let pins go: the one with that number, counted from 1, or all.

    Raises:
        PinError: there is no such pin.
    """
    ids = list(memory.pins)
    if number is not None and not 1 <= number <= len(ids):
        raise PinError(f"there is no pin {number}; there are {len(ids)}")
    chosen = ids if number is None else ids[number - 1 : number]
    return tuple(MessageUnpinned(message=id_) for id_ in chosen)
