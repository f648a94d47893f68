"""A thorough look at a log: the file's own structure, then every record."""

import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from quarterdeck.wire.events import UnknownEvent
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record

from .records import CHANGED, RecordReader
from .rows import session_checksum

__all__ = ["CheckReport", "check_journal"]

_PAGE = 1_000
_MOST_PROBLEMS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What an examination found."""

    events: int
    problems: tuple[str, ...]
    """Damage to the file, in the database's words; at most a hundred."""
    unreadable: tuple[int, ...]
    """Sequence numbers of records whose event could not be understood."""
    orphans: tuple[int, ...]
    """Sequence numbers of records whose session's name is lost."""
    changed: tuple[int, ...] = ()
    """Sequence numbers of records that are not as they were written."""
    unverified: int = 0
    """How many records have no checksum, because a program before version 2 wrote them."""
    damaged: Mapping[SessionId, int] = field(default_factory=dict[SessionId, int])
    """The sessions that have lost records, and how many at the least."""

    @property
    def healthy(self) -> bool:
        """Whether nothing at all was found."""
        return not (self.problems or self.unreadable or self.orphans or self.changed)


def check_journal(reader: RecordReader) -> CheckReport:
    """Examine a whole log. Blocks, in proportion to the log's size; never raises for damage."""
    return _Examination(reader).run()


class _Examination:
    """What has been found so far."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        self._connection = reader.connection
        self._problems: list[str] = []
        self._unreadable: list[int] = []
        self._changed: list[int] = []
        self._lost: Counter[SessionId] = Counter()
        self._events = 0

    def run(self) -> CheckReport:
        integrity = self._rows(f"PRAGMA integrity_check({_MOST_PROBLEMS})")
        self._problems += [str(text) for (text,) in integrity if text != "ok"]
        before = self._reader.unverified
        self._reader.rows.gaps.clear()
        try:
            self._examine_records()
        except sqlite3.DatabaseError as error:
            self._problems.append(str(error))
        self._examine_gaps()
        self._examine_names()
        orphans = self._rows(
            "SELECT seq FROM events WHERE session NOT IN (SELECT key FROM session_ids)"
        )
        return CheckReport(
            events=self._events,
            problems=tuple(self._problems[:_MOST_PROBLEMS]),
            unreadable=tuple(self._unreadable),
            orphans=tuple(seq for (seq,) in orphans),
            changed=tuple(self._changed),
            unverified=self._reader.unverified - before,
            damaged=dict(self._lost),
        )

    def _examine_records(self) -> None:
        last = -(1 << 62)
        while records := self._reader.after(last, limit=_PAGE):
            self._events += len(records)
            for record in records:
                self._examine_record(record)
            last = records[-1].seq

    def _examine_record(self, record: Record) -> None:
        event = record.event
        if isinstance(event, UnknownEvent) and event.origin == "log":
            found = self._changed if event.reason == CHANGED else self._unreadable
            found.append(record.seq)
            self._lost[record.session] += 1

    def _examine_gaps(self) -> None:
        for after, before in list(self._reader.rows.gaps.items()):
            last = "" if before is None else f" and before {before}"
            whole = self._reader.rows.recovered(after)
            self._problems.append(
                f"the database cannot read the records after {max(after, 0)}{last};"
                f" {len(whole)} of them are whole in the file"
            )
            # The index still knows their sessions.
            rows = self._rows(
                "SELECT id, e.rowid FROM events e INDEXED BY events_by_session"
                " JOIN session_ids ON key = session WHERE e.rowid > ? AND e.rowid < ?",
                (after, 1 << 62 if before is None else before),
            )
            found = {row[0] for row in whole}
            missing = [SessionId(str(id_)) for id_, seq in rows if seq not in found]
            # Where the index is damaged as well, those to either side are the likeliest.
            self._lost.update(missing or self._beside(after, before))

    def _beside(self, after: int, before: int | None) -> set[SessionId]:
        sides = [self._reader.before(after + 1, limit=1)]
        if before is not None:
            sides.append(self._reader.after(before - 1, limit=1))
        return {record.session for side in sides for record in side}

    def _examine_names(self) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version < 2:
            return
        for key, id_, made, checksum in self._rows(
            "SELECT key, id, made, checksum FROM session_ids"
        ):
            if checksum is not None and not _is_named(key, id_, made, checksum):
                self._problems.append(
                    f"the name of session {id_!r} was changed after it was written"
                )
                self._lost[SessionId(str(id_))] += 0

    def _rows(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows that can be read; what cannot is a problem."""
        found: list[tuple[Any, ...]] = []
        try:
            found.extend(self._connection.execute(statement, values))
        except sqlite3.DatabaseError as error:
            self._problems.append(str(error))
        return found


def _is_named(key: Any, id_: Any, made: Any, checksum: Any) -> bool:
    try:
        return checksum == session_checksum(key, id_, made)
    except UnicodeEncodeError:
        return False
