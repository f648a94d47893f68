"""A few connections that read, each used by one thread at a time, off the event loop."""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TypeVar

import msgspec

from quarterdeck.wire.ids import SessionId

from .errors import DATABASE_ERRORS, Corrupt, JournalClosed, is_faulty_statement, translate_reading
from .records import RecordReader
from .store import connect_reader

__all__ = ["Readers"]

T = TypeVar("T")
_THREADS = 2


class Readers:
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
            raise JournalClosed(self._path)
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
            raise translate_reading(error, self._path) from error
        except msgspec.DecodeError as error:
            # What a projection keeps is not guarded by checksums; it follows from the log.
            raise Corrupt(self._path, f"what was computed from it: {error}") from error
        finally:
            if reader is not None:
                with self._guard:
                    self._idle.append(reader)

    def _close(self) -> None:
        self._threads.shutdown(wait=True)
        while self._idle:
            self._idle.pop().connection.close()
