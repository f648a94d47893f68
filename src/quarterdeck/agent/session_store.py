"""Where the sessions of standalone agents live: one log for each, in one directory.

A host owns one log for all of its sessions. A process without a host (a script, an editor's
child) keeps each session in a log of its own, so that any number of such processes can run side
by side; the log's lock makes sure that no session is open twice.
"""

import asyncio
import re
import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing, suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from msgspec.structs import replace

from quarterdeck.journal import Journal, SessionSummary
from quarterdeck.journal.records import RecordReader
from quarterdeck.journal.sessions import list_sessions, list_sessions_carefully
from quarterdeck.journal.store import VERSION, connect_reader
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.ids import SessionId

__all__ = [
    "NoSuchSessionError",
    "SessionStorage",
    "SessionStore",
    "find_own_log",
    "read_summary",
]

_ALL = -1
_PAGE_BYTES = 16 << 20
_ID = re.compile(r"ses_[0-9a-z]{26}")


class NoSuchSessionError(QuarterdeckError):
    """There is no session of that id."""

    def __init__(self, id_: str, *, agent: str | None = None) -> None:
        if agent is None:
            text = f"there is no session {id_!r}; `quarterdeck sessions` lists them"
        else:
            text = f"session {id_!r} belongs to {agent}; continue it with -a {agent}"
        super().__init__(text)
        self.id = id_


class SessionStorage(Protocol):
    """Where an agent's sessions are kept; see ``SessionStore`` for what its methods do."""

    def create(self, id_: SessionId) -> AbstractAsyncContextManager[Journal]:
        """Open the log of a new session."""
        ...

    async def open(self, id_: str) -> AbstractAsyncContextManager[Journal]:
        """Open the log of a session that exists. Raises NoSuchSessionError, JournalLockedError."""
        ...

    async def sessions(
        self,
        *,
        cwd: str | None = None,
        agent: str | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> list[SessionSummary]:
        """The sessions that changed last, newest first."""
        ...

    async def delete(self, id_: str) -> bool:
        """Delete a session for good; False if there was none."""
        ...


class SessionStore:
    """The sessions in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def create(self, id_: SessionId) -> AbstractAsyncContextManager[Journal]:
        """Open the log of a new session."""
        return Journal.open(self._path(id_), owns_directory=True)

    async def open(self, id_: str) -> AbstractAsyncContextManager[Journal]:
        """Open the log of a session that exists.

        Raises:
            NoSuchSessionError: there is none.
            JournalLockedError: when it is entered: another process has the session open.
        """
        path = self._path(id_)
        if not await asyncio.to_thread(path.is_file):
            raise NoSuchSessionError(id_)
        return Journal.open(path, owns_directory=True)

    async def sessions(
        self,
        *,
        cwd: str | None = None,
        agent: str | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> list[SessionSummary]:
        """The sessions that changed last, newest first; ``before`` is an ``updated`` time."""

        def wanted(found: SessionSummary) -> bool:
            return (
                (cwd is None or found.cwd == cwd)
                and (agent is None or found.agent == agent)
                and (before is None or found.updated < before)
            )

        return await asyncio.to_thread(self._list, wanted, limit)

    async def summary(self, id_: str) -> SessionSummary | None:
        """What is known of one session; None if there is none."""
        return await asyncio.to_thread(read_summary, self._path(id_))

    async def delete(self, id_: str) -> bool:
        """Delete a session for good; False if there was none.

        Raises:
            JournalLockedError: it is open.
        """
        path = self._path(id_)
        if not await asyncio.to_thread(path.is_file):
            return False
        async with Journal.open(path):  # no other process may have it open
            pass
        await asyncio.to_thread(_remove, path)
        return True

    def _path(self, id_: str) -> Path:
        path = find_own_log(self._directory, id_)
        if path is None:
            raise NoSuchSessionError(id_)
        return path

    def _list(self, wanted: Callable[[SessionSummary], bool], limit: int) -> list[SessionSummary]:
        found: list[SessionSummary] = []
        for path in self._newest_first():
            summary = read_summary(path)
            if summary is not None and wanted(summary):
                found.append(summary)
            if len(found) >= limit:
                break
        return sorted(found, key=lambda summary: summary.updated, reverse=True)

    def _newest_first(self) -> list[Path]:
        paths = [path for path in self._directory.glob("ses_*.db") if _ID.fullmatch(path.stem)]
        return sorted(paths, key=_changed, reverse=True)


def find_own_log(directory: Path, id_: str) -> Path | None:
    """Where the log of a session is, if it has one of its own; None if this can be no id."""
    return directory / f"{id_}.db" if _ID.fullmatch(id_) else None


def _changed(path: Path) -> float:
    """When a log was last written to: its latest commits may be in the write-ahead log alone."""
    times = [0.0]
    for suffix in ("", "-wal"):
        # Another process may delete it meanwhile.
        with suppress(FileNotFoundError):
            times.append(path.with_name(path.name + suffix).stat().st_mtime)
    return max(times)


def read_summary(path: Path) -> SessionSummary | None:
    """A session's row in its own log; None for a log that says nothing yet. Blocks.

    One that is damaged, or was written by a newer version, is known at the least by its id.
    """
    try:
        with closing(
            sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
        ) as connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] > VERSION:
                return _unreadable_summary(path, "from a newer version; upgrade to open it")
            rows = list_sessions(connection, limit=_ALL, before=None)
    except sqlite3.OperationalError:
        return None  # another process makes it just now, or it may not be read
    except (sqlite3.DatabaseError, TypeError, ValueError):
        return _damaged_summary(path)
    # Agents that the session has started are in its log, too.
    found = next((row for row in rows if row.id == path.stem), None)
    beside = path.with_name(path.name + ".damage")
    if found is not None and beside.exists():
        from quarterdeck.journal.damage import read_damage

        return replace(found, damage=read_damage(path).get(found.id))
    return found


def _damaged_summary(path: Path) -> SessionSummary:
    """What is left of a session whose log is damaged; at the least that there was one."""
    # Imported here: hardly any log is damaged, and every start would pay for it.
    from quarterdeck.journal.damage import read_damage

    id_ = SessionId(path.stem)
    try:
        with closing(connect_reader(path)) as connection:
            rows = list_sessions_carefully(RecordReader(connection, _PAGE_BYTES), limit=_ALL)
    except (sqlite3.Error, QuarterdeckError):
        rows = []
    found = next((row for row in rows if row.id == id_), None)
    damage = read_damage(path).get(id_) or "damaged; see `quarterdeck journal check`"
    if found is not None:
        return replace(found, damage=damage)
    return _unreadable_summary(path, damage)


def _unreadable_summary(path: Path, damage: str) -> SessionSummary:
    changed = int(_changed(path) * 1_000_000)
    return SessionSummary(
        id=SessionId(path.stem),
        agent="?",
        cwd="",
        title=None,
        model=None,
        parent=None,
        forked_from=None,
        transport=None,
        agent_session=None,
        opened=changed,
        updated=changed,
        last_seq=0,
        ended=None,
        reason=None,
        damage=damage,
    )


def _remove(path: Path) -> None:
    """Delete a log and all beside it; the log itself first, so that it is gone at once."""
    path.unlink(missing_ok=True)
    for beside in path.parent.glob(f"{path.name}*"):
        beside.unlink(missing_ok=True)
