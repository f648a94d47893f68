"""The one thread that writes, and the lock that keeps other writers out.

Everything reaches it through one queue. A commit with a waiter happens at once; others
wait a few milliseconds for company, so a steady stream costs a few hundred disk flushes a second
at most. What fails stays at the head of the backlog and is tried again.

The lock belongs to the open file, so the system drops it with the process however that ends.
The file stays: removing it would let two processes lock two different files of one name.
"""

import asyncio
import errno
import logging
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from quarterdeck.wire.filelock import open_lock, release_lock, try_lock
from quarterdeck.wire.record import Record

from .errors import (
    JournalClosedError,
    JournalDiskFullError,
    JournalError,
    JournalLockedError,
    JournalReadOnlyError,
    JournalStalledError,
    JournalUnlockableError,
    JournalUnreachableError,
    is_faulty_statement,
    translate_error,
)
from .limits import JournalLimits
from .projections import Projection, Projections
from .records import RecordReader
from .rows import record_checksum, session_checksum
from .store import (
    commits_unsynced,
    connect_writer,
    finish_deletions,
    last_seq,
    transaction,
)

__all__ = [
    "CommitListener",
    "Entry",
    "JournalWriter",
    "WriterContext",
    "acquire_lock",
    "lock_path",
]

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}


def lock_path(path: Path) -> Path:
    """The file whose lock guards the log at ``path``."""
    return path.with_name(path.name + ".lock")


def acquire_lock(path: Path) -> int:
    """Become the one writer of the log at ``path``; returns what ``release_lock`` needs.

    Raises:
        JournalLockedError: another process is; it is named where its id can be read.
        JournalUnlockableError: the file system has no locks.
        JournalReadOnlyError: the lock file cannot be made.
        JournalUnreachableError: the directory is not there.
    """
    lock = lock_path(path)
    try:
        handle = open_lock(lock)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise JournalReadOnlyError(path, str(error)) from error
        raise JournalUnreachableError(path, str(error)) from error
    try:
        is_locked = try_lock(handle)
    except OSError as error:
        os.close(handle)
        if error.errno in _NO_LOCKS:
            raise JournalUnlockableError(path, str(error)) from error
        raise JournalUnreachableError(path, str(error)) from error
    if not is_locked:
        pid = _holder(handle)
        os.close(handle)
        raise JournalLockedError(path, pid)
    _sign(handle)
    return handle


def _sign(handle: int) -> None:
    """Leave our process id for the message that a second writer gets."""
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
    except OSError:
        # On a full disk the lock still holds; only its holder's name is missing.
        return


def _holder(handle: int) -> int | None:
    try:
        return int(os.pread(handle, 20, 0))
    except (OSError, ValueError):
        return None


_log = logging.getLogger(__name__)
T = TypeVar("T")

Entry: TypeAlias = tuple[Record, str, bytes]
"""A record, its event's tag, and its event's JSON form."""

_HURRY = object()
_STOP = object()


class CommitListener(Protocol):
    """Receives the writer's progress, in the event loop's thread."""

    def committed(self, entries: Sequence[Entry]) -> None:
        """These are on disk; called in order, each event once."""
        ...

    def stalled(self, error: JournalStalledError) -> None:
        """A commit failed and will be tried again; called at each failure."""
        ...


class WriterContext:
    """What a job in the writer's thread may use."""

    def __init__(self, connection: sqlite3.Connection, projections: Projections, page: int) -> None:
        self.connection = connection
        self.projections = projections
        self.reader = RecordReader(connection, page)
        self.keys: dict[str, int] = {}


class _Job(Struct, frozen=True):
    work: Callable[[WriterContext], Any]
    future: asyncio.Future[Any]


class JournalWriter:
    """Owns the log's lock and its one writing connection, in a thread of its own."""

    def __init__(
        self,
        path: Path,
        projections: Sequence[Projection],
        limits: JournalLimits,
        listener: CommitListener,
    ) -> None:
        self._path = path
        self._projections = Projections(projections)
        self._limits = limits
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._backlog: deque[Entry] = deque()
        self._jobs: deque[_Job] = deque()
        self._hurried = self._stopping = False
        self._opened: asyncio.Future[int] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._thread = Thread(target=self._main, name="quarterdeck-journal", daemon=True)

    @property
    def failed(self) -> dict[str, str]:
        """Projections that are set aside, and why."""
        return dict(self._projections.failed)

    @property
    def projections(self) -> tuple[str, ...]:
        """The names of the registered projections."""
        return self._projections.names

    async def start(self) -> int:
        """Open the log and catch up its projections; returns the last sequence number.

        Raises:
            JournalError: it cannot be opened.
        """
        await asyncio.to_thread(self._thread.start)
        try:
            return await asyncio.shield(self._opened)
        except asyncio.CancelledError:
            self._queue.put(_STOP)
            raise

    async def stop(self) -> None:
        """Commit what is left, close the file, release the lock.

        Raises:
            JournalStalledError: what was left could not be written and is lost; none of it was
                durable.
        """
        self._queue.put(_STOP)
        await asyncio.shield(self._ended)

    def put(self, entries: Sequence[Entry]) -> None:
        """Hand over events to be committed, in order."""
        self._queue.put(entries)

    def hurry(self) -> None:
        """Commit what was handed over without waiting for more."""
        self._queue.put(_HURRY)

    async def run(self, job: Callable[[WriterContext], T]) -> T:
        """Run ``job`` in the writer's thread, between two commits.

        Raises:
            JournalError: the database failed.
            JournalClosedError: the writer has stopped.
        """
        if self._ended.done():
            raise JournalClosedError(self._path)
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Job(job, future))
        return await future

    # From here on: the writer's own thread.

    def _main(self) -> None:
        failure: JournalError | None = None
        try:
            handle = acquire_lock(self._path)
            try:
                self._work()
            finally:
                release_lock(handle)
        except JournalError as error:
            failure = error
        except sqlite3.Error as error:
            failure = translate_error(error, self._path)
        except Exception as error:
            _log.exception("the writer of %r failed", str(self._path))
            failure = JournalError(f"the writer of {str(self._path)!r} failed: {error!r}")
        self._tell(self._settle_end, failure)

    def _settle_end(self, failure: JournalError | None) -> None:
        _settle(self._opened, 0, failure)
        _settle(self._ended, None, failure)
        while not self._queue.empty():
            self._take(self._queue.get_nowait())
        for job in self._jobs:
            _settle(job.future, None, failure or JournalClosedError(self._path))
        for future in (self._opened, self._ended):
            # A caller that was cancelled before it waited for it misses nothing.
            if not future.cancelled():
                future.exception()

    def _work(self) -> None:
        connection = connect_writer(self._path)
        try:
            context = WriterContext(connection, self._projections, self._limits.page_bytes)
            with commits_unsynced(connection):
                self._projections.prepare(connection)
                for name in self._projections.behind():
                    while not self._projections.advance(connection, context.reader, name):
                        pass
            finish_deletions(connection)
            self._tell(_settle, self._opened, last_seq(connection), None)
            self._serve(context)
        finally:
            connection.close()

    def _serve(self, context: WriterContext) -> None:
        delay = self._limits.retry_first
        while True:
            self._gather()
            if self._backlog:
                failure = self._commit(context)
                if failure is not None:
                    self._tell(self._listener.stalled, failure)
                    if self._stopping:
                        lost = f"{failure.reason}; {len(self._backlog)} events are lost"
                        raise JournalStalledError(self._path, lost, kept=False)
                    self._receive_until(time.monotonic() + delay)
                    delay = min(2 * delay, self._limits.retry_most)
                    continue
                delay = self._limits.retry_first
            while self._jobs:
                self._run_job(self._jobs.popleft(), context)
            if self._stopping and not self._backlog:
                return

    def _gather(self) -> None:
        if not (self._backlog or self._jobs or self._stopping):
            self._take(self._queue.get())
        if not (self._hurried or self._jobs or self._stopping):
            self._receive_until(time.monotonic() + self._limits.linger, fill=True)
        while not self._queue.empty():
            self._take(self._queue.get())
        if not self._backlog:
            self._hurried = False

    def _receive_until(self, deadline: float, *, fill: bool = False) -> None:
        """Wait for more; with ``fill`` only until there is reason to commit."""
        while (left := deadline - time.monotonic()) > 0 and not self._stopping:
            if fill and (self._hurried or self._jobs or self._batch_is_full()):
                return
            try:
                self._take(self._queue.get(timeout=left))
            except Empty:
                return

    def _batch_is_full(self) -> bool:
        return len(self._backlog) >= self._limits.batch_events

    def _take(self, message: Any) -> None:
        if message is _HURRY:
            self._hurried = True
        elif message is _STOP:
            self._stopping = True
        elif isinstance(message, _Job):
            self._jobs.append(message)
        else:
            self._backlog.extend(message)

    def _run_job(self, job: _Job, context: WriterContext) -> None:
        try:
            result = job.work(context)
        except Exception as error:
            if isinstance(error, sqlite3.Error) and not is_faulty_statement(error):
                error = translate_error(error, self._path)
            self._tell(_settle, job.future, None, error)
        else:
            self._tell(_settle, job.future, result, None)

    def _commit(self, context: WriterContext) -> JournalStalledError | None:
        batch = self._next_batch()
        try:
            with transaction(context.connection):
                self._insert(context, batch)
        except sqlite3.Error as error:
            context.keys.clear()
            context.projections.rolled_back()
            found = translate_error(error, self._path)
            _log.warning("commit of %d events failed: %s", len(batch), error)
            if isinstance(found, JournalDiskFullError):
                return found
            reason = found.reason if isinstance(found, JournalStalledError) else str(found)
            return JournalStalledError(self._path, reason, kept=True)
        for _ in batch:
            self._backlog.popleft()
        if not self._backlog:
            self._hurried = False
        self._tell(self._listener.committed, batch)
        return None

    def _next_batch(self) -> list[Entry]:
        batch: list[Entry] = []
        room = self._limits.batch_bytes
        most = self._limits.batch_events
        for entry in self._backlog:
            batch.append(entry)
            room -= len(entry[2])
            if room < 0 or len(batch) >= most:
                break
        return batch

    def _insert(self, context: WriterContext, batch: list[Entry]) -> None:
        keys = context.keys
        for record, _, _ in batch:
            if record.session not in keys:
                keys[record.session] = _key(context.connection, record)
        context.connection.executemany(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    *(r.seq, r.time, key := keys[r.session], r.turn, r.parent, tag, body),
                    record_checksum(r.seq, r.time, key, r.turn, r.parent, tag, body),
                )
                for r, tag, body in batch
            ],
        )
        context.projections.apply(context.connection, [(record, tag) for record, tag, _ in batch])

    def _tell(self, callback: Callable[..., object], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The loop is gone, and with it everyone who could have listened.
            _log.debug("no caller is left to receive %r", callback)


def _key(connection: sqlite3.Connection, record: Record) -> int:
    made = connection.execute(
        "INSERT OR IGNORE INTO session_ids (id, made) VALUES (?, ?)", (record.session, record.time)
    )
    (key,) = connection.execute(
        "SELECT key FROM session_ids WHERE id = ?", (record.session,)
    ).fetchone()
    if made.rowcount > 0:
        connection.execute(
            "UPDATE session_ids SET checksum = ? WHERE key = ?",
            (session_checksum(key, record.session, record.time), key),
        )
    return key


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
