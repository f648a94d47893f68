"""The table of agents: who needs a person first."""

from collections.abc import Callable

from ..rendering.agents import agent_head, agent_line
from ..rendering.lines import Line
from ..stores.roster import RosterStore
from .picker import Picker

__all__ = ["AgentTable"]


class AgentTable(Picker):
    """A row for each agent; times go on while somebody works."""

    def __init__(
        self, roster: RosterStore, clock: Callable[[], int], *, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._roster = roster
        self._clock = clock
        self._unwatch = lambda: None

    def on_mount(self) -> None:
        """Follow the store, and let time pass."""
        self.border_title = "agents"
        self._unwatch = self._roster.watch(self.update)
        self.set_interval(1.0, self._tick)

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._unwatch()

    def head(self, width: int) -> list[Line]:
        """See ``Picker``."""
        return [agent_head(width)] if self._roster.agents else []

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        now = self._clock()
        return [
            (agent.session, agent_line(agent, self._roster, now, width))
            for agent in self._roster.agents
        ]

    def _tick(self) -> None:
        if any(agent.state in ("running", "waiting") for agent in self._roster.agents):
            self.update()
