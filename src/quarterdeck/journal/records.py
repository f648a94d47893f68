"""Reading records over one connection, a page at a time. Everything here blocks."""

import sqlite3
from collections.abc import Iterable
from typing import Any

from quarterdeck.wire.events import Event, Unknown
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record, decode_event

__all__ = ["RecordReader", "event_of"]

_COLUMNS = "seq, time, session, turn, parent, body"
_MANY_IDS = 10_000


class RecordReader:
    """Reads the log over a connection; used by one thread at a time.

    A body that cannot be understood becomes an ``Unknown`` event, so a bad record costs only
    itself.
    """

    def __init__(self, connection: sqlite3.Connection, page_bytes: int) -> None:
        self.connection = connection
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
        return self._page("seq > ?", seq, session, types, "ORDER BY seq", limit)

    def before(self, seq: int, *, session: SessionId | None = None, limit: int) -> list[Record]:
        """The records that precede ``seq``, the last of them, in order."""
        return self._page("seq < ?", seq, session, None, "ORDER BY seq DESC", limit)[::-1]

    def key(self, session: SessionId) -> int | None:
        """The number that stands for a session in the events, if it has any."""
        row = self.connection.execute(
            "SELECT key FROM session_ids WHERE id = ?", (session,)
        ).fetchone()
        return row and row[0]

    def count(self, session: SessionId | None = None) -> int:
        """How many events the log or a session has; takes time in proportion."""
        if session is None:
            query, values = "SELECT count(*) FROM events", ()
        else:
            query, values = "SELECT count(*) FROM events WHERE session = ?", (self.key(session),)
        return self.connection.execute(query, values).fetchone()[0]

    def _page(
        self,
        place: str,
        seq: int,
        session: SessionId | None,
        types: Iterable[str] | None,
        order: str,
        limit: int,
    ) -> list[Record]:
        where = [place]
        values: list[int | str | None] = [_within(seq)]
        if session is not None:
            where.append("session = ?")
            values.append(self.key(session))
        if types is not None:
            chosen = sorted(types)
            where.append(f"type IN ({', '.join('?' * len(chosen))})")
            values.extend(chosen)
        cursor = self.connection.execute(
            f"SELECT {_COLUMNS} FROM events WHERE {' AND '.join(where)} {order} LIMIT ?",
            (*values, limit),
        )
        records: list[Record] = []
        room = self._page_bytes
        try:
            for row in cursor:
                records.append(self._record(row))
                room -= len(row[-1]) if isinstance(row[-1], bytes) else 0
                if room < 0:
                    break
        finally:
            cursor.close()
        return records

    def _record(self, row: tuple[Any, ...]) -> Record:
        seq, time, key, turn, parent, body = row
        event = event_of(body)
        session = self._ids.get(key) or self._id(key)
        return Record(seq=seq, time=time, session=session, turn=turn, parent=parent, event=event)

    def _id(self, key: int) -> SessionId:
        row = self.connection.execute("SELECT id FROM session_ids WHERE key = ?", (key,)).fetchone()
        if row is None:
            return SessionId(f"lost_{key}")
        if len(self._ids) >= _MANY_IDS:
            self._ids.clear()
        return self._ids.setdefault(key, SessionId(row[0]))


def event_of(body: Any) -> Event:
    """Read the body of a row; what it should not be, such as a number, becomes ``Unknown``."""
    if isinstance(body, bytes | str):
        return decode_event(body if isinstance(body, bytes) else body.encode())
    return Unknown(origin="log", raw=body, reason="the body is not a blob")


def _within(seq: int) -> int:
    """Keep a number that a client sent within what the database can compare."""
    return max(-(1 << 62), min(seq, 1 << 62))
