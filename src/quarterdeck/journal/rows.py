"""Rows of the events table as they are on disk, with their checksums. Everything here blocks.

A sound table is read with one statement. What the database cannot read, or what is out of order or
fails its checksum, is read carefully: row by row, past what is broken, never backwards. So a
damaged row or page costs only itself.

CRC-32 finds every change of up to four neighbouring bytes and misses one in four thousand million
others. It guards against failing disks and stray writes, not against an attacker.
"""

import sqlite3
from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from struct import Struct as BinaryStruct
from struct import error as StructError
from typing import Any, TypeAlias
from zlib import crc32

from msgspec import Struct

__all__ = [
    "EventRow",
    "EventRows",
    "RowQuery",
    "event_row",
    "in_order",
    "is_intact",
    "record_checksum",
    "session_checksum",
]

_NUMBERS = BinaryStruct(">qqq").pack


def record_checksum(
    seq: int,
    time: int,
    session: int,
    turn: str | None,
    parent: str | None,
    kind: str,
    body: bytes,
) -> int:
    """The checksum of a row of ``events``: its body and its place.

    It covers the place as well, so a body that stands in another record's row is found, too.
    """
    # One call over one text is the cheapest way; every event that is appended pays for it.
    words = f"{kind}\x01{turn}\x02{parent}\x03"
    return crc32(_NUMBERS(seq, time, session) + words.encode() + body)


def session_checksum(key: int, id_: str, made: int) -> int:
    """The checksum of a row of ``session_ids``."""
    return crc32(f"{key} {id_} {made}".encode())


EventRow: TypeAlias = tuple[Any, ...]
"""``seq, time, session, turn, parent, type, body, checksum``; all but ``seq`` are as found."""

_COLUMNS = "seq, time, session, turn, parent, type, body"
_CHUNK = 256
_BESIDE = 16
"""Rows read beyond a page, so that a wrong number at its end is seen to be wrong."""
_NEAR = 1_000
"""How far a row that fails its checksum may stand beyond the last sound one to be believed."""
_END = 1 << 62
_GONE = (None,) * 6
_WINDOW = 1_024
_MOST = 100_000
"""Rows of one gap that are read from pages at the most."""


class RowQuery(Struct, frozen=True, kw_only=True):
    """Which rows are wanted: those between ``low`` and ``high``, both left out."""

    low: int = -_END
    high: int = _END
    session: int | None = None
    """Only those of the session with this number."""
    types: tuple[str, ...] | None = None
    limit: int
    newest: bool = False
    """The last of them rather than the first; in order all the same."""

    def matches(self, row: EventRow) -> bool:
        """Whether a row is of the session and of the types; one that is gone may be."""
        if row[1:7] == _GONE:
            return self.session is None and self.types is None
        is_of_session = self.session is None or row[2] == self.session
        return is_of_session and (self.types is None or row[5] in self.types)


class EventRows:
    """Reads rows over one connection; used by one thread at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.gaps: dict[int, int | None] = {}
        """Where rows could not be read: after this number, before that one (None: to the end)."""
        self._columns: str | None = None
        self._recovered: dict[int, list[EventRow]] = {}

    def select(self, query: RowQuery, *, is_indexed: bool = True) -> sqlite3.Cursor:
        """The rows as the database gives them: neither checked nor, in a damaged one, in order."""
        where, values = ["seq > ?", "seq < ?"], [query.low, query.high]
        if query.session is not None and is_indexed:
            where.append("session = ?")
            values.append(query.session)
        if query.types is not None and is_indexed:
            where.append(f"type IN ({', '.join('?' * len(query.types))})")
        order = "DESC" if query.newest else "ASC"
        table = "events" if is_indexed else "events NOT INDEXED"
        types = query.types if query.types is not None and is_indexed else ()
        return self._connection.execute(
            f"SELECT {self._all_columns()} FROM {table} WHERE {' AND '.join(where)}"
            f" ORDER BY seq {order} LIMIT ?",
            (*values, *types, query.limit),
        )

    def read_carefully(self, query: RowQuery) -> list[EventRow]:
        """The rows in strictly ascending order, whatever is damaged; empty only at the end."""
        factory = self._connection.text_factory
        self._connection.text_factory = _lenient
        try:
            return self._beside(query) or self._scan_whole(query)
        finally:
            self._connection.text_factory = factory

    def _beside(self, query: RowQuery) -> list[EventRow]:
        more = RowQuery(
            low=query.low,
            high=query.high,
            session=query.session,
            types=query.types,
            limit=query.limit + _BESIDE,
            newest=query.newest,
        )
        try:
            found = self.select(more).fetchall()
        except sqlite3.DatabaseError:
            return []
        rows = in_order(found[::-1] if query.newest else found, query.low, query.high)
        return _cut([row for row in rows if query.matches(row)], query)

    def _scan_whole(self, query: RowQuery) -> list[EventRow]:
        if not query.newest:
            return self._scan(query, query.low)[: query.limit]
        high = min(query.high, self._last() + 1)
        window = _WINDOW
        while True:
            low = max(query.low, high - window, -1)
            every = RowQuery(
                low=low,
                high=query.high,
                session=query.session,
                types=query.types,
                limit=window + _CHUNK,
            )
            found = self._scan(every, low)
            if len(found) >= query.limit or low <= max(query.low, -1):
                return _cut(found, query)
            window *= 4

    def _scan(self, query: RowQuery, position: int) -> list[EventRow]:
        """Walk the table past everything that cannot be read, until there are enough rows."""
        found: list[EventRow] = []
        while len(found) < query.limit:
            rows, is_whole = self._chunk(position, query.high)
            good = in_order(rows, position, query.high)
            found += [row for row in good if query.matches(row)]
            if good:
                position = good[-1][0]
            if is_whole and len(rows) < _CHUNK:
                return found
            if not is_whole or not good:
                rows, reached = self._beyond(position, query.high)
                found += [row for row in rows if query.matches(row)]
                if reached is None:
                    return found
                position = reached
        return found

    def _chunk(self, position: int, high: int) -> tuple[list[EventRow], bool]:
        rows: list[EventRow] = []
        try:
            # What came before an error stays in the list.
            rows.extend(
                self.select(RowQuery(low=position, high=high, limit=_CHUNK), is_indexed=False)
            )
        except sqlite3.DatabaseError:
            return rows, False
        return rows, True

    def _beyond(self, position: int, high: int) -> tuple[list[EventRow], int | None]:
        """The rows up to the first that the database reads again, and its number; None: the end."""
        start, step, failed = position + 1, 1, position
        while (first := self._first(start, high)) is _FAILED:
            failed = start
            start, step = start + step, step * 2
            if start >= high:
                self.gaps[position] = None
                return self._recover(position, high), None
        while start - failed > 1 and failed > position:
            middle = (start + failed) // 2
            if (earlier := self._first(middle, high)) is _FAILED:
                failed = middle
            else:
                start, first = middle, earlier
        recovered: list[EventRow] = []
        if failed > position:
            self.gaps[position] = first
            recovered = self._recover(position, high if first is None else first)
        if first is None:
            return recovered, None
        return [*recovered, self._single(first)], first

    def recovered(self, gap: int) -> list[EventRow]:
        """The rows of a gap that could be read without the database."""
        return self._recovered.get(gap, [])

    def _recover(self, after: int, before: int) -> list[EventRow]:
        """Rows that the database cannot reach, straight from the file's pages."""
        from .sqlite_pages import rows_between  # hardly any log is damaged

        if after not in self._recovered:
            (_, _, file) = self._connection.execute("PRAGMA database_list").fetchone()
            rows: dict[int, EventRow] = {}
            try:
                for number, columns in islice(rows_between(Path(file), after, before), _MOST):
                    row = event_row(number, columns)
                    if row is not None and is_intact(row) is not False:
                        rows.setdefault(number, row)
            except OSError:
                rows = {}
            self._recovered[after] = [rows[number] for number in sorted(rows)]
        return [row for row in self._recovered[after] if after < row[0] < before]

    def _first(self, start: int, high: int) -> Any:
        """The first number from ``start`` on; None if there is none, ``_FAILED`` if unreadable."""
        try:
            row = self._connection.execute(
                "SELECT seq FROM events NOT INDEXED WHERE seq >= ? AND seq < ?"
                " ORDER BY seq LIMIT 1",
                (start, high),
            ).fetchone()
        except sqlite3.DatabaseError:
            return _FAILED
        if row is None:
            return None
        return row[0] if row[0] >= start else _FAILED

    def _single(self, seq: int) -> EventRow:
        try:
            row = self._connection.execute(
                f"SELECT {self._all_columns()} FROM events NOT INDEXED WHERE seq = ?", (seq,)
            ).fetchone()
        except sqlite3.DatabaseError:
            row = None
        return row if row is not None and row[0] == seq else (seq, *_GONE, -1)

    def _last(self) -> int:
        last = self._first_of("SELECT max(seq) FROM events NOT INDEXED")
        # Where the end of the tree cannot be read, the index shows up to where there are rows.
        return last or self._first_of("SELECT max(rowid) FROM events INDEXED BY events_by_session")

    def _first_of(self, statement: str) -> int:
        try:
            (value,) = self._connection.execute(statement).fetchone()
        except sqlite3.DatabaseError:
            return 0
        return value if isinstance(value, int) and 0 <= value < _END else 0

    def _all_columns(self) -> str:
        if self._columns is None:
            # Without write access, a log of the first version is read as it is.
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
            self._columns = f"{_COLUMNS}, {'checksum' if version > 1 else 'NULL'}"
        return self._columns


_FAILED = object()


def is_intact(row: EventRow) -> bool | None:
    """Whether a row is as it was written; None where it has no checksum."""
    seq, time, session, turn, parent, kind, body, checksum = row
    if checksum is None:
        return None
    try:
        return checksum == record_checksum(seq, time, session, turn, parent, kind, body)
    except (TypeError, UnicodeEncodeError, StructError):
        return False


def event_row(number: int, columns: list[Any]) -> EventRow | None:
    """A row that was read from a page, if it is one of the events; else None."""
    match columns[:7]:
        case [None, int(), int(), None | str(), None | str(), str(), bytes()]:
            # Rows that a program before version 2 wrote have no checksum.
            checksum = columns[7] if len(columns) > 7 else None
            is_event = len(columns) <= 8 and isinstance(checksum, int | None)
            return (number, *columns[1:7], checksum) if is_event else None
        case _:
            return None


def in_order(rows: Iterable[EventRow], low: int, high: int) -> list[EventRow]:
    """Those rows that follow one another between ``low`` and ``high``, both left out.

    Rows that match their checksum decide; the others are kept where they fit in between.
    """
    kept: list[EventRow] = []
    loose: list[EventRow] = []
    for row in rows:
        if not is_intact(row):
            loose.append(row)
        elif low < row[0] < high:
            kept += _longest_rise(loose, low, row[0])
            kept.append(row)
            low, loose = row[0], []
    near = [row for row in loose if row[-1] is None or row[0] <= low + _NEAR]
    return kept + _longest_rise(near, low, high)


def _longest_rise(rows: list[EventRow], low: int, high: int) -> list[EventRow]:
    """As many as possible of the rows, in strictly ascending order; of two the lower number."""
    ends: list[int] = []
    lasts: list[int] = []
    before: dict[int, int | None] = {}
    for index, row in enumerate(rows):
        seq = row[0]
        if low < seq < high:
            place = bisect_left(ends, seq)
            before[index] = lasts[place - 1] if place else None
            ends[place : place + 1], lasts[place : place + 1] = [seq], [index]
    chosen: list[EventRow] = []
    index = lasts[-1] if lasts else None
    while index is not None:
        chosen.append(rows[index])
        index = before[index]
    return chosen[::-1]


def _cut(rows: list[EventRow], query: RowQuery) -> list[EventRow]:
    return rows[-query.limit :] if query.newest else rows[: query.limit]


def _lenient(data: bytes) -> str:
    return data.decode("utf-8", "replace")
