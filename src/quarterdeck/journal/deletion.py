"""Deleting a session: noted first, then done in slices so that no commit waits long.

The note says up to where the session is gone. It outlives the rows: an interrupted deletion is
finished at the next opening, no sequence number is given out twice, and the search index, which
is a file of its own, learns from it what to drop.
"""

import sqlite3

from quarterdeck.wire.ids import SessionId

from .store import last_seq, transaction

__all__ = ["delete_slice", "finish_deletions", "note_deletion"]

_SLICE = 500


def note_deletion(connection: sqlite3.Connection, session: SessionId) -> int:
    """Write down, within the caller's transaction, that a session is to go; returns the note."""
    cursor = connection.execute(
        "INSERT INTO deletions (session, through) VALUES (?, ?)", (session, last_seq(connection))
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def delete_slice(connection: sqlite3.Connection, note: int) -> int:
    """Delete some of the rows that a note names; returns how many, 0 when all are gone."""
    with transaction(connection):
        row = connection.execute(
            "SELECT key, through FROM deletions JOIN session_ids ON id = session WHERE number = ?",
            (note,),
        ).fetchone()
        deleted = 0
        if row is not None:
            deleted = connection.execute(
                # Asked twice, because a damaged index may name rows of another session.
                "DELETE FROM events WHERE session = ? AND seq IN"
                " (SELECT seq FROM events WHERE session = ? AND seq <= ? LIMIT ?)",
                (row[0], *row, _SLICE),
            ).rowcount
        if not deleted:
            _finish(connection, note, row and row[0])
    return deleted


def finish_deletions(connection: sqlite3.Connection) -> None:
    """Carry through what an earlier process began."""
    open_notes = connection.execute("SELECT number FROM deletions WHERE NOT done").fetchall()
    for (note,) in open_notes:
        while delete_slice(connection, note):
            pass


def _finish(connection: sqlite3.Connection, note: int, key: int | None) -> None:
    connection.execute("UPDATE deletions SET done = 1 WHERE number = ?", (note,))
    connection.execute(
        "DELETE FROM session_ids WHERE key = ?"
        " AND NOT EXISTS (SELECT 1 FROM events WHERE session = key)",
        (key,),
    )
