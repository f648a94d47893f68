"""The roster and the inbox on disk: two projections of the log, and how to read them."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from quarterdeck.wire.decoders import json_decoder
from quarterdeck.wire.events import (
    PermissionAnswered,
    PermissionApproved,
    PermissionAsked,
    PermissionViolated,
    QuestionAnswered,
    QuestionAsked,
    SessionEnded,
)
from quarterdeck.wire.ids import RequestId, SessionId
from quarterdeck.wire.record import Record, decode_event, encode_event

from .agent_entry import ENTRY_EVENTS, AgentEntry, fold_entry
from .names import normalize_name

if TYPE_CHECKING:
    from quarterdeck.journal import Projection

__all__ = [
    "InboxProjection",
    "OpenRequest",
    "RosterProjection",
    "find_asked",
    "find_entry",
    "load_archived",
    "load_requests",
    "load_started",
    "load_unarchived",
    "was_asked",
]

_encoder = msgspec.json.Encoder()
_decoder = json_decoder(AgentEntry)
_COLUMNS = "session, key, archived, started, last_seq, entry"


class OpenRequest(Struct, frozen=True, kw_only=True):
    """A permission request or a question that is open, or a violation no one has seen yet."""

    request: RequestId
    session: SessionId
    seq: int
    time: int
    event: PermissionAsked | QuestionAsked | PermissionViolated
    approved: tuple[PermissionApproved, ...] = ()
    """Those who have allowed it, where more people have to."""


class RosterProjection:
    """Keeps one row for each session that a fleet has spawned."""

    name = "fleet"
    version = 3
    types = ENTRY_EVENTS
    schema = (
        "CREATE TABLE fleet (session TEXT PRIMARY KEY, key TEXT NOT NULL,"
        " archived INTEGER NOT NULL, started INTEGER NOT NULL, last_seq INTEGER NOT NULL,"
        " entry BLOB NOT NULL)",
        "CREATE INDEX fleet_by_key ON fleet (key, last_seq)",
        "CREATE INDEX fleet_by_last_seq ON fleet (archived, last_seq)",
        "CREATE INDEX fleet_started ON fleet (session) WHERE started",
    )

    def apply(self, connection: sqlite3.Connection, records: Sequence[Record]) -> None:
        """Take in records; a session is read and written once, however many of them are its."""
        entries: dict[SessionId, AgentEntry | None] = {}
        for record in records:
            id_ = record.session
            if id_ not in entries:
                entries[id_] = find_entry(connection, id_)
            entries[id_] = fold_entry(entries[id_], record)
        connection.executemany(
            f"INSERT OR REPLACE INTO fleet ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",
            [_row(entry) for entry in entries.values() if entry is not None],
        )

    def forget(self, connection: sqlite3.Connection, session: SessionId) -> None:
        """Drop the session's row."""
        connection.execute("DELETE FROM fleet WHERE session = ?", (session,))


class InboxProjection:
    """Keeps what was asked; once it is answered only that it was."""

    name = "inbox"
    version = 2
    types = frozenset(
        {
            "permission_asked",
            "permission_answered",
            "permission_violated",
            "question_asked",
            "question_answered",
            "session_ended",
        }
    )
    schema = (
        "CREATE TABLE inbox (request TEXT PRIMARY KEY, session TEXT NOT NULL,"
        " seq INTEGER NOT NULL, time INTEGER NOT NULL, asked BLOB)",
        "CREATE INDEX inbox_open ON inbox (seq) WHERE asked IS NOT NULL",
        "CREATE INDEX inbox_by_session ON inbox (session) WHERE asked IS NOT NULL",
    )

    def apply(self, connection: sqlite3.Connection, records: Sequence[Record]) -> None:
        """Take in what was asked, answered, and ended."""
        for record in records:
            match record.event:
                case PermissionAsked() | QuestionAsked() | PermissionViolated() as event:
                    connection.execute(
                        "INSERT OR REPLACE INTO inbox (request, session, seq, time, asked)"
                        " VALUES (?, ?, ?, ?, ?)",
                        (
                            event.request,
                            record.session,
                            record.seq,
                            record.time,
                            encode_event(event),
                        ),
                    )
                case PermissionAnswered(request=request) | QuestionAnswered(request=request):
                    connection.execute(
                        "UPDATE inbox SET asked = NULL WHERE request = ? AND session = ?",
                        (request, record.session),
                    )
                case SessionEnded():
                    connection.execute(
                        "UPDATE inbox SET asked = NULL WHERE session = ? AND asked IS NOT NULL",
                        (record.session,),
                    )
                case _:
                    continue

    def forget(self, connection: sqlite3.Connection, session: SessionId) -> None:
        """Drop the session's requests."""
        connection.execute("DELETE FROM inbox WHERE session = ?", (session,))


def find_entry(connection: sqlite3.Connection, agent: str) -> AgentEntry | None:
    """The agent of this id, else the last to change of this name."""
    for column, value in (("session", agent), ("key", normalize_name(agent))):
        row = connection.execute(
            f"SELECT entry FROM fleet WHERE {column} = ? ORDER BY last_seq DESC LIMIT 1", (value,)
        ).fetchone()
        if row is not None:
            return _decoder.decode(row[0])
    return None


def load_unarchived(connection: sqlite3.Connection) -> list[AgentEntry]:
    """Every agent that is not put away."""
    return _load(connection.execute("SELECT entry FROM fleet WHERE archived = 0 ORDER BY last_seq"))


def load_started(connection: sqlite3.Connection) -> list[AgentEntry]:
    """Every agent that runs or is about to, as far as the log tells."""
    return _load(connection.execute("SELECT entry FROM fleet WHERE started ORDER BY session"))


def load_archived(connection: sqlite3.Connection) -> list[AgentEntry]:
    """The agents that are put away, the latest to change first."""
    return _load(
        connection.execute("SELECT entry FROM fleet WHERE archived = 1 ORDER BY last_seq DESC")
    )


def load_requests(connection: sqlite3.Connection) -> list[OpenRequest]:
    """Everything that is open, oldest first."""
    rows = connection.execute(
        "SELECT request, session, seq, time, asked FROM inbox WHERE asked IS NOT NULL ORDER BY seq"
    )
    found: list[OpenRequest] = []
    for request, session, seq, time, asked in rows:
        event = decode_event(asked)
        if isinstance(event, PermissionAsked | QuestionAsked | PermissionViolated):
            found.append(
                OpenRequest(request=request, session=session, seq=seq, time=time, event=event)
            )
    return found


def was_asked(connection: sqlite3.Connection, request: RequestId) -> bool:
    """Whether there ever was a request of this id."""
    found = connection.execute("SELECT 1 FROM inbox WHERE request = ?", (request,)).fetchone()
    return found is not None


def find_asked(connection: sqlite3.Connection, request: RequestId) -> int | None:
    """The record of a request, by its sequence number; None: there is none."""
    query = "SELECT seq FROM inbox WHERE request = ?"
    found = connection.execute(query, (request,)).fetchone()
    return found[0] if found is not None else None


def _row(entry: AgentEntry) -> tuple[Any, ...]:
    archived = int(entry.status.is_archived)
    key = normalize_name(entry.name)
    started = int(entry.is_started)
    return entry.session, key, archived, started, entry.last_seq, _encoder.encode(entry)


def _load(rows: Iterable[tuple[bytes]]) -> list[AgentEntry]:
    return [_decoder.decode(row) for (row,) in rows]


if TYPE_CHECKING:
    _roster: Projection = RosterProjection()
    _inbox: Projection = InboxProjection()
