"""The pieces that a transcript is made of.

A block knows the records that it was made from by their first and last sequence number, and counts
its changes in ``version`` so that a view can tell whether what it has drawn still holds.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from quarterdeck.wire.events import Origin
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.toolcalls import Diff, ToolCallLocation

__all__ = ["Block", "CallStatus", "NoteBlock", "PlanBlock", "PromptBlock", "TextBlock", "ToolBlock"]

CallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed", "cancelled"]


@dataclass(slots=True, kw_only=True)
class PromptBlock:
    """What somebody said to the agent."""

    first: int
    last: int
    version: int = 0
    text: str
    origin: Origin = "person"


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
    """Only ever grows, so that a view may go on from where it was."""
    expanded: bool = False

    @property
    def text(self) -> str:
        """All of it."""
        if len(self.parts) > 1 and self.is_whole:
            self.parts[:] = ["".join(self.parts)]
        return "".join(self.parts)


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


@dataclass(slots=True, kw_only=True)
class NoteBlock:
    """One thing that happened, in a line."""

    first: int
    last: int
    version: int = 0
    text: str
    severity: Literal["quiet", "info", "warning", "error", "question"] = "quiet"
    request: str | None = None


Block: TypeAlias = PromptBlock | TextBlock | ToolBlock | PlanBlock | NoteBlock
