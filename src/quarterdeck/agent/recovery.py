"""What a process that died left open, and the events that close it.

A session is its log. When it is loaded after a crash, calls that were announced have no end, a
turn has none, questions wait for nobody. These events say so, once, and are appended before
anything else happens; what had been acknowledged stays as it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from quarterdeck.wire.conversation import TextPart, ToolResultPart
from quarterdeck.wire.events import (
    Event,
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
from quarterdeck.wire.ids import RequestId, ToolCallId, TurnId
from quarterdeck.wire.permissions import Cancelled, Decider
from quarterdeck.wire.record import Record

__all__ = ["closing_events"]

_DIED = "the process that ran the session died"


@dataclass(slots=True)
class _Open:
    """What has begun and not ended."""

    running: bool = False
    turn: TurnId | None = None
    calls: dict[ToolCallId, None] = field(default_factory=dict[ToolCallId, None])
    permissions: dict[RequestId, ToolCallId] = field(default_factory=dict[RequestId, ToolCallId])
    questions: dict[RequestId, None] = field(default_factory=dict[RequestId, None])

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
            case ToolCallStarted(call=call):
                self.calls[call] = None
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
            case _:
                pass


def closing_events(records: Iterable[Record]) -> tuple[tuple[TurnId | None, Event], ...]:
    """The events, each with its turn, that close what the session's records leave open."""
    left = _Open()
    for record in records:
        left.apply(record)
    if not left.running:
        return ()
    nobody = Decider(kind="cancel", name=_DIED)
    events: list[Event] = [
        *(
            PermissionAnswered(request=request, call=call, outcome=Cancelled(), by=nobody)
            for request, call in left.permissions.items()
        ),
        *(
            QuestionAnswered(request=request, action="cancel", by=nobody)
            for request in left.questions
        ),
        *(_cancelled(call) for call in left.calls),
    ]
    if left.turn is not None:
        events.append(TurnEnded(stop="failed", reason=_DIED))
    in_turn = [(left.turn, event) for event in events]
    return (*in_turn, (None, SessionEnded(how="broken", reason=_DIED)))


def _cancelled(call: ToolCallId) -> ToolCallEnded:
    told = TextPart(text="The program was stopped while this ran; it may have done part of it.")
    result = ToolResultPart(id=call, content=(told,), is_error=True)
    return ToolCallEnded(call=call, status="cancelled", reason=_DIED, result=result)
