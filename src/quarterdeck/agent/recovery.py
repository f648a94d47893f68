"""What a process that died left open, and the events that close it.

A session is its log. When it is loaded after a crash, calls that were announced have no end, a
turn has none, questions wait for no one. These events say so, once, and are appended before
anything else happens; what had been acknowledged stays as it is.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct, field

from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.conversation import Message, TextPart, ToolResultPart, ToolUsePart
from quarterdeck.wire.events import (
    ChildEnded,
    ChildStarted,
    CompactionChanged,
    Event,
    MessageChunk,
    ModelCallFinished,
    ModelCallStarted,
    PermissionAnswered,
    PermissionAsked,
    Prompted,
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
from quarterdeck.wire.ids import (
    CompactionId,
    RequestId,
    SessionId,
    ToolCallId,
    TurnId,
    new_message_id,
)
from quarterdeck.wire.permissions import Cancelled, Decider
from quarterdeck.wire.record import Record

if TYPE_CHECKING:
    from quarterdeck.journal import Journal

__all__ = [
    "DIED",
    "FORKED",
    "InterruptionReason",
    "child_end_text",
    "close_children",
    "closing_events",
]


class InterruptionReason(Struct, frozen=True):
    """Why what was under way has to be closed, in words for people and for the model."""

    reason: str
    running: str
    """Sent for a call that had begun."""
    waiting: str
    """Sent for a call that had not."""


DIED = InterruptionReason(
    "the process that ran the session died",
    "The program was stopped while this ran; part of it may have taken effect.",
    "The program was stopped before this ran.",
)
FORKED = InterruptionReason(
    "the conversation was forked here",
    "The conversation continues from a point at which this was still running.",
    "The conversation continues from a point at which this had not started.",
)


class _Open(Struct, eq=False):
    """What has begun and not ended."""

    running: bool = False
    turn: TurnId | None = None
    model: str | None = None
    """The model that was answering."""
    partial_text: str = ""
    """What it had said."""
    written: dict[ToolCallId, ToolUsePart] = field(default_factory=dict[ToolCallId, ToolUsePart])
    """Calls of the last reply that were not announced."""
    calls: dict[ToolCallId, None] = field(default_factory=dict[ToolCallId, None])
    permissions: dict[RequestId, ToolCallId] = field(default_factory=dict[RequestId, ToolCallId])
    questions: dict[RequestId, None] = field(default_factory=dict[RequestId, None])
    compactions: dict[CompactionId, None] = field(default_factory=dict[CompactionId, None])
    children: "_Children" = field(default_factory=lambda: _Children())

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
                self.children.apply(event)

    def _apply_within_a_turn(self, event: Event) -> None:
        match event:
            case ModelCallStarted(model=model):
                self.model, self.partial_text = model, ""
            case MessageChunk(role="agent", content=TextContent(text=text)):
                self.partial_text += text
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


class _Children(Struct, eq=False):
    """The agents that the session has started, as far as something is left to say of them."""

    running: dict[SessionId, ChildStarted] = field(default_factory=dict[SessionId, ChildStarted])
    answers: dict[ToolCallId, ChildEnded] = field(default_factory=dict[ToolCallId, ChildEnded])
    """Of those that a call waits for."""
    untold: dict[SessionId, tuple[str, ChildEnded]] = field(
        default_factory=dict[SessionId, tuple[str, ChildEnded]]
    )
    """Of those in the background that the model has not seen, with their names."""

    def apply(self, event: Event) -> None:
        match event:
            case ChildStarted(child=child):
                self.running[child] = event
            case ChildEnded(child=child):
                self._ended(event, self.running.pop(child, None))
            case Prompted(sender=sender) if sender is not None:
                self.untold.pop(sender, None)
            case ToolCallEnded(call=call):
                self.answers.pop(call, None)
            case _:
                pass

    def close(self, cut: InterruptionReason) -> Iterable[Event]:
        """End those that were at work."""
        for started in tuple(self.running.values()):
            ended = ChildEnded(
                child=started.child, call=started.call, how="cancelled", answer=cut.running
            )
            if started.background:
                self.apply(ended)
            yield ended

    def _ended(self, ended: ChildEnded, started: ChildStarted | None) -> None:
        if started is not None and started.background:
            self.untold[ended.child] = (started.name, ended)
        else:
            self.answers[ended.call] = ended


def child_end_text(name: str, ended: ChildEnded) -> Prompted:
    """What the model is sent of a child in the background that is over."""
    content = text(f"[Agent {name} ({ended.child}): {ended.how}]\n{ended.answer}")
    message = new_message_id()
    return Prompted(content=(content,), message=message, origin="agent", sender=ended.child)


async def close_children(journal: "Journal", records: Iterable[Record]) -> None:
    """Close the sessions of children that were at work when their parent's process died."""
    left = _Open()
    for record in records:
        left.apply(record)
    for child in left.children.running:
        own = [record async for record in journal.history(session=child)]
        for turn, event in closing_events(own):
            await journal.append(child, event, turn=turn)
        await close_children(journal, own)


def closing_events(
    records: Iterable[Record], cut: InterruptionReason = DIED
) -> tuple[tuple[TurnId | None, Event], ...]:
    """The events, each with its turn, that close what the session's records leave open.

    Afterwards every call that the model wrote has a result, and what it was saying is kept.
    """
    left = _Open()
    for record in records:
        left.apply(record)
    if not left.running:
        return ()
    events = [
        *_ends_of_requests(left, cut),
        *left.children.close(cut),
        *_ends_of_calls(left, cut),
    ]
    if left.turn is not None:
        events.append(TurnEnded(stop="failed", reason=cut.reason))
    in_turn = [(left.turn, event) for event in events]
    for compaction in left.compactions:
        failed = CompactionChanged(compaction=compaction, status="failed", error=cut.reason)
        in_turn.append((None, failed))
    in_turn += ((None, child_end_text(*one)) for one in left.children.untold.values())
    return (*in_turn, (None, SessionEnded(how="broken", reason=cut.reason)))


def _ends_of_requests(left: _Open, cut: InterruptionReason) -> Iterable[Event]:
    nobody = Decider(kind="cancel", name=cut.reason)
    if left.model is not None:
        parts = (TextPart(text=left.partial_text),)
        reply = Message(role="assistant", parts=parts) if left.partial_text else None
        yield ModelCallFinished(model=left.model, reply=reply, error=cut.reason)
    for request, call in left.permissions.items():
        yield PermissionAnswered(request=request, call=call, outcome=Cancelled(), by=nobody)
    for request in left.questions:
        yield QuestionAnswered(request=request, action="cancel", by=nobody)


def _ends_of_calls(left: _Open, cut: InterruptionReason) -> Iterable[Event]:
    for call in left.calls:
        if (answered := left.children.answers.get(call)) is not None:
            yield _completed(call, answered)
        else:
            yield _cancelled(call, cut, cut.running)
    if left.turn is None:
        return
    for call, use in left.written.items():
        yield ToolCallStarted(call=call, title=use.name, name=use.name, raw_input=use.arguments)
        yield _cancelled(call, cut, cut.waiting)


def _completed(call: ToolCallId, ended: ChildEnded) -> ToolCallEnded:
    """The end of a call whose agent had finished: its work is not to be done again."""
    failed = ended.how in ("failed", "cancelled")
    result = ToolResultPart(id=call, content=(TextPart(text=ended.answer),), is_error=failed)
    return ToolCallEnded(call=call, status="failed" if failed else "completed", result=result)


def _cancelled(call: ToolCallId, cut: InterruptionReason, text: str) -> ToolCallEnded:
    result = ToolResultPart(id=call, content=(TextPart(text=text),), is_error=True)
    return ToolCallEnded(call=call, status="cancelled", reason=cut.reason, result=result)
