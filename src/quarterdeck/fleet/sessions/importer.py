"""Sessions that agents keep on disk, taken into the log: searchable, resumable, taken once.

A session has the same id here however often it is taken. What an earlier import has written is
known by turns: a later one adds the turns that are new, and the rest of a turn that has grown.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace as copy
from pathlib import Path

from msgspec.structs import replace

from quarterdeck.drivers.history.history import AgentHistory
from quarterdeck.drivers.history.reader import HistoryEvent, HistorySession, ReadTally
from quarterdeck.drivers.history.session import NoHistorySessionError
from quarterdeck.drivers.history.turn_builder import derive_session_id
from quarterdeck.journal import Journal
from quarterdeck.wire.events import (
    Event,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import SessionId, TurnId
from quarterdeck.wire.session_options import SessionOptions

from ..agent_entry import AgentEntry
from ..api import ImportedSession
from ..errors import InvalidOptionsError, NoSuchAgentError
from ..live_index import LiveIndex, LogWriter
from ..supervisor import Supervisor

__all__ = ["SessionImporter"]

_REST = "+"
"""Between a turn's id and a number, for the rest of a turn that has grown since."""


class SessionImporter:
    """Takes sessions into a fleet's log, one at a time."""

    def __init__(
        self, journal: Journal, current: LiveIndex, notes: LogWriter, supervisor: Supervisor
    ) -> None:
        self._journal = journal
        self._current = current
        self._notes = notes
        self._supervisor = supervisor
        self._one = asyncio.Lock()

    async def bring(
        self,
        agent: str,
        id_: str,
        homes: Mapping[str, str],
        *,
        name: str | None = None,
        cwd: str | None = None,
    ) -> ImportedSession:
        """See ``Fleet.import_session``."""
        history = AgentHistory.of(homes)
        past = await history.find(id_, agent=agent)
        session = derive_session_id(past.agent, past.id)
        async with self._one:
            other = await self._holder(past, session)
            if other is not None:
                return ImportedSession(agent=self._current.info(other), added=0, skipped=0)
            return await self._take(history, past, session, name, _where(past, cwd))

    async def _holder(self, past: HistorySession, session: SessionId) -> AgentEntry | None:
        """The agent that has gone on with this session, or has begun it: it knows more than we."""
        entries = [*self._current.all(), *await self._current.archived()]
        for entry in entries:
            if entry.spawn.options.agent != past.agent or entry.resume != past.id:
                continue
            if entry.session != session or entry.transport is not None or entry.is_started:
                return entry
        return None

    async def _take(
        self,
        history: AgentHistory,
        past: HistorySession,
        session: SessionId,
        name: str | None,
        cwd: str,
    ) -> ImportedSession:
        fresh, tally = _Fresh(await self._known(session)), ReadTally()
        added = 0
        try:
            async with aclosing(history.read(past, tally)) as events:
                async for read in events:
                    for one in fresh.take(read):
                        if not added:
                            await self._open(past, session, name, cwd)
                        added += 1
                        await self._notes.keep(
                            session, one.event, turn=one.turn, parent=one.parent, time=one.time
                        )
        except BaseException as error:
            if added:
                how = SessionEnded(how="broken", reason=f"the rest could not be read: {error}")
                await self._notes.keep(session, how)
            raise
        if not added and not fresh.is_known:
            raise NoHistorySessionError(past.id, past.agent)
        if added:
            await self._notes.note(session, SessionEnded(how="closed"))
        info = self._current.info(await self._current.find(session))
        return ImportedSession(agent=info, added=added, skipped=tally.skipped)

    async def _open(
        self, past: HistorySession, session: SessionId, name: str | None, cwd: str
    ) -> None:
        """Begin a run in the log that no process stands behind."""
        try:
            entry = await self._current.find(session)
        except NoSuchAgentError:
            theirs = past.id if past.can_resume else None
            spawn = SessionSpawned(
                name="", options=SessionOptions(agent=past.agent, cwd=cwd, resume=theirs)
            )
            began = past.started or past.updated
            await self._supervisor.adopt(session, spawn, name, began)
            opened: Event = SessionOpened(
                agent=past.agent,
                cwd=cwd,
                title=past.title,
                agent_session=theirs,
                agent_version=past.version,
            )
            await self._notes.keep(session, opened, time=began)
            return
        await self._notes.keep(session, replace(entry.spawn, name=entry.name))
        theirs = past.id if past.can_resume else None
        await self._notes.keep(session, SessionResumed(agent_session=theirs))

    async def _known(self, session: SessionId) -> Counter[str]:
        """How many events of each turn the log has."""
        known: Counter[str] = Counter()
        async for record in self._journal.history(0, session):
            if record.turn is not None:
                inner = not isinstance(record.event, TurnStarted | TurnEnded)
                known[record.turn.partition(_REST)[0]] += inner
        return known


class _Fresh:
    """Lets through what the log does not have yet."""

    def __init__(self, known: Counter[str]) -> None:
        self._known = known
        self._before: list[HistoryEvent] = []
        """What belongs to no turn; it is new if the turn that follows is."""
        self._met = 0
        """Events of the turn so far."""
        self._rest: TurnId | None = None
        """The turn that goes on with one that has grown."""

    @property
    def is_known(self) -> bool:
        """Whether the log has anything of the session."""
        return bool(self._known)

    def take(self, one: HistoryEvent) -> Iterator[HistoryEvent]:
        """What is to be written because of an event, which may be it or others."""
        if one.turn is None:
            self._before.append(one)
        elif one.turn not in self._known:
            yield from self._drained()
            yield one
        else:
            self._before.clear()
            yield from self._known_turn(one, one.turn)

    def _known_turn(self, one: HistoryEvent, turn: TurnId) -> Iterator[HistoryEvent]:
        match one.event:
            case TurnStarted():
                self._met, self._rest = 0, None
            case TurnEnded() as ended if self._rest is not None:
                # What the whole turn took is counted already, as far as it was known then.
                yield copy(one, event=replace(ended, usage=None, cost=None), turn=self._rest)
            case TurnEnded():
                pass
            case _:
                self._met += 1
                if self._met <= self._known[turn]:
                    return
                if self._rest is None:
                    self._rest = TurnId(f"{turn}{_REST}{self._known[turn]}")
                    yield copy(one, event=TurnStarted(), turn=self._rest)
                yield copy(one, turn=self._rest)

    def _drained(self) -> Iterator[HistoryEvent]:
        before, self._before = self._before, []
        yield from before


def _where(past: HistorySession, cwd: str | None) -> str:
    where = past.cwd or cwd
    if where is None:
        raise InvalidOptionsError(
            f"cwd: the files of {past.id!r} do not record its directory; give --cwd"
        )
    if not Path(where).is_absolute():
        raise InvalidOptionsError(f"cwd: {where!r} is not absolute; write the whole path")
    return where
