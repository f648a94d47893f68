"""A thorough look at a log: the file's own structure, then every record."""

import sqlite3
from dataclasses import dataclass
from itertools import pairwise

from quarterdeck.wire.events import Unknown

from .records import RecordReader

__all__ = ["Report", "examine"]

_PAGE = 1_000
_MOST_PROBLEMS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an examination found."""

    events: int
    problems: tuple[str, ...]
    """Damage to the file, in the database's words; at most a hundred."""
    unreadable: tuple[int, ...]
    """Sequence numbers of records whose event could not be understood."""
    orphans: tuple[int, ...]
    """Sequence numbers of records whose session's name is lost."""

    @property
    def healthy(self) -> bool:
        """Whether nothing at all was found."""
        return not (self.problems or self.unreadable or self.orphans)


def examine(reader: RecordReader) -> Report:
    """Examine a whole log. Blocks, in proportion to the log's size."""
    problems: list[str] = []
    unreadable: list[int] = []
    orphans: list[int] = []
    events = 0
    try:
        rows = reader.connection.execute(f"PRAGMA integrity_check({_MOST_PROBLEMS})")
        problems += [text for (text,) in rows if text != "ok"]
        events = _examine_records(reader, problems, unreadable)
        rows = reader.connection.execute(
            "SELECT seq FROM events WHERE session NOT IN (SELECT key FROM session_ids)"
        )
        orphans += [seq for (seq,) in rows]
    except sqlite3.DatabaseError as error:
        problems.append(str(error))
    return Report(
        events=events,
        problems=tuple(problems),
        unreadable=tuple(unreadable),
        orphans=tuple(orphans),
    )


def _examine_records(reader: RecordReader, problems: list[str], unreadable: list[int]) -> int:
    events = last = 0
    while records := reader.after(last, limit=_PAGE):
        events += len(records)
        if any(one.seq >= two.seq for one, two in pairwise(records)):
            problems.append(f"records out of order after {last}")
        unreadable += [
            record.seq
            for record in records
            if isinstance(record.event, Unknown) and record.event.origin == "log"
        ]
        last = records[-1].seq
    return events
