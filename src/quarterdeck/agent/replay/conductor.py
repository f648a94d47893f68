"""Keeps a replay in the order of its recording, and notes where the two differ.

The replayed session is heard event by event. Each event is looked up in the recording; what stands
in for the model and the tools waits until everything that was recorded earlier has happened again.
What came from outside (messages into a running turn, interrupts, answers, changes of the mode) is
done again where it stands in the recording.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct

from quarterdeck.policy.gate import PermissionAnswer, QuestionReply
from quarterdeck.policy.modes import parse_mode
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    ChildStarted,
    CompactionChanged,
    ContextAdded,
    Event,
    ModeChanged,
    ModelCallStarted,
    PermissionAnswered,
    PermissionAsked,
    Prompted,
    QuestionAnswered,
    QuestionAsked,
    SessionChanged,
    TurnEnded,
)
from quarterdeck.wire.ids import SessionId, TurnId
from quarterdeck.wire.permissions import Cancelled, Decider, Selected, option_of_kind
from quarterdeck.wire.record import Record
from quarterdeck.wire.tasks import BackgroundTasks

from .recorded_run import RecordedItem, Recording, StepPlace, compare_form, is_cancelled, slot_of

if TYPE_CHECKING:
    from ..session import Session

__all__ = ["Conductor", "Divergence", "DivergenceKind", "diff_values"]

DivergenceKind: TypeAlias = Literal["request", "decision", "event", "missing", "extra"]
"""A request to the model, a permission decision or another event differs; one did not come; one
came that was not recorded."""
PATIENCE = 3.0
"""Seconds without any event after which what is waited for counts as missing."""
_BY = Decider(kind="person", name="replay")
_MOST_LINES = 60
_LOOK = 0.002
"""Seconds between two looks at a state that is no event."""

speaker: ContextVar[SessionId | None] = ContextVar("speaker", default=None)
"""The replayed session whose event the running task emitted last."""
asking: ContextVar[bool] = ContextVar("asking", default=False)
"""Whether that event was the start of a model call."""


class Divergence(Struct, frozen=True, kw_only=True):
    """Where a replay differs from its recording."""

    kind: DivergenceKind
    place: StepPlace
    what: str
    """What differs, in a few words."""
    diff: str = ""
    """Recorded lines with ``-``, replayed ones with ``+``."""


def diff_values(recorded: Any, replayed: Any) -> str:
    """Two plain values as a unified diff of their JSON, cut where it is long."""
    lines = list(
        unified_diff(_lines(recorded), _lines(replayed), "recorded", "replayed", lineterm="", n=2)
    )
    if len(lines) > _MOST_LINES:
        left = len(lines) - _MOST_LINES
        lines = [*lines[:_MOST_LINES], f"[… {left} more lines]"]
    return "\n".join(lines)


def _lines(value: Any) -> list[str]:
    if isinstance(value, str):
        return value.splitlines()
    data = msgspec.json.format(msgspec.json.encode(value, enc_hook=repr), indent=2)
    return data.decode().replace("\\n", "\n").splitlines()


class Conductor:
    """Hears one replayed run."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.divergences: list[Divergence] = []
        self.notes: dict[str, None] = {}
        """What was not replayed or compared, and why."""
        self.compared = 0
        self.session: Session | None = None
        self.tasks = BackgroundTasks()
        self.is_over = False
        """The recording is at its end: what comes now is no longer compared."""
        self._ids: dict[SessionId, SessionId] = {recording.root: recording.root}
        self._changed = asyncio.Event()
        self._next = 0
        self._missing: set[int] = set()
        self._pumped: set[int] = set()
        self.turns: dict[TurnId, TurnId] = {}
        """The replayed turn for each recorded one."""
        self.kept: dict[SessionId, Any] = {}
        """The recorded conversations, as far as they were needed."""

    # ---- what is heard

    def hear(self, record: Record) -> None:
        """Take one event of the replay, right after it was appended."""
        speaker.set(record.session)
        asking.set(isinstance(record.event, ModelCallStarted))
        session, slot = self._ids.get(record.session), slot_of(record.event)
        if session is None or slot is None or self.is_over:
            return
        item = self._find(session, slot)
        if item is None:
            self._note_extra(session, record.event, slot)
        else:
            if item.record.turn is not None and record.turn is not None:
                self.turns[item.record.turn] = record.turn
            self._match(item, record.event)
        if isinstance(record.event, PermissionAsked | QuestionAsked):
            self.tasks.start(self._answer(record.event, item), name="replay: answer")

    def recorded_id(self, session: SessionId) -> SessionId | None:
        """The recorded id of a replayed session."""
        return self._ids.get(session)

    def replayed_id(self, session: str) -> str:
        """The id in this replay of a recorded session; the same where there is no other."""
        return next((new for new, old in self._ids.items() if old == session), session)

    def unify(self, text: str) -> str:
        """A text with the recorded ids in place of the replayed ones."""
        for new, old in self._ids.items():
            if new != old:
                text = text.replace(new, old)
        return text

    def _find(self, session: SessionId, slot: tuple[str, ...]) -> RecordedItem | None:
        own = self.recording.of_session.get(session, ())
        return next((item for item in own if item.slot == slot and not item.is_done), None)

    def _match(self, item: RecordedItem, event: Event) -> None:
        recorded = item.record.event
        if isinstance(event, ChildStarted) and isinstance(recorded, ChildStarted):
            self._ids[event.child] = recorded.child
        self._compare(item, event)
        self._finish(item)

    def _compare(self, item: RecordedItem, event: Event) -> None:
        self.compared += 1
        if _is_out_of_time(item.record.event):
            self.notes["a limit of seconds ended a turn: it was replayed as an interrupt"] = None
            return
        recorded, replayed = compare_form(item.record.event), compare_form(event)
        if recorded == replayed:
            return
        replayed = msgspec.json.decode(self.unify(msgspec.json.encode(replayed).decode()))
        recorded = msgspec.json.decode(msgspec.json.encode(recorded))
        if recorded == replayed:
            return
        is_decision = isinstance(event, PermissionAnswered | PermissionAsked)
        self.note_divergence(
            "decision" if is_decision else "event", item.place, _name(item), recorded, replayed
        )

    def note_divergence(
        self, kind: DivergenceKind, place: StepPlace, what: str, recorded: Any, replayed: Any
    ) -> None:
        """Keep a difference."""
        found = Divergence(kind=kind, place=place, what=what, diff=diff_values(recorded, replayed))
        if found not in self.divergences:
            self.divergences.append(found)

    def _note_extra(self, session: SessionId, event: Event, slot: tuple[str, ...]) -> None:
        kind: DivergenceKind = "extra"
        if isinstance(event, PermissionAnswered | PermissionAsked):
            kind = "decision"
        self.note_divergence(kind, self.place(session), " ".join(slot), {}, compare_form(event))
        self._wake()

    def place(self, session: SessionId) -> StepPlace:
        """How far a session has come."""
        own = self.recording.of_session.get(session, ())
        done = [item for item in own if item.is_done]
        return done[-1].place if done else StepPlace(turn=0, step=0)

    # ---- the order

    def _finish(self, item: RecordedItem) -> None:
        item.is_done = True
        items = self.recording.items
        while self._next < len(items) and items[self._next].is_done:
            self._next += 1
        if self._next == len(items) and self.recording.is_cut:
            self.is_over = True
        self._wake()
        self._pump()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def next_item(self) -> RecordedItem | None:
        """The first item that has not come yet."""
        items = self.recording.items
        return items[self._next] if self._next < len(items) else None

    def next_of(self, session: SessionId) -> RecordedItem | None:
        """The first item of a session that has not come yet."""
        own = self.recording.of_session.get(session, ())
        return next((item for item in own if not item.is_done), None)

    async def reach(self, index: int) -> None:
        """Wait until everything recorded before an item has come, or will not come."""
        while self._next < index and not self.is_over:
            changed = self._changed
            try:
                async with asyncio.timeout(PATIENCE):
                    await changed.wait()
            except TimeoutError:
                self._give_up()

    async def reach_end(self) -> None:
        """Wait until all has come."""
        await self.reach(len(self.recording.items))

    def _give_up(self) -> None:
        item = self.next_item
        if item is None or item.is_done:
            return
        kind: DivergenceKind = "missing"
        if isinstance(item.record.event, PermissionAnswered | PermissionAsked):
            kind = "decision"
        recorded = compare_form(item.record.event)
        self.note_divergence(kind, item.place, _name(item), recorded, {})
        self._finish(item)

    def skip(self, item: RecordedItem) -> None:
        """Go on without an item that this replay knowingly does not show."""
        if not item.is_done:
            self._finish(item)

    # ---- what comes from outside

    async def before_release(self, session: SessionId, index: int) -> None:
        """Wait for an item's place, then send the messages into the turn that came right after.

        They have to wait there before the step ends.
        """
        await self.reach(index)
        if self.is_over or index < 0:
            return
        for item in self.recording.following(self.recording.items[index]):
            event = item.record.event
            if isinstance(event, Prompted) and self.is_from_outside(item) and event.steers:
                self._steer(event)
            else:
                break

    def is_from_outside(self, item: RecordedItem) -> bool:
        """Whether a prompt came from outside: not from a hook, a goal or a sub-agent."""
        event = item.record.event
        if not isinstance(event, Prompted) or event.origin in ("hook", "goal"):
            return False
        children = {child.child for child in self.recording.children.values()}
        return item.session == self.recording.root and event.sender not in children

    def _steer(self, event: Prompted) -> None:
        assert self.session is not None
        self.session.steer(
            event.content, origin=event.origin, sender=event.sender, message=event.message
        )

    async def before_step(self, session: SessionId) -> None:
        """Before a model call: wait for a summary in the background that was ready then."""
        item = self.next_of(session)
        if item is None or session != self.recording.root or self.session is None:
            return
        event = item.record.event
        if isinstance(event, CompactionChanged) and event.status in ("completed", "failed"):
            await self.reach(item.index)
            context = self.session.context
            while context.is_summary_running and not context.is_summary_ready:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK)

    async def wait_until_idle(self) -> None:
        """Wait until no turn runs."""
        while self.session is not None and self.session.is_running:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK)

    def poke(self) -> None:
        """Do what was done from outside, if that comes next."""
        self._pump()

    def _pump(self) -> None:
        item = self.next_item
        if item is None or item.index in self._pumped or self.session is None:
            return
        if (act := self._outside_act(item)) is not None:
            self._pumped.add(item.index)
            self.tasks.start(act(), name="replay: from outside")

    def _outside_act(self, item: RecordedItem) -> Callable[[], Coroutine[Any, Any, None]] | None:
        session = self.session
        assert session is not None
        if item.session != self.recording.root:
            return None
        match item.record.event:
            case ModeChanged(mode=mode) if not self._in_command(item):
                return lambda: self._quietly(session.set_mode(parse_mode(mode)))
            case SessionChanged(model=str(model)) if not self._in_command(item):
                return lambda: self._quietly(session.set_model(model))
            case TurnEnded(stop="cancelled"):
                return session.cancel
            case TurnEnded() as event if _is_out_of_time(event):
                return session.cancel
            case Prompted(steers=False) as event if item.record.turn is None:
                return (lambda: session.note(event)) if self.is_from_outside(item) else None
            case _:
                return None

    async def _quietly(self, act: Awaitable[None]) -> None:
        try:
            await act
        except QuarterdeckError as error:
            self.notes[f"not replayed: {error}"] = None

    def _in_command(self, item: RecordedItem) -> bool:
        """Whether an item is within a turn that answered a command."""
        prompts = [
            one.record.event
            for one in self.recording.of_session[item.session][:]
            if one.index < item.index and isinstance(one.record.event, Prompted | TurnEnded)
        ]
        last = prompts[-1] if prompts else None
        return isinstance(last, Prompted) and last.model_content == ()

    async def interrupt(self) -> None:
        """End the running turn, as it was recorded, and wait to be cancelled."""
        assert self.session is not None
        self.tasks.start(self.session.cancel(), name="replay: interrupt")
        await asyncio.Event().wait()

    async def add_context(
        self, session: SessionId, emit: Callable[[Event], Awaitable[None]]
    ) -> None:
        """Emit the recorded context that comes next for a session: of hooks, files, budgets."""
        while (item := self.next_of(session)) is not None:
            event = item.record.event
            if not isinstance(event, ContextAdded):
                return
            await emit(event)
            self.skip(item)

    # ---- answers of people

    async def _answer(
        self, asked: PermissionAsked | QuestionAsked, item: RecordedItem | None
    ) -> None:
        assert self.session is not None
        answer = self._recorded_answer(asked, item)
        if answer is not None:
            await self.reach(answer.index)
            if is_cancelled(answer.record.event):
                await self.session.cancel()
                return
        gate = self.session.gate
        if isinstance(asked, QuestionAsked):
            gate.reply(asked.request, _reply(answer))
        else:
            gate.answer(asked.request, self._permission(asked, answer))

    def _recorded_answer(
        self, asked: PermissionAsked | QuestionAsked, item: RecordedItem | None
    ) -> RecordedItem | None:
        if item is None:
            return None
        request = getattr(item.record.event, "request", None)
        for one in self.recording.following(item):
            event = one.record.event
            if isinstance(event, PermissionAnswered | QuestionAnswered):
                is_its = event.request == request
                if is_its:
                    return one
        return None

    def _permission(self, asked: PermissionAsked, answer: RecordedItem | None) -> PermissionAnswer:
        event = answer.record.event if answer is not None else None
        if isinstance(event, PermissionAnswered):
            return PermissionAnswer(
                outcome=event.outcome,
                by=event.by,
                feedback=event.feedback,
                group=event.group,
                approved_by=tuple((event.by.name or "").split(", ")),
            )
        # It was not asked then: what was decided then holds now.
        call = self.recording.call(self.recording.root, asked.call)
        kind = "allow_once" if call is not None and call.was_allowed else "reject_once"
        option = option_of_kind(asked.options, kind)
        outcome = Cancelled() if option is None else Selected(option_id=option)
        return PermissionAnswer(outcome=outcome, by=_BY)


def _is_out_of_time(event: Event) -> bool:
    return isinstance(event, TurnEnded) and (event.reason or "").endswith(" seconds in one turn")


def _reply(answer: RecordedItem | None) -> QuestionReply:
    event = answer.record.event if answer is not None else None
    if isinstance(event, QuestionAnswered):
        return QuestionReply(action=event.action, by=event.by, content=event.content)
    return QuestionReply(action="cancel", by=_BY)


def _name(item: RecordedItem) -> str:
    event = item.record.event
    name = getattr(event, "name", None) or getattr(event, "title", None)
    words = " ".join(part for part in item.slot if part)
    return f"{words} ({name})" if isinstance(name, str) and name is not UNSET else words
