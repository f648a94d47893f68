"""The list of sessions: a projection that every log has."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from quarterdeck.wire.events import (
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
)
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record

from .records import RecordReader
from .session_summary import SessionSummary

if TYPE_CHECKING:
    from .projections import Projection

__all__ = ["SessionSummary", "SessionsProjection", "list_sessions", "list_sessions_carefully"]


class SessionsProjection:
    """Keeps one row for each session that was opened."""

    name = "sessions"
    version = 1
    types = frozenset({"session_opened", "session_resumed", "session_changed", "session_ended"})
    schema = (
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, agent TEXT, cwd TEXT, title TEXT, model TEXT,"
        " parent TEXT, forked_from TEXT, transport TEXT, agent_session TEXT,"
        " opened INTEGER NOT NULL, ended TEXT, reason TEXT)",
        "CREATE INDEX sessions_by_opening ON sessions (opened)",
    )

    def apply(self, connection: sqlite3.Connection, records: Sequence[Record]) -> None:
        """Take in the events of sessions' lives."""
        for record in records:
            match record.event:
                case SessionOpened() as event:
                    _insert(connection, record, event)
                case SessionResumed() as event:
                    _update(connection, record.session, _resumed(event))
                case SessionChanged() as event:
                    _update(connection, record.session, _changed(event))
                case SessionEnded(how=how, reason=reason):
                    _update(connection, record.session, {"ended": how, "reason": reason})
                case _:
                    # A row whose event this program cannot read adds nothing.
                    continue

    def forget(self, connection: sqlite3.Connection, session: SessionId) -> None:
        """Drop the session's row."""
        connection.execute("DELETE FROM sessions WHERE id = ?", (session,))


def list_sessions(
    connection: sqlite3.Connection, *, limit: int = 1_000, before: int | None = None
) -> list[SessionSummary]:
    """The sessions opened last, newest first; ``before`` is an ``opened`` time to page on."""
    rows = connection.execute(
        "SELECT s.id, agent, cwd, title, model, s.parent, forked_from, transport, agent_session,"
        " opened, ended, reason, e.time, e.seq FROM sessions s"
        " JOIN session_ids i ON i.id = s.id"
        " JOIN events e ON e.seq = (SELECT max(seq) FROM events WHERE session = i.key)"
        " WHERE opened < ? ORDER BY opened DESC LIMIT ?",
        (1 << 62 if before is None else before, limit),
    )
    return [_summary(row) for row in rows]


def list_sessions_carefully(
    reader: RecordReader, *, limit: int = 1_000, before: int | None = None
) -> list[SessionSummary]:
    """The same of a damaged log, from its records alone; takes time in proportion to its size."""
    found: list[SessionSummary] = []
    with closing(sqlite3.connect(":memory:")) as memory:
        kept, last = SessionsProjection(), dict[SessionId, Record]()
        for statement in kept.schema:
            memory.execute(statement)
        position = -(1 << 62)
        while records := reader.after(position, limit=1_000):
            position = records[-1].seq
            last.update((record.session, record) for record in records)
            kept.apply(memory, records)
        rows = memory.execute(
            "SELECT id, agent, cwd, title, model, parent, forked_from, transport, agent_session,"
            " opened, ended, reason FROM sessions WHERE opened < ? ORDER BY opened DESC LIMIT ?",
            (1 << 62 if before is None else before, limit),
        )
        for row in rows:
            newest = last[row[0]]
            found.append(_summary((*row, newest.time, newest.seq)))
    return found


def _summary(row: tuple[Any, ...]) -> SessionSummary:
    (id_, agent, cwd, title, model, parent, forked_from, transport, agent_session) = row[:9]
    opened, ended, reason, updated, last_seq = row[9:]
    return SessionSummary(
        id=id_,
        agent=agent,
        cwd=cwd,
        title=title,
        model=model,
        parent=parent,
        forked_from=forked_from,
        transport=transport,
        agent_session=agent_session,
        opened=opened,
        updated=updated,
        last_seq=last_seq,
        ended=ended,
        reason=reason,
    )


def _insert(connection: sqlite3.Connection, record: Record, event: SessionOpened) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO sessions (id, agent, cwd, title, model, parent, forked_from,"
        " transport, agent_session, opened) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            record.session,
            event.agent,
            event.cwd,
            event.title,
            event.model,
            event.parent_session,
            event.forked_from,
            event.transport,
            event.agent_session,
            record.time,
        ),
    )


def _resumed(event: SessionResumed) -> dict[str, Any]:
    changes = {"transport": event.transport, "agent_session": event.agent_session}
    return {"ended": None, "reason": None} | {k: v for k, v in changes.items() if v is not None}


def _changed(event: SessionChanged) -> dict[str, Any]:
    changes = {"title": event.title, "agent_session": event.agent_session, "model": event.model}
    return {name: value for name, value in changes.items() if value is not UNSET}


def _update(connection: sqlite3.Connection, session: SessionId, fields: dict[str, Any]) -> None:
    if fields:
        settings = ", ".join(f"{name} = ?" for name in fields)
        connection.execute(
            f"UPDATE sessions SET {settings} WHERE id = ?", (*fields.values(), session)
        )


if TYPE_CHECKING:
    _: Projection = SessionsProjection()
