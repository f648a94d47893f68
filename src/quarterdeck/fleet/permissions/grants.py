"""Standing answers in a fleet: those for one session are in the log, lasting ones in a file."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from quarterdeck.config.places import Places
from quarterdeck.journal import Journal
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grants import Grant, GrantStore
from quarterdeck.policy.modes import Effect
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.decoders import json_decoder
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    GrantRevoked,
    PermissionAnswered,
    PermissionAsked,
    SessionEnded,
    UnknownEvent,
)
from quarterdeck.wire.ids import SessionId, new_grant_id
from quarterdeck.wire.permissions import Decider
from quarterdeck.wire.record import Record, decode_event, encode_event

from ..agent_entry import AgentEntry
from ..errors import NoSuchAgentError
from ..live_index import LiveIndex, LogWriter
from ..names import looks_like_id
from ..projections import find_entry
from .grant_uses import USE_TABLES, add_uses
from .session_gate import open_grants

if TYPE_CHECKING:
    from quarterdeck.journal import Projection
    from quarterdeck.policy.rules import Rule

__all__ = [
    "FleetGrants",
    "GrantLimits",
    "GrantsProjection",
    "InvalidGrantError",
    "add_lasting_grants",
    "find_agent_entry",
    "find_leads",
    "find_leads_of",
    "load_all_grants",
    "load_session_grants",
]

_encoder = msgspec.json.Encoder()
_decoder = json_decoder(Grant)


class GrantsProjection:
    """Keeps the grants for one session that were given and not taken back, and how often each
    grant was used.
    """

    name = "session_grants"
    version = 2
    types = frozenset(
        {
            "grant_revoked",
            "grant_used",
            "permission_answered",
            "permission_asked",
            "session_ended",
        }
    )
    schema = (
        "CREATE TABLE granting (request TEXT PRIMARY KEY, session TEXT NOT NULL,"
        " asked BLOB NOT NULL)",
        "CREATE INDEX granting_by_session ON granting (session)",
        "CREATE TABLE session_grants (id TEXT PRIMARY KEY, session TEXT NOT NULL,"
        " content BLOB NOT NULL)",
        "CREATE INDEX session_grants_by_session ON session_grants (session)",
        *USE_TABLES,
    )

    def apply(self, connection: sqlite3.Connection, records: Sequence[Record]) -> None:
        """Take in what was asked, answered, used and taken back."""
        for record in records:
            add_uses(connection, record)
            match record.event:
                case PermissionAsked() as event if _may_stand(event):
                    connection.execute(
                        "INSERT OR REPLACE INTO granting (request, session, asked)"
                        " VALUES (?, ?, ?)",
                        (event.request, record.session, encode_event(event)),
                    )
                case PermissionAnswered() as event:
                    self._answered(connection, event, record)
                case GrantRevoked(grant=grant):
                    connection.execute(
                        "DELETE FROM session_grants WHERE id = ? AND session = ?",
                        (grant, record.session),
                    )
                case UnknownEvent():
                    # Damaged: it may have been the one that took a grant back.
                    self._drop_grants(connection, record.session)
                case SessionEnded():
                    connection.execute("DELETE FROM granting WHERE session = ?", (record.session,))
                case _:
                    continue

    def forget(self, connection: sqlite3.Connection, session: SessionId) -> None:
        """Drop the session's grants, and what it used."""
        self._drop_grants(connection, session)
        for table in ("grant_uses", "rule_uses"):
            connection.execute(f"DELETE FROM {table} WHERE session = ?", (session,))

    def _drop_grants(self, connection: sqlite3.Connection, session: SessionId) -> None:
        connection.execute("DELETE FROM granting WHERE session = ?", (session,))
        connection.execute("DELETE FROM session_grants WHERE session = ?", (session,))

    def _answered(
        self, connection: sqlite3.Connection, answered: PermissionAnswered, record: Record
    ) -> None:
        key = (answered.request, record.session)
        row = connection.execute(
            "SELECT asked FROM granting WHERE request = ? AND session = ?", key
        ).fetchone()
        if row is None:
            return
        # Imported here: it brings all of the policy with it, and most answers are a rule's.
        from quarterdeck.policy.permission_options import session_grants

        connection.execute("DELETE FROM granting WHERE request = ? AND session = ?", key)
        asked = decode_event(row[0])
        if not isinstance(asked, PermissionAsked):
            return
        connection.executemany(
            "INSERT OR REPLACE INTO session_grants (id, session, content) VALUES (?, ?, ?)",
            [
                (grant.id, grant.session, _encoder.encode(grant))
                for grant in session_grants(asked, answered, now=record.time)
                # What a fork took over was said of another session.
                if grant.session == record.session
            ],
        )


def load_session_grants(
    connection: sqlite3.Connection, session: SessionId | None = None
) -> list[Grant]:
    """The grants for a session, or for every one, in the order in which they were given.

    A log that no fleet has written has none.
    """
    if not _has_table(connection, "session_grants"):
        return []
    where, values = ("", ()) if session is None else ("WHERE session = ?", (session,))
    rows = connection.execute(f"SELECT content FROM session_grants {where}", values).fetchall()
    return sorted((_decoder.decode(row) for (row,) in rows), key=lambda one: (one.created, one.id))


async def load_all_grants(places: Places) -> list[Grant]:
    """Every standing answer, whether a host runs or not: lasting ones, then those for a session.

    Raises:
        GrantsError, JournalError: the file of grants or the log cannot be read.
    """
    lasting = (await open_grants(places)).all
    for_sessions: list[Grant] = []
    if await asyncio.to_thread(places.journal_file.exists):
        async with Journal.open(places.journal_file, write=False) as journal:
            for_sessions = await journal.query(load_session_grants)
    return [*lasting, *for_sessions]


async def find_agent_entry(places: Places, agent: str) -> AgentEntry | None:
    """An agent of the user's fleet by name or id, whether a host runs or not; None: no such one.

    Raises:
        JournalError: the log cannot be read.
    """
    if not await asyncio.to_thread(places.journal_file.exists):
        return None
    async with Journal.open(places.journal_file, write=False) as journal:
        return await journal.query(
            lambda c: find_entry(c, agent) if _has_table(c, "fleet") else None
        )


def find_leads(current: LiveIndex, session: SessionId, parent: SessionId | None) -> tuple[str, ...]:
    """The live sessions that lead an agent, itself first; ``parent`` is the one that started it."""

    def find(above: SessionId) -> AgentEntry | None:
        try:
            return current.get(above)
        except NoSuchAgentError:
            return None

    return _list_leads(session, parent, find)


async def find_leads_of(places: Places, entry: AgentEntry) -> tuple[str, ...]:
    """As ``find_leads``, from the log, whether a host runs or not. Raises JournalError."""
    async with Journal.open(places.journal_file, write=False) as journal:
        return await journal.query(
            lambda connection: _list_leads(
                entry.session, entry.spawn.parent_session, lambda id_: find_entry(connection, id_)
            )
        )


def _list_leads(
    session: SessionId,
    parent: SessionId | None,
    find: Callable[[SessionId], AgentEntry | None],
) -> tuple[str, ...]:
    found, seen, above = [session], {session}, parent
    while above is not None and above not in seen:
        seen.add(above)
        if (entry := find(above)) is None:
            break
        if entry.is_started:
            found.append(above)
        above = entry.spawn.parent_session
    return tuple(found)


class GrantLimits(Struct, frozen=True, kw_only=True):
    """Who a new grant is for, and how long; by default everything, for ever."""

    project: str | None = None
    session: SessionId | None = None
    tree: SessionId | None = None
    """A session with everything below it."""
    agent: str | None = None
    """Agents of this kind of the catalogue only."""
    lasts: int | None = None
    """Microseconds."""
    uses: int | None = None
    """Calls."""
    reason: str | None = None

    def check(self, effect: Effect) -> None:
        """Make sure that such a grant would do something. Raises InvalidGrantError."""
        if self.lasts is not None and self.lasts <= 0:
            raise InvalidGrantError("it would end at once; choose a longer time")
        if self.uses is not None and self.uses <= 0:
            raise InvalidGrantError(f"{self.uses} uses are none; choose 1 or more")
        if self.uses is not None and effect != "allow":
            raise InvalidGrantError(
                f"only what allows is for so many calls, not a rule to {effect}"
            )


class InvalidGrantError(QuarterdeckError):
    """A grant would never hold; the message says why."""


async def add_lasting_grants(
    places: Places, rules: "Sequence[Rule]", limits: GrantLimits, *, by: str
) -> list[Grant]:
    """Keep rules as standing answers, effective immediately; all of them or none.

    Raises:
        InvalidGrantError: they would never hold.
        GrantsError, OSError: the file of grants cannot be read or written.
    """
    from quarterdeck.policy.grammar import print_pattern

    for rule in rules:
        limits.check(rule.effect)
    now = read_wall_clock()
    grants = [
        Grant(
            id=new_grant_id(),
            pattern=print_pattern(rule.pattern),
            effect=rule.effect,
            scope="user" if limits.project is None else "project",
            project=limits.project,
            session=limits.session,
            tree=limits.tree,
            agent=limits.agent,
            created=now,
            by=by,
            reason=limits.reason,
            expires=None if limits.lasts is None else now + limits.lasts,
            uses=limits.uses,
        )
        for rule in rules
    ]
    await (await open_grants(places)).add(grants)
    return grants


class FleetGrants:
    """What was granted to anybody in the fleet. ``gate_of`` gives the gate of a live agent."""

    def __init__(
        self,
        journal: Journal,
        notes: LogWriter,
        lasting: GrantStore,
        gate_of: Callable[[SessionId], Gate | None],
    ) -> None:
        self._journal = journal
        self._notes = notes
        self._lasting = lasting
        self._gate_of = gate_of

    async def all(self) -> list[Grant]:
        """Lasting ones, then those for one session."""
        await self._lasting.refresh()
        for_sessions = await self._journal.query(load_session_grants)
        return [*(one for one in self._lasting.all if one.scope != "session"), *for_sessions]

    async def forget(self, session: SessionId) -> None:
        """Drop the lasting ones that were for a session that is deleted."""
        await self._lasting.refresh()
        for one in self._lasting.all:
            if one.scope != "session" and session in (one.session, one.tree):
                await self._lasting.revoke(one.id)

    async def revoke(self, grant: str, by: str) -> bool:
        """Take one back: no later call of anybody counts on it; False if there is none."""
        found = next((one for one in await self.all() if one.id == grant), None)
        if found is None:
            return False
        await self._lasting.revoke(grant)
        if found.scope != "session" or found.session is None:
            return True
        session = SessionId(found.session)
        gate = self._gate_of(session)
        if gate is not None:
            await gate.grants.revoke(grant)
        kind = "agent" if looks_like_id(by) else "person"
        await self._notes.note(session, GrantRevoked(grant=grant, by=Decider(kind=kind, name=by)))
        return True


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(query, (name,)).fetchone() is not None


def _may_stand(asked: PermissionAsked) -> bool:
    return any(option.kind.endswith("_always") and option.meta for option in asked.options)


if TYPE_CHECKING:
    _projection: Projection = GrantsProjection()
