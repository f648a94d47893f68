"""The records of one session as a document for people: one passage after the other."""

import difflib
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.event_text import describe_event
from quarterdeck.wire.events import (
    CompactionChanged,
    Event,
    GrantRevoked,
    MessageChunk,
    ModeChanged,
    NoticePosted,
    PermissionAnswered,
    PermissionApproved,
    PermissionAsked,
    PermissionViolated,
    PlanChanged,
    Prompted,
    QuestionAnswered,
    QuestionAsked,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    TerminalOutput,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnded,
    UnknownEvent,
)
from quarterdeck.wire.ids import TerminalId
from quarterdeck.wire.record import Record
from quarterdeck.wire.tool_calls import ContentItem, Diff, TerminalItem, ToolCallContent

from ..searchable_text import block_text

if TYPE_CHECKING:
    from quarterdeck.wire.ids import RequestId, ToolCallId

__all__ = [
    "Block",
    "BlockKind",
    "ExportedCall",
    "Passage",
    "PassageKind",
    "describe_answer",
    "describe_record",
    "describe_reply",
    "format_value",
    "read_passages",
]

BlockKind: TypeAlias = Literal["text", "input", "output", "diff"]
PassageKind: TypeAlias = Literal[
    "session", "prompt", "message", "thought", "tool", "permission", "question", "plan", "notice"
]


class Block(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a passage, to be shown literally."""

    kind: BlockKind
    text: str
    label: str | None = None
    """What it is, such as a file's name."""


class Passage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message, a call or another entry of the transcript."""

    seq: int
    time: int
    """Microseconds since the epoch, of its first record."""
    kind: PassageKind
    title: str
    """One line; may hold any text of an agent."""
    parent: str | None = None
    """The tool call within which a sub-agent caused it."""
    blocks: tuple[Block, ...] = ()

    @classmethod
    def of(cls, record: Record, kind: PassageKind, title: str, *blocks: Block) -> "Passage":
        """Make a passage that begins with a record; empty blocks are left out."""
        return cls(
            seq=record.seq,
            time=record.time,
            kind=kind,
            title=title,
            parent=record.parent,
            blocks=tuple(block for block in blocks if block.text),
        )


_MOST_DIFFED = 200_000
"""Characters beyond which the new text is shown whole: comparing takes quadratic time."""


class ExportedCall:
    """A call between its start and its end."""

    def __init__(self, record: Record, started: ToolCallStarted) -> None:
        self._record = record
        self._title = started.title
        self._name = started.name
        self._input: Any = started.raw_input
        self._output: Any = None
        self._content: tuple[ToolCallContent, ...] = started.content

    def update(self, event: ToolCallUpdated) -> None:
        """Take what changed."""
        self._title = self._title if event.title is UNSET else event.title
        self._name = self._name if event.name is UNSET else event.name
        self._input = self._input if event.raw_input is UNSET else event.raw_input
        self._output = self._output if event.raw_output is UNSET else event.raw_output
        self._content = self._content if event.content is UNSET else event.content

    def passage(
        self, ended: ToolCallEnded | None, terminals: Mapping[TerminalId, list[str]]
    ) -> Passage:
        """The whole call; ``ended`` is None where the log ends before it did."""
        how = "did not end"
        text = ""
        if ended is not None:
            how = ended.status + (f": {ended.reason}" if ended.reason else "")
            self._output = self._output if ended.raw_output is UNSET else ended.raw_output
            self._content = self._content if ended.content is UNSET else ended.content
            parts = ended.result.content if ended.result is not None else ()
            text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        blocks = [block for item in self._content for block in _shown(item, terminals)]
        if not any(block.kind == "output" for block in blocks):
            blocks.append(Block(kind="output", text=format_value(self._output) or text))
        name = f"{self._name}: " if self._name and self._name != self._title else ""
        title = f"{name}{self._title} ({how})"
        given = Block(kind="input", text=format_value(self._input))
        return Passage.of(self._record, "tool", title, given, *blocks)


def format_value(value: Any) -> str:
    """A JSON value for people: a text as it is, all else indented."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _shown(item: ToolCallContent, terminals: Mapping[TerminalId, list[str]]) -> Iterator[Block]:
    match item:
        case ContentItem(content=content):
            text = block_text(content) or f"[{type(content).__name__}]"
            yield Block(kind="output", text=text)
        case Diff(path=path):
            yield Block(kind="diff", label=path, text=_diff(item))
        case TerminalItem(terminal_id=terminal):
            yield Block(kind="output", text="".join(terminals.get(TerminalId(terminal), ())))


def _diff(diff: Diff) -> str:
    old, new = diff.old_text or "", diff.new_text
    if len(old) + len(new) > _MOST_DIFFED:
        return new
    lines = difflib.unified_diff(
        old.splitlines(),
        new.splitlines(),
        fromfile="/dev/null" if diff.old_text is None else diff.path,
        tofile=diff.path,
        lineterm="",
    )
    return "\n".join(lines)


def describe_record(record: Record) -> Iterator[Passage]:
    """The passage of a self-contained event; none for those that only computers need."""
    match record.event:
        case Prompted(content=content, origin=origin, steers=steers):
            who = "" if origin == "person" else f" by {origin}"
            title = f"Prompt{who}" + (", during the turn" if steers else "")
            text = "\n".join(block_text(each) or f"[{type(each).__name__}]" for each in content)
            yield Passage.of(record, "prompt", title, Block(kind="text", text=text))
        case PlanChanged(entries=entries):
            lines = (f"[{entry.status}] {entry.content}" for entry in entries)
            yield Passage.of(record, "plan", "Plan", Block(kind="text", text="\n".join(lines)))
        case CompactionChanged(status=status, summary=summary, error=error):
            block = Block(kind="text", text=summary or error or "")
            yield Passage.of(record, "notice", f"Compaction {status}", block)
        case NoticePosted(title=title, severity=severity, description=description):
            block = Block(kind="text", text=description or "")
            yield Passage.of(record, "notice", f"{severity}: {title}", block)
        case UnknownEvent(raw=raw) as event:
            block = Block(kind="text", text=format_value(raw))
            yield Passage.of(record, "notice", _title(event), block)
        case _:
            yield from _describe_state(record)


def _describe_state(record: Record) -> Iterator[Passage]:
    """Changes of the session, its turns and its settings."""
    match record.event:
        case RateLimited() | RetryScheduled() as event:
            yield Passage.of(record, "notice", _title(event))
        case SessionOpened(model=model) as event:
            title = _line(event) + (f" with {model}" if model else "")
            yield Passage.of(record, "session", title)
        case SessionEnded(stderr=stderr) as event:
            block = Block(kind="output", label="stderr", text=stderr or "")
            yield Passage.of(record, "session", _title(event), block)
        case TurnEnded(cost=cost) as event:
            spent = f", {cost.amount:.4f} {cost.currency}" if cost is not None else ""
            yield Passage.of(record, "session", _title(event) + spent)
        case SessionChanged(title=str()) | SessionChanged(model=str()) as event:
            yield Passage.of(record, "session", _title(event))
        case SessionResumed() | ModeChanged() | PermissionViolated() | GrantRevoked() as event:
            yield Passage.of(record, "session", _title(event))
        case PermissionApproved() as event:
            yield Passage.of(record, "session", _title(event))
        case _:
            return


def _line(event: Event) -> str:
    described = describe_event(event)
    return described.text.partition("\n")[0] if described is not None else ""


def _title(event: Event) -> str:
    """The description of an event, as a title."""
    words = _line(event)
    return words[:1].upper() + words[1:]


def describe_answer(
    record: Record, answered: PermissionAnswered, asked: PermissionAsked | None
) -> Passage:
    """A decision about a tool call, with what was asked where a person was."""
    title = _title(replace(answered, feedback=None))
    question = asked.title if asked is not None else ""
    blocks = (
        Block(kind="text", text=question),
        Block(kind="text", label="feedback", text=answered.feedback or ""),
    )
    return Passage.of(record, "permission", title, *blocks)


def describe_reply(
    record: Record, answered: QuestionAnswered, asked: QuestionAsked | None
) -> Passage:
    """An answered question, with its text."""
    title = _title(replace(answered, content=None))
    blocks = (
        Block(kind="text", text=asked.text if asked is not None else ""),
        Block(kind="text", label="answer", text=format_value(answered.content)),
    )
    return Passage.of(record, "question", title, *blocks)


async def read_passages(records: AsyncIterable[Record]) -> AsyncIterator[Passage]:
    """Turn the records of one session, in order, into passages."""
    document = _Document()
    async for record in records:
        for passage in document.take(record):
            yield passage
    for passage in document.finish():
        yield passage


@dataclass(slots=True)
class _Speech:
    """A message or a thought that is being put together."""

    record: Record
    kind: str
    message: Any
    parts: list[str] = field(default_factory=list[str])

    def goes_on(self, record: Record, kind: str, message: Any) -> bool:
        same = self.kind == kind and self.record.parent == record.parent
        return same and (message is None or self.message is None or message == self.message)

    def passage(self) -> Passage:
        title = {"agent": "Agent", "user": "User", "thought": "Thought"}[self.kind]
        kind = "thought" if self.kind == "thought" else "message"
        text = "".join(self.parts)
        return Passage.of(self.record, kind, title, Block(kind="text", text=text))


class _Document:
    """What is open between two records."""

    def __init__(self) -> None:
        self._speech: _Speech | None = None
        self._calls: dict[ToolCallId, ExportedCall] = {}
        self._asked: dict[RequestId, PermissionAsked] = {}
        self._questions: dict[RequestId, QuestionAsked] = {}
        self._terminals: dict[TerminalId, list[str]] = {}

    def take(self, record: Record) -> Iterator[Passage]:
        """Take one record; yield what it completes."""
        event = record.event
        match event:
            case MessageChunk(content=content, message=message, role=role):
                yield from self._say(record, role, message, content)
            case ThoughtChunk(content=content, message=message):
                yield from self._say(record, "thought", message, content)
            case TerminalOutput(terminal=terminal, data=data):
                self._terminals.setdefault(terminal, []).append(data)
            case ToolCallStarted(call=call):
                yield from self._silence()
                self._calls[call] = ExportedCall(record, event)
            case ToolCallUpdated(call=call):
                if (open_ := self._calls.get(call)) is not None:
                    open_.update(event)
            case ToolCallEnded(call=call):
                yield from self._silence()
                if (ended := self._calls.pop(call, None)) is not None:
                    yield ended.passage(event, self._terminals)
            case _:
                items = tuple(self._passages(event, record))
                if items:
                    yield from self._silence()
                yield from items

    def finish(self) -> Iterator[Passage]:
        """Yield what is open at the end of the log."""
        yield from self._silence()
        for open_ in self._calls.values():
            yield open_.passage(None, self._terminals)

    def _passages(self, event: Event, record: Record) -> Iterator[Passage]:
        match event:
            case PermissionAsked(request=request):
                self._asked[request] = event
            case PermissionAnswered(request=request):
                yield describe_answer(record, event, self._asked.pop(request, None))
            case QuestionAsked(request=request):
                self._questions[request] = event
            case QuestionAnswered(request=request):
                yield describe_reply(record, event, self._questions.pop(request, None))
            case _:
                yield from describe_record(record)

    def _say(
        self, record: Record, kind: str, message: Any, content: ContentBlock
    ) -> Iterator[Passage]:
        if self._speech is None or not self._speech.goes_on(record, kind, message):
            yield from self._silence()
            self._speech = _Speech(record, kind, message)
        self._speech.parts.append(block_text(content) or f"[{type(content).__name__}]")

    def _silence(self) -> Iterator[Passage]:
        speech, self._speech = self._speech, None
        if speech is not None and any(speech.parts):
            yield speech.passage()
