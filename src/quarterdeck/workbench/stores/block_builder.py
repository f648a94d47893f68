"""From records to blocks: what each event does to a transcript.

Taking in a record again changes nothing, so that pages may overlap.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from quarterdeck.wire.event_text import Severity, describe_content, describe_event
from quarterdeck.wire.events import (
    Checkpointed,
    ChildEnded,
    ChildStarted,
    CommandsChanged,
    CompactionChanged,
    CompactionChunk,
    ContextAdded,
    Event,
    GoalEnded,
    GoalSet,
    GrantRevoked,
    MessageChunk,
    MessagePinned,
    MessageUnpinned,
    ModeChanged,
    ModelCallFinished,
    ModelCallStarted,
    NoticePosted,
    OptionsChanged,
    PermissionAnswered,
    PermissionAsked,
    PermissionViolated,
    PlanChanged,
    PromptDropped,
    Prompted,
    PromptQueued,
    QuestionAnswered,
    QuestionAsked,
    RateLimited,
    Redone,
    ResultsCleared,
    RetryScheduled,
    Rewound,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    TerminalExited,
    TerminalOutput,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnded,
    TurnStarted,
    UnknownEvent,
    UsageReported,
)
from quarterdeck.wire.record import Record

from . import tool_calls
from .blocks import (
    MOST_TEXT,
    Block,
    EndBlock,
    NoteBlock,
    PlanBlock,
    PromptBlock,
    TextBlock,
    ToolBlock,
)

__all__ = ["BlockBuilder"]


@dataclass(slots=True)
class BlockBuilder:
    """Blocks that grow by records in order."""

    blocks: list[Block] = field(default_factory=list[Block])
    first: int = 0
    """The first record taken in; 0: none yet."""
    last: int = 0
    calls: dict[str, ToolBlock] = field(default_factory=dict[str, ToolBlock])
    terminals: dict[str, ToolBlock] = field(default_factory=dict[str, ToolBlock])
    stray: dict[str, str] = field(default_factory=dict[str, str])
    """Output of terminals whose call began before the first record."""
    began: tuple[int, int] | None = None
    """The sequence number and time at which the turn that is not over began, if that is known."""
    is_before_turns: bool = True
    """No turn began or ended yet."""
    unbegun: EndBlock | None = None
    """The end of a turn that began before the first record."""
    most: int | None = MOST_TEXT
    """Characters of one text that are kept; None: all."""

    def take(self, record: Record) -> None:
        """Take in the next record; one that is in already does nothing."""
        if record.seq <= self.last:
            return
        self.first = self.first or record.seq
        self.last = record.seq
        event = record.event
        if isinstance(event, MessageChunk | ThoughtChunk):
            self._chunk(record, event)
        elif not self._is_unseen(event):
            self._end_text()
            self._event(record, event)

    def touch(self, block: Block, seq: int) -> None:
        """Note that a block changed."""
        block.version += 1
        block.last = max(block.last, seq)

    def add(self, block: Block) -> None:
        """Put a block at the end."""
        self.blocks.append(block)

    def _is_unseen(self, event: Event) -> bool:
        """Whether it has no place in a transcript, and words may go on after it."""
        match event:
            case (
                UsageReported()
                | ModelCallStarted()
                | OptionsChanged()
                | CommandsChanged()
                | SessionChanged()
                | PromptQueued()
                | TerminalOutput()
            ):
                if isinstance(event, TerminalOutput):
                    tool_calls.apply_output(self, event, self.last)
                return True
            case _:
                return False

    def _chunk(self, record: Record, event: MessageChunk | ThoughtChunk) -> None:
        kind: Literal["message", "thought", "user"] = "thought"
        if isinstance(event, MessageChunk):
            kind = "message" if event.role == "agent" else "user"
        block = self._open_text(kind, event.message, record.parent)
        if block is None:
            self._end_text()
            block = TextBlock(
                first=record.seq,
                last=record.seq,
                kind=kind,
                message=event.message,
                parent=record.parent,
                is_cut=record.seq == self.first,
            )
            self.add(block)
        elif record.seq <= block.last:
            return
        block.add(describe_content(event.content), self.most)
        self.touch(block, record.seq)

    def _open_text(self, kind: str, message: str | None, parent: str | None) -> TextBlock | None:
        if not self.blocks:
            return None
        last = self.blocks[-1]
        if not isinstance(last, TextBlock) or last.is_whole:
            return None
        if (last.kind, last.parent) != (kind, parent):
            return None
        return last if message is None or last.message in (None, message) else None

    def _end_text(self) -> None:
        if self.blocks and isinstance(last := self.blocks[-1], TextBlock) and not last.is_whole:
            last.is_whole = True
            self.touch(last, last.last)

    def _event(self, record: Record, event: Event) -> None:
        match event:
            case Prompted():
                self._prompt(record.seq, event)
            case ToolCallStarted() | ToolCallUpdated() | ToolCallEnded():
                tool_calls.apply_call(self, record, event)
            case TerminalExited():
                tool_calls.apply_exit(self, event, record.seq)
            case PermissionAsked() | PermissionAnswered():
                tool_calls.apply_permission(self, event, record.seq)
            case PlanChanged(entries=entries):
                self._plan(record, entries)
            case TurnStarted() | TurnEnded():
                self._turn(record, event)
            case (
                SessionOpened()
                | SessionResumed()
                | SessionEnded()
                | ModelCallFinished()
                | RetryScheduled()
                | RateLimited()
                | NoticePosted()
                | ModeChanged()
                | GrantRevoked()
                | PermissionViolated()
                | QuestionAsked()
                | QuestionAnswered()
                | CompactionChanged()
                | Checkpointed()
                | Rewound()
                | Redone()
                | ChildEnded()
                | GoalSet()
                | GoalEnded()
                | PromptDropped()
                | UnknownEvent()
            ):
                if (note := describe_event(event)) is not None:
                    self._note(record, note.text, note.severity)
            case (
                SessionSpawned()
                | MessageChunk()
                | ThoughtChunk()
                | TerminalOutput()
                | CompactionChunk()
                | ResultsCleared()
                | MessagePinned()
                | MessageUnpinned()
                | ContextAdded()
                | ChildStarted()
                | PromptQueued()
                | UsageReported()
                | ModelCallStarted()
                | OptionsChanged()
                | CommandsChanged()
                | SessionChanged()
            ):
                pass
            case _:
                assert_never(event)

    def _prompt(self, seq: int, event: Prompted) -> None:
        text = "\n".join(map(describe_content, event.content))
        kept = text[: self.most]
        left = len(text) - len(kept)
        block = PromptBlock(first=seq, last=seq, text=kept, left=left, origin=event.origin)
        block.steers = event.steers
        self.add(block)

    def _note(self, record: Record, text: str, severity: Severity) -> None:
        seq, parent = record.seq, record.parent
        text = text[: self.most]
        self.add(NoteBlock(first=seq, last=seq, text=text, severity=severity, parent=parent))

    def _turn(self, record: Record, event: TurnStarted | TurnEnded) -> None:
        if isinstance(event, TurnStarted):
            self.began, self.is_before_turns = (record.seq, record.time), False
            return
        block = EndBlock(
            first=record.seq,
            last=record.seq,
            stop=event.stop,
            reason=event.reason,
            usage=event.usage,
            cost=event.cost,
            began=self.began,
            ended=record.time,
            parent=record.parent,
        )
        if self.is_before_turns:
            self.unbegun = block
        self.began, self.is_before_turns = None, False
        self.add(block)

    def _plan(self, record: Record, entries: Any) -> None:
        block = self.plan(record.parent)
        if block is not None:
            block.entries = entries
            self.touch(block, record.seq)
            return
        seq = record.seq
        self.add(PlanBlock(first=seq, last=seq, entries=entries, parent=record.parent))

    def plan(self, parent: str | None) -> PlanBlock | None:
        """The plan that a new one would replace: the last since the last prompt."""
        for block in reversed(self.blocks):
            if isinstance(block, PromptBlock):
                return None
            if isinstance(block, PlanBlock) and block.parent == parent:
                return block
        return None
