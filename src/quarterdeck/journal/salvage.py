"""Copying what is readable of a damaged log into a new one."""

import asyncio
import sqlite3
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from quarterdeck.wire.events import UnknownEvent
from quarterdeck.wire.record import decode_event

from .errors import JournalUnreachableError, translate_error
from .limits import JournalLimits
from .projections import Projections
from .records import RecordReader
from .rows import EventRow, event_row, is_intact, session_checksum
from .sessions import SessionsProjection
from .sqlite_pages import rows_of
from .store import connect_writer, transaction

__all__ = ["SalvageReport", "salvage_journal"]

_BATCH = 1_000
_NEAR = 1_000
_PUT_EVENT = "INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_PUT_SESSION = "INSERT OR IGNORE INTO session_ids VALUES (?, ?, ?, ?)"
_LATE_ENOUGH = 1_000_000_000_000_000
"""Microseconds since the epoch, in 2001: tells a time from any other number in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvageReport:
    """What a salvage brought back."""

    events: int
    sessions: int
    lost_rows: int
    """Rows that were seen but could not be read; pages that are gone cannot be counted."""
    unreadable: int
    """Events that were copied although they cannot be understood."""


async def salvage_journal(source: str | Path, target: str | Path) -> SalvageReport:
    """Copy every readable event of ``source``, however damaged, into a new log at ``target``.

    The source is not changed and must not be in use. Sessions whose name is lost are called
    ``lost_<number>``. Other projections and search are made when the target is opened.

    Raises:
        JournalUnreachableError: the source cannot be read, or the target exists.
        JournalError: the target cannot be written.
    """
    return await asyncio.to_thread(_salvage, Path(source), Path(target))


def _salvage(source: Path, target: Path) -> SalvageReport:
    if target.exists():
        raise JournalUnreachableError(target, "the file already exists; choose another name")
    if not source.is_file():
        raise JournalUnreachableError(source, "there is no such file")
    connection = connect_writer(target)
    try:
        salvaged = _copy(source, connection)
        _project(connection)
        return salvaged
    except OSError as error:
        raise JournalUnreachableError(source, str(error)) from error
    except sqlite3.Error as error:
        raise translate_error(error, target) from error
    finally:
        connection.close()


def _copy(source: Path, connection: sqlite3.Connection) -> SalvageReport:
    rows = rows_of(source)
    lost = unreadable = 0
    doubtful: list[EventRow] = []
    while batch := list(islice(rows, _BATCH)):
        whole = [row for row in batch if row is not None]
        lost += len(batch) - len(whole)
        found = [event_row(number, columns) for number, columns in whole]
        events = [row for row in found if row is not None]
        sessions = [_session(number, columns) for number, columns in whole if _is_session(columns)]
        doubtful += (event for event in events if is_intact(event) is False)
        with transaction(connection):
            connection.executemany(_PUT_SESSION, sessions)
            connection.executemany(
                _PUT_EVENT, [one for one in events if is_intact(one) is not False]
            )
    with transaction(connection):
        lost += _copy_doubtful(connection, doubtful)
        _name_lost(connection)
    for (body,) in connection.execute("SELECT body FROM events"):
        unreadable += _is_unreadable(body)
    count = connection.execute("SELECT count(*), count(DISTINCT session) FROM events").fetchone()
    return SalvageReport(events=count[0], sessions=count[1], lost_rows=lost, unreadable=unreadable)


def _copy_doubtful(connection: sqlite3.Connection, events: list[EventRow]) -> int:
    """Copy rows that fail their checksum where no sound one stands; returns how many stay out.

    They keep the checksum, so that they are known for what they are. A number beyond all sound
    ones is not believed: everything that follows would be numbered after it.
    """
    (last,) = connection.execute("SELECT coalesce(max(seq), 0) FROM events").fetchone()
    near = [event for event in events if 0 < event[0] <= last + _NEAR]
    return len(events) - max(0, connection.executemany(_PUT_EVENT, near).rowcount)


def _name_lost(connection: sqlite3.Connection) -> None:
    nameless = connection.execute(
        "SELECT session, min(time) FROM events"
        " WHERE session NOT IN (SELECT key FROM session_ids) GROUP BY session"
    ).fetchall()
    for key, made in nameless:
        name = f"lost_{key}"
        connection.execute(_PUT_SESSION, (key, name, made, session_checksum(key, name, made)))
    connection.execute("DELETE FROM session_ids WHERE key NOT IN (SELECT session FROM events)")


def _project(connection: sqlite3.Connection) -> None:
    """List the sessions, so that the new log can be read before anyone has written to it."""
    projections = Projections((SessionsProjection(),))
    projections.prepare(connection)
    reader = RecordReader(connection, JournalLimits().page_bytes)
    while not projections.advance(connection, reader, SessionsProjection.name):
        pass


def _is_session(columns: list[Any]) -> bool:
    match columns[:3]:
        case [None, str(), int() as made]:
            return made >= _LATE_ENOUGH and len(columns) in (3, 4)
        case _:
            return False


def _session(number: int, columns: list[Any]) -> tuple[Any, ...]:
    """A name as it is found: nothing else says what the session was called."""
    _, id_, made, *_ = columns
    return (number, id_, made, session_checksum(number, id_, made))


def _is_unreadable(body: Any) -> bool:
    event = decode_event(body)
    return isinstance(event, UnknownEvent) and event.origin == "log"
