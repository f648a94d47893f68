"""Staying with a terminal: whatever becomes of the host, the viewer knows what it looks at."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Literal, TypeAlias

from quarterdeck.drivers.pty.seen import Left, Seen
from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from quarterdeck.fleet.terminal_port import Terminals

__all__ = ["Following", "Standing"]

Standing: TypeAlias = Literal["coming", "live", "ended", "gone", "lost"]
"""Not seen yet, running, left by its program, unknown to the host, or out of reach."""


class Following:
    """Watches one terminal until its program has left or nobody knows it any more.

    Args:
        fleet: who has it.
        terminal: its id, or the name of an agent.
        take: gets what is seen, in order; may wait until there is room.
        changed: called when ``standing`` is another.
        reached: waits until the host is there.
    """

    def __init__(
        self,
        fleet: "Terminals",
        terminal: str,
        take: Callable[[Seen], Awaitable[None]],
        changed: Callable[[], None],
        reached: Callable[[], Awaitable[None]],
    ) -> None:
        self._fleet = fleet
        self.terminal = terminal
        self._take = take
        self._changed = changed
        self._reached = reached
        self.standing: Standing = "coming"
        self.reason = ""
        """Why it stands so, in words of others; may be empty."""

    async def run(self) -> None:
        """Watch; ends when there is nothing to be seen any more."""
        from quarterdeck.fleet.errors import NoSuchAgent, NoSuchTerminal, NotNow

        while self.standing not in ("ended", "gone"):
            await self._reached()
            try:
                await self._watch()
            except (NoSuchTerminal, NoSuchAgent, NotNow) as error:
                self._stand("gone", str(error))
            except QuarterdeckError as error:  # the host went away; it may come back
                self._stand("lost", str(error))

    async def _watch(self) -> None:
        async with aclosing(self._fleet.watch_terminal(self.terminal)) as watched:
            async for seen in watched:
                await self._take(seen)
                if isinstance(seen, Left):
                    self._stand("ended", seen.reason)
                    return
                self._stand("live")
        if self.standing != "ended":
            self._stand("gone")

    def _stand(self, standing: Standing, reason: str = "") -> None:
        if (standing, reason) != (self.standing, self.reason):
            self.standing, self.reason = standing, reason
            self._changed()
