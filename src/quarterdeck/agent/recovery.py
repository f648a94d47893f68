"""What a process that died left open, and the events that close it.

A session is its log. When it is loaded after a crash, calls that were announced have no end, a
turn has none, questions wait for nobody. These events say so, once, and are appended before
anything else happens; what had been acknowledged stays as it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec import Struct

from quarterdeck.wire.content import TextContent
from quarterdeck.wire.conversation import Message, TextPart, ToolResultPart, ToolUsePart
from quarterdeck.wire.events import (
    CompactionChanged,
    Event,
    MessageChunk,
    ModelCallFinished,
    ModelCallStarted,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import CompactionId, RequestId, ToolCallId, TurnId
from quarterdeck.wire.permissions import Cancelled, Decider
from quarterdeck.wire.record import Record

__all__ = ["DIED", "FORKED", "Cut", "closing_events"]


class Cut(Struct, frozen=True):
    """Why what was under way has to be closed, in words for people and for the model."""

    reason: str
    running: str
    """Told of a call that had begun."""
    waiting: str
    """Told of a call that had not."""


DIED = Cut(
    "the process that ran the session died",
    "The program was stopped while this ran; it may have done part of it.",
    "The program was stopped before this ran.",
)
FORKED = Cut(
    "the conversation was forked here",
    "The conversation goes on from a moment at which this was still running.",
    "The conversation goes on from a moment at which this had not begun.",
)


@dataclass(slots=True)
class _Open:
    """What has begun and not ended."""

    running: bool = False
    turn: TurnId | None = None
    model: str | None = None
    """The model that was answering."""
    said: str = ""
    """What it had said."""
    written: dict[ToolCallId, ToolUsePart] = field(default_factory=dict[ToolCallId, ToolUsePart])
    """Calls of the last reply that were not announced."""
    calls: dict[ToolCallId, None] = field(default_factory=dict[ToolCallId, None])
    permissions: dict[RequestId, ToolCallId] = field(default_factory=dict[RequestId, ToolCallId])
    questions: dict[RequestId, None] = field(default_factory=dict[RequestId, None])
    compactions: dict[CompactionId, None] = field(default_factory=dict[CompactionId, None])

    def apply(self, record: Record) -> None:
        match record.event:
            case SessionOpened() | SessionResumed():
                self.running = True
            case SessionEnded():
                self.running = False
            case TurnStarted():
                self.turn = record.turn
            case TurnEnded():
                self.turn = None
            case event:
                self._apply_within_a_turn(event)

    def _apply_within_a_turn(self, event: Event) -> None:
        match event:
            case ModelCallStarted(model=model):
                self.model, self.said = model, ""
            case MessageChunk(role="agent", content=TextContent(text=text)):
                self.said += text
            case ModelCallFinished(reply=reply):
                self.model = None
                uses = (p for p in reply.parts if isinstance(p, ToolUsePart)) if reply else ()
                self.written = {ToolCallId(use.id): use for use in uses}
            case _:
                self._apply_to_a_call(event)

    def _apply_to_a_call(self, event: Event) -> None:
        match event:
            case ToolCallStarted(call=call):
                self.calls[call] = None
                self.written.pop(call, None)
            case ToolCallEnded(call=call):
                self.calls.pop(call, None)
            case PermissionAsked(request=request, call=call):
                self.permissions[request] = call
            case PermissionAnswered(request=request):
                self.permissions.pop(request, None)
            case QuestionAsked(request=request):
                self.questions[request] = None
            case QuestionAnswered(request=request):
                self.questions.pop(request, None)
            case CompactionChanged(compaction=compaction, status="in_progress"):
                self.compactions[compaction] = None
            case CompactionChanged(compaction=compaction):
                self.compactions.pop(compaction, None)
            case _:
                pass


def closing_events(
    records: Iterable[Record], cut: Cut = DIED
) -> tuple[tuple[TurnId | None, Event], ...]:
    """The events, each with its turn, that close what the session's records leave open.

    Afterwards every call that the model wrote has a result, and what it was saying is kept.
    """
    left = _Open()
    for record in records:
        left.apply(record)
    if not left.running:
        return ()
    events = [*_ends_of_requests(left, cut), *_ends_of_calls(left, cut)]
    if left.turn is not None:
        events.append(TurnEnded(stop="failed", reason=cut.reason))
    in_turn = [(left.turn, event) for event in events]
    for compaction in left.compactions:
        failed = CompactionChanged(compaction=compaction, status="failed", error=cut.reason)
        in_turn.append((None, failed))
    return (*in_turn, (None, SessionEnded(how="broken", reason=cut.reason)))


def _ends_of_requests(left: _Open, cut: Cut) -> Iterable[Event]:
    nobody = Decider(kind="cancel", name=cut.reason)
    if left.model is not None:
        parts = (TextPart(text=left.said),)
        reply = Message(role="assistant", parts=parts) if left.said else None
        yield ModelCallFinished(model=left.model, reply=reply, error=cut.reason)
    for request, call in left.permissions.items():
        yield PermissionAnswered(request=request, call=call, outcome=Cancelled(), by=nobody)
    for request in left.questions:
        yield QuestionAnswered(request=request, action="cancel", by=nobody)


def _ends_of_calls(left: _Open, cut: Cut) -> Iterable[Event]:
    for call in left.calls:
        yield _cancelled(call, cut, cut.running)
    if left.turn is None:
        return
    for call, use in left.written.items():
        yield ToolCallStarted(call=call, title=use.name, name=use.name, raw_input=use.arguments)
        yield _cancelled(call, cut, cut.waiting)


def _cancelled(call: ToolCallId, cut: Cut, told: str) -> ToolCallEnded:
    result = ToolResultPart(id=call, content=(TextPart(text=told),), is_error=True)
    return ToolCallEnded(call=call, status="cancelled", reason=cut.reason, result=result)
