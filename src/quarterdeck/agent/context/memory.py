"""What must survive a compaction, gathered while it happens: a fold over the session's events.

Each event costs the same however long the session is; what is kept of one prompt is bounded.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from quarterdeck.wire.content import ContentBlock, TextContent
from quarterdeck.wire.conversation import Message, Part, TextPart
from quarterdeck.wire.events import (
    ContextAdded,
    Event,
    MessagePinned,
    MessageUnpinned,
    ModelCallFinished,
    PlanChanged,
    Prompted,
    ToolCallStarted,
)

from ..content_parts import parts_of, told_content
from .cleared_results import shorten

if TYPE_CHECKING:
    from quarterdeck.wire.ids import MessageId
    from quarterdeck.wire.settings import PlanEntry

__all__ = ["ConversationMemory", "RememberedPrompt"]

_LONGEST_PROMPT = 4_000
"""Characters that are kept of a prompt; the newest is kept whole."""
_MOST_FILES = 50


class RememberedPrompt(Struct, frozen=True):
    """A prompt, and which message of the conversation it is."""

    at: int
    text: str
    starts_turn: bool


class ConversationMemory:
    """What a person said and what the work is about, whatever is cleared or summarised."""

    def __init__(self) -> None:
        self.prompts: list[RememberedPrompt] = []
        self.newest: tuple[Part, ...] = ()
        """The newest prompt that started a turn, whole."""
        self.plan: tuple[PlanEntry, ...] = ()
        self.files: dict[str, None] = {}
        """Files that were read or changed, the latest last."""
        self.pins: dict[MessageId, tuple[ContentBlock, ...]] = {}
        self.added: dict[str, str] = {}
        """What was told though nobody typed it, by its source, the latest last."""
        self.last: tuple[ContentBlock, ...] = ()
        """What was said last, by either side."""

    def apply(self, event: Event, at: int) -> None:
        """Take one event; ``at`` is the number of the next message."""
        match event:
            case Prompted():
                self._prompted(event, at)
            case ModelCallFinished(reply=Message() as reply):
                text = "".join(part.text for part in reply.parts if isinstance(part, TextPart))
                self.last = (TextContent(text=text),) if text.strip() else self.last
            case ToolCallStarted(kind="read" | "edit", locations=locations):
                for location in locations:
                    self.files.pop(location.path, None)
                    self.files[location.path] = None
                while len(self.files) > _MOST_FILES:
                    self.files.pop(next(iter(self.files)))
            case PlanChanged(entries=entries):
                self.plan = entries
            case ContextAdded():
                self.added.pop(event.source, None)
                self.added[event.source] = event.text
            case MessagePinned():
                self.pins[event.message] = event.content
            case MessageUnpinned():
                self.pins.pop(event.message, None)
            case _:
                pass

    def _prompted(self, event: Prompted, at: int) -> None:
        content = told_content(event)
        parts = parts_of(content)
        text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        self.prompts.append(RememberedPrompt(at, shorten(text, _LONGEST_PROMPT), not event.steers))
        self.last = content
        if not event.steers:
            self.newest = parts
