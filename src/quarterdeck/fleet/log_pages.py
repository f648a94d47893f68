"""Reading a log for those who count: only some types of events, page by page."""

import asyncio
import sqlite3
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path

from quarterdeck.journal import ReadableJournal
from quarterdeck.journal.records import RecordReader
from quarterdeck.journal.store import connect_reader
from quarterdeck.wire.record import Record

__all__ = ["find_run_logs", "read_log_file", "read_pages"]

_PAGE = 1_000
_PAGE_BYTES = 16 << 20


async def read_pages(
    journal: ReadableJournal,
    types: Collection[str],
    take: Callable[[list[Record]], None],
    after: int = 0,
) -> int:
    """Hand the records of these types after a sequence number to ``take``, in a thread.

    Returns the number of the last of them, or ``after``.

    Raises:
        JournalError: the log cannot be read.
    """

    def read_page(connection: sqlite3.Connection) -> list[Record]:
        return RecordReader(connection, _PAGE_BYTES).after(after, limit=_PAGE, types=types)

    while records := await journal.query(read_page):
        await asyncio.to_thread(take, records)
        after = records[-1].seq
    return after


def read_log_file(
    path: Path, types: Collection[str], take: Callable[[list[Record]], None], after: int = 0
) -> int:
    """The same for a log that another process may write. Blocks.

    Raises:
        JournalError, sqlite3.Error: the log cannot be read.
    """
    with closing(connect_reader(path)) as connection:
        reader = RecordReader(connection, _PAGE_BYTES)
        while records := reader.after(after, limit=_PAGE, types=types):
            take(records)
            after = records[-1].seq
    return after


def find_run_logs(state: Path) -> list[Path]:
    """The logs of single sessions, as ``quarterdeck run`` and editors keep them. Blocks."""
    try:
        return sorted((state / "sessions").glob("*.db"))
    except OSError:
        return []
