"""How far a goal has got, as a fold over the session's records, and its budget."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Struct

from quarterdeck.wire.decoders import convert
from quarterdeck.wire.events import (
    ChildEnded,
    CompactionChanged,
    Event,
    GoalEnded,
    GoalSet,
    ModelCallFinished,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.record import Record
from quarterdeck.wire.usage import Cost, TokenUsage

from ..limits import NO_PROGRESS, fingerprint
from ..recovery import DIED
from ..tools.goal_done import GOAL_DONE, GoalDoneArguments

__all__ = ["NO_BUDGET", "GoalBudget", "GoalState", "goal_in"]


class GoalBudget(Struct, frozen=True, kw_only=True):
    """Bounds of all turns of a goal together; None means no bound."""

    tokens: int | None = None
    cost: float | None = None
    """US dollars; needs a model with known prices."""
    seconds: float | None = None
    """Time in which turns run."""
    turns: int | None = None


NO_BUDGET = GoalBudget()


_LONGEST_CYCLE = 3
"""Turns in one round of a loop that is noticed."""


@dataclass(slots=True, kw_only=True)
class GoalState:
    """A goal that was set, and what was done for it."""

    set_: GoalSet
    seq: int
    """The last record that was taken in; below zero: all that there is."""
    has_begun: bool = False
    """Whether any turn has begun."""
    turns: int = 0
    """Turns that have ended, those not counted in which the process died."""
    idle: int = 0
    """The last turns in a row in which no tool did its work, or all of it had been done before."""
    usage: TokenUsage = field(default_factory=TokenUsage)
    cost: float = 0.0
    is_priced: bool = False
    micros: int = 0
    """Time in which turns ran; that in which no process was there is not counted."""
    done: GoalDoneArguments | None = None
    """The model's word that it is reached."""
    ended: GoalEnded | None = None
    _clock: int | None = None
    _worked: bool = False
    _calls: dict[ToolCallId, tuple[str | None, Any]] = field(
        default_factory=dict["ToolCallId", "tuple[str | None, Any]"]
    )
    """The calls of the turn: the tool and its arguments."""
    _done: list[tuple[str | None, Any, Any]] = field(
        default_factory=list["tuple[str | None, Any, Any]"]
    )
    _turns: deque[bytes] = field(default_factory=lambda: deque(maxlen=_LONGEST_CYCLE))
    """What the last turns did."""

    @property
    def budget(self) -> GoalBudget:
        """What it may take."""
        limits = self.set_
        return GoalBudget(
            tokens=limits.tokens, cost=limits.cost, seconds=limits.seconds, turns=limits.turns
        )

    @property
    def total_cost(self) -> Cost | None:
        """The money spent, or None when no price is known."""
        return Cost(amount=self.cost, currency="USD") if self.is_priced else None

    def left(self) -> GoalBudget:
        """What is left of the budget; never below zero."""
        budget = self.budget
        return GoalBudget(
            tokens=_left(budget.tokens, self.usage.total),
            cost=_left(budget.cost, self.cost),
            seconds=_left(budget.seconds, self.micros / 1_000_000),
            turns=_left(budget.turns, self.turns),
        )

    def take(self, record: Record) -> None:
        """Take the next record of the session."""
        event, self.seq = record.event, record.seq
        self._count_time(record)
        match event:
            case TurnStarted():
                self.has_begun, self._worked = True, False
                self._calls.clear()
                self._done.clear()
            case TurnEnded():
                self._turn_ended(event)
            case ModelCallFinished(usage=usage, cost=cost):
                self._spend(usage, cost)
            case ChildEnded(usage=usage, cost=cost) | CompactionChanged(usage=usage, cost=cost):
                self._spend(usage, cost)
            case ToolCallStarted(call=call, name=name, raw_input=raw):
                self._calls[call] = (name, raw)
            case ToolCallEnded():
                self._call_ended(event)
            case GoalEnded():
                self.ended = event
            case _:
                pass

    def _call_ended(self, event: ToolCallEnded) -> None:
        name, raw = self._calls.get(event.call, (None, None))
        result = event.result.content if event.result is not None else event.reason
        self._done.append((name, raw, result))
        if event.status == "completed":
            self._worked = True
            if name == GOAL_DONE:
                self.done = _arguments(raw)

    def _turn_ended(self, event: TurnEnded) -> None:
        self._clock = None
        if event.reason == DIED.reason:
            return  # it goes on in the next
        self.turns += 1
        if event.stop in ("cancelled", "failed"):
            return
        turn = fingerprint(sorted(self._done, key=repr))
        is_loop = turn in self._turns or (event.reason or "").startswith(NO_PROGRESS)
        self._turns.append(turn)
        self.idle = 0 if self._worked and not is_loop else self.idle + 1

    def _count_time(self, record: Record) -> None:
        if isinstance(record.event, TurnStarted):
            self._clock = record.time
        if self._clock is None:
            return
        if _is_afterwards(record.event):
            self._clock = None
            return
        self.micros += max(0, record.time - self._clock)
        self._clock = record.time

    def _spend(self, usage: TokenUsage | None, cost: Cost | None) -> None:
        if usage is not None:
            self.usage += usage
        if cost is not None:
            self.cost += cost.amount
            self.is_priced = True


def goal_in(records: Iterable[Record]) -> GoalState | None:
    """The goal that was set last; None: none ever was."""
    state: GoalState | None = None
    for record in records:
        if isinstance(record.event, GoalSet):
            state = GoalState(set_=record.event, seq=record.seq)
        elif state is not None:
            state.take(record)
    return state


def _is_afterwards(event: Event) -> bool:
    """Whether an event closes what a process left that died: nothing ran until then."""
    words = (getattr(event, "reason", None), getattr(event, "error", None))
    by = getattr(getattr(event, "by", None), "name", None)
    answer = getattr(event, "answer", None)
    return DIED.reason in (*words, by) or answer == DIED.running


def _arguments(raw: Any) -> GoalDoneArguments | None:
    try:
        return convert(raw, GoalDoneArguments)
    except msgspec.ValidationError:
        return None


def _left(bound: Any, spent: float) -> Any:
    return None if bound is None else max(type(bound)(0), bound - spent)
