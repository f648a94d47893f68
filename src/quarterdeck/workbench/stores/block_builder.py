"""From records to blocks: what each event does to a transcript.

Taking in a record again changes nothing, so that pages may overlap.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, assert_never

from msgspec import UNSET, Struct, field

from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.event_text import (
    NameFinder,
    Severity,
    describe_event,
    find_exit_status,
)
from quarterdeck.wire.events import (
    BudgetEvent,
    Checkpointed,
    ChildEnded,
    ChildStarted,
    CommandsChanged,
    CommandStarted,
    CompactionChanged,
    CompactionChunk,
    ContextAdded,
    Event,
    GoalEnded,
    GoalSet,
    GrantRevoked,
    GrantUsed,
    MessageChunk,
    MessagePinned,
    MessageUnpinned,
    ModeChanged,
    ModelCallFinished,
    ModelCallMetered,
    ModelCallStarted,
    NoticePosted,
    OptionsChanged,
    PermissionAnswered,
    PermissionApproved,
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
    WorktreeEvent,
)
from quarterdeck.wire.permissions import Selected
from quarterdeck.wire.record import Record
from quarterdeck.wire.tool_calls import ContentItem, Diff, TerminalItem, ToolCallContent

from .blocks import (
    MOST_TEXT,
    Block,
    EndBlock,
    NoteBlock,
    PlanBlock,
    PromptBlock,
    TextBlock,
    ToolBlock,
    truncate_text,
)
from .images import describe_part, find_image, has_images, list_images, note_images

__all__ = [
    "MOST_OUTPUT",
    "BlockBuilder",
    "collect_edits",
    "count_inner_calls",
    "end_command",
    "interrupt_calls",
]

MOST_OUTPUT = 64_000
"""Characters of a terminal's output that are kept in memory; the log has all of it."""
_DECISIONS = {
    "allow_once": "allowed once",
    "allow_always": "allowed from now on",
    "reject_once": "denied",
    "reject_always": "denied from now on",
}
_DEEPEST = 8
"""Sub-agents of sub-agents, beyond which no call is looked for."""
_PLAIN = ("title", "name", "kind", "status", "locations", "raw_input", "raw_output")


class BlockBuilder(Struct):
    """Blocks that grow by records in order."""

    blocks: list[Block] = field(default_factory=list[Block])
    first: int = 0
    """The first record taken in; 0: none yet."""
    last: int = 0
    calls: dict[str, ToolBlock] = field(default_factory=dict[str, ToolBlock])
    terminals: dict[str, ToolBlock] = field(default_factory=dict[str, ToolBlock])
    stray: dict[str, str] = field(default_factory=dict[str, str])
    """Output of terminals whose call began before the first record."""
    stray_exits: dict[str, TerminalExited] = field(default_factory=dict[str, TerminalExited])
    """Ends of such terminals."""
    began: tuple[int, int] | None = None
    """The sequence number and time at which the turn that is not over began, if that is known."""
    is_before_turns: bool = True
    """No turn began or ended yet."""
    unbegun: EndBlock | None = None
    """The end of a turn that began before the first record."""
    has_new_run: bool = False
    """A run of the session ended or began: calls from before the first record are over."""
    most: int | None = MOST_TEXT
    """Characters of one text that are kept; None: all."""
    find_name: NameFinder = lambda _: None
    """The name of another agent."""
    cwd: str = ""
    """Where the agent works, if that is known."""

    def take(self, record: Record) -> None:
        """Take in the next record; one that is in already does nothing."""
        if record.seq <= self.last:
            return
        self.first = self.first or record.seq
        self.last = record.seq
        event = record.event
        if isinstance(event, MessageChunk | ThoughtChunk):
            self._chunk(record, event)
        elif isinstance(event, WorktreeEvent | BudgetEvent):
            self._describe(record, event)
        elif not self._is_unseen(event):
            self._end_text()
            self._event(record, event)

    def touch(self, block: Block, seq: int) -> None:
        """Note that a block changed."""
        block.version += 1
        block.last = max(block.last, seq)
        self._tell_cards(block)

    def add(self, block: Block) -> None:
        """Put a block at the end."""
        self.blocks.append(block)
        self._tell_cards(block)

    def _tell_cards(self, block: Block) -> None:
        """Let the call whose sub-agent did it know, and those above that."""
        inner = block
        for card in _cards_above(self.calls, block):
            card.inner, inner = inner, card
            card.version += 1

    def cut_output(self, output: str) -> str:
        """As much of a terminal's output as is kept."""
        return output if self.most is None else output[-MOST_OUTPUT:]

    def _is_unseen(self, event: Event) -> bool:
        """Whether it has no place in a transcript, and words may go on after it."""
        match event:
            case (
                UsageReported()
                | ModelCallStarted()
                | ModelCallMetered()
                | GrantUsed()
                | OptionsChanged()
                | CommandsChanged()
                | SessionChanged()
                | PromptQueued()
                | TerminalOutput()
            ):
                if isinstance(event, TerminalOutput):
                    _apply_output(self, event, self.last)
                return True
            case _:
                return False

    def _chunk(self, record: Record, event: MessageChunk | ThoughtChunk) -> None:
        kind: Literal["message", "thought", "user"] = "thought"
        if isinstance(event, MessageChunk):
            kind = "message" if event.role == "agent" else "user"
        images = note_images(record.seq, list_images(event))
        block = self._open_text(kind, event.message, record.parent) if not images else None
        if block is None:
            self._end_text()
            block = TextBlock(
                first=record.seq,
                last=record.seq,
                time=record.time,
                kind=kind,
                message=event.message,
                parent=record.parent,
                is_cut=record.seq == self.first and not images,
                images=images,
                is_whole=bool(images),
            )
            self.add(block)
        elif record.seq <= block.last:
            return
        block.add(describe_part(event.content), self.most)
        block.ended = record.time
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
            last.version += 1

    def _event(self, record: Record, event: Event) -> None:
        assert not isinstance(event, WorktreeEvent | BudgetEvent | ModelCallMetered | GrantUsed)
        match event:
            case Prompted():
                self._prompt(record, event)
            case ToolCallStarted() | ToolCallUpdated() | ToolCallEnded():
                _apply_call(self, record, event)
            case TerminalExited() | CommandStarted():
                _apply_terminal(self, record, event)
            case PermissionAsked() | PermissionApproved() | PermissionAnswered():
                _apply_permission(self, record, event)
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
                self._describe(record, event)
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

    def _prompt(self, record: Record, event: Prompted) -> None:
        images = list_images(event)
        words = [one for one in event.content if find_image(one) is None] or event.content
        text = "\n".join(map(describe_part, words))
        shown = text[: self.most]
        block = PromptBlock(
            first=record.seq,
            last=record.seq,
            time=record.time,
            text=shown,
            left=len(text) - len(shown),
            origin=event.origin,
            steers=event.steers,
            images=note_images(record.seq, images),
        )
        self.add(block)

    def _describe(self, record: Record, event: Event) -> None:
        if isinstance(event, SessionEnded | SessionOpened | SessionResumed):
            self.has_new_run = True
            interrupt_calls(self)
        if isinstance(event, SessionOpened):
            self.cwd = event.cwd
            return  # the head says it
        if (note := describe_event(event, self.find_name)) is not None:
            self._end_text()
            self._note(record, note.text, note.severity).is_checkpoint = isinstance(
                event, Checkpointed
            )

    def _note(self, record: Record, text: str, severity: Severity) -> NoteBlock:
        seq, parent = record.seq, record.parent
        note = NoteBlock(first=seq, last=seq, text=text[: self.most], severity=severity)
        note.time, note.parent = record.time, parent
        self.add(note)
        return note

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
            edits=collect_edits(self.blocks, self.began[0] if self.began is not None else 0),
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
        block = PlanBlock(first=seq, last=seq, entries=entries, parent=record.parent)
        block.time = record.time
        self.add(block)

    def plan(self, parent: str | None) -> PlanBlock | None:
        """The plan that a new one would replace: the last since the last prompt."""
        for block in reversed(self.blocks):
            if isinstance(block, PromptBlock):
                return None
            if isinstance(block, PlanBlock) and block.parent == parent:
                return block
        return None


def _apply_call(
    builder: BlockBuilder,
    record: Record,
    event: ToolCallStarted | ToolCallUpdated | ToolCallEnded,
) -> None:
    """A call begins, goes on or ends."""
    block = _block(builder, event.call, record.seq, record.parent)
    if isinstance(event, ToolCallStarted):
        block.is_cut = False
        block.time = block.time or record.time
        block.began = record.time
    for name in _PLAIN:
        value = getattr(event, name, UNSET)
        if value is not UNSET:
            setattr(block, name, value)
    if getattr(event, "status", UNSET) is not UNSET:
        block.is_interrupted = False
    if isinstance(event, ToolCallEnded):
        block.reason = event.reason
        block.is_asking = False
        block.ended = record.time
        block.exit = block.exit or find_exit_status(event)
        if event.result is not None and not (block.texts or block.diffs or block.images):
            parts = event.result.content
            texts = [part.text for part in parts if isinstance(part, TextPart)]
            block.texts = tuple(truncate_text(text, builder.most) for text in texts)
            block.images = note_images(record.seq, list_images(event))
    if event.content is not UNSET:
        _content(builder, block, event.content)
        found = list_images(event) if has_images(event.content) else ()
        block.images = note_images(record.seq, found, block.images)
    builder.touch(block, record.seq)


def interrupt_calls(builder: BlockBuilder) -> None:
    """End the calls that are open: what made them is gone, and no event will tell how they ended.

    Commands of the person go on; they are not the session's.
    """
    for block in builder.calls.values():
        if block.status in ("pending", "in_progress") and not block.is_persons:
            block.status, block.is_interrupted, block.is_asking = "cancelled", True, False
            builder.touch(block, block.last)


def _apply_output(builder: BlockBuilder, event: TerminalOutput, seq: int) -> None:
    """A terminal wrote something."""
    block = builder.terminals.get(event.terminal)
    if block is None:
        known = builder.stray.get(event.terminal, "")
        builder.stray[event.terminal] = builder.cut_output(known + event.data)
        return
    if seq <= block.last:
        return
    block.output = builder.cut_output(block.output + event.data)
    builder.touch(block, seq)


def _apply_terminal(
    builder: BlockBuilder, record: Record, event: TerminalExited | CommandStarted
) -> None:
    """A command of the person begins, or one of anybody is over."""
    if isinstance(event, CommandStarted):
        _apply_command(builder, record, event)
    else:
        _apply_exit(builder, event, record.seq)


def _apply_command(builder: BlockBuilder, record: Record, event: CommandStarted) -> None:
    """A person runs a command: a block like that of a call, but the person's own."""
    block = _block(builder, f"!{event.terminal}", record.seq, None)
    block.title, block.name, block.kind = event.command, "!", "execute"
    block.status, block.is_cut, block.is_persons = "in_progress", False, True
    block.terminals = (event.terminal,)
    block.output = builder.stray.pop(event.terminal, "")
    builder.terminals[event.terminal] = block
    builder.touch(block, record.seq)


def _apply_exit(builder: BlockBuilder, event: TerminalExited, seq: int) -> None:
    """A terminal's command is over."""
    block = builder.terminals.get(event.terminal)
    if block is None:
        builder.stray_exits[event.terminal] = event
        return
    end_command(block, event)
    builder.touch(block, seq)


def end_command(block: ToolBlock, event: TerminalExited) -> None:
    """Note how the command of a call, or of the person, ended."""
    block.exit = event.signal or (None if event.exit_code is None else str(event.exit_code))
    if block.is_persons:
        block.status = "completed" if event.exit_code == 0 else "failed"
        if event.exit_code is None:
            block.status = "cancelled"


def _apply_permission(
    builder: BlockBuilder,
    record: Record,
    event: PermissionAsked | PermissionApproved | PermissionAnswered,
) -> None:
    """Permission is asked for, given by one of several people, or decided."""
    block = _block(builder, event.call, record.seq, None)
    if isinstance(event, PermissionAsked):
        block.is_asking = True
        block.time = block.time or record.time
        block.asked = event.title
        block.name = block.name or event.name
        block.kind = event.kind if block.kind == "other" else block.kind
        block.raw_input = event.raw_input if block.raw_input is None else block.raw_input
        if not (block.texts or block.diffs or block.terminals):
            _content(builder, block, event.content)
    elif isinstance(event, PermissionApproved):
        block.decision = f"approved by {event.by.name or event.by.kind}"
    else:
        block.is_asking = False
        block.decision = _decision(event)
        block.began = record.time  # the time that a person took is not the call's
    builder.touch(block, record.seq)


def _decision(event: PermissionAnswered) -> str:
    chosen = isinstance(event.outcome, Selected)
    kind = event.kind or "answered"
    what = _DECISIONS.get(kind, kind.replace("_", " ")) if chosen else "cancelled"
    who = event.by.kind + (f" {event.by.name}" if event.by.name else "")
    return f"{what} by {who}" + (f": {event.feedback}" if event.feedback else "")


def _block(builder: BlockBuilder, id_: str, seq: int, parent: str | None) -> ToolBlock:
    block = builder.calls.get(id_)
    if block is None:
        block = ToolBlock(first=seq, last=seq - 1, call=id_, is_cut=True, parent=parent)
        block.cwd = builder.cwd
        card = builder.calls.get(parent) if parent is not None else None
        if card is not None:
            card.inner_calls += 1
        builder.calls[id_] = block
        builder.add(block)
    return block


def _content(builder: BlockBuilder, block: ToolBlock, items: tuple[ToolCallContent, ...]) -> None:
    block.diffs = tuple(item for item in items if isinstance(item, Diff))
    block.texts = tuple(
        truncate_text(describe_part(item.content), builder.most)
        for item in items
        if isinstance(item, ContentItem) and find_image(item.content) is None
    )
    block.terminals = tuple(item.terminal_id for item in items if isinstance(item, TerminalItem))
    for terminal in block.terminals:
        builder.terminals[terminal] = block


def collect_edits(blocks: Sequence[Block], since: int) -> tuple[Diff, ...]:
    """What finished calls after a record changed, oldest first; ends at an earlier turn's end."""
    found: list[Diff] = []
    for block in reversed(blocks):
        if block.first < since or isinstance(block, EndBlock):
            break
        if isinstance(block, ToolBlock) and block.status == "completed":
            found += reversed(block.diffs)
    return tuple(reversed(found))


def count_inner_calls(builder: BlockBuilder) -> None:
    """Count the calls of sub-agents anew, and find what each did last."""
    nested = [block for block in builder.blocks if getattr(block, "parent", None) is not None]
    for card in builder.calls.values():
        if card.inner is not None:
            card.inner, card.inner_calls = None, 0
            card.version += 1
    for block in sorted(nested, key=lambda block: block.last):
        inner = block
        for at, card in enumerate(_cards_above(builder.calls, block)):
            card.inner, inner = inner, card
            card.inner_calls += not at and isinstance(block, ToolBlock)
            card.version += 1


def _cards_above(calls: Mapping[str, ToolBlock], block: Block) -> Iterator[ToolBlock]:
    """The call whose sub-agent did something, the call of that one's, and so on."""
    below, parent = block, getattr(block, "parent", None)
    for _ in range(_DEEPEST):
        card = calls.get(parent) if parent is not None else None
        if card is None or card is below or card is block:
            return
        yield card
        below, parent = card, card.parent
