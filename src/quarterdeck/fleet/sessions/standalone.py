"""Sessions that no host recorded, read as agents of the fleet, and taken into it to go on.

They are in logs of their own, and others may be writing those. To list, search and read them,
nothing but the logs is needed. To prompt, resume, fork or rename one, the fleet adopts it: under
the lock of its log all records are copied into the log of the host, then the log is removed. So
each session has one log, and that log one writer, at any time.
"""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, closing, suppress
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from quarterdeck.agent.recovery import DIED, close_children, closing_events
from quarterdeck.agent.session_store import find_own_log
from quarterdeck.config.places import Places
from quarterdeck.journal import Journal, SearchHit, SessionSummary
from quarterdeck.journal.errors import DATABASE_ERRORS, JournalLockedError, translate_reading_errors
from quarterdeck.journal.records import RecordReader
from quarterdeck.journal.store import connect_reader
from quarterdeck.wire.events import (
    NoticePosted,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    UnknownEvent,
)
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.session_options import SessionOptions

from ..agent_entry import ENTRY_EVENTS, AgentEntry, fold_entry, make_agent_info
from ..api import AgentInfo
from ..errors import AgentNotReadyError, NoSuchAgentError
from ..live_index import LiveIndex, LogWriter, search_beside
from ..log_pages import read_log_file
from ..supervisor import Supervisor
from .history_index import HistoryIndex
from .sub_agents import delete_with_sub_agents

__all__ = ["SessionAdopter", "StandaloneSessions", "search_all_logs"]

T = TypeVar("T")
_PAGE_BYTES = 16 << 20
_FEW = 100
_PAUSE = 0.25
_OFTEN = 300.0
"""Seconds until it is looked again which logs are new."""
_END = 1 << 62
_MARK = ".adopting"
"""The end of a file beside a log while its records are being copied."""
_KEPT = ".kept"
"""The end of a log that stays after its adoption, since not all of it could be understood."""
_TWICE = "an agent of the host has the same id"


class StandaloneSessions:
    """Reads the logs of single sessions. No method waits for who writes them."""

    def __init__(self, state: Path, journal: Journal) -> None:
        self._directory = state / "sessions"
        self._journal = journal
        self._index = HistoryIndex(state)

    async def aclose(self) -> None:
        """Close the index."""
        await self._index.close()

    async def keep_indexed(self) -> None:
        """Read new logs before someone searches, for ever; half of the time of one thread."""
        while True:
            await self._index.catch_up(_PAUSE)
            await asyncio.sleep(_OFTEN)

    async def sessions(self, *, cwd: str | None = None, limit: int = 50) -> list[SessionSummary]:
        """The sessions that changed last, newest first; see ``Fleet.standalone_sessions``."""
        found = await self._index.sessions(cwd=cwd, limit=limit)
        hosted = await self._journal.query(lambda c: _find_hosted(c, [one.id for one in found]))
        return [replace(one, damage=_TWICE) if one.id in hosted else one for one in found]

    async def search(self, words: str, *, limit: int) -> list[SearchHit]:
        """Hits in sessions that the host's log does not have, newest first."""
        hits = await self._index.search(words, limit=limit)
        ids = list({hit.session for hit in hits})
        hosted = await self._journal.query(lambda c: _find_hosted(c, ids))
        return [hit for hit in hits if hit.session not in hosted]

    async def info(self, id_: str) -> AgentInfo | None:
        """A session as an agent that is not live; None if no log of its own has it.

        Raises:
            JournalError: its log cannot be read.
        """
        path = await self._find(id_)
        if path is None:
            return None
        entry, last = await self._read(path, lambda: _load_entry(path))
        if entry is None:
            return None
        can_resume = entry.resume is not None or entry.turns == 0
        return replace(make_agent_info(entry, {}, last), is_live=False, can_resume=can_resume)

    async def read(
        self, id_: str, *, after: int = 0, before: int | None = None, limit: int = 200
    ) -> list[Record] | None:
        """Records of a session; None if no log of its own has it. Raises JournalError."""
        path = await self._find(id_)
        if path is None:
            return None

        def read_page() -> list[Record]:
            with closing(connect_reader(path)) as connection:
                reader = RecordReader(connection, _PAGE_BYTES)
                session = SessionId(id_)
                if before is not None:
                    return reader.before(before, session=session, limit=limit)
                return reader.after(after, session=session, limit=limit)

        return await self._read(path, read_page)

    async def follow(self, id_: str, after: int | None) -> AsyncGenerator[Record]:
        """Every record of a session after a number (None: from now on), for ever.

        Raises:
            NoSuchAgentError: no log of its own has it.
        """
        path = await self._find(id_)
        if path is None:
            raise NoSuchAgentError(id_)
        async with Journal.open(path, write=False) as journal:
            start = journal.last if after is None else after
            async with aclosing(journal.follow(start, SessionId(id_))) as records:
                async for record in records:
                    yield record

    async def _find(self, id_: str) -> Path | None:
        path = find_own_log(self._directory, id_)
        return path if path is not None and await asyncio.to_thread(path.is_file) else None

    async def _read(self, path: Path, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except DATABASE_ERRORS as error:
            raise translate_reading_errors(error, path) from error


class SessionAdopter:
    """Makes agents of a fleet from sessions in logs of their own, one at a time."""

    def __init__(
        self,
        state: Path,
        journal: Journal,
        current: LiveIndex,
        notes: LogWriter,
        supervisor: Supervisor,
    ) -> None:
        self._directory = state / "sessions"
        self._journal = journal
        self._current = current
        self._notes = notes
        self._supervisor = supervisor
        self._one = asyncio.Lock()

    async def find(self, agent: str, name: str | None = None) -> AgentEntry:
        """An agent of the fleet by name or id, or a session to be one from now on.

        ``name``: what an agent that is adopted is to be called.

        Raises:
            NoSuchAgentError: neither has this name or id.
            AgentNotReadyError: another process has the session open.
            InvalidAgentNameError, NameTakenError: the name cannot be had.
            JournalError: its log cannot be read, or the host's not be written.
        """
        try:
            return await self._current.find(agent)
        except NoSuchAgentError:
            path = find_own_log(self._directory, agent)
            if path is None or not await asyncio.to_thread(path.is_file):
                raise
        async with self._one:
            try:
                return await self._current.find(agent)  # another caller has adopted it meanwhile
            except NoSuchAgentError:
                await self._adopt(path, SessionId(agent), name)
        return await self._current.find(agent)

    async def recover(self) -> None:
        """Drop what an adoption had copied when its host was killed; the session's log is whole."""
        for mark in await asyncio.to_thread(lambda: list(self._directory.glob(f"*.db{_MARK}"))):
            log = mark.with_name(mark.name.removesuffix(_MARK))
            session = SessionId(log.stem)
            if await asyncio.to_thread(log.is_file):
                await delete_with_sub_agents(self._journal, session)
                self._current.forget(session)
            await asyncio.to_thread(mark.unlink, missing_ok=True)

    async def _adopt(self, path: Path, session: SessionId, name: str | None) -> None:
        try:
            async with Journal.open(path) as own:
                await self._move(own, path, session, name)
        except JournalLockedError as error:
            holder = "another process" if error.pid is None else f"process {error.pid}"
            raise AgentNotReadyError(
                f"session {session!r} is open in {holder}; end it there first"
            ) from error
        except OSError as error:
            raise AgentNotReadyError(
                f"session {session!r} cannot be taken over by the host: {error}"
            ) from error

    async def _move(self, own: Journal, path: Path, session: SessionId, name: str | None) -> None:
        opened, began = await _find_opening(own, session)
        mark = path.with_name(path.name + _MARK)
        await asyncio.to_thread(mark.touch, mode=0o600)
        try:
            spawn = SessionSpawned(name="", options=_options_of(opened))
            await self._supervisor.adopt(session, spawn, name, began)
            is_whole = await self._copy(own, session)
            await self._notes.settled()
            await asyncio.to_thread(_retire, path, is_whole)
        except BaseException:
            await delete_with_sub_agents(self._journal, session)
            self._current.forget(session)
            await asyncio.to_thread(mark.unlink, missing_ok=True)
            raise
        await asyncio.to_thread(_clear_up, path)

    async def _copy(self, own: Journal, session: SessionId) -> bool:
        """Copy all records, and the end of what a killed process left open; False if something
        could not be read.
        """
        is_whole, mine = True, list[Record]()
        async for record in own.history():
            is_whole = is_whole and not _is_foreign(record)
            if record.session == session:
                if isinstance(record.event, SessionResumed | SessionEnded):
                    mine.clear()  # what earlier runs left open is closed
                mine.append(record)
            await self._notes.keep(
                record.session,
                record.event,
                turn=record.turn,
                parent=record.parent,
                time=record.time,
            )
        if not is_whole:
            title = "not all records of this session could be read when the host took it over"
            detail = f"Its own log is kept beside the others as {session}.db{_KEPT}."
            notice = NoticePosted(title=title, description=detail, severity="warning")
            await self._notes.keep(session, notice)
        await self._notes.settled()
        closing_ = closing_events(mine, DIED)
        await close_children(self._journal, mine)
        for turn, event in closing_:
            await self._notes.keep(session, event, turn=turn)
        return is_whole


async def search_all_logs(
    places: Places, words: str, session: SessionId | None, limit: int
) -> list[SearchHit]:
    """Search the host's log and the logs of single sessions, whether a host runs or not.

    Raises:
        JournalError: there is no log at all, or the host's cannot be read.
    """
    index = HistoryIndex(places.state)
    try:
        others = await index.search(words, session=session, limit=limit)
    finally:
        await index.close()
    if others and not await asyncio.to_thread(places.journal_file.exists):
        return others
    async with Journal.open(places.journal_file, write=False) as journal:
        hosted = await journal.query(lambda c: _find_hosted(c, list({h.session for h in others})))
        others = [hit for hit in others if hit.session not in hosted]
        return await search_beside(journal, words, others, session=session, limit=limit)


def _find_hosted(connection: sqlite3.Connection, ids: Sequence[str]) -> set[str]:
    """Which of these sessions the log of the host has."""
    found: set[str] = set()
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'fleet'").fetchone():
        return found  # no host has run with it yet
    for start in range(0, len(ids), _FEW):
        some = ids[start : start + _FEW]
        marks = ", ".join("?" * len(some))
        rows = connection.execute(f"SELECT session FROM fleet WHERE session IN ({marks})", some)
        found.update(row[0] for row in rows)
    return found


def _options_of(opened: SessionOpened) -> SessionOptions:
    return SessionOptions(agent=opened.agent, cwd=opened.cwd, roots=opened.roots)


def _load_entry(path: Path) -> tuple[AgentEntry | None, int]:
    """The agent that a session would be, and the number of its last record. Blocks.

    None if its log does not say what runs it.
    """
    session, entry = SessionId(path.stem), None

    def take(records: list[Record]) -> None:
        nonlocal entry
        for record in records:
            if record.session != session:
                continue
            if entry is None and isinstance(record.event, SessionOpened):
                spawn = SessionSpawned(name=session, options=_options_of(record.event))
                first = Record(seq=record.seq - 1, time=record.time, session=session, event=spawn)
                entry = fold_entry(None, first)
            entry = fold_entry(entry, record)

    read_log_file(path, ENTRY_EVENTS, take)
    with closing(connect_reader(path)) as connection:
        newest = RecordReader(connection, _PAGE_BYTES).before(_END, session=session, limit=1)
    return entry, newest[-1].seq if newest else 0


async def _find_opening(own: Journal, session: SessionId) -> tuple[SessionOpened, int]:
    """How a session began, and when."""
    async for record in own.history(session=session):
        if isinstance(record.event, SessionOpened):
            return record.event, record.time
    raise AgentNotReadyError(
        f"session {session!r} cannot be resumed: its log does not say which agent ran it; "
        "see `quarterdeck journal check`"
    )


def _is_foreign(record: Record) -> bool:
    """Whether a record is damaged, or one that only a newer program understands."""
    return isinstance(record.event, UnknownEvent) and record.event.origin == "log"


def _retire(path: Path, is_whole: bool) -> None:
    """Remove a log whose records are in another; keep it apart if not all could be read.

    Raises:
        OSError: it is as it was.
    """
    if is_whole:
        path.unlink()
        return
    path.replace(path.with_name(path.name + _KEPT))
    # Its latest records may be in the file of writes alone.
    with suppress(OSError):
        wal = path.with_name(path.name + "-wal")
        wal.replace(path.with_name(path.name + _KEPT + "-wal"))


def _clear_up(path: Path) -> None:
    """Remove what is left beside a log that is gone."""
    for beside in path.parent.glob(f"{path.name}*"):
        if _KEPT not in beside.name:
            with suppress(OSError):
                beside.unlink()
