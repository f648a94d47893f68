"""The pieces that a transcript is made of.

A block knows the records that it was made from by their first and last sequence number, and counts
its changes in ``version`` so that a view can tell whether what it has drawn still holds.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from quarterdeck.wire.events import Origin
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.toolcalls import Diff, ToolCallLocation
from quarterdeck.wire.usage import Cost, TokenUsage

__all__ = [
    "MOST_TEXT",
    "Block",
    "CallStatus",
    "EndBlock",
    "NoteBlock",
    "PlanBlock",
    "PromptBlock",
    "TextBlock",
    "ToolBlock",
    "weight",
]

MOST_TEXT = 200_000
"""Characters of one block that are kept in memory; the log has all of it."""

CallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed", "cancelled"]


@dataclass(slots=True, kw_only=True)
class PromptBlock:
    """What somebody said to the agent."""

    first: int
    last: int
    version: int = 0
    text: str
    left: int = 0
    """Characters that are not in ``text``."""
    origin: Origin = "person"
    expanded: bool = False


@dataclass(slots=True, kw_only=True)
class TextBlock:
    """Words of the agent, or its thoughts, as they come."""

    first: int
    last: int
    version: int = 0
    kind: Literal["message", "thought", "user"]
    message: str | None = None
    is_whole: bool = False
    """Nothing more comes."""
    is_cut: bool = False
    """It may have begun before the first record that is known."""
    parts: list[str] = field(default_factory=list[str])
    """Their text only ever grows, so that a view may go on from where it was."""
    size: int = 0
    """Characters of all parts."""
    left: int = 0
    """Characters that came after those and are not kept."""
    parent: str | None = None
    """The tool call whose sub-agent says it."""
    expanded: bool = False

    @property
    def text(self) -> str:
        """All of it that is kept."""
        if len(self.parts) > 1 and self.is_whole:
            self.parts[:] = ["".join(self.parts)]
        return "".join(self.parts)

    def add(self, text: str, most: int | None = MOST_TEXT) -> None:
        """Take what comes next; what is beyond ``most`` characters is only counted."""
        kept = text if most is None else text[: max(0, most - self.size)]
        if kept:
            self.parts.append(kept)
            self.size += len(kept)
        self.left += len(text) - len(kept)

    def since(self, taken: int) -> str:
        """What stands after the first ``taken`` characters; costs what that costs."""
        found: list[str] = []
        missing = self.size - taken
        for part in reversed(self.parts):
            if missing <= 0:
                break
            found.append(part if len(part) <= missing else part[-missing:])
            missing -= len(part)
        return "".join(reversed(found))


@dataclass(slots=True, kw_only=True)
class ToolBlock:
    """A tool call: what it is, how far, and what came of it."""

    first: int
    last: int
    version: int = 0
    call: str
    title: str = ""
    name: str | None = None
    kind: str = "other"
    status: CallStatus = "pending"
    reason: str | None = None
    texts: tuple[str, ...] = ()
    """Content that is no diff and no terminal."""
    diffs: tuple[Diff, ...] = ()
    terminals: tuple[str, ...] = ()
    output: str = ""
    """What its terminals wrote; the end of it where it is very long."""
    exit: str | None = None
    """How its terminal's command ended."""
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = None
    raw_output: Any = None
    decision: str | None = None
    """Who allowed or denied it."""
    asked: str = ""
    """What leave was asked for; its title where the call has none."""
    is_asking: bool = False
    is_cut: bool = False
    """Its beginning is not known yet."""
    parent: str | None = None
    expanded: bool = False


@dataclass(slots=True, kw_only=True)
class PlanBlock:
    """The agent's plan as it was at one time."""

    first: int
    last: int
    version: int = 0
    entries: tuple[PlanEntry, ...]
    parent: str | None = None


@dataclass(slots=True, kw_only=True)
class NoteBlock:
    """One thing that happened, in a line."""

    first: int
    last: int
    version: int = 0
    text: str
    severity: Literal["quiet", "info", "warning", "error", "question"] = "quiet"
    request: str | None = None
    parent: str | None = None
    expanded: bool = False


@dataclass(slots=True, kw_only=True)
class EndBlock:
    """How a turn ended, and what it took."""

    first: int
    last: int
    version: int = 0
    stop: str
    reason: str | None = None
    usage: TokenUsage | None = None
    cost: Cost | None = None
    began: tuple[int, int] | None = None
    """Sequence number and time of its beginning; None: that is not in the window."""
    ended: int
    """Microseconds since the epoch."""
    parent: str | None = None


Block: TypeAlias = PromptBlock | TextBlock | ToolBlock | PlanBlock | NoteBlock | EndBlock


def weight(block: Block) -> int:
    """About how many characters a block keeps in memory."""
    match block:
        case TextBlock():
            return block.size
        case PromptBlock() | NoteBlock():
            return len(block.text)
        case ToolBlock():
            changed = sum(len(diff.old_text or "") + len(diff.new_text) for diff in block.diffs)
            return len(block.output) + sum(map(len, block.texts)) + changed
        case PlanBlock() | EndBlock():
            return 0
