"""Copying what is readable of a damaged log into a new one."""

import asyncio
import sqlite3
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from quarterdeck.wire.events import Unknown
from quarterdeck.wire.record import decode_event

from .errors import Unreachable, translate
from .limits import Limits
from .pages import rows_of
from .projections import Projections
from .records import RecordReader
from .sessions import Sessions
from .store import connect_writer, transaction

__all__ = ["Salvaged", "salvage"]

_BATCH = 1_000
_LATE_ENOUGH = 1_000_000_000_000_000
"""Microseconds since the epoch, in 2001: tells a time from any other number in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """What a salvage brought back."""

    events: int
    sessions: int
    lost_rows: int
    """Rows that were seen but could not be read; pages that are gone cannot be counted."""
    unreadable: int
    """Events that were copied although they cannot be understood."""


async def salvage(source: str | Path, target: str | Path) -> Salvaged:
    """Copy every readable event of ``source``, however damaged, into a new log at ``target``.

    The source is not changed and must not be in use. Sessions whose name is lost are called
    ``lost_<number>``. Other projections and search are made when the target is opened.

    Raises:
        Unreachable: the source cannot be read, or the target exists.
        JournalError: the target cannot be written.
    """
    return await asyncio.to_thread(_salvage, Path(source), Path(target))


def _salvage(source: Path, target: Path) -> Salvaged:
    if target.exists():
        raise Unreachable(target, "there is a file of that name already; choose another")
    if not source.is_file():
        raise Unreachable(source, "there is no such file")
    connection = connect_writer(target)
    try:
        salvaged = _copy(source, connection)
        _project(connection)
        return salvaged
    except OSError as error:
        raise Unreachable(source, str(error)) from error
    except sqlite3.Error as error:
        raise translate(error, target) from error
    finally:
        connection.close()


def _copy(source: Path, connection: sqlite3.Connection) -> Salvaged:
    rows = rows_of(source)
    lost = unreadable = 0
    while batch := list(islice(rows, _BATCH)):
        whole = [row for row in batch if row is not None]
        lost += len(batch) - len(whole)
        events = [(number, *columns[1:]) for number, columns in whole if _is_event(columns)]
        sessions = [(number, *columns[1:]) for number, columns in whole if _is_session(columns)]
        unreadable += sum(_is_unreadable(event[-1]) for event in events)
        with transaction(connection):
            connection.executemany("INSERT OR IGNORE INTO session_ids VALUES (?, ?, ?)", sessions)
            connection.executemany(
                "INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", events
            )
    with transaction(connection):
        connection.execute(
            "INSERT INTO session_ids SELECT session, 'lost_' || session, min(time) FROM events"
            " WHERE session NOT IN (SELECT key FROM session_ids) GROUP BY session"
        )
        connection.execute("DELETE FROM session_ids WHERE key NOT IN (SELECT session FROM events)")
    count = connection.execute("SELECT count(*), count(DISTINCT session) FROM events").fetchone()
    return Salvaged(events=count[0], sessions=count[1], lost_rows=lost, unreadable=unreadable)


def _project(connection: sqlite3.Connection) -> None:
    """List the sessions, so that the new log can be read before anyone has written to it."""
    projections = Projections((Sessions(),))
    projections.prepare(connection)
    reader = RecordReader(connection, Limits().page_bytes)
    while not projections.advance(connection, reader, Sessions.name):
        pass


def _is_event(columns: list[Any]) -> bool:
    match columns:
        case [None, int(), int(), None | str(), None | str(), str(), bytes()]:
            return True
        case _:
            return False


def _is_session(columns: list[Any]) -> bool:
    match columns:
        case [None, str(), int() as made]:
            return made >= _LATE_ENOUGH
        case _:
            return False


def _is_unreadable(body: Any) -> bool:
    event = decode_event(body)
    return isinstance(event, Unknown) and event.origin == "log"
