"""A recorded session as a replay needs it: what is compared, in order, and what answered what."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Struct, field

from quarterdeck.wire.conversation import RequestDigest
from quarterdeck.wire.events import (
    ChildEnded,
    ChildStarted,
    CompactionChanged,
    ContextAdded,
    Event,
    GoalEnded,
    GoalSet,
    MessageChunk,
    MessagePinned,
    MessageUnpinned,
    ModeChanged,
    ModelCallFinished,
    ModelCallStarted,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    Prompted,
    QuestionAnswered,
    QuestionAsked,
    ResultsCleared,
    RetryScheduled,
    SessionChanged,
    SessionOpened,
    SessionResumed,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from quarterdeck.wire.ids import SessionId, ToolCallId
from quarterdeck.wire.permissions import Cancelled
from quarterdeck.wire.record import Record

__all__ = [
    "CallRecord",
    "ModelAnswer",
    "RecordedItem",
    "Recording",
    "Slot",
    "StepPlace",
    "compare_form",
    "is_cancelled",
    "parse_hook_refusal",
    "slot_of",
    "split_runs",
]

Slot: TypeAlias = tuple[str, ...]
"""What an event is, so that it can be found in a second run: its kind, and the call it is of."""

_FIELDS: dict[type[Event], tuple[str, ...]] = {
    Prompted: ("content", "origin", "steers", "model_content"),
    TurnStarted: (),
    TurnEnded: ("stop", "reason", "usage"),
    ModelCallStarted: ("model", "attempt"),
    ModelCallFinished: ("reply", "stop", "usage", "error"),
    RetryScheduled: ("attempt", "reason"),
    ToolCallStarted: ("title", "name", "kind", "raw_input", "content", "locations"),
    ToolCallEnded: ("status", "reason", "result"),
    PermissionAsked: ("title", "name", "kind", "reason", "options", "approvals"),
    PermissionAnswered: ("outcome", "by", "kind", "feedback"),
    QuestionAsked: ("text", "form"),
    QuestionAnswered: ("action", "content", "by"),
    PlanChanged: ("entries",),
    CompactionChanged: ("status", "summary", "error", "through", "kept"),
    ResultsCleared: ("through", "longest"),
    ContextAdded: ("source", "text"),
    MessagePinned: ("content", "new"),
    MessageUnpinned: (),
    ChildStarted: ("name", "task", "background"),
    ChildEnded: ("how", "answer", "usage"),
    GoalSet: ("goal", "tokens", "cost", "seconds", "turns"),
    GoalEnded: ("how", "summary", "evidence", "reason", "turns", "usage"),
    ModeChanged: ("mode",),
    SessionChanged: ("model",),
}
"""What is compared of each event; ids, times and prices are not. Others are not compared."""
_NAMES: dict[type[Event], str] = {
    Prompted: "prompt",
    TurnStarted: "turn",
    TurnEnded: "end of the turn",
    ModelCallStarted: "model call",
    ModelCallFinished: "model answer",
    RetryScheduled: "retry",
    ToolCallStarted: "tool call",
    ToolCallEnded: "tool result",
    PermissionAsked: "permission request",
    PermissionAnswered: "decision",
    QuestionAsked: "question",
    QuestionAnswered: "answer",
    PlanChanged: "plan",
    CompactionChanged: "compaction",
    ResultsCleared: "cleared results",
    ContextAdded: "added context",
    MessagePinned: "pin",
    MessageUnpinned: "unpin",
    ChildStarted: "sub-agent",
    ChildEnded: "end of the sub-agent",
    GoalSet: "goal",
    GoalEnded: "end of the goal",
    ModeChanged: "mode",
    SessionChanged: "model",
}


def slot_of(event: Event) -> Slot | None:
    """What an event is; None for one that is not compared."""
    kind = _NAMES.get(type(event))
    if kind is None:
        return None
    match event:
        case SessionChanged(model=model):
            return None if model is UNSET else (kind,)
        case PermissionAsked(call=call, child=child):
            return (kind, call, (child.call or "") if child is not None else "")
        case ToolCallStarted(call=call) | ToolCallEnded(call=call):
            return (kind, call)
        case PermissionAnswered(call=call) | ChildStarted(call=call) | ChildEnded(call=call):
            return (kind, call)
        case CompactionChanged(status=status):
            return (kind, status)
        case _:
            return (kind,)


def compare_form(event: Event) -> dict[str, Any]:
    """The compared fields of an event, as plain values."""
    return {
        name: msgspec.to_builtins(value, enc_hook=repr)
        for name in _FIELDS[type(event)]
        if (value := getattr(event, name)) not in (None, UNSET, ())
    }


class StepPlace(Struct, frozen=True, kw_only=True):
    """Where in a session something is: the turn, and the model call within it; both from 1."""

    turn: int
    step: int
    child: str | None = None
    """The profile of the sub-agent; None: the session itself."""

    def __str__(self) -> str:
        of = f"sub-agent {self.child}, " if self.child is not None else ""
        if not self.turn:
            return f"{of}before the first turn"
        return f"{of}turn {self.turn}" + (f", step {self.step}" if self.step else "")


class RecordedItem(Struct, eq=False):
    """An event that a replay has to show, too."""

    index: int
    record: Record
    slot: Slot
    place: StepPlace
    is_done: bool = False

    @property
    def session(self) -> SessionId:
        """The session it is of, by its recorded id."""
        return self.record.session


class CallRecord(Struct, eq=False):
    """A tool call from its start to its end."""

    started: ToolCallStarted | None = None
    ended: ToolCallEnded | None = None
    end_index: int = -1
    """Of the item that ends it."""
    updates: list[ToolCallUpdated] = field(default_factory=list[ToolCallUpdated])
    asked: PermissionAsked | None = None
    answered: PermissionAnswered | None = None

    @property
    def has_run(self) -> bool:
        """Whether it was permitted and began."""
        return any(update.status == "in_progress" for update in self.updates)

    @property
    def was_allowed(self) -> bool:
        """Whether it was permitted."""
        if self.answered is None:
            return self.has_run
        return self.answered.kind is not None and self.answered.kind.startswith("allow")

    @property
    def changed_input(self) -> Any:
        """The input that a hook gave it; UNSET: none."""
        return next((u.raw_input for u in self.updates if u.raw_input is not UNSET), UNSET)


class ModelAnswer(Struct, eq=False):
    """A model call and what was answered."""

    index: int
    """Of the item that starts it."""
    started: ModelCallStarted
    digest: RequestDigest | None
    """Of its request; None: the log has none."""
    finished: ModelCallFinished | None = None
    end_index: int = -1
    deltas: list[MessageChunk | ThoughtChunk] = field(
        default_factory=list["MessageChunk | ThoughtChunk"]
    )
    window: int | None = None
    """The model's, in tokens."""


class Recording:
    """One run of a session, with the sub-agents that it started in it."""

    def __init__(
        self, root: SessionId, records: Sequence[Record], earlier: Sequence[Record] = ()
    ) -> None:
        self.root = root
        self.records = records
        self.earlier = earlier
        """What was recorded before this run."""
        self.items: list[RecordedItem] = []
        self.calls: dict[tuple[SessionId, ToolCallId], CallRecord] = {}
        self.answers: dict[SessionId, list[ModelAnswer]] = {}
        self.children: dict[tuple[SessionId, ToolCallId], ChildStarted] = {}
        self.of_session: dict[SessionId, list[RecordedItem]] = {}
        self.windows: dict[str, int] = {}
        self._profiles: dict[SessionId, str] = {}
        self._turns: dict[SessionId, int] = {}
        self._steps: dict[SessionId, int] = {}
        self._digests: dict[SessionId, RequestDigest] = {}
        for record in earlier:
            if isinstance(record.event, TurnStarted):
                self._turns[record.session] = self._turns.get(record.session, 0) + 1
            if isinstance(record.event, ModelCallStarted) and record.event.request is not None:
                self._digests[record.session] = record.event.request
        for record in records:
            self._take(record)

    @property
    def is_cut(self) -> bool:
        """Whether the recording ends within a turn."""
        own = [record for record in self.records if record.session == self.root]
        ended = {record.turn for record in own if isinstance(record.event, TurnEnded)}
        return any(record.turn not in ended for record in own if record.turn is not None)

    def events(self) -> Iterator[Event]:
        """Everything that was recorded in the run, whether it is compared or not."""
        return (record.event for record in self.records)

    def call(self, session: SessionId, call: str) -> CallRecord | None:
        """A tool call by its id."""
        return self.calls.get((session, ToolCallId(call)))

    def following(self, item: RecordedItem) -> Iterator[RecordedItem]:
        """The later items of the same session."""
        own = self.of_session[item.session]
        return iter(own[own.index(item) + 1 :])

    def _take(self, record: Record) -> None:
        session, event = record.session, record.event
        if isinstance(event, TurnStarted):
            self._turns[session] = self._turns.get(session, 0) + 1
            self._steps[session] = 0
        elif isinstance(event, ModelCallStarted):
            self._steps[session] = self._steps.get(session, 0) + 1
        index = self._add_item(record)
        self._take_model(session, event, index)
        self._take_call(session, event, index)
        if isinstance(event, ChildStarted):
            self.children[session, event.call] = event
            self._profiles[event.child] = event.name
        if isinstance(event, TurnEnded):
            self._steps[session] = 0

    def _add_item(self, record: Record) -> int:
        slot = slot_of(record.event)
        if slot is None:
            return -1
        place = StepPlace(
            turn=self._turns.get(record.session, 0),
            step=self._steps.get(record.session, 0),
            child=self._profiles.get(record.session),
        )
        item = RecordedItem(len(self.items), record, slot, place)
        self.items.append(item)
        self.of_session.setdefault(record.session, []).append(item)
        return item.index

    def _take_model(self, session: SessionId, event: Event, index: int) -> None:
        answers = self.answers.setdefault(session, [])
        match event:
            case ModelCallStarted():
                if event.request is not None:
                    self._digests[session] = event.request
                answers.append(ModelAnswer(index, event, self._digests.get(session)))
            case MessageChunk(role="agent") | ThoughtChunk() if answers:
                if answers[-1].finished is None:
                    answers[-1].deltas.append(event)
            case ModelCallFinished() if answers:
                answers[-1].finished, answers[-1].end_index = event, index
            case UsageReported(context=context) if context is not None and context.size:
                if answers:
                    self.windows[answers[-1].started.model] = context.size
            case _:
                pass

    def _take_call(self, session: SessionId, event: Event, index: int) -> None:
        match event:
            case ToolCallStarted(call=call):
                self._call(session, call).started = event
            case ToolCallUpdated(call=call):
                self._call(session, call).updates.append(event)
            case ToolCallEnded(call=call):
                found = self._call(session, call)
                found.ended, found.end_index = event, index
            case PermissionAsked(call=call, child=None):
                self._call(session, call).asked = event
            case PermissionAnswered(call=call):
                self._call(session, call).answered = event
            case _:
                pass

    def _call(self, session: SessionId, call: ToolCallId) -> CallRecord:
        return self.calls.setdefault((session, call), CallRecord())


def split_runs(root: SessionId, family: Iterable[Record]) -> list[Recording]:
    """The runs of a session, each with what was recorded before it."""
    records = list(family)
    starts = [
        at
        for at, record in enumerate(records)
        if record.session == root and isinstance(record.event, SessionOpened | SessionResumed)
    ]
    ends = [*starts[1:], len(records)]
    return [
        Recording(root, records[start:end], records[:start])
        for start, end in zip(starts, ends, strict=True)
    ]


_CANCEL_KINDS = ("cancel",)


def is_cancelled(event: Event) -> bool:
    """Whether an event is what an interrupt leaves of something under way."""
    match event:
        case ModelCallFinished(stop="cancelled") | ToolCallEnded(status="cancelled"):
            return True
        case PermissionAnswered(outcome=Cancelled(), by=by):
            return by.kind in _CANCEL_KINDS
        case QuestionAnswered(action="cancel", by=by):
            return by.kind in _CANCEL_KINDS
        case _:
            return False


_HOOK_REFUSAL = re.compile(r"hook (?P<by>.*?) refused (?:it|the prompt): (?P<why>.*)", re.DOTALL)


def parse_hook_refusal(reason: str | None) -> tuple[str, str] | None:
    """The hook that refused, and why, from the reason in the log."""
    found = _HOOK_REFUSAL.fullmatch(reason or "")
    return (found["by"], found["why"]) if found else None
