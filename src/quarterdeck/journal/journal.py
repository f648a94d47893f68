"""The log as the rest of the program sees it."""

import asyncio
import errno
import logging
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from quarterdeck.wire.events import Event
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId
from quarterdeck.wire.record import Record, encode_record

from .appender import Appender
from .check import Report, examine
from .deletion import delete_slice, note_deletion
from .errors import JournalClosed, JournalError, ReadOnly, Stalled, Unreachable
from .limits import Limits
from .projections import Projection
from .readers import Readers
from .recent import Recent
from .search import Hit, SearchIndex
from .sessions import Sessions, SessionSummary, list_sessions
from .store import last_seq, transaction
from .watch import watch
from .writer import Desk, Writer

__all__ = ["Journal", "now"]

_log = logging.getLogger(__name__)
T = TypeVar("T")
_PAGE = 1_000


def now() -> int:
    """Microseconds since the epoch, UTC."""
    return time.time_ns() // 1_000


class Journal:
    """The append-only log of every event of every session.

    One process writes, any number read. An event has its place from the moment ``append``
    returns; it is safe from a crash and from power loss once ``durable`` returns, and only then
    do readers and followers, here and in other processes, see it.
    """

    def __init__(self, path: Path, limits: Limits, recent: Recent) -> None:
        """Only ``open`` makes journals."""
        self.path = path
        self._limits = limits
        self._recent = recent
        self._readers = Readers(path, limits.page_bytes)
        self._search = SearchIndex(path)
        self._appender: Appender | None = None
        self._writer: Writer | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: str | Path,
        *,
        write: bool = True,
        projections: Sequence[Projection] = (),
        clock: Callable[[], int] = now,
        limits: Limits | None = None,
    ) -> AsyncGenerator["Journal", None]:
        """Open the log at ``path``; with ``write`` make it and its directory where missing.

        On leaving, what was appended is committed and followers end.

        Raises:
            Locked: another process writes it.
            JournalError: it cannot be opened; see ``journal.errors``.
            Stalled: on leaving, when what was pending could not be written.
        """
        path, limits = Path(path), limits or Limits()
        if write:
            journal = await cls._open_to_write(path, projections, clock, limits)
        else:
            journal = await cls._open_to_read(path, limits)
        try:
            yield journal
        finally:
            await journal._close()

    @classmethod
    async def _open_to_write(
        cls,
        path: Path,
        projections: Sequence[Projection],
        clock: Callable[[], int],
        limits: Limits,
    ) -> "Journal":
        await asyncio.to_thread(_make_directory, path)
        appender = Appender(path, clock, limits)
        writer = Writer(path, (Sessions(), *projections), limits, appender)
        recent = Recent(await writer.start(), limits)
        appender.begin(writer, recent)
        journal = cls(path, limits, recent)
        journal._appender, journal._writer = appender, writer
        journal._keep_running(journal._index_now_and_then())
        return journal

    @classmethod
    async def _open_to_read(cls, path: Path, limits: Limits) -> "Journal":
        recent = Recent(0, limits)
        journal = cls(path, limits, recent)
        try:
            last = await journal._readers.run(lambda reader: last_seq(reader.connection))
        except BaseException:
            await journal._close()
            raise
        journal._recent = recent = Recent(last, limits)
        journal._keep_running(watch(path, recent, limits))
        return journal

    @property
    def last(self) -> int:
        """The newest sequence number that readers and followers can see."""
        return self._recent.last

    @property
    def stalled(self) -> Stalled | None:
        """Why nothing can be written at the moment, or None when all is well."""
        return self._appender and self._appender.stall

    @property
    def failed_projections(self) -> dict[str, str]:
        """Projections that raised and were set aside, with what they raised."""
        return self._writer.failed if self._writer is not None else {}

    async def append(
        self,
        session: SessionId,
        event: Event,
        *,
        turn: TurnId | None = None,
        parent: ToolCallId | None = None,
    ) -> Record:
        """Give an event its place in the log; it is durable a little later.

        Waits only while more is pending than ``Limits`` allow.

        Raises:
            Stalled: the disk fails and nothing more can be kept; the event was not taken on.
            Unrecordable: the event has no JSON form.
            ReadOnly: the journal was opened for reading.
        """
        return await self._writing().append(session, event, turn, parent)

    async def append_many(
        self,
        session: SessionId,
        events: Sequence[Event],
        *,
        turn: TurnId | None = None,
        parent: ToolCallId | None = None,
    ) -> list[Record]:
        """Append events of one session in order; raises like ``append``, at the first failure."""
        appender = self._writing()
        return [await appender.append(session, event, turn, parent) for event in events]

    async def durable(self, seq: int) -> None:
        """Wait until the event numbered ``seq`` and all before it are safely on disk.

        Raises:
            Stalled: they could not be written so far; they are kept and will be tried again.
            ValueError: there is no such event yet.
        """
        await self._writing().durable(seq)

    async def commit(
        self,
        session: SessionId,
        event: Event,
        *,
        turn: TurnId | None = None,
        parent: ToolCallId | None = None,
    ) -> Record:
        """Append an event and wait until it is durable; raises like both."""
        appender = self._writing()
        record = await appender.append(session, event, turn, parent)
        await appender.durable(record.seq)
        return record

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
        self, after: int = 0, session: SessionId | None = None
    ) -> AsyncGenerator[Record, None]:
        """All records that follow ``after``, then each new one; ends when the journal closes.

        Every record comes once, in order, and only when it is durable. However slow, a follower
        holds up nobody and costs no memory: what it has missed it reads from disk.
        """
        recent, position = self._recent, after
        while True:
            found = recent.since(position, session)
            if found is None:
                published = recent.last
                try:
                    records = await self.read(position, session)
                except JournalClosed:
                    return
                position = records[-1].seq if records else max(position, published)
            else:
                records, position = found
            for record in records:
                yield record
            if position >= recent.last:
                if recent.closed:
                    return
                position = await recent.wait(position, session)

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
        """The sessions opened last, newest first; ``before`` is an ``opened`` time to page on."""
        return await self.query(lambda c: list_sessions(c, limit=limit, before=before))

    async def count(self, session: SessionId | None = None) -> int:
        """How many events the log or a session has; takes time in proportion."""
        return await self._readers.run(lambda reader: reader.count(session))

    async def search(
        self, query: str, session: SessionId | None = None, limit: int = 50
    ) -> list[Hit]:
        """Find text in all that was said, newest first; brings the index up to date before.

        All words must occur in one passage; ``"several words"`` is a phrase, ``word*`` a
        beginning. No query is an error.
        """
        await self._search.catch_up()
        return await self._search.find(query, session, limit)

    async def delete(self, session: SessionId) -> int:
        """Delete a session's events so far, from the log, projections and search.

        Returns how many events went. What is interrupted is finished at the next opening.
        """
        appender, writer = self._writing(), self._writer
        assert writer is not None
        await appender.durable(appender.last)

        def note(desk: Desk) -> int:
            with transaction(desk.connection):
                desk.projections.forget(desk.connection, session)
                return note_deletion(desk.connection, session)

        def delete_some(desk: Desk) -> int:
            deleted = delete_slice(desk.connection, number)
            if not deleted:
                # The session's number may be gone; a later event must ask for a new one.
                desk.keys.pop(session, None)
            return deleted

        number = await writer.run(note)
        total = 0
        while deleted := await writer.run(delete_some):
            total += deleted
        self._recent.forget(session)
        await self._search.catch_up()
        return total

    async def rebuild(self, name: str) -> None:
        """Compute a projection anew from the whole log; appends go on meanwhile.

        Raises:
            KeyError: no projection of that name is registered.
        """
        self._writing()
        writer = self._writer
        assert writer is not None
        await writer.run(lambda desk: desk.projections.reset(desk.connection, name))
        while not await writer.run(
            lambda desk: desk.projections.advance(desk.connection, desk.reader, name)
        ):
            pass

    async def check(self) -> Report:
        """Examine the whole file and every record; takes time in proportion to its size."""
        return await self._readers.run(examine)

    async def export(
        self, session: SessionId | None = None, after: int = 0
    ) -> AsyncGenerator[bytes, None]:
        """The records as JSON lines (``wire.record``'s form), each with its newline."""
        async for record in self.history(after, session):
            yield encode_record(record) + b"\n"

    def _writing(self) -> Appender:
        if self._appender is None:
            raise ReadOnly(self.path, "it was opened for reading")
        return self._appender

    def _keep_running(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _index_now_and_then(self) -> None:
        seen = -1
        while True:
            await asyncio.sleep(self._limits.index_every)
            if seen == self._recent.last:
                continue
            seen = self._recent.last
            try:
                await self._search.catch_up()
            except JournalError as error:
                _log.warning("the search index could not be brought up to date: %s", error)

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                _log.error("a background task of the journal failed", exc_info=result)
        if self._appender is not None:
            self._appender.finish()
        # Readers first: the last connection to close tidies the file, and only a writer can.
        await self._readers.close()
        await self._search.close()
        try:
            if self._writer is not None:
                await self._writer.stop()
        finally:
            if self._appender is not None:
                self._appender.abandon()
            self._recent.close()


def _make_directory(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except PermissionError as error:
        raise ReadOnly(path, str(error)) from error
    except OSError as error:
        if error.errno == errno.EROFS:
            raise ReadOnly(path, str(error)) from error
        raise Unreachable(path, str(error)) from error
