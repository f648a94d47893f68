"""Full-text search over all messages and calls, in an index beside the log.

The index is a file of its own, ``<log>.search``: it follows from the log, so it can be deleted at
any time, and writing it never holds up an append. Where the directory cannot be written the
index is a temporary file.
"""

import asyncio
import contextlib
import logging
import re
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.private_files import open_private

from .errors import (
    JournalClosedError,
    JournalCorruptError,
    JournalUnreachableError,
    is_faulty_statement,
    translate_error,
)
from .indexing import SCHEMA, Indexer
from .search_hit import SearchHit
from .store import connect_reader, last_seq, transaction

__all__ = ["SNIPPET", "SearchHit", "SearchIndex", "match_expression", "split_marks"]

_log = logging.getLogger(__name__)
T = TypeVar("T")
_VERSION = 1
_BEGIN, _END = "\x02", "\x03"
_WORDS_AROUND = 24
SNIPPET = f"snippet(words, 0, '{_BEGIN}', '{_END}', '…', {_WORDS_AROUND})"
"""The column of a query that gives a passage around its matches; ``split_marks`` reads it."""
_TERM = re.compile(r'"([^"]*)"?|([^\s"]+)')
_ODD = re.compile(r"[\x00-\x1f\ud800-\udfff]")


def match_expression(query: str) -> str:
    """Turn what a person typed into an expression that the index accepts; may be empty."""
    terms: list[str] = []
    for phrase, word in _TERM.findall(_ODD.sub(" ", query)):
        term = phrase or word
        is_beginning = bool(word) and word.endswith("*")
        # What has no letter or digit is no word to the index.
        if any(character.isalnum() for character in term):
            terms.append(f'"{term}"' + ("*" if is_beginning else ""))
    return " ".join(terms)


class SearchIndex:
    """The index of one log, in a thread of its own."""

    def __init__(self, log: Path) -> None:
        self._log_path = log
        self._path = log.with_name(log.name + ".search")
        self._threads = ThreadPoolExecutor(1, "quarterdeck-journal-search")
        self._index: sqlite3.Connection | None = None
        self._log: sqlite3.Connection | None = None
        self._indexer: Indexer | None = None
        self._closed = False

    async def catch_up(self) -> None:
        """Index what the log holds, in short slices.

        Raises:
            JournalError: the log could not be read, or the index not be written.
        """
        while await self._run(self._advance):
            pass

    async def find(self, query: str, session: SessionId | None, limit: int) -> list[SearchHit]:
        """The newest passages that match; see ``Journal.search``."""
        expression = match_expression(query)
        if not expression or limit < 1:
            return []
        return await self._run(lambda: self._find(expression, session, limit))

    async def close(self) -> None:
        """Wait for what runs and close the files."""
        self._closed = True
        await asyncio.to_thread(self._close)

    async def _run(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise JournalClosedError(self._log_path)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._try, work)

    # From here on: the index's own thread.

    def _try(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except sqlite3.Error as error:
            found = translate_error(error, self._path)
            if not isinstance(found, JournalCorruptError) and not is_faulty_statement(error):
                raise found from error
        except (TypeError, ValueError, LookupError) as error:
            _log.info("rebuilding the search index: %r", error)
        # Whatever is wrong with it, the log can make it anew; unless the log is what is damaged.
        self._disconnect()
        self._remove()
        try:
            return work()
        except sqlite3.Error as error:
            raise JournalCorruptError(self._log_path, str(error)) from error
        except (TypeError, ValueError, LookupError) as error:
            raise JournalCorruptError(self._log_path, repr(error)) from error

    def _connected(self) -> tuple[sqlite3.Connection, Indexer]:
        if self._index is None or self._indexer is None:
            self._log = connect_reader(self._log_path)
            (identity,) = self._log.execute("SELECT id FROM identity").fetchone()
            self._index = self._open_index(identity, last_seq(self._log))
            self._indexer = Indexer(self._index, self._log)
        return self._index, self._indexer

    def _open_index(self, identity: str, last: int) -> sqlite3.Connection:
        connection = self._connect()
        try:
            if _belongs(connection, identity, last):
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        self._remove()
        connection = self._connect()
        with transaction(connection):
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                for statement in SCHEMA:
                    connection.execute(statement)
                connection.execute("INSERT INTO state VALUES (?, 0, 0)", (identity,))
                connection.execute(f"PRAGMA user_version = {_VERSION}")
        return connection

    def _connect(self) -> sqlite3.Connection:
        try:
            handle = open(self._path, "ab", opener=_private)  # noqa: SIM115
        except OSError:
            return sqlite3.connect("", isolation_level=None, check_same_thread=False)
        handle.close()
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, timeout=30
        )
        # Losing the last moments of the index to a power cut costs only indexing them again.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        return connection

    def _advance(self) -> bool:
        _, indexer = self._connected()
        return indexer.advance()

    def _find(self, expression: str, session: SessionId | None, limit: int) -> list[SearchHit]:
        index, _ = self._connected()
        where, values = "words MATCH ?", [expression]
        if session is not None:
            where += " AND session = ?"
            values.append(session)
        rows = index.execute(
            f"SELECT session, seq, type, {SNIPPET} FROM words"
            f" JOIN passages ON passages.id = words.rowid WHERE {where}"
            " ORDER BY words.rowid DESC",
            values,
        )
        with contextlib.closing(rows):
            return list(_distinct(rows, limit))

    def _disconnect(self) -> None:
        for connection in (self._index, self._log):
            if connection is not None:
                connection.close()
        self._index = self._log = self._indexer = None

    def _remove(self) -> None:
        try:
            for end in ("", "-wal", "-shm"):
                self._path.with_name(self._path.name + end).unlink(missing_ok=True)
        except OSError as error:
            raise JournalUnreachableError(self._path, str(error)) from error

    def _close(self) -> None:
        self._threads.submit(self._disconnect)
        self._threads.shutdown(wait=True)


def _belongs(connection: sqlite3.Connection, identity: str, last: int) -> bool:
    """Whether an index is of our version, of this log, and not ahead of it."""
    if connection.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
        return False
    row = connection.execute("SELECT log, through FROM state").fetchone()
    return row is not None and row[0] == identity and row[1] <= last


def _distinct(rows: Iterator[tuple[str, int, str, str]], limit: int) -> Iterator[SearchHit]:
    seen: set[int] = set()
    for session, seq, kind, marked in rows:
        if seq in seen:
            continue
        seen.add(seq)
        snippet, marks = split_marks(marked)
        yield SearchHit(
            session=SessionId(session), seq=seq, type=kind, snippet=snippet, marks=marks
        )
        if len(seen) == limit:
            return


def split_marks(marked: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text of a ``SNIPPET``, and begin and end of each match within it."""
    text, marks, begin = "", list[tuple[int, int]](), None
    for part in re.split(f"([{_BEGIN}{_END}])", marked):
        if part == _BEGIN:
            begin = len(text)
        elif part == _END:
            if begin is not None:
                marks.append((begin, len(text)))
            begin = None
        else:
            text += part
    return text, tuple(marks)


def _private(path: str, flags: int) -> int:
    return open_private(path, flags)
