"""What must survive a compaction, and the notes that stand for old results of tools.

Each event costs the same however long the session is; what is kept of one prompt is bounded.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.wire.content import ContentBlock, TextContent
from quarterdeck.wire.conversation import Message, Part, TextPart, ToolResultPart, ToolUsePart
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

from ..content_parts import model_content, parts_of
from .token_estimate import weigh

if TYPE_CHECKING:
    from quarterdeck.wire.ids import MessageId
    from quarterdeck.wire.settings import PlanEntry

__all__ = [
    "ConversationMemory",
    "RememberedPrompt",
    "clear_results",
    "cut_results",
    "note_of",
    "savings",
    "shorten",
]

_WORTH = 400
"""Bytes below which a result stays: a note would hardly be shorter."""
_NOTE = 120
"""Bytes of a note, about."""
_LONGEST = 80
_TELLING = ("path", "file_path", "command", "pattern", "url", "query", "id", "name")
"""Arguments that say what a call was about, the best first."""


def clear_results(message: Message, calls: Message | None) -> Message:
    """The message with a note in place of each long result; ``calls`` is the one before it."""
    if savings(message) == 0:
        return message
    uses = {p.id: p for p in calls.parts if isinstance(p, ToolUsePart)} if calls else {}
    return replace(message, parts=tuple(_cleared(part, uses) for part in message.parts))


def cut_results(message: Message, longest: int) -> Message:
    """The message with the middle left out of each text of a result that is longer."""
    return replace(message, parts=tuple(_cut(part, longest) for part in message.parts))


def _cut(part: Part, longest: int) -> Part:
    if not isinstance(part, ToolResultPart):
        return part
    content = tuple(
        replace(each, text=shorten(each.text, longest)) if isinstance(each, TextPart) else each
        for each in part.content
    )
    return part if content == part.content else replace(part, content=content)


def shorten(text: str, most: int) -> str:
    """The head and the tail of a long text, with a note of how much is between."""
    if len(text) <= most:
        return text
    head, tail = most * 2 // 3, most // 3
    end = text[-tail:] if tail else ""
    return f"{text[:head]}\n[… {len(text) - head - tail} characters omitted …]\n{end}"


def savings(message: Message) -> int:
    """Bytes that clearing a message would free, about."""
    return sum(_size(part) - _NOTE for part in message.parts if _is_worth(part))


def _cleared(part: Part, uses: Mapping[str, ToolUsePart]) -> Part:
    if not isinstance(part, ToolResultPart) or not _is_worth(part):
        return part
    return replace(part, content=(TextPart(text=note_of(uses.get(part.id))),))


def _is_worth(part: Part) -> bool:
    return isinstance(part, ToolResultPart) and _size(part) > _WORTH


def _size(part: Part) -> int:
    return weigh(Message(role="user", parts=(part,)))


def note_of(use: ToolUsePart | None) -> str:
    """What stands in place of a call's result."""
    what = f"{use.name} {_about(use.arguments)}".strip() if use else "an earlier call"
    return f"[result of {what} was cleared to make room; repeat the call if you need it]"


def _about(arguments: str) -> str:
    try:
        given: Any = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return ""
    if not isinstance(given, dict):
        return ""
    table = cast("dict[str, Any]", given)
    found = next((table[name] for name in _TELLING if isinstance(table.get(name), str)), "")
    line = " ".join(str(found).split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


_LONGEST_PROMPT = 4_000
"""Characters that are kept of a prompt; the newest is kept whole."""
_MOST_FILES = 50


class RememberedPrompt(Struct, frozen=True):
    """A prompt, and which message of the conversation it is."""

    at: int
    text: str
    starts_turn: bool


class ConversationMemory:
    """The person's prompts and the subject of the work, whatever is cleared or summarised."""

    def __init__(self) -> None:
        self.prompts: list[RememberedPrompt] = []
        self.newest: tuple[Part, ...] = ()
        """The newest prompt that started a turn, whole."""
        self.plan: tuple[PlanEntry, ...] = ()
        self.files: dict[str, None] = {}
        """Files that were read or changed, the latest last."""
        self.pins: dict[MessageId, tuple[ContentBlock, ...]] = {}
        self.added: dict[str, str] = {}
        """Prompts that no person typed, by their source, the latest last."""
        self.last: tuple[ContentBlock, ...] = ()
        """The last message, of either side."""

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
        content = model_content(event)
        parts = parts_of(content)
        text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        self.prompts.append(RememberedPrompt(at, shorten(text, _LONGEST_PROMPT), not event.steers))
        self.last = content
        if not event.steers:
            self.newest = parts
