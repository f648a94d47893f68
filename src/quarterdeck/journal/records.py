"""Reading records over one connection, a page at a time. Everything here blocks."""

import sqlite3
from collections.abc import Iterable
from typing import Any

from quarterdeck.wire.events import Event, UnknownEvent
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId
from quarterdeck.wire.record import Record, decode_event

from .rows import EventRow, EventRows, RowQuery, is_intact

__all__ = ["CHANGED", "RecordReader", "event_of"]

CHANGED = "the record is damaged: it was changed after it was written"
"""The reason in the ``UnknownEvent`` that replaces a record whose checksum is wrong."""

_MANY_IDS = 10_000
_MANY_DAMAGED = 10_000


class RecordReader:
    """Reads the log over a connection; used by one thread at a time.

    A record that cannot be understood, or is not as it was written, comes as an ``UnknownEvent``
    event, so a bad record costs only itself. Pages are in strictly ascending order, whatever the
    file says, so that reading on from the last record always ends.
    """

    def __init__(self, connection: sqlite3.Connection, page_bytes: int) -> None:
        self.connection = connection
        self.rows = EventRows(connection)
        self.damaged: dict[int, SessionId] = {}
        """Numbers of the records that were found damaged, and their sessions."""
        self.unverified = 0
        """How many records were read that have no checksum."""
        self._page_bytes = page_bytes
        self._ids: dict[int, SessionId] = {}

    def after(
        self,
        seq: int,
        *,
        session: SessionId | None = None,
        limit: int,
        types: Iterable[str] | None = None,
    ) -> list[Record]:
        """The records that follow ``seq``, in order; empty only at the end of the log."""
        return self._page(session, types, low=_within(seq), limit=limit)

    def before(self, seq: int, *, session: SessionId | None = None, limit: int) -> list[Record]:
        """The records that precede ``seq``, the last of them, in order."""
        return self._page(session, None, high=_within(seq), limit=limit, newest=True)

    def key(self, session: SessionId) -> int | None:
        """The number of a session in the events, if it has any."""
        statement = "SELECT key FROM session_ids WHERE id = ?"
        try:
            row = self.connection.execute(statement, (session,)).fetchone()
        except sqlite3.DatabaseError:
            # The index may be damaged where the table is not.
            table = statement.replace("session_ids", "session_ids NOT INDEXED")
            row = self.connection.execute(table, (session,)).fetchone()
        return row and row[0]

    def count(self, session: SessionId | None = None) -> int:
        """How many events the log or a session has; takes time in proportion."""
        if session is None:
            query, values = "SELECT count(*) FROM events", ()
        else:
            query, values = "SELECT count(*) FROM events WHERE session = ?", (self.key(session),)
        return self.connection.execute(query, values).fetchone()[0]

    def _page(
        self, session: SessionId | None, types: Iterable[str] | None, **place: int
    ) -> list[Record]:
        key = None if session is None else self.key(session)
        if session is not None and key is None:
            return []
        chosen = None if types is None else tuple(sorted(types))
        limit = place.pop("limit")
        if limit < 1:
            return []
        newest = bool(place.pop("newest", False))
        query = RowQuery(session=key, types=chosen, limit=limit, newest=newest, **place)
        rows = self._sound(query)
        if rows is not None:
            return [self._record(row) for row in rows]
        rows = self.rows.read_carefully(query)
        return [self._checked(row) for row in self._fitting(rows, newest=newest)]

    def _sound(self, query: RowQuery) -> list[EventRow] | None:
        """A page by one statement; None when something about it is not as it should be."""
        rows: list[EventRow] = []
        room = self._page_bytes
        last = query.high if query.newest else query.low
        try:
            cursor = self.rows.select(query)
            for row in cursor:
                seq, body = row[0], row[6]
                if (seq >= last if query.newest else seq <= last) or not _is_sound(row):
                    return None
                rows.append(row)
                last = seq
                room -= len(body)
                if room < 0:
                    break
            cursor.close()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.ProgrammingError):
                raise
            return None
        return rows[::-1] if query.newest else rows

    def _fitting(self, rows: list[EventRow], *, newest: bool) -> list[EventRow]:
        """As many as a page may hold, one at the least."""
        room = self._page_bytes
        for count, row in enumerate(reversed(rows) if newest else rows, 1):
            room -= len(row[6]) if isinstance(row[6], bytes) else 0
            if room < 0:
                return rows[-count:] if newest else rows[:count]
        return rows

    def _checked(self, row: EventRow) -> Record:
        """A record of a row that need not be sound."""
        seq, time, key, turn, parent, _, body, _ = row
        is_whole = is_intact(row) is not False
        session = self._ids.get(key) or self._id(key)
        if not is_whole and len(self.damaged) < _MANY_DAMAGED:
            self.damaged[seq] = session
        if is_whole and row[-1] is None:
            self.unverified += 1
        return Record(
            seq=seq,
            time=time if type(time) is int else 0,
            session=session,
            turn=TurnId(turn) if isinstance(turn, str) else None,
            parent=ToolCallId(parent) if isinstance(parent, str) else None,
            event=event_of(body) if is_whole else _changed(body),
        )

    def _record(self, row: EventRow) -> Record:
        """A record of a sound row."""
        seq, time, key, turn, parent, _, body, checksum = row
        if checksum is None:
            self.unverified += 1
        session = self._ids.get(key) or self._id(key)
        return Record(
            seq=seq, time=time, session=session, turn=turn, parent=parent, event=decode_event(body)
        )

    def _id(self, key: Any) -> SessionId:
        try:
            row = self.connection.execute(
                "SELECT id FROM session_ids WHERE key = ?", (key,)
            ).fetchone()
        except sqlite3.DatabaseError:
            row = None  # a name that is lost costs no event
        if row is None or not isinstance(row[0], str):
            return SessionId(f"lost_{key}")
        if len(self._ids) >= _MANY_IDS:
            self._ids.clear()
        return self._ids.setdefault(key, SessionId(row[0]))


def event_of(body: Any) -> Event:
    """Read the body of a row; what it should not be, such as a number, becomes ``UnknownEvent``."""
    if isinstance(body, bytes | str):
        return decode_event(body if isinstance(body, bytes) else body.encode())
    return UnknownEvent(origin="log", raw=body, reason="the body is not a blob")


def _changed(body: Any) -> UnknownEvent:
    found = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    return UnknownEvent(origin="log", raw=found, reason=CHANGED)


def _is_sound(row: EventRow) -> bool:
    _, time, key, turn, parent, kind, body, checksum = row
    has_form = (
        type(time) is int
        and type(key) is int
        and type(body) is bytes
        and type(kind) is str
        and (turn is None or type(turn) is str)
        and (parent is None or type(parent) is str)
    )
    return has_form and (checksum is None or is_intact(row) is True)


def _within(seq: int) -> int:
    """Keep a number that a client sent within what the database can compare."""
    return max(-(1 << 62), min(seq, 1 << 62))
