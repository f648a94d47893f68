"""Sub-agents of our own agent: sessions in its log, with a parent and no place in the roster."""

import asyncio
import sqlite3
from collections.abc import Collection, Mapping

from quarterdeck.config.places import Places
from quarterdeck.journal import Journal, SessionSummary
from quarterdeck.journal.errors import JournalError
from quarterdeck.journal.sessions import list_sessions
from quarterdeck.wire.ids import SessionId

__all__ = ["SUB_AGENTS_QUERY", "delete_with_sub_agents", "load_sub_agents"]

_DEEPEST = 50
_MANY = 1_000_000
SUB_AGENTS_QUERY = (
    "SELECT s.id FROM sessions s WHERE s.parent IN (SELECT id FROM sessions)"
    " AND s.id NOT IN (SELECT session FROM fleet)"
)
"""A query for all sub-agents of a host's log."""
_FAMILY = (
    "WITH RECURSIVE family (id, depth) AS (SELECT ?, 0 UNION"
    " SELECT s.id, depth + 1 FROM sessions s JOIN family f ON s.parent = f.id"
    f" WHERE depth < {_DEEPEST} AND s.id NOT IN (SELECT session FROM fleet))"
    " SELECT id FROM family ORDER BY depth DESC"
)


async def delete_with_sub_agents(journal: Journal, session: SessionId) -> None:
    """Delete a session of a host's log with its sub-agents, and theirs; itself last.

    Agents that it led are agents of the fleet and stay.
    """
    family = await journal.query(lambda c: [row[0] for row in c.execute(_FAMILY, (session,))])
    for one in dict.fromkeys(family):
        await journal.delete(SessionId(one))


async def load_sub_agents(
    places: Places, parents: Collection[SessionId]
) -> Mapping[SessionId, list[SessionSummary]]:
    """The sub-agents of sessions, by the session that began them, in the order of beginning.

    Of sessions in the host's log and in logs of their own; a log that cannot be read has none.
    """
    found: dict[SessionId, list[SessionSummary]] = {}
    own = [places.state / "sessions" / f"{parent}.db" for parent in parents]
    for path in (places.journal_file, *own):
        if not await asyncio.to_thread(path.is_file):
            continue
        try:
            async with Journal.open(path, write=False) as journal:
                children = await journal.query(_children)
        except JournalError:
            continue
        for child in children:
            assert child.parent is not None
            found.setdefault(child.parent, []).append(child)
    return found


def _children(connection: sqlite3.Connection) -> list[SessionSummary]:
    try:
        members = {row[0] for row in connection.execute("SELECT session FROM fleet")}
    except sqlite3.OperationalError:
        members = set[str]()  # a log of its own has no roster
    rows = list_sessions(connection, limit=_MANY)
    return [row for row in reversed(rows) if row.parent is not None and row.id not in members]
