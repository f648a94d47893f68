"""Goals that a session pursues over many turns; part of ``events``, imported from there."""

from typing import Literal, TypeAlias

from .usage import Cost, TokenUsage
from .values import Value

__all__ = ["GoalEnd", "GoalEnded", "GoalSet"]

GoalEnd: TypeAlias = Literal["reached", "limit", "stuck", "refused"]
"""The model says that it is reached; the budget is spent; turns go by in which nothing is done;
or the model declines to go on."""


class GoalSet(Value, frozen=True, kw_only=True, tag_field="type", tag="goal_set"):
    """The session pursues a goal from here on; between turns. Another one replaces it."""

    goal: str
    tokens: int | None = None
    """The budget of all turns together; None: no bound."""
    cost: float | None = None
    """US dollars."""
    seconds: float | None = None
    """Time in which turns run."""
    turns: int | None = None


class GoalEnded(Value, frozen=True, kw_only=True, tag_field="type", tag="goal_ended"):
    """The goal is pursued no longer; between turns, at most once for each that was set.

    A turn that was cancelled or failed does not end it: it can be taken up again.
    """

    how: GoalEnd
    summary: str | None = None
    """The model's words for what was reached."""
    evidence: str | None = None
    """The model's words for how it knows."""
    reason: str | None = None
    """Why it was not reached."""
    turns: int = 0
    usage: TokenUsage | None = None
    cost: Cost | None = None
