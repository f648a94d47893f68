"""From records to blocks: what each event does to a transcript.

Taking in a record again changes nothing, so that pages may overlap.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from quarterdeck.wire.events import (
    CommandsChanged,
    CompactionChanged,
    CompactionChunk,
    Event,
    GrantRevoked,
    MessageChunk,
    MessagePinned,
    MessageUnpinned,
    ModeChanged,
    ModelCallFinished,
    ModelCallStarted,
    Notice,
    OptionsChanged,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    PromptDropped,
    Prompted,
    PromptQueued,
    QuestionAnswered,
    QuestionAsked,
    RateLimited,
    ResultsCleared,
    RetryScheduled,
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
    Unknown,
    UsageReported,
)
from quarterdeck.wire.record import Record

from . import calls, notes
from .blocks import Block, NoteBlock, PlanBlock, PromptBlock, TextBlock, ToolBlock
from .contents import told

__all__ = ["Folding"]


@dataclass(slots=True)
class Folding:
    """Blocks that grow by records in order."""

    blocks: list[Block] = field(default_factory=list[Block])
    first: int = 0
    """The first record taken in; 0: none yet."""
    last: int = 0
    calls: dict[str, ToolBlock] = field(default_factory=dict[str, ToolBlock])
    terminals: dict[str, ToolBlock] = field(default_factory=dict[str, ToolBlock])
    stray: dict[str, str] = field(default_factory=dict[str, str])
    """Output of terminals whose call began before the first record."""

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
                    calls.output(self, event, self.last)
                return True
            case _:
                return False

    def _chunk(self, record: Record, event: MessageChunk | ThoughtChunk) -> None:
        kind: Literal["message", "thought", "user"] = "thought"
        if isinstance(event, MessageChunk):
            kind = "message" if event.role == "agent" else "user"
        block = self._open_text(kind, event.message)
        if block is None:
            self._end_text()
            block = TextBlock(
                first=record.seq,
                last=record.seq,
                kind=kind,
                message=event.message,
                is_cut=record.seq == self.first,
            )
            self.add(block)
        elif record.seq <= block.last:
            return
        block.parts.append(told(event.content))
        self.touch(block, record.seq)

    def _open_text(self, kind: str, message: str | None) -> TextBlock | None:
        if not self.blocks:
            return None
        last = self.blocks[-1]
        if not isinstance(last, TextBlock) or last.is_whole or last.kind != kind:
            return None
        return last if message is None or last.message in (None, message) else None

    def _end_text(self) -> None:
        if self.blocks and isinstance(last := self.blocks[-1], TextBlock) and not last.is_whole:
            last.is_whole = True
            self.touch(last, last.last)

    def _event(self, record: Record, event: Event) -> None:
        seq = record.seq
        match event:
            case Prompted():
                self._prompt(seq, event)
            case ToolCallStarted() | ToolCallUpdated() | ToolCallEnded():
                calls.call(self, record, event)
            case TerminalExited():
                calls.exited(self, event, seq)
            case PermissionAsked() | PermissionAnswered():
                calls.permission(self, event, seq)
            case PlanChanged(entries=entries):
                self._plan(seq, entries)
            case (
                SessionSpawned()
                | SessionOpened()
                | SessionResumed()
                | SessionEnded()
                | TurnStarted()
                | TurnEnded()
                | ModelCallFinished()
                | RetryScheduled()
                | RateLimited()
                | Notice()
                | ModeChanged()
                | GrantRevoked()
                | QuestionAsked()
                | QuestionAnswered()
                | CompactionChanged()
                | PromptDropped()
                | Unknown()
            ):
                if (note := notes.note_of(event)) is not None:
                    severity, text = note
                    self.add(NoteBlock(first=seq, last=seq, text=text, severity=severity))
            case (
                MessageChunk()
                | ThoughtChunk()
                | TerminalOutput()
                | CompactionChunk()
                | ResultsCleared()
                | MessagePinned()
                | MessageUnpinned()
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
        text = "\n".join(map(told, event.content))
        self.add(PromptBlock(first=seq, last=seq, text=text, origin=event.origin))

    def _plan(self, seq: int, entries: Any) -> None:
        for block in reversed(self.blocks):
            if isinstance(block, PromptBlock):
                break
            if isinstance(block, PlanBlock):
                block.entries = entries
                self.touch(block, seq)
                return
        self.add(PlanBlock(first=seq, last=seq, entries=entries))
