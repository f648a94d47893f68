"""Which files two agents were ever noted to share: a projection, so that none is noted twice."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from quarterdeck.wire.events import ConflictChanged
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record

if TYPE_CHECKING:
    from quarterdeck.journal import Projection

__all__ = ["NotedConflictsProjection", "load_noted_paths"]


class NotedConflictsProjection:
    """Keeps one row for each session, other session and file."""

    name = "conflicts"
    version = 1
    types = frozenset({"conflict_changed"})
    schema = (
        "CREATE TABLE noted_conflicts (session TEXT NOT NULL, other TEXT NOT NULL,"
        " path TEXT NOT NULL, PRIMARY KEY (session, other, path)) WITHOUT ROWID",
    )

    def apply(self, connection: sqlite3.Connection, records: Sequence[Record]) -> None:
        """Take in what was noted."""
        rows = [
            (record.session, record.event.other, file.path)
            for record in records
            if isinstance(record.event, ConflictChanged)
            for file in record.event.files
        ]
        connection.executemany("INSERT OR IGNORE INTO noted_conflicts VALUES (?, ?, ?)", rows)

    def forget(self, connection: sqlite3.Connection, session: SessionId) -> None:
        """Drop what was noted about a session."""
        connection.execute(
            "DELETE FROM noted_conflicts WHERE session = ? OR other = ?", (session, session)
        )


def load_noted_paths(
    connection: sqlite3.Connection, pairs: Iterable[tuple[SessionId, SessionId]]
) -> dict[tuple[SessionId, SessionId], frozenset[str]]:
    """The files that each two sessions have ever shared, as far as was noted."""
    question = (
        "SELECT path FROM noted_conflicts WHERE (session = ? AND other = ?)"
        " OR (session = ? AND other = ?)"
    )
    return {
        (one, other): frozenset(
            path for (path,) in connection.execute(question, (one, other, other, one))
        )
        for one, other in pairs
    }


if TYPE_CHECKING:
    _noted: Projection = NotedConflictsProjection()
