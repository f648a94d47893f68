"""The log as the rest of the program sees it, which also notices what another process writes.

``Appender`` is the event loop's side of writing: it numbers events, bounds what is pending and
keeps who waits.
"""

import asyncio
import errno
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from quarterdeck.wire.clock import WallClock, read_wall_clock
from quarterdeck.wire.events import Event
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId
from quarterdeck.wire.private_files import make_private_directory
from quarterdeck.wire.record import Record, encode_event, event_type
from quarterdeck.wire.tasks import BackgroundTasks, run_to_end

from .errors import (
    DATABASE_ERRORS,
    JournalClosedError,
    JournalDiskFullError,
    JournalError,
    JournalReadOnlyError,
    JournalStalledError,
    JournalUnreachableError,
    UnrecordableEventError,
    translate_reading_errors,
)
from .limits import JournalLimits
from .projections import Projection
from .reader import ReadableJournal, RecentRecords
from .records import RecordReader
from .sessions import SessionsProjection
from .store import connect_reader, delete_slice, last_seq, note_deletion, transaction
from .writer import Entry, JournalWriter, WriterContext

__all__ = ["Appender", "Journal", "watch_other_writers"]

_log = logging.getLogger(__name__)

_HAND_OVER = 512
_BEYOND = 1 << 63


class Appender:
    """Takes events on. All of it runs in the event loop's thread; it is the writer's listener."""

    def __init__(self, path: Path, clock: WallClock, limits: JournalLimits) -> None:
        self._path = path
        self._clock = clock
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._writer: JournalWriter | None = None
        self._recent: RecentRecords | None = None
        self._last = self._durable = 0
        self._fresh: list[Entry] = []
        self._events = self._bytes = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._wanting_room: list[asyncio.Future[None]] = []
        self._stall: JournalStalledError | None = None
        self.closed = False

    def begin(self, writer: JournalWriter, recent: RecentRecords) -> None:
        """Start numbering after the last record of the log."""
        self._writer, self._recent = writer, recent
        self._last = self._durable = recent.last

    @property
    def last(self) -> int:
        """The last sequence number given out."""
        return self._last

    @property
    def stall(self) -> JournalStalledError | None:
        """Why nothing can be written at the moment."""
        return self._stall

    async def append(
        self,
        session: SessionId,
        event: Event,
        turn: TurnId | None,
        parent: ToolCallId | None,
        time: int | None = None,
    ) -> Record:
        """Take an event on; waits only while too much is pending. ``time``: None for now."""
        try:
            body = encode_event(event)
        except (UnicodeEncodeError, msgspec.MsgspecError, TypeError, RecursionError) as error:
            raise UnrecordableEventError(
                f"this {event_type(event)!r} event has no JSON form: {error}"
            ) from (error)
        if time is not None and not -_BEYOND <= time < _BEYOND:
            raise UnrecordableEventError(f"{time} is not a time in microseconds since the epoch")
        # An event larger than the whole bound is let in alone rather than never.
        while self._events and (
            self._events >= self._limits.pending_events
            or self._bytes + len(body) > self._limits.pending_bytes
        ):
            await self._room()
        if self.closed:
            raise JournalClosedError(self._path)
        self._last = seq = self._last + 1
        if time is None:
            time = self._clock()
        record = Record(seq=seq, time=time, session=session, turn=turn, parent=parent, event=event)
        fresh = self._fresh
        if not fresh:
            self._loop.call_soon(self._hand_over)
        fresh.append((record, event_type(event), body))
        self._events += 1
        self._bytes += len(body)
        if len(fresh) >= _HAND_OVER:
            self._hand_over()
        return record

    async def durable(self, seq: int) -> None:
        """Return once everything up to ``seq`` is on disk."""
        if seq <= self._durable:
            return
        if seq > self._last:
            raise ValueError(f"no event has the number {seq} yet; the last is {self._last}")
        if self._stall is not None:
            raise self._again(self._stall, kept=True)
        if self.closed:
            raise JournalClosedError(self._path)
        assert self._writer is not None
        self._hand_over()
        self._writer.hurry()
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((seq, future))
        await future

    def finish(self) -> None:
        """Take nothing more on and hand over the rest."""
        self.closed = True
        self._hand_over()

    def abandon(self) -> None:
        """Let go of everyone who still waits, after the writer ended."""
        for _, future in self._waiting:
            _fail(future, JournalClosedError(self._path))
        for future in self._wanting_room:
            _fail(future, JournalClosedError(self._path))
        self._waiting, self._wanting_room = [], []

    def committed(self, entries: Sequence[Entry]) -> None:
        """The writer's word that these are on disk: only now they are published."""
        assert self._recent is not None
        sizes = [len(body) for _, _, body in entries]
        self._stall = None
        self._events -= len(entries)
        self._bytes -= sum(sizes)
        self._durable = durable = entries[-1][0].seq
        self._recent.publish([record for record, _, _ in entries], sizes)
        if self._waiting:
            for seq, future in self._waiting:
                if seq <= durable and not future.done():
                    future.set_result(None)
            self._waiting = [(seq, future) for seq, future in self._waiting if not future.done()]
        if self._wanting_room:
            for future in self._wanting_room:
                if not future.done():
                    future.set_result(None)
            self._wanting_room = []

    def stalled(self, error: JournalStalledError) -> None:
        """The writer's word that it cannot write; it goes on trying."""
        self._stall = error
        for _, future in self._waiting:
            _fail(future, self._again(error, kept=True))
        for future in self._wanting_room:
            _fail(future, self._again(error, kept=False))
        self._waiting, self._wanting_room = [], []

    async def _room(self) -> None:
        if self._stall is not None:
            raise self._again(self._stall, kept=False)
        if self.closed:
            raise JournalClosedError(self._path)
        self._hand_over()
        future: asyncio.Future[None] = self._loop.create_future()
        self._wanting_room.append(future)
        await future

    def _hand_over(self) -> None:
        if self._fresh:
            assert self._writer is not None
            self._writer.put(self._fresh)
            self._fresh = []

    def _again(self, error: JournalStalledError, *, kept: bool) -> JournalStalledError:
        kind = (
            JournalDiskFullError if isinstance(error, JournalDiskFullError) else JournalStalledError
        )
        return kind(self._path, error.reason, kept=kept)


def _fail(future: asyncio.Future[None], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


T = TypeVar("T")
_PAGE = 1_000


async def watch_other_writers(path: Path, recent: RecentRecords, limits: JournalLimits) -> None:
    """Publish what another process commits, until cancelled."""
    loop = asyncio.get_running_loop()
    threads = ThreadPoolExecutor(1, "quarterdeck-journal-watch")
    watcher = _Watcher(path, limits.page_bytes)

    async def run(work: Callable[..., T], *arguments: int) -> T:
        return await loop.run_in_executor(threads, work, *arguments)

    try:
        while True:
            await recent.wanted()
            try:
                if not (records := await run(watcher.fresh, recent.last)):
                    await asyncio.sleep(limits.poll)
                    continue
            except JournalError as error:
                _log.warning("cannot look for new records: %s", error)
                await asyncio.sleep(1)
                continue
            recent.publish([record for record, _ in records], [size for _, size in records])
    finally:
        # Only waits for a look that has begun; it takes a moment at most.
        threads.submit(watcher.close)
        await asyncio.shield(asyncio.to_thread(threads.shutdown))


class _Watcher:
    """Looks at the log over a connection of its own."""

    def __init__(self, path: Path, page_bytes: int) -> None:
        self._path = path
        self._page_bytes = page_bytes
        self._reader: RecordReader | None = None
        self._seen = -1

    def fresh(self, last: int) -> list[tuple[Record, int]]:
        try:
            if self._reader is None:
                self._reader = RecordReader(connect_reader(self._path), self._page_bytes)
            connection = self._reader.connection
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            if version == self._seen:
                return []
            records = self._reader.after(last, limit=_PAGE)
            if not records:
                self._seen = version
            return [(record, len(encode_event(record.event))) for record in records]
        except DATABASE_ERRORS as error:
            raise translate_reading_errors(error, self._path) from error

    def close(self) -> None:
        if self._reader is not None:
            self._reader.connection.close()


class Journal(ReadableJournal):
    """The append-only log of every event of every session.

    One process writes, any number read. An event has its place from the moment ``append``
    returns; it is safe from a crash and from power loss once ``durable`` returns, and only then
    do readers and followers, here and in other processes, see it.
    """

    def __init__(self, path: Path, limits: JournalLimits, recent: RecentRecords) -> None:
        """Only ``open`` makes journals."""
        super().__init__(path, limits, recent)
        self._appender: Appender | None = None
        self._writer: JournalWriter | None = None
        self._tasks = BackgroundTasks()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: str | Path,
        *,
        write: bool = True,
        projections: Sequence[Projection] = (),
        clock: WallClock = read_wall_clock,
        limits: JournalLimits | None = None,
        owns_directory: bool = False,
    ) -> AsyncGenerator["Journal", None]:
        """Open the log at ``path``; with ``write`` make it and its directory where missing.

        ``owns_directory``: the directory is this program's own; it is closed to other users.
        On leaving, what was appended is committed and followers end.

        Raises:
            JournalLockedError: another process writes it.
            JournalError: it cannot be opened; see ``journal.errors``.
            JournalStalledError: on leaving, when what was pending could not be written.
        """
        path, limits = Path(path), limits or JournalLimits()
        if write:
            await asyncio.to_thread(_make_directory, path, owns_directory)
            journal = await cls._open_to_write(path, projections, clock, limits)
        else:
            journal = await cls._open_to_read(path, limits)
        try:
            yield journal
        finally:
            # Also when it is cancelled while closing: the lock must be released before we go.
            await run_to_end(journal._close(), name="journal: close")

    @classmethod
    async def _open_to_write(
        cls,
        path: Path,
        projections: Sequence[Projection],
        clock: WallClock,
        limits: JournalLimits,
    ) -> "Journal":
        appender = Appender(path, clock, limits)
        writer = JournalWriter(path, (SessionsProjection(), *projections), limits, appender)
        recent = RecentRecords(await writer.start(), limits)
        appender.begin(writer, recent)
        journal = cls(path, limits, recent)
        journal._appender, journal._writer = appender, writer
        journal._tasks.start(journal._index_now_and_then(), name="journal: index")
        return journal

    @classmethod
    async def _open_to_read(cls, path: Path, limits: JournalLimits) -> "Journal":
        recent = RecentRecords(0, limits)
        journal = cls(path, limits, recent)
        try:
            last = await journal._readers.run(lambda reader: last_seq(reader.connection))
        except BaseException:
            await journal._close()
            raise
        journal._recent = recent = RecentRecords(last, limits)
        watching = watch_other_writers(path, recent, limits)
        journal._tasks.start(watching, name="journal: watch other writers")
        return journal

    @property
    def stalled(self) -> JournalStalledError | None:
        """Why nothing can be written at the moment, or None when all is well."""
        return self._appender and self._appender.stall

    @property
    def projections(self) -> tuple[str, ...]:
        """The names of the registered projections; none where the log was opened read-only."""
        return self._writer.projections if self._writer is not None else ()

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
        time: int | None = None,
    ) -> Record:
        """Give an event its place in the log; it is durable a little later.

        Waits only while more is pending than ``JournalLimits`` allow. ``time``: when it happened,
        in microseconds since the epoch, if that was not now.

        Raises:
            JournalStalledError: the disk fails and nothing more can be kept; the event was not
                taken on.
            UnrecordableEventError: the event has no JSON form.
            JournalReadOnlyError: the journal was opened for reading.
        """
        return await self._writing().append(session, event, turn, parent, time)

    async def durable(self, seq: int) -> None:
        """Wait until the event numbered ``seq`` and all before it are safely on disk.

        Raises:
            JournalStalledError: they could not be written so far; they are kept and will be tried
                again.
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

    async def delete(self, session: SessionId) -> int:
        """Delete a session's events so far, from the log, projections and search.

        Returns how many events went. What is interrupted is finished at the next opening.
        """
        appender, writer = self._writing(), self._writer
        assert writer is not None
        await appender.durable(appender.last)

        def note(context: WriterContext) -> int:
            with transaction(context.connection):
                context.projections.forget(context.connection, session)
                return note_deletion(context.connection, session)

        def delete_some(context: WriterContext) -> int:
            deleted = delete_slice(context.connection, number)
            if not deleted:
                # The session's number may be gone; a later event must ask for a new one.
                context.keys.pop(session, None)
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
        await writer.run(lambda context: context.projections.reset(context.connection, name))
        while not await writer.run(
            lambda context: context.projections.advance(context.connection, context.reader, name)
        ):
            pass

    def _writing(self) -> Appender:
        if self._appender is None:
            raise JournalReadOnlyError(
                self.path, "it was opened read-only", advice="open it for writing"
            )
        return self._appender

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
        await self._tasks.close()
        if self._appender is not None:
            self._appender.finish()
        await self._keep_damage()
        # Readers first: the last connection to close tidies the file, and only a writer can.
        await self._readers.close()
        if "_search" in self.__dict__:  # otherwise there was no search
            await self._search.close()
        try:
            if self._writer is not None:
                await self._writer.stop()
        finally:
            if self._appender is not None:
                self._appender.abandon()
            self._recent.close()


def _make_directory(path: Path, is_ours: bool) -> None:
    try:
        make_private_directory(path.parent, is_ours=is_ours)
    except PermissionError as error:
        raise JournalReadOnlyError(path, str(error)) from error
    except OSError as error:
        if error.errno == errno.EROFS:
            raise JournalReadOnlyError(path, str(error)) from error
        raise JournalUnreachableError(path, str(error)) from error
