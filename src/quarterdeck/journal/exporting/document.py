"""Records of one session, put together into what a person reads: one passage after the other."""

from collections.abc import AsyncIterable, AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
    TerminalOutput,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
)
from quarterdeck.wire.record import Record

from ..text import block_text
from .calls import OpenCall
from .passages import Block, Passage
from .telling import tell, tell_answer, tell_reply

if TYPE_CHECKING:
    from quarterdeck.wire.ids import RequestId, TerminalId, ToolCallId

__all__ = ["Block", "Passage", "passages"]


async def passages(records: AsyncIterable[Record]) -> AsyncIterator[Passage]:
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
        self._calls: dict[ToolCallId, OpenCall] = {}
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
                self._calls[call] = OpenCall(record, event)
            case ToolCallUpdated(call=call):
                if (open_ := self._calls.get(call)) is not None:
                    open_.update(event)
            case ToolCallEnded(call=call):
                yield from self._silence()
                if (ended := self._calls.pop(call, None)) is not None:
                    yield ended.passage(event, self._terminals)
            case _:
                told = tuple(self._told(event, record))
                if told:
                    yield from self._silence()
                yield from told

    def finish(self) -> Iterator[Passage]:
        """Yield what is open at the end of the log."""
        yield from self._silence()
        for open_ in self._calls.values():
            yield open_.passage(None, self._terminals)

    def _told(self, event: Event, record: Record) -> Iterator[Passage]:
        match event:
            case PermissionAsked(request=request):
                self._asked[request] = event
            case PermissionAnswered(request=request):
                yield tell_answer(record, event, self._asked.pop(request, None))
            case QuestionAsked(request=request):
                self._questions[request] = event
            case QuestionAnswered(request=request):
                yield tell_reply(record, event, self._questions.pop(request, None))
            case _:
                yield from tell(record)

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
