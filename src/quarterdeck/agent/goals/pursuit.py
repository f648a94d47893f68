"""Pursuing a goal: turn after turn, until it is reached, the budget is spent, or nothing is done.

Whatever is known of a goal is in the log, so that a session which is loaded again goes on where
the last complete step was.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from quarterdeck.wire.content import text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import GoalEnd, GoalEnded, GoalSet, TurnEnded

from ..limits import TurnLimits
from ..tools.goal_done import GoalDoneTool
from .state import NO_BUDGET, GoalBudget, GoalState

if TYPE_CHECKING:
    from ..session import Session
    from ..session_setup import SessionSetup

__all__ = ["MOST_IDLE", "NO_BUDGET", "GoalResult", "NoGoalError", "pursue_goal", "resume_goal"]

MOST_IDLE = 3
"""Turns in a row without any new work after which nothing more is expected."""

_BEGIN = """\
Reach this goal:

{goal}

Work on your own until it is reached. No person answers in between, so make open decisions \
yourself. When the whole goal is reached and you have checked it, call `goal_done`; until then \
you are asked to continue."""
_GO_ON = """\
Continue: the goal is not reached yet, or you have not called `goal_done`. Look at the current \
state, do the next step, and check it. The goal is still:

{goal}{left}"""


class NoGoalError(QuarterdeckError):
    """There is no goal to go on with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalResult:
    """How far it came this time."""

    goal: str
    ended: GoalEnded | None
    """How the goal ended; None: a turn was cancelled or failed, and it can be taken up again."""
    turn: TurnEnded | None
    """The last turn; None where none was needed."""


async def resume_goal(setup: "SessionSetup", state: GoalState) -> None:
    """Let a session that is loaded know of the goal in its log."""
    setup.goal = state
    if state.ended is None:
        await _offer(setup)


async def _offer(setup: "SessionSetup") -> None:
    tool = GoalDoneTool()
    await asyncio.to_thread(lambda: tool.description)  # read from disk, and kept
    setup.toolbox.add(tool)


async def pursue_goal(
    session: "Session", goal: str | None, budget: GoalBudget = NO_BUDGET
) -> GoalResult:
    """Run turns until a goal is reached or a budget is spent; None: the goal that was set.

    Raises ``NoGoalError`` where none was, and as ``Session.prompt``.
    """
    setup = session.setup
    if goal is None and setup.goal is not None and _is_reached(setup.goal):
        return GoalResult(goal=setup.goal.set_.goal, ended=setup.goal.ended, turn=None)
    state = await _begin(session, setup, goal, budget)
    turn: TurnEnded | None = None
    while True:
        if (ended := _verdict(state, turn)) is not None:
            await session.note(ended)
            state.ended = ended
            setup.toolbox.remove(GoalDoneTool.name)
            await session.journal.durable(session.last_seq)
            return GoalResult(goal=state.set_.goal, ended=ended, turn=turn)
        if turn is not None and turn.stop in ("cancelled", "failed"):
            return GoalResult(goal=state.set_.goal, ended=None, turn=turn)
        turn = await _turn(session, setup, state)
        async for record in session.journal.history(state.seq, session.id):
            state.take(record)


async def _begin(
    session: "Session", setup: "SessionSetup", goal: str | None, budget: GoalBudget
) -> GoalState:
    before = setup.goal
    if goal is None:
        if before is None:
            raise NoGoalError(f"session {session.id!r} has no goal to continue with; give one")
        if before.ended is None and budget == NO_BUDGET:
            before.seq = session.last_seq if before.seq < 0 else before.seq
            return before
        goal = before.set_.goal
        budget = before.budget if budget == NO_BUDGET else budget
    await session.note(
        GoalSet(
            goal=goal,
            tokens=budget.tokens,
            cost=budget.cost,
            seconds=budget.seconds,
            turns=budget.turns,
        )
    )
    await session.journal.durable(session.last_seq)
    async for record in session.journal.history(session.last_seq - 1, session.id):
        if isinstance(record.event, GoalSet):
            setup.goal = GoalState(set_=record.event, seq=record.seq)
    assert setup.goal is not None
    await _offer(setup)
    return setup.goal


async def _turn(session: "Session", setup: "SessionSetup", state: GoalState) -> TurnEnded:
    own = setup.limits
    setup.limits = _within(own, state.left())
    try:
        template = _GO_ON if state.has_begun else _BEGIN
        words = template.format(goal=state.set_.goal, left=_left_words(state))
        return await session.prompt((text(words),), origin="goal")
    finally:
        setup.limits = own


def _verdict(state: GoalState, turn: TurnEnded | None) -> GoalEnded | None:
    """How the goal has ended; None: it has not."""
    if state.done is not None:
        return _ended(state, "reached")
    if turn is not None and turn.stop == "refusal":
        return _ended(state, "refused", turn.reason or "the model declined")
    if turn is not None and turn.stop in ("cancelled", "failed"):
        return None
    left = state.left()
    spent = [name for name in ("turns", "tokens", "cost", "seconds") if getattr(left, name) == 0]
    if spent:
        bound = getattr(state.budget, spent[0])
        unit = {"cost": "USD"}.get(spent[0], spent[0])
        return _ended(state, "limit", f"the budget of {bound:g} {unit} is spent")
    if state.idle >= MOST_IDLE:
        text = f"{state.idle} turns in a row without new work by a tool"
        return _ended(state, "stuck", text)
    return None


def _is_reached(state: GoalState) -> bool:
    return state.ended is not None and state.ended.how == "reached"


def _ended(state: GoalState, how: GoalEnd, reason: str | None = None) -> GoalEnded:
    done = state.done
    return GoalEnded(
        how=how,
        summary=done.summary if done else None,
        evidence=done.evidence if done else None,
        reason=reason,
        turns=state.turns,
        usage=state.usage,
        cost=state.total_cost,
    )


def _within(own: TurnLimits, left: GoalBudget) -> TurnLimits:
    def least(one: float | None, other: float | None) -> float | None:
        given = [bound for bound in (one, other) if bound is not None]
        return min(given) if given else None

    tokens = least(own.tokens, left.tokens)
    return replace(
        own,
        tokens=None if tokens is None else int(tokens),
        cost=least(own.cost, left.cost),
        seconds=least(own.seconds, left.seconds),
    )


def _left_words(state: GoalState) -> str:
    left = state.left()
    parts = (
        (left.turns, "{:d} turns"),
        (left.tokens, "{:d} tokens"),
        (left.cost, "{:.2f} USD"),
        (None if left.seconds is None else left.seconds / 60, "{:.0f} minutes"),
    )
    limits = [form.format(value) for value, form in parts if value is not None]
    return f"\n\nRemaining: {', '.join(limits)}." if limits else ""
