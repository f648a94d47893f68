"""Reading a fleet: its agents, its records, its state as a whole."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from quarterdeck import __version__
from quarterdeck.journal import Journal, JournalClosedError, SearchHit
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record

from .agent_entry import AgentEntry
from .api import AgentInfo, FleetStatus, WaitFor
from .live_index import LiveIndex

__all__ = ["FleetReader"]


class FleetReader:
    """Answers what changes nothing, from the log and from what stands in memory; see ``Fleet``."""

    def __init__(self, journal: Journal, current: LiveIndex) -> None:
        self._journal = journal
        self._current = current
        self._started = read_wall_clock()

    async def agents(
        self, *, archived: bool = False, parent: SessionId | None = None
    ) -> list[AgentInfo]:
        """The agents: who needs a person first, then the latest to change."""
        entries = [one for one in self._current.all() if not one.standing.is_archived]
        if archived:
            entries += await self._current.archived()
        if parent is not None:
            entries = [one for one in entries if one.wish.parent_session == parent]
        entries.sort(key=_order)
        return [self._current.info(one) for one in entries]

    async def agent(self, agent: str) -> AgentInfo:
        """One agent, by name or id."""
        return self._current.info(await self._current.find(agent))

    async def read(
        self, agent: str | None, *, after: int = 0, before: int | None = None, limit: int = 200
    ) -> list[Record]:
        """Records of an agent, or of all, in order."""
        session = (await self._current.find(agent)).session if agent is not None else None
        if before is not None:
            return await self._journal.tail(session, before, limit)
        return await self._journal.read(after, session, limit)

    def follow(
        self, after: int | None = None, *, agent: str | None = None
    ) -> AsyncGenerator[Record]:
        """Every record after a sequence number (None: from now on), for ever."""
        return self._follow(self._journal.last if after is None else after, agent)

    async def _follow(self, after: int, agent: str | None) -> AsyncGenerator[Record]:
        session = (await self._current.find(agent)).session if agent is not None else None
        async with aclosing(self._journal.follow(after, session)) as records:
            async for record in records:
                try:
                    # Whoever has seen a record sees it in every list too.
                    await self._current.reached(record.seq)
                except JournalClosedError:
                    return
                yield record

    async def wait(
        self, agents: Sequence[str], *, until: WaitFor = "all", timeout: float | None = None
    ) -> list[AgentInfo]:
        """Wait until any or all of these are at rest; those that are."""
        ids = list(dict.fromkeys([(await self._current.find(one)).session for one in agents]))
        current, enough = self._current, any if until == "any" else all
        try:
            async with asyncio.timeout(timeout):
                await current.until(lambda: not ids or enough(current.get(i).at_rest for i in ids))
        except TimeoutError:
            pass  # what is at rest by now is the answer
        entries = [current.get(id_) for id_ in ids]
        return [current.info(entry) for entry in entries if entry.at_rest]

    async def search(self, words: str, *, limit: int = 50) -> list[SearchHit]:
        """Where these words were said, by any agent, newest first."""
        return await self._journal.search(words, limit=limit)

    async def status(self) -> FleetStatus:
        """The fleet as a whole."""
        entries = [one for one in self._current.all() if not one.standing.is_archived]
        agents: dict[str, int] = {}
        for one in entries:
            agents[one.state] = agents.get(one.state, 0) + 1
        stalled = self._journal.stalled
        return FleetStatus(
            version=__version__,
            pid=os.getpid(),
            started=self._started,
            log=str(self._journal.path),
            last_seq=self._journal.last,
            agents=agents,
            needs_person=sum(one.standing.needs_person for one in entries),
            problem=str(stalled) if stalled is not None else None,
        )


def _order(entry: AgentEntry) -> tuple[bool, int]:
    return not entry.standing.needs_person, -entry.last_seq
