"""The reading half of the journal: pages, followers, queries, search; reads run off the event
loop.
"""

import asyncio
import sqlite3
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from quarterdeck.wire.events import Event
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record, encode_record

from .damage import note_damage
from .errors import (
    DATABASE_ERRORS,
    JournalClosedError,
    JournalCorruptError,
    is_faulty_statement,
    translate_reading_errors,
)
from .limits import JournalLimits
from .records import RecordReader
from .sessions import SessionSummary, list_sessions, list_sessions_carefully
from .store import connect_reader

if TYPE_CHECKING:
    from .check import CheckReport
    from .search import SearchHit, SearchIndex

__all__ = ["ReadableJournal", "ReaderPool", "RecentRecords"]

_LOOK = 512


def _seq(record: Record) -> int:
    return record.seq


_ALL_KINDS: frozenset[type[Event]] = frozenset()


class _Interest(NamedTuple):
    """What a follower wants of the log; nothing given: all."""

    session: SessionId | None
    kinds: frozenset[type[Event]]

    def choose(self, records: list[Record]) -> list[Record]:
        """Those of interest."""
        session, kinds = self
        if session is not None:
            records = [record for record in records if record.session == session]
        if kinds:
            records = [record for record in records if type(record.event) in kinds]
        return records


class RecentRecords:
    """The newest records in memory, and the followers that wait for the next.

    Bounded in number and bytes. A follower waits for its own session only, so a batch wakes those
    it concerns; being woken it learns where that batch began, and skips what it need not look at.
    Used in the event loop's thread only.
    """

    def __init__(self, last: int, limits: JournalLimits) -> None:
        self.last = last
        """The newest sequence number that has been published."""
        self.closed = False
        self._after = last  # every published record beyond this one is in the window
        self._records: list[Record] = []
        self._sizes: list[int] = []
        self._bytes = 0
        self._limits = limits
        self._waiters: dict[_Interest, set[asyncio.Future[int]]] = {}
        self._selective: set[_Interest] = set()
        """Of those that wait, the ones that want only some kinds."""
        self._wanted = asyncio.Event()

    def publish(self, records: Sequence[Record], sizes: Sequence[int]) -> None:
        """Add committed records, in order, and wake the followers that they concern."""
        if not records:
            return
        self._records.extend(records)
        self._sizes.extend(sizes)
        self._bytes += sum(sizes)
        self.last = records[-1].seq
        self._trim()
        if self._waiters:
            before = records[0].seq - 1
            sessions: set[SessionId | None] = {record.session for record in records}
            sessions.add(None)
            for session in sessions:
                self._wake(_Interest(session, _ALL_KINDS), before)
            if self._selective:
                kinds = {type(record.event) for record in records}
                for one in tuple(self._selective):
                    if one.session in sessions and not one.kinds.isdisjoint(kinds):
                        self._wake(one, before)

    def since(self, position: int, interest: "_Interest") -> tuple[list[Record], int] | None:
        """What follows ``position`` and how far that reaches; None: it must come from disk."""
        if position < self._after:
            return None
        start = bisect_right(self._records, position, key=_seq)
        found = self._records[start : start + _LOOK]
        if not found:
            return [], position
        return interest.choose(found), found[-1].seq

    async def wait(self, position: int, interest: "_Interest") -> int:
        """Wait for something new that is of interest, or for the end.

        Returns the position up to which nothing new needs to be looked at.
        """
        future = asyncio.get_running_loop().create_future()
        waiting = self._waiters.setdefault(interest, set())
        waiting.add(future)
        if interest.kinds:
            self._selective.add(interest)
        self._wanted.set()
        try:
            return max(position, await future)
        finally:
            waiting.discard(future)
            if not waiting and self._waiters.get(interest) is waiting:
                del self._waiters[interest]
                self._selective.discard(interest)
            if not self._waiters:
                self._wanted.clear()

    async def wanted(self) -> None:
        """Return once someone waits."""
        await self._wanted.wait()

    def forget(self, session: SessionId) -> None:
        """Drop a deleted session from the window."""
        kept = [
            (record, size)
            for record, size in zip(self._records, self._sizes, strict=True)
            if record.session != session
        ]
        self._records = [record for record, _ in kept]
        self._sizes = [size for _, size in kept]
        self._bytes = sum(self._sizes)

    def close(self) -> None:
        """End all followers."""
        self.closed = True
        for interest in list(self._waiters):
            self._wake(interest, 0)

    def _wake(self, interest: "_Interest", before: int) -> None:
        self._selective.discard(interest)
        for future in self._waiters.pop(interest, ()):
            if not future.done():
                future.set_result(before)

    def _trim(self) -> None:
        limits = self._limits
        # Cut well below the bounds at once: deleting from a list's head moves the rest.
        if len(self._records) <= limits.recent_events and self._bytes <= limits.recent_bytes:
            return
        cut = max(0, len(self._records) - limits.recent_events * 3 // 4)
        kept = self._bytes - sum(self._sizes[:cut])
        while kept > limits.recent_bytes * 3 // 4 and cut < len(self._records):
            kept -= self._sizes[cut]
            cut += 1
        self._after = self._records[cut - 1].seq
        del self._records[:cut], self._sizes[:cut]
        self._bytes = kept


T = TypeVar("T")
_THREADS = 2


class ReaderPool:
    """Runs functions over read-only connections; opens them as they are first needed."""

    def __init__(self, path: Path, page_bytes: int) -> None:
        self._path = path
        self._page_bytes = page_bytes
        self._threads = ThreadPoolExecutor(_THREADS, "quarterdeck-journal-reader")
        self._idle: list[RecordReader] = []
        self._guard = Lock()
        self._closed = False

    async def run(self, work: Callable[[RecordReader], T]) -> T:
        """Run ``work`` in a reader's thread.

        Raises:
            JournalError: the file failed, or the readers are closed.
            sqlite3.Error: ``work`` asked something that the database does not understand.
        """
        if self._closed:
            raise JournalClosedError(self._path)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, work)

    def damaged(self) -> Counter[SessionId]:
        """How many damaged records of each session the readers have come upon."""
        with self._guard:
            found = {seq: id_ for reader in self._idle for seq, id_ in reader.damaged.items()}
        return Counter(found.values())

    async def close(self) -> None:
        """Wait for what runs and close the connections."""
        self._closed = True
        await asyncio.to_thread(self._close)

    def _run(self, work: Callable[[RecordReader], T]) -> T:
        with self._guard:
            reader = self._idle.pop() if self._idle else None
        try:
            if reader is None:
                reader = RecordReader(connect_reader(self._path), self._page_bytes)
            return work(reader)
        except DATABASE_ERRORS as error:
            if is_faulty_statement(error):
                raise
            raise translate_reading_errors(error, self._path) from error
        except msgspec.DecodeError as error:
            # What a projection keeps is not guarded by checksums; it follows from the log.
            raise JournalCorruptError(self._path, f"what was computed from it: {error}") from error
        finally:
            if reader is not None:
                with self._guard:
                    self._idle.append(reader)

    def _close(self) -> None:
        self._threads.shutdown(wait=True)
        while self._idle:
            self._idle.pop().connection.close()


_PAGE = 1_000


class ReadableJournal:
    """What can be done with a log without writing to it.

    Only durable records are seen. Everything works alike in the process that writes and in any
    other.
    """

    def __init__(self, path: Path, limits: JournalLimits, recent: RecentRecords) -> None:
        """Only ``Journal.open`` makes journals."""
        self.path = path
        self._limits = limits
        self._recent = recent
        self._readers = ReaderPool(path, limits.page_bytes)

    @cached_property
    def _search(self) -> "SearchIndex":
        # Imported here, because most sessions end without a search.
        from .search import SearchIndex

        if self._recent.closed:
            raise JournalClosedError(self.path)
        return SearchIndex(self.path)

    @property
    def last(self) -> int:
        """The newest sequence number that readers and followers can see."""
        return self._recent.last

    @property
    def damaged(self) -> int:
        """How many damaged records reading has come upon since the log was opened."""
        return self._readers.damaged().total()

    async def read(
        self, after: int = 0, session: SessionId | None = None, limit: int = _PAGE
    ) -> list[Record]:
        """The durable records that follow ``after``, in order.

        A page may be shorter than ``limit`` when its records are large; only an empty page
        means the end.
        """
        return await self._readers.run(lambda r: r.after(after, session=session, limit=limit))

    async def tail(
        self, session: SessionId | None = None, before: int | None = None, limit: int = 100
    ) -> list[Record]:
        """The last records, or the last of those before ``before``, in ascending order.

        Page backwards with ``before=page[0].seq``; only an empty page means the beginning.
        """
        end = 1 << 62 if before is None else before
        return await self._readers.run(lambda r: r.before(end, session=session, limit=limit))

    async def history(
        self, after: int = 0, session: SessionId | None = None
    ) -> AsyncGenerator[Record, None]:
        """All durable records that follow ``after``, to the end of the log, page by page."""
        while records := await self.read(after, session):
            for record in records:
                yield record
            after = records[-1].seq

    async def follow(
        self,
        after: int = 0,
        session: SessionId | None = None,
        *,
        kinds: frozenset[type[Event]] = _ALL_KINDS,
    ) -> AsyncGenerator[Record, None]:
        """All records that follow ``after``, then each new one; ends when the journal closes.

        Every record comes once, in order, and only when it is durable. However slow, a follower
        holds up no one and costs no memory: what it has missed it reads from disk. ``kinds``: only
        these events, if any are given; the others do not even wake the follower.
        """
        recent, position, interest = self._recent, after, _Interest(session, kinds)
        while True:
            found = recent.since(position, interest)
            if found is None:
                published = recent.last
                try:
                    records = await self.read(position, session)
                except JournalClosedError:
                    return
                position = records[-1].seq if records else max(position, published)
                records = interest.choose(records)
            else:
                records, position = found
            for record in records:
                yield record
            if position >= recent.last:
                if recent.closed:
                    return
                position = await recent.wait(position, interest)

    async def query(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` over a read-only connection in a reader's thread; for projections.

        Raises:
            JournalError: the file could not be read.
            sqlite3.Error: ``work`` asked something that the database does not understand.
        """
        return await self._readers.run(lambda reader: work(reader.connection))

    async def sessions(
        self, *, limit: int = _PAGE, before: int | None = None
    ) -> list[SessionSummary]:
        """The sessions opened last, newest first; ``before`` is an ``opened`` time to page on.

        Those that are known to be damaged say so (``SessionSummary.damage``).
        """
        return await self._readers.run(lambda reader: self._sessions(reader, limit, before))

    async def count(self, session: SessionId | None = None) -> int:
        """How many events the log or a session has; takes time in proportion."""
        return await self._readers.run(lambda reader: reader.count(session))

    async def search(
        self, query: str, session: SessionId | None = None, limit: int = 50
    ) -> "list[SearchHit]":
        """Find text in all messages and calls, newest first; brings the index up to date before.

        All words must occur in one passage; ``"several words"`` is a phrase, ``word*`` a
        beginning. No query is an error.
        """
        await self._search.catch_up()
        return await self._search.find(query, session, limit)

    async def check(self) -> "CheckReport":
        """Examine the whole file and every record; takes time in proportion to its size.

        What it finds is kept beside the log, so that damaged sessions are listed as such.
        """
        from .check import check_journal
        from .damage import replace_damage

        report = await self._readers.run(check_journal)
        await asyncio.to_thread(replace_damage, self.path, report.damaged)
        return report

    async def export(
        self, session: SessionId | None = None, after: int = 0
    ) -> AsyncGenerator[bytes, None]:
        """The records as JSON lines (``wire.record``'s form), each with its newline."""
        async for record in self.history(after, session):
            yield encode_record(record) + b"\n"

    def _sessions(
        self, reader: RecordReader, limit: int, before: int | None
    ) -> list[SessionSummary]:
        try:
            found = list_sessions(reader.connection, limit=limit, before=before)
        except (sqlite3.DatabaseError, TypeError, ValueError):
            found = list_sessions_carefully(reader, limit=limit, before=before)
        from .damage import read_damage

        damage = read_damage(self.path)
        return [replace(one, damage=damage.get(one.id)) for one in found] if damage else found

    async def _keep_damage(self) -> None:
        """Record damage that was found in passing, so that lists of sessions can show it."""
        if found := self._readers.damaged():
            await asyncio.to_thread(note_damage, self.path, found)
