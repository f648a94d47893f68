"""Noticing what another process writes: a cheap look at the file, only while someone follows."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from quarterdeck.wire.record import Record, encode_event

from .errors import DATABASE_ERRORS, JournalError, translate_reading
from .limits import Limits
from .recent import Recent
from .records import RecordReader
from .store import connect_reader

__all__ = ["watch"]

_log = logging.getLogger(__name__)
T = TypeVar("T")
_PAGE = 1_000


async def watch(path: Path, recent: Recent, limits: Limits) -> None:
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
            raise translate_reading(error, self._path) from error

    def close(self) -> None:
        if self._reader is not None:
            self._reader.connection.close()
