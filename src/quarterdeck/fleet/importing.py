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

from quarterdeck.drivers.history.errors import NoSuchPast
from quarterdeck.drivers.history.history import History
from quarterdeck.drivers.history.past import PastEvent, PastSession, Tally
from quarterdeck.drivers.history.turns import session_of
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

from .crew import Crew
from .current import Current
from .entry import Entry
from .errors import BadWish, NoSuchAgent
from .notes import Notes
from .port import Imported

__all__ = ["Importing"]

_REST = "+"
"""Between a turn's id and a number, for the rest of a turn that has grown since."""


class Importing:
    """Takes sessions into a fleet's log, one at a time."""

    def __init__(self, journal: Journal, current: Current, notes: Notes, crew: Crew) -> None:
        self._journal = journal
        self._current = current
        self._notes = notes
        self._crew = crew
        self._one = asyncio.Lock()

    async def bring(
        self,
        agent: str,
        id_: str,
        homes: Mapping[str, str],
        *,
        name: str | None = None,
        cwd: str | None = None,
    ) -> Imported:
        """See ``Fleet.import_session``."""
        history = History.of(homes)
        past = await history.find(id_, agent=agent)
        session = session_of(past.agent, past.id)
        async with self._one:
            other = await self._holder(past, session)
            if other is not None:
                return Imported(agent=self._current.info(other), added=0, skipped=0)
            return await self._take(history, past, session, name, _where(past, cwd))

    async def _holder(self, past: PastSession, session: SessionId) -> Entry | None:
        """The agent that has gone on with this session, or has begun it: it knows more than we."""
        entries = [*self._current.all(), *await self._current.archived()]
        for entry in entries:
            if entry.wish.agent != past.agent or entry.resume != past.id:
                continue
            if entry.session != session or entry.transport is not None or entry.is_started:
                return entry
        return None

    async def _take(
        self,
        history: History,
        past: PastSession,
        session: SessionId,
        name: str | None,
        cwd: str,
    ) -> Imported:
        fresh, tally = _Fresh(await self._known(session)), Tally()
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
                how = SessionEnded(how="broken", reason=f"it could not be read on: {error}")
                await self._notes.keep(session, how)
            raise
        if not added and not fresh.is_known:
            raise NoSuchPast(past.id, past.agent)
        if added:
            await self._notes.note(session, SessionEnded(how="closed"))
        info = self._current.info(await self._current.find(session))
        return Imported(agent=info, added=added, skipped=tally.skipped)

    async def _open(
        self, past: PastSession, session: SessionId, name: str | None, cwd: str
    ) -> None:
        """Begin a run in the log that no process stands behind."""
        try:
            entry = await self._current.find(session)
        except NoSuchAgent:
            theirs = past.id if past.can_resume else None
            wish = SessionSpawned(name="", agent=past.agent, cwd=cwd, resume=theirs)
            began = past.started or past.updated
            await self._crew.adopt(session, wish, name, began)
            opened: Event = SessionOpened(
                agent=past.agent,
                cwd=cwd,
                title=past.title,
                agent_session=theirs,
                agent_version=past.version,
            )
            await self._notes.keep(session, opened, time=began)
            return
        await self._notes.keep(session, replace(entry.wish, name=entry.name))
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
        self._before: list[PastEvent] = []
        """What belongs to no turn; it is new if the turn that follows is."""
        self._met = 0
        """Events of the turn so far."""
        self._rest: TurnId | None = None
        """The turn that goes on with one that has grown."""

    @property
    def is_known(self) -> bool:
        """Whether the log has anything of the session."""
        return bool(self._known)

    def take(self, one: PastEvent) -> Iterator[PastEvent]:
        """What is to be written because of an event, which may be it or others."""
        if one.turn is None:
            self._before.append(one)
        elif one.turn not in self._known:
            yield from self._drained()
            yield one
        else:
            self._before.clear()
            yield from self._known_turn(one, one.turn)

    def _known_turn(self, one: PastEvent, turn: TurnId) -> Iterator[PastEvent]:
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

    def _drained(self) -> Iterator[PastEvent]:
        before, self._before = self._before, []
        yield from before


def _where(past: PastSession, cwd: str | None) -> str:
    where = past.cwd or cwd
    if where is None:
        raise BadWish(f"cwd: the files of {past.id!r} do not tell where it worked; give --cwd")
    if not Path(where).is_absolute():
        raise BadWish(f"cwd: {where!r} is not absolute; write the whole path")
    return where
