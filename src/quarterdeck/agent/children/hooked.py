"""A parent's hooks as they hold for its children: those that judge tool calls."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from quarterdeck.policy.call import Call
from quarterdeck.wire.events import Event

from ..hooks.seam import Emit, Hooks, Point, Verdict

__all__ = ["LentHooks"]

_POINTS: frozenset[Point] = frozenset(("before_tool", "after_tool"))


class LentHooks:
    """What may refuse a call of the parent's may refuse one of its child's.

    Points of a session, a prompt or a turn are the parent's own.
    """

    most_continued = 0

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def has(self, point: Point) -> bool:
        """Whether there is any hook for a point."""
        return point in _POINTS and self._hooks.has(point)

    async def run(
        self, point: Point, facts: Mapping[str, Any], emit: Emit, call: Call | None = None
    ) -> Verdict:
        """Run the hooks of a point."""
        if point not in _POINTS:
            return Verdict()
        return await self._hooks.run(point, facts, emit, call)

    def saw(self, event: Event, emit: Emit) -> None:
        """Nothing: people are notified of the parent."""

    async def close(self) -> None:
        """Nothing: they end with the parent."""


if TYPE_CHECKING:
    from typing import cast

    _hooks: Hooks = LentHooks(cast("Hooks", None))
