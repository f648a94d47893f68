"""The fleet as it is now, in memory: the durable log, folded as it grows, read and written.

What is returned from here is on disk, because it is made of nothing but records that are. What
callers write is durable, and what agents say is never lost.
"""

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from heapq import heappop, heappush, merge
from itertools import count
from typing import Protocol

from msgspec.structs import replace

from quarterdeck import __version__
from quarterdeck.journal import (
    Journal,
    JournalClosedError,
    JournalStalledError,
    ReadableJournal,
    SearchHit,
    UnrecordableEventError,
)
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.events import (
    CommandStarted,
    Event,
    PermissionAnswered,
    PermissionApproved,
    PermissionAsked,
    PermissionViolated,
    Prompted,
    PromptQueued,
    QuestionAnswered,
    QuestionAsked,
    SessionEnded,
)
from quarterdeck.wire.ids import MessageId, RequestId, SessionId, ToolCallId, TurnId
from quarterdeck.wire.record import Record, event_type, sanitize_event

from .agent_entry import ENTRY_EVENTS, AgentEntry, fold_entry, make_agent_info
from .api import AgentInfo, FleetStatus, QueuedPrompt, WaitFor
from .errors import NoSuchAgentError
from .names import normalize_name
from .projections import OpenRequest, find_entry, load_archived, load_requests, load_unarchived

__all__ = ["FleetReader", "LiveIndex", "LogWriter", "StandaloneReader", "search_beside"]

_log = logging.getLogger(__name__)


class LiveIndex:
    """Who is in the fleet, what each waits for; follows the log while ``follow`` runs."""

    def __init__(self, journal: Journal) -> None:
        self.seq = 0
        """The last record that has been taken in."""
        self.requests: dict[RequestId, OpenRequest] = {}
        """What is open, oldest first."""
        self.takes_images: Callable[[SessionId], bool | None] = lambda _: None
        """Asked about agents that may be live."""
        self._journal = journal
        self._entries: dict[SessionId, AgentEntry] = {}
        self._names: dict[str, SessionId] = {}
        """Keys of the names of those that are not archived."""
        self._heirs: dict[SessionId, SessionId] = {}
        """The latest session that continues the work of another."""
        self._words: dict[MessageId, QueuedPrompt] = {}
        self._last: dict[SessionId, int] = {}
        self._changed: dict[SessionId | None, asyncio.Event] = {}
        """For those who wait for a change: of one session, or (None) of any."""
        self._reaching: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        self._is_over = False

    # Taking in

    async def load(self) -> None:
        """Read the projections, once, before anything else is written."""
        self.seq = self._journal.last
        for entry in await self._journal.query(load_unarchived):
            await self._adopt(entry)
        for one in await self._journal.query(load_requests):
            if await self._knows(one.session):
                self.requests[one.request] = one

    async def _knows(self, session: SessionId) -> bool:
        """Whether there is such an agent; one that is archived may have a request, too."""
        if session not in self._entries:
            entry = await self._journal.query(lambda connection: find_entry(connection, session))
            if entry is None or entry.session != session:
                return False
            await self._adopt(entry)
        return True

    async def follow(self) -> None:
        """Take in every record, until the log is closed."""
        try:
            async for record in self._journal.follow(self.seq):
                try:
                    self._take(record)
                except Exception:
                    # A bad record costs only itself.
                    _log.exception("could not process record %d", record.seq)
                self._reached(record.seq)
        finally:
            self._is_over = True
            self._reached(None)
            for session in tuple(self._changed):
                self._wake(session)

    def _take(self, record: Record) -> None:
        event, session = record.event, record.session
        self._last[session] = record.seq
        if event_type(event) not in ENTRY_EVENTS:
            return
        if isinstance(event, PromptQueued):
            self._words[event.message] = _queued(event)
        before = self._entries.get(session)
        entry = fold_entry(before, record)
        if entry is None:
            return
        self._entries[session] = entry
        self._index(before, entry)
        self._take_request(record)
        self._wake(session)
        self._wake(None)

    def _take_request(self, record: Record) -> None:
        match record.event:
            case PermissionAsked() | QuestionAsked() | PermissionViolated() as event:
                self.requests[event.request] = OpenRequest(
                    request=event.request,
                    session=record.session,
                    seq=record.seq,
                    time=record.time,
                    event=event,
                )
            case PermissionApproved(request=request) as event if request in self.requests:
                one = self.requests[request]
                self.requests[request] = replace(one, approved=(*one.approved, event))
            case PermissionAnswered(request=request) | QuestionAnswered(request=request):
                self.requests.pop(request, None)
            case SessionEnded():
                mine = [r for r, one in self.requests.items() if one.session == record.session]
                for request in mine:
                    del self.requests[request]
            case _:
                pass

    def _index(self, before: AgentEntry | None, entry: AgentEntry) -> None:
        if before is not None and before.queue != entry.queue:
            for gone in {one.message for one in before.queue} - {e.message for e in entry.queue}:
                self._words.pop(gone, None)
        if before is not None and self._names.get(normalize_name(before.name)) == entry.session:
            del self._names[normalize_name(before.name)]
        if not entry.status.is_archived:
            self._names[normalize_name(entry.name)] = entry.session
        if before is None and (old := entry.spawn.continues) is not None:
            self._heirs[old] = max(entry.session, self._heirs.get(old, entry.session))

    async def _adopt(self, entry: AgentEntry) -> None:
        """Keep an entry that was read from disk, with the words of its queue."""
        for waiting in entry.queue:
            for record in await self._journal.read(waiting.seq - 1, entry.session, limit=1):
                if isinstance(record.event, PromptQueued):
                    self._words[waiting.message] = _queued(record.event)
        if entry.session not in self._entries:
            self._entries[entry.session] = entry
            self._index(None, entry)

    def forget(self, session: SessionId) -> None:
        """Drop a session that was deleted from the log."""
        entry = self._entries.pop(session, None)
        self._last.pop(session, None)
        if entry is None:
            return
        for waiting in entry.queue:
            self._words.pop(waiting.message, None)
        if self._names.get(normalize_name(entry.name)) == session:
            del self._names[normalize_name(entry.name)]
        self._wake(session)
        self._wake(None)

    # Telling

    def get(self, session: SessionId) -> AgentEntry:
        """The entry of a session that is known here. Raises NoSuchAgentError if it was deleted."""
        try:
            return self._entries[session]
        except KeyError:
            raise NoSuchAgentError(session) from None

    def all(self) -> Iterable[AgentEntry]:
        """Every entry in memory: all that are not archived, and some that are."""
        return self._entries.values()

    def names(self) -> set[str]:
        """Keys of the names that are taken."""
        return set(self._names)

    def holder(self, key: str) -> SessionId | None:
        """Who has the name of this key."""
        return self._names.get(key)

    async def find(self, agent: str) -> AgentEntry:
        """An agent by id or name, one that is not archived first. Raises NoSuchAgentError."""
        id_ = SessionId(agent)
        if id_ not in self._entries:
            id_ = self._names.get(normalize_name(agent), id_)
        if id_ not in self._entries:
            found = await self._journal.query(lambda connection: find_entry(connection, agent))
            if found is None:
                raise NoSuchAgentError(agent, [e.name for e in self._entries.values()])
            await self._adopt(found)
            id_ = found.session
        return self._entries[id_]

    async def archived(self) -> list[AgentEntry]:
        """Those that are put away."""
        stored = await self._journal.query(load_archived)
        unknown = [entry for entry in stored if entry.session not in self._entries]
        return [e for e in self._entries.values() if e.status.is_archived] + unknown

    def find_parent(self, entry: AgentEntry) -> SessionId | None:
        """The session whose agent leads this one: who started it, or who continues the work of
        that one once it has ended and may lead.
        """
        parent = entry.spawn.parent_session
        while parent is not None and (heir := self._heirs.get(parent)) is not None:
            old, new = self._entries.get(parent), self._entries.get(heir)
            if new is None or not new.spawn.lead or (old is not None and old.is_started):
                break
            parent = heir
        return parent

    def info(self, entry: AgentEntry) -> AgentInfo:
        """An agent as callers see it."""
        info = make_agent_info(entry, self._words, self._last.get(entry.session, 0))
        if (parent := self.find_parent(entry)) != info.parent:
            info = replace(info, parent=parent)
        able = self.takes_images(entry.session)
        return info if able is None else replace(info, takes_images=able)

    def words(self, message: MessageId) -> QueuedPrompt:
        """A prompt that waits."""
        return self._words[message]

    # Waiting

    async def reached(self, seq: int) -> None:
        """Wait until a record has been taken in. Raises JournalClosedError."""
        if seq <= self.seq:
            return
        if self._is_over:
            raise JournalClosedError(self._journal.path)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._reaching, (seq, next(self._numbers), future))
        await future

    async def until(self, holds: Callable[[], bool], session: SessionId | None = None) -> None:
        """Wait until something holds; looked at after each change, of a session or of any.

        Raises:
            JournalClosedError: nothing will change any more.
        """
        while not holds():
            if self._is_over:
                raise JournalClosedError(self._journal.path)
            await self._changed.setdefault(session, asyncio.Event()).wait()

    def _wake(self, session: SessionId | None) -> None:
        changed = self._changed.pop(session, None)
        if changed is not None:
            changed.set()

    def _reached(self, seq: int | None) -> None:
        self.seq = self.seq if seq is None else seq
        while self._reaching and (seq is None or self._reaching[0][0] <= seq):
            _, _, future = heappop(self._reaching)
            if future.done():
                continue
            if seq is None:
                future.set_exception(JournalClosedError(self._journal.path))
            else:
                future.set_result(None)


def _queued(event: PromptQueued) -> QueuedPrompt:
    return QueuedPrompt(
        message=event.message, content=event.content, origin=event.origin, sender=event.sender
    )


class StandaloneReader(Protocol):
    """Sessions in logs of their own; see ``sessions.standalone``."""

    async def info(self, id_: str) -> AgentInfo | None:
        """A session as an agent that is not live; None: there is none of this id."""
        ...

    async def read(
        self, id_: str, *, after: int = 0, before: int | None = None, limit: int = 200
    ) -> list[Record] | None:
        """Records of a session; None: there is none of this id."""
        ...

    def follow(self, id_: str, after: int | None) -> AsyncGenerator[Record]:
        """Every record of a session after a number, for ever."""
        ...

    async def search(self, words: str, *, limit: int) -> list[SearchHit]:
        """Where these words were said, newest first."""
        ...


class FleetReader:
    """Answers what changes nothing, from the log and from what stands in memory; see ``Fleet``."""

    def __init__(
        self, journal: Journal, current: LiveIndex, standalone: "StandaloneReader"
    ) -> None:
        self._journal = journal
        self._current = current
        self._standalone = standalone
        self._started = read_wall_clock()

    async def agents(
        self, *, archived: bool = False, parent: SessionId | None = None
    ) -> list[AgentInfo]:
        """The agents: who needs a person first, then the latest to change."""
        entries = [one for one in self._current.all() if not one.status.is_archived]
        if archived:
            entries += await self._current.archived()
        if parent is not None:
            entries = [one for one in entries if self._current.find_parent(one) == parent]
        entries.sort(key=_order)
        return [self._current.info(one) for one in entries]

    async def agent(self, agent: str) -> AgentInfo:
        """One agent, by name or id."""
        try:
            return self._current.info(await self._current.find(agent))
        except NoSuchAgentError:
            if (info := await self._standalone.info(agent)) is None:
                raise
            return info

    async def read(
        self, agent: str | None, *, after: int = 0, before: int | None = None, limit: int = 200
    ) -> list[Record]:
        """Records of an agent, or of all, in order."""
        try:
            session = (await self._current.find(agent)).session if agent is not None else None
        except NoSuchAgentError as error:
            found = await self._standalone.read(error.name, after=after, before=before, limit=limit)
            if found is None:
                raise
            return found
        if before is not None:
            return await self._journal.tail(session, before, limit)
        return await self._journal.read(after, session, limit)

    def follow(
        self, after: int | None = None, *, agent: str | None = None
    ) -> AsyncGenerator[Record]:
        """Every record after a sequence number (None: from now on), for ever."""
        return self._follow(after, agent, self._journal.last)

    async def _follow(
        self, given: int | None, agent: str | None, last: int
    ) -> AsyncGenerator[Record]:
        after = last if given is None else given
        try:
            session = (await self._current.find(agent)).session if agent is not None else None
        except NoSuchAgentError as error:
            if await self._standalone.info(error.name) is None:
                raise
            async with aclosing(self._standalone.follow(error.name, given)) as others:
                async for record in others:
                    yield record
            return
        async with aclosing(self._journal.follow(after, session)) as records:
            async for record in records:
                try:
                    # The one who has seen a record sees it in every list too.
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
        others = await self._standalone.search(words, limit=limit)
        return await search_beside(self._journal, words, others, limit=limit)

    async def status(self) -> FleetStatus:
        """The fleet as a whole."""
        entries = [one for one in self._current.all() if not one.status.is_archived]
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
            needs_person=sum(one.status.needs_person for one in entries),
            problem=str(stalled) if stalled is not None else None,
        )


async def search_beside(
    journal: ReadableJournal,
    words: str,
    others: Sequence[SearchHit],
    *,
    session: SessionId | None = None,
    limit: int,
) -> list[SearchHit]:
    """Search a log and add hits of other logs, newest first. Raises JournalError."""
    hits = await journal.search(words, session, limit)
    times = await journal.query(lambda c: _load_times(c, [hit.seq for hit in hits]))
    hits = [replace(hit, time=times.get(hit.seq, 0)) for hit in hits]
    # Those of the log stay in its order, whatever the clock said.
    return list(merge(hits, others, key=lambda hit: -hit.time))[:limit]


def _load_times(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, int]:
    marks = ", ".join("?" * len(numbers))
    rows = connection.execute(f"SELECT seq, time FROM events WHERE seq IN ({marks})", numbers)
    return dict(rows.fetchall())


def _order(entry: AgentEntry) -> tuple[bool, int]:
    return not entry.status.needs_person, -entry.last_seq


_AGAIN = 0.5
"""Seconds until an agent that is held back by a full disk tries again."""


class LogWriter:
    """The fleet's pen."""

    def __init__(self, journal: Journal, current: LiveIndex) -> None:
        self._journal = journal
        self._current = current
        self._last = 0

    async def note(self, session: SessionId, *events: Event, time: int | None = None) -> None:
        """Write events; when this returns they are durable and ``LiveIndex`` shows them.

        ``time``: when they happened, if that was not now.

        Raises:
            JournalError: they could not be written, or not yet.
        """
        for event in events:
            record = await self._journal.append(session, event, time=time)
            self._last = max(self._last, record.seq)
        await self._journal.durable(self._last)
        await self._current.reached(self._last)

    async def take(
        self,
        session: SessionId,
        event: Event,
        *,
        turn: TurnId | None = None,
        parent: ToolCallId | None = None,
    ) -> None:
        """Write what an agent or a person did; it is held back while the log can take no more.

        A prompt is durable before the agent sees it, a decision before the agent acts on it, and
        the start of a person's command before the person sees it.
        """
        record = await self._append(session, event, turn, parent)
        self._last = max(self._last, record.seq)
        if isinstance(event, Prompted | PermissionAnswered | SessionEnded | CommandStarted):
            try:
                await self._journal.durable(record.seq)
            except JournalStalledError as error:
                # It is kept and will be written; agents go on meanwhile.
                _log.warning("not durable yet: %s", error)

    async def keep(
        self,
        session: SessionId,
        event: Event,
        *,
        turn: TurnId | None = None,
        parent: ToolCallId | None = None,
        time: int | None = None,
    ) -> None:
        """Write what happened elsewhere and earlier; ``settled`` waits until it is durable."""
        record = await self._append(session, event, turn, parent, time)
        self._last = max(self._last, record.seq)

    async def settled(self) -> None:
        """Wait until everything written so far is durable and shown."""
        last = max(self._last, self._journal.last)
        await self._journal.durable(last)
        await self._current.reached(last)

    async def _append(
        self,
        session: SessionId,
        event: Event,
        turn: TurnId | None,
        parent: ToolCallId | None,
        time: int | None = None,
    ) -> Record:
        while True:
            try:
                return await self._journal.append(
                    session, event, turn=turn, parent=parent, time=time
                )
            except JournalStalledError:
                await asyncio.sleep(_AGAIN)
            except UnrecordableEventError:
                event = sanitize_event(event)
