"""The logs of single sessions, listed and searched as one, over an index that follows from them.

``quarterdeck run``, editors and programs that embed our agent keep each session in a log of its
own. Opening thousands of them for every list or search would take seconds, so what was read is
kept in ``history.index`` of the state directory. A log is read again when its file has changed.
The index may be deleted at any time; where it cannot be written a temporary one is used. Any number
of processes read and write it.
"""

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.agent.session_store import find_own_log, read_summary
from quarterdeck.journal import JournalError, SearchHit, SessionSummary
from quarterdeck.journal.indexing import SCHEMA, Indexer
from quarterdeck.journal.records import RecordReader
from quarterdeck.journal.search import SNIPPET, match_expression, split_marks
from quarterdeck.journal.searchable_text import block_text
from quarterdeck.journal.store import connect_reader, transaction
from quarterdeck.wire.decoders import json_decoder
from quarterdeck.wire.events import Prompted
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.private_files import open_private

__all__ = ["HistoryIndex"]

_log = logging.getLogger(__name__)
T = TypeVar("T")
_VERSION = 1
_SLICE = 0.25
"""Seconds after which what was read is committed, so that other processes get their turn."""
_TITLE = 60
_PAGE_BYTES = 1 << 20
_SPARE = 4
"""A passage that was cut is several hits of one place; so many more are looked at."""
_TABLES = (
    # stamp: as the file was when its summary was read; text_stamp: when its text was indexed.
    # settled: up to where its text will not grow; deletions: how many sessions it had lost.
    "CREATE TABLE logs (name TEXT PRIMARY KEY, stamp TEXT, summary BLOB, text_stamp TEXT,"
    " settled INTEGER NOT NULL DEFAULT 0, deletions INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE passages (id INTEGER PRIMARY KEY, log TEXT NOT NULL, session TEXT NOT NULL,"
    " seq INTEGER NOT NULL, time INTEGER NOT NULL, type TEXT NOT NULL, text TEXT NOT NULL)",
    "CREATE INDEX passages_by_log ON passages (log, seq)",
    "CREATE VIRTUAL TABLE words USING fts5(text, content='passages', content_rowid='id',"
    " tokenize='unicode61 remove_diacritics 2')",
)
_ENDS = "('turn_ended', 'session_ended')"
"""Where the text of a session no longer grows."""
_summary_decoder = json_decoder(SessionSummary)


class _LogFile(Struct, frozen=True):
    name: str
    """Without its ending: the session's id."""
    path: Path
    changed: int
    """When it was written last, in nanoseconds since the epoch."""
    stamp: str
    """Changes with the file."""


class HistoryIndex:
    """Lists and searches the sessions in logs of their own; everything is done in one thread.

    A list never waits for the first search, which has to read all logs, but for a slice of it.
    """

    def __init__(self, state: Path) -> None:
        self._directory = state / "sessions"
        self._path = state / "history.index"
        self._threads = ThreadPoolExecutor(1, "quarterdeck-history")
        self._connection: sqlite3.Connection | None = None
        self._is_temporary = False
        self._memory: sqlite3.Connection | None = None
        """The passages of one log at a time."""
        self._pending: list[_LogFile] | None = None
        """Logs whose text is to be indexed, the next one last; None: look which."""

    async def sessions(
        self, *, cwd: str | None = None, agent: str | None = None, limit: int = 50
    ) -> list[SessionSummary]:
        """The sessions that changed last, newest first, of a directory or an agent if given."""

        def is_wanted(one: SessionSummary) -> bool:
            return (cwd is None or one.cwd == cwd) and (agent is None or one.agent == agent)

        return await self._run(lambda: self._list(is_wanted, limit))

    async def search(
        self, words: str, *, session: SessionId | None = None, limit: int = 50
    ) -> list[SearchHit]:
        """The newest passages in which all words occur; see ``Journal.search``."""
        expression = match_expression(words)
        if not expression or limit < 1:
            return []
        await self.catch_up()
        return await self._run(lambda: self._find(expression, session, limit))

    async def catch_up(self, pause: float = 0.0) -> None:
        """Index what logs hold, in slices with a pause of so many seconds between them."""
        is_left = True
        while is_left:
            is_left = await self._run(self._index_slice)
            if is_left:
                await asyncio.sleep(pause)

    async def close(self) -> None:
        """Close the file."""
        self._threads.submit(self._disconnect)
        await asyncio.to_thread(self._threads.shutdown)

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._try, work)

    # From here on: the index's own thread.

    def _try(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except (sqlite3.Error, msgspec.DecodeError) as error:
            _log.info("the index of sessions is made anew: %s", error)
            self._disconnect()
            # One that is locked or cannot be written is good: others use it.
            self._is_temporary = isinstance(error, sqlite3.OperationalError)
            if not self._is_temporary:
                self._remove()
        return work()

    def _list(
        self, is_wanted: Callable[[SessionSummary], bool], limit: int
    ) -> list[SessionSummary]:
        index, found = self._connected(), list[SessionSummary]()
        files = _list_files(self._directory)
        rows = index.execute("SELECT name, stamp, summary FROM logs").fetchall()
        known = {name: (stamp, body) for name, stamp, body in rows}
        fresh: list[tuple[str, str, bytes]] = []
        for file in sorted(files.values(), key=lambda file: file.changed, reverse=True):
            if len(found) >= limit:
                break
            stamp, body = known.get(file.name, (None, None))
            if stamp == file.stamp and body is not None:
                summary = _summary_decoder.decode(body)
            else:
                summary = _read_titled(file.path)
                if summary is not None:
                    fresh.append((file.name, file.stamp, msgspec.json.encode(summary)))
            if summary is not None and is_wanted(summary):
                found.append(summary)
        with transaction(index):
            self._forget(name for name in known if name not in files)
            index.executemany(
                "INSERT INTO logs (name, stamp, summary) VALUES (?, ?, ?) ON CONFLICT (name)"
                " DO UPDATE SET stamp = excluded.stamp, summary = excluded.summary",
                fresh,
            )
        return sorted(found, key=lambda summary: summary.updated, reverse=True)

    def _find(self, expression: str, session: SessionId | None, limit: int) -> list[SearchHit]:
        index = self._connected()
        where, values = "words MATCH ?", [expression]
        if session is not None:
            where += " AND session = ?"
            values.append(session)
        newest = index.execute(
            "SELECT passages.id FROM words JOIN passages ON passages.id = words.rowid"
            f" WHERE {where} ORDER BY time DESC, passages.id DESC LIMIT ?",
            (*values, limit * _SPARE),
        ).fetchall()
        # Cutting a snippet costs more than finding the passage: only of those that are shown.
        marks = ", ".join("?" * len(newest))
        rows = index.execute(
            f"SELECT session, seq, time, type, {SNIPPET} FROM words"
            " JOIN passages ON passages.id = words.rowid"
            f" WHERE words MATCH ? AND words.rowid IN ({marks})"
            " ORDER BY time DESC, passages.id DESC",
            (expression, *(id_ for (id_,) in newest)),
        )
        found: dict[tuple[str, int], SearchHit] = {}
        for id_, seq, when, kind, marked in rows:
            snippet, spans = split_marks(marked)
            hit = SearchHit(
                session=SessionId(id_), seq=seq, type=kind, snippet=snippet, marks=spans, time=when
            )
            found.setdefault((id_, seq), hit)
        return list(found.values())[:limit]

    def _index_slice(self) -> bool:
        """Read what is new in some logs that have changed; False when none is left."""
        if self._pending is None:
            files = _list_files(self._directory)
            if not files and not self._path.exists():
                return False
            index = self._connected()
            known = _load_text_stamps(index)
            with transaction(index):
                self._forget(name for name in known if name not in files)
            changed = [file for file in files.values() if known.get(file.name) != file.stamp]
            # The newest first: it is what people look for.
            self._pending = sorted(changed, key=lambda file: file.changed)
        index, until = self._connected(), time.monotonic() + _SLICE
        with transaction(index):
            while self._pending and time.monotonic() < until:
                self._index_one(index, self._pending.pop())
        if not self._pending:
            self._pending = None
            return False
        return True

    def _index_one(self, index: sqlite3.Connection, file: _LogFile) -> None:
        if self._memory is None:
            self._memory = _make_memory()
        try:
            _index_log(index, file, self._memory)
        except (JournalError, sqlite3.DatabaseError) as error:
            if isinstance(error, sqlite3.Error) and not _is_damaged(file.path):
                raise
            _log.warning("session %s is not searched: %s", file.name, error)
        index.execute(
            "INSERT INTO logs (name, text_stamp) VALUES (?, ?) ON CONFLICT (name)"
            " DO UPDATE SET text_stamp = excluded.text_stamp",
            (file.name, file.stamp),
        )

    def _forget(self, names: Iterable[str]) -> None:
        index = self._connected()
        for name in tuple(names):
            _drop_passages(index, name, -1)
            index.execute("DELETE FROM logs WHERE name = ?", (name,))

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        connection = self._connect()
        try:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, _VERSION):
                connection.close()
                self._remove()
                connection = self._connect()
            with transaction(connection):
                if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    for statement in _TABLES:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {_VERSION}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        if not self._is_temporary:
            try:
                os.close(open_private(self._path, os.O_RDWR | os.O_CREAT))
            except OSError:
                self._is_temporary = True
        if self._is_temporary:
            return sqlite3.connect("", isolation_level=None, check_same_thread=False)
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, timeout=30
        )
        # Losing the last moments of it to a power cut costs only reading the logs again.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        return connection

    def _disconnect(self) -> None:
        for connection in (self._connection, self._memory):
            if connection is not None:
                connection.close()
        self._connection = self._memory = self._pending = None

    def _remove(self) -> None:
        for end in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + end).unlink(missing_ok=True)


def _list_files(directory: Path) -> dict[str, _LogFile]:
    """The logs by their names, as they are now; one directory is read, and each log looked at."""
    stats: dict[str, os.stat_result] = {}
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.startswith("ses_") and entry.name.endswith((".db", ".db-wal")):
                    try:
                        stats[entry.name] = entry.stat()
                    except OSError:
                        continue  # it was deleted meanwhile
    except OSError:
        return {}
    found: dict[str, _LogFile] = {}
    for name, stat in stats.items():
        id_ = name.removesuffix(".db")
        path = find_own_log(directory, id_)
        if path is None:
            continue
        changed, stamp = stat.st_mtime_ns, f"{stat.st_ino} {stat.st_mtime_ns} {stat.st_size}"
        # Reading a log leaves an empty file of writes beside it; that is no change.
        if (wal := stats.get(f"{name}-wal")) is not None and wal.st_size:
            changed = max(changed, wal.st_mtime_ns)
            stamp += f" {wal.st_mtime_ns} {wal.st_size}"
        found[id_] = _LogFile(id_, path, changed, stamp)
    return found


def _read_titled(path: Path) -> SessionSummary | None:
    """The summary of a log; one without a title has the beginning of its first prompt."""
    summary = read_summary(path)
    if summary is None or summary.title or summary.damage:
        return summary
    with suppress(JournalError, sqlite3.Error), closing(connect_reader(path)) as log:
        reader = RecordReader(log, _PAGE_BYTES)
        first = reader.after(0, session=summary.id, limit=1, types=("prompted",))
        if first and isinstance(first[0].event, Prompted):
            words = " ".join(block_text(block) for block in first[0].event.content)
            return replace(summary, title=" ".join(words.split())[:_TITLE] or None)
    return summary


def _load_text_stamps(index: sqlite3.Connection) -> Mapping[str, str | None]:
    return dict(index.execute("SELECT name, text_stamp FROM logs").fetchall())


def _index_log(index: sqlite3.Connection, file: _LogFile, memory: sqlite3.Connection) -> None:
    """Bring the passages of one log up to date: those after the last turn that had ended."""
    row = index.execute(
        "SELECT settled, deletions FROM logs WHERE name = ?", (file.name,)
    ).fetchone()
    settled, deletions = row or (0, 0)
    for table in ("state", "passages", "growing", "outputs"):
        memory.execute(f"DELETE FROM {table}")
    with closing(connect_reader(file.path)) as log:
        (lost,) = log.execute("SELECT coalesce(max(number), 0) FROM deletions").fetchone()
        (last,) = log.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
        if lost != deletions or last < settled:
            settled = 0
        memory.execute("INSERT INTO state VALUES (?, ?, 0)", (file.name, settled))
        indexer = Indexer(memory, log)
        while indexer.advance():
            pass
        _drop_passages(index, file.name, settled)
        for session, seq, kind, text in memory.execute(
            "SELECT session, seq, type, text FROM passages ORDER BY id"
        ):
            when = log.execute("SELECT time FROM events WHERE seq = ?", (seq,)).fetchone()
            passage = index.execute(
                "INSERT INTO passages (log, session, seq, time, type, text)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (file.name, session, seq, when[0] if when else 0, kind, text),
            ).lastrowid
            index.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (passage, text))
        (ended,) = log.execute(
            f"SELECT max(seq) FROM events WHERE seq > ? AND type IN {_ENDS}"
            " AND session = (SELECT key FROM session_ids WHERE id = ?)",
            (settled, file.name),
        ).fetchone()
    index.execute(
        "INSERT INTO logs (name, settled, deletions) VALUES (?, ?, ?) ON CONFLICT (name)"
        " DO UPDATE SET settled = excluded.settled, deletions = excluded.deletions",
        (file.name, ended or settled, lost),
    )


def _make_memory() -> sqlite3.Connection:
    """An empty index of one log, as ``Indexer`` fills it."""
    memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    for statement in SCHEMA:
        if "VIRTUAL TABLE" not in statement:
            memory.execute(statement)
    # Its passages are indexed once, where they are kept.
    memory.execute("CREATE VIEW words AS SELECT 0 AS rowid, '' AS text, '' AS words")
    memory.execute("CREATE TRIGGER skip INSTEAD OF INSERT ON words BEGIN SELECT 1; END")
    return memory


def _drop_passages(index: sqlite3.Connection, name: str, after: int) -> None:
    rows = index.execute(
        "DELETE FROM passages WHERE log = ? AND seq > ? RETURNING id, text", (name, after)
    ).fetchall()
    index.executemany("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", rows)


def _is_damaged(path: Path) -> bool:
    """Whether an error was the log's and not the index's: it cannot be read by itself."""
    try:
        with closing(connect_reader(path)) as log:
            log.execute("SELECT count(body) FROM events").fetchone()
    except (JournalError, sqlite3.Error):
        return True
    return False
