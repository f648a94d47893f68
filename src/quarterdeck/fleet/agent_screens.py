"""The screens of live agents that run in a terminal."""

from typing import TYPE_CHECKING

from .crew import Crew
from .current import Current
from .entry import Entry
from .errors import NoSuchAgent, NoSuchTerminal
from .terminals import Kept

__all__ = ["CrewScreens"]


class CrewScreens:
    """Finds them, from the moment that an agent's process starts until it is over."""

    def __init__(self, current: Current, crew: Crew) -> None:
        self._current = current
        self._crew = crew

    def all(self) -> list[Kept]:
        """Those that there are now."""
        found = (self._screen(entry) for entry in self._current.all())
        return [kept for kept in found if kept is not None]

    async def find(self, agent: str) -> Kept:
        """That of one agent, by name or id. Raises NoSuchTerminal."""
        try:
            entry = await self._current.find(agent)
        except NoSuchAgent:
            raise NoSuchTerminal(agent) from None
        if (kept := self._screen(entry)) is not None:
            return kept
        if self._crew.get(entry.session) is None:
            raise NoSuchTerminal(agent, "this agent is not live")
        raise NoSuchTerminal(agent, "this agent does not run in one, its transport is not 'pty'")

    def _screen(self, entry: Entry) -> Kept | None:
        member = self._crew.get(entry.session)
        terminal = member.terminal if member is not None else None
        if terminal is None:
            return None
        return Kept(id=entry.session, name=entry.name, terminal=terminal, session=entry.session)


if TYPE_CHECKING:
    from typing import cast

    from .terminals import AgentScreens

    _: AgentScreens = cast("CrewScreens", None)
