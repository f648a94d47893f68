"""What is kept of sessions, in the host's log and in logs of their own, and how it goes."""

import asyncio
import re
import sqlite3
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.agent.resume import grants_in
from quarterdeck.agent.session_store import NoSuchSessionError, SessionStore
from quarterdeck.config.places import Places
from quarterdeck.journal import Journal
from quarterdeck.journal.errors import JournalLockedError, JournalUnreachableError
from quarterdeck.policy.grants import Grant
from quarterdeck.wire.events import GrantRevoked
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.permissions import Decider

from ..client import HostClient
from ..errors import FleetError
from ..permissions.grants import GrantsProjection, find_agent_entry
from ..projections import InboxProjection, RosterProjection
from .sub_agents import SUB_AGENTS_QUERY, delete_with_sub_agents

__all__ = [
    "LoggedSession",
    "delete_sessions",
    "find_session_log",
    "list_hosted_sessions",
    "list_logged_sessions",
    "load_standalone_grants",
    "open_host_journal",
    "revoke_standalone_grants",
]

_ID = re.compile(r"ses_[0-9a-z]{26}")
_MANY = 1_000_000


class LoggedSession(Struct, frozen=True, kw_only=True):
    """A session that a log holds."""

    session: SessionId
    updated: int
    """When its last event happened, in microseconds since the epoch."""
    where: Literal["host", "own"]
    """In the host's log, or in one of its own."""
    agent: str | None = None
    cwd: str | None = None
    title: str | None = None
    problem: str | None = None
    """Why it could not be deleted."""


async def find_session_log(places: Places, session: str) -> tuple[Path, SessionId]:
    """The log that holds a session, by the session's id or its agent's name in the fleet.

    Raises:
        NoSuchSessionError: no log does.
    """
    member = await find_agent_entry(places, session)
    if member is not None:
        return places.journal_file, member.session
    own = places.state / "sessions" / f"{session}.db"
    if _ID.fullmatch(session) and await asyncio.to_thread(own.is_file):
        return own, SessionId(session)
    if await asyncio.to_thread(places.journal_file.exists):
        async with Journal.open(places.journal_file, write=False) as journal:
            if await journal.read(0, SessionId(session), limit=1):
                return places.journal_file, SessionId(session)
    raise NoSuchSessionError(session)


async def list_logged_sessions(places: Places, *, before: int | None = None) -> list[LoggedSession]:
    """Every session but sub-agents, which go with their parents; the oldest change comes first.

    ``before``: only those that have not changed since this time, in microseconds since the epoch.

    Raises:
        JournalError: the host's log cannot be read.
    """
    found: list[LoggedSession] = []
    if await asyncio.to_thread(places.journal_file.exists):
        async with Journal.open(places.journal_file, write=False) as journal:
            found += await journal.query(list_hosted_sessions)
    for one in await SessionStore(places.state / "sessions").sessions(limit=_MANY):
        kept = LoggedSession(
            session=one.id,
            updated=one.updated,
            where="own",
            agent=one.agent,
            cwd=one.cwd,
            title=one.title,
        )
        found.append(kept)
    return sorted(
        (one for one in found if before is None or one.updated < before),
        key=lambda one: one.updated,
    )


async def delete_sessions(
    places: Places, sessions: Collection[LoggedSession]
) -> list[LoggedSession]:
    """Delete sessions for good; returns them, with the problem of each that had to stay.

    Those of the host's log go by the host if one runs; agents that are live stay.

    Raises:
        JournalError: the host's log cannot be written.
        HostError: another process has it open, and it cannot be reached.
    """
    in_host = [one for one in sessions if one.where == "host"]
    done = await _forget_hosted(places, in_host) if in_host else []
    store = SessionStore(places.state / "sessions")
    own = [one for one in sessions if one.where == "own"]
    return [*done, *[await _forget_own(store, one) for one in own]]


async def load_standalone_grants(places: Places, session: str) -> tuple[Grant, ...]:
    """What was granted to a session that was run without a host, and not taken back.

    Raises:
        NoSuchSessionError: there is none of this id.
    """
    path = _own_log(places, session)
    if not await asyncio.to_thread(path.is_file):
        raise NoSuchSessionError(session)
    async with Journal.open(path, write=False) as journal:
        return grants_in([record async for record in journal.history()])


async def revoke_standalone_grants(
    places: Places, session: str, grants: Collection[str], by: Decider
) -> None:
    """Take grants of such a session back, by their ids; it asks again when it goes on.

    Raises:
        NoSuchSessionError: there is none of this id.
        JournalLockedError: it is open, and only who has it open can.
    """
    store = SessionStore(places.state / "sessions")
    async with await store.open(session) as journal:
        for grant in grants:
            await journal.commit(SessionId(session), GrantRevoked(grant=grant, by=by))


def _own_log(places: Places, session: str) -> Path:
    if not _ID.fullmatch(session):
        raise NoSuchSessionError(session)
    return places.state / "sessions" / f"{session}.db"


async def _forget_hosted(places: Places, sessions: list[LoggedSession]) -> list[LoggedSession]:
    try:
        async with open_host_journal(places) as journal:
            for one in sessions:
                await delete_with_sub_agents(journal, one.session)
            return sessions
    except JournalLockedError:
        pass
    async with HostClient.connect(places, name="prune") as fleet:
        return [await _ask_host(fleet, one) for one in sessions]


async def _ask_host(fleet: HostClient, kept: LoggedSession) -> LoggedSession:
    try:
        await fleet.delete(kept.session)
    except FleetError as error:
        return replace(kept, problem=str(error))
    return kept


async def _forget_own(store: SessionStore, kept: LoggedSession) -> LoggedSession:
    try:
        await store.delete(kept.session)
    except (JournalLockedError, JournalUnreachableError) as error:
        return replace(kept, problem=str(error))
    return kept


@asynccontextmanager
async def open_host_journal(places: Places) -> AsyncGenerator[Journal]:
    """The host's log, with all that a fleet computes from it, so that it forgets as well."""
    projections = (RosterProjection(), InboxProjection(), GrantsProjection())
    async with Journal.open(places.journal_file, projections=projections) as journal:
        yield journal


def list_hosted_sessions(connection: sqlite3.Connection) -> list[LoggedSession]:
    """Every session of the host's log but sub-agents; for ``Journal.query``."""
    # The last event of each is found by the index; grouping would read the whole log.
    try:
        children = {row[0] for row in connection.execute(SUB_AGENTS_QUERY)}
    except sqlite3.OperationalError:
        children = set[str]()  # no host has run with it yet
    rows = connection.execute(
        "SELECT s.id, (SELECT time FROM events WHERE session = s.key ORDER BY seq DESC LIMIT 1),"
        " o.agent, o.cwd, o.title FROM session_ids s LEFT JOIN sessions o ON o.id = s.id"
    )
    return [
        LoggedSession(session=id_, updated=time, where="host", agent=agent, cwd=cwd, title=title)
        for id_, time, agent, cwd, title in rows
        if time is not None and id_ not in children
    ]
