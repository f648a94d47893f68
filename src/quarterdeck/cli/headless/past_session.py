"""The session that a run continues: one of ours, or one that the agent itself keeps on disk."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from quarterdeck.agent.session_store import NoSuchSessionError, SessionStore, find_own_log
from quarterdeck.config.places import Places
from quarterdeck.drivers.errors import UnsupportedError
from quarterdeck.drivers.history.session import HistoryError, HistorySession
from quarterdeck.fleet.agent_entry import AgentEntry
from quarterdeck.fleet.projections import find_entry, load_unarchived
from quarterdeck.journal import Journal, JournalError, SessionSummary
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.session_options import SessionOptions

__all__ = ["PastSession", "SessionInFleetError", "check_not_in_fleet", "find_past"]

_MANY = 200
"""Sessions of one agent in one directory that are compared."""


class SessionInFleetError(QuarterdeckError):
    """The session is an agent of the host, which alone writes it."""

    def __init__(self, session: str, name: str) -> None:
        super().__init__(
            f"session {session!r} is the agent {name!r} of the host; continue it with: "
            f"quarterdeck send {name} PROMPT"
        )


class PastSession(Struct, frozen=True, kw_only=True):
    """What is known of a session of another agent."""

    id: SessionId | None
    """Our id; None: no log of ours has it yet."""
    agent_session: str | None
    """The agent's own id."""


async def find_past(
    places: Places, environment: Mapping[str, str], options: SessionOptions, agent: str
) -> PastSession:
    """The session of another agent that the options mean: an id of ours or of the agent's own, or
    with an empty one the newest of the directory, whichever program recorded it.

    Raises:
        NoSuchSessionError, HistoryError: there is none.
        SessionInFleetError: it is an agent of the host.
        UnsupportedError: it is another agent's, or its agent never reported its id.
    """
    store = SessionStore(places.state / "sessions")
    wanted = options.resume or ""
    ours = await store.sessions(cwd=options.cwd, agent=agent, limit=_MANY)
    if not wanted:
        return await _find_newest(places, environment, options.cwd, agent, ours)
    if find_own_log(Path(), wanted) is None:
        return await _find_theirs(places, environment, options.cwd, agent, wanted, ours)
    found = await store.summary(wanted)
    if found is None:
        await check_not_in_fleet(places, wanted)
        raise NoSuchSessionError(wanted)
    if found.agent != agent:
        text = f"resume a session of {found.agent!r}"
        raise UnsupportedError(agent, "any transport", text, f"Use -a {found.agent}.")
    return _of(found)


async def check_not_in_fleet(places: Places, session: str) -> None:
    """Raises SessionInFleetError if a session is an agent of the host."""
    entry = await _look_in_fleet(places, lambda c: find_entry(c, session))
    if entry is not None and entry.session == session:
        raise SessionInFleetError(session, entry.name)


async def _find_newest(
    places: Places,
    environment: Mapping[str, str],
    cwd: str,
    agent: str,
    ours: list[SessionSummary],
) -> PastSession:
    theirs = await _find_newest_of_theirs(environment, cwd, agent)
    if theirs is not None:
        known = next((one for one in ours if one.agent_session == theirs.id), None)
        if known is None and (not ours or theirs.updated > ours[0].updated):
            await _check_not_live(places, agent, theirs.id)
            return PastSession(id=None, agent_session=theirs.id)
        if known is not None and theirs.updated > ours[0].updated:
            return _of(known)
    if not ours:
        raise NoSuchSessionError(f"the latest of {agent} in {cwd}")
    return _of(ours[0])


async def _find_newest_of_theirs(
    environment: Mapping[str, str], cwd: str, agent: str
) -> HistorySession | None:
    from quarterdeck.drivers.history.history import AgentHistory

    try:
        listed = await AgentHistory.of(environment).list(Path(cwd), agent=agent, limit=_MANY)
    except HistoryError:
        return None  # of this agent we cannot read what it keeps
    able = (one for one in listed.sessions if one.can_resume and not one.archived)
    return next(able, None)


async def _find_theirs(
    places: Places,
    environment: Mapping[str, str],
    cwd: str,
    agent: str,
    wanted: str,
    ours: list[SessionSummary],
) -> PastSession:
    """A session by the agent's own id, or the beginning of it."""
    known = next((one for one in ours if one.agent_session == wanted), None)
    if known is not None:
        return _of(known)
    from quarterdeck.drivers.history.history import AgentHistory

    try:
        found = await AgentHistory.of(environment).find(wanted, agent=agent, near=Path(cwd))
    except HistoryError as error:
        if type(error) is HistoryError:  # of this agent we cannot read what it keeps
            raise NoSuchSessionError(wanted) from None
        raise
    if not found.can_resume:
        raise UnsupportedError(agent, "any transport", f"resume {wanted!r}: it kept only prompts")
    known = next((one for one in ours if one.agent_session == found.id), None)
    if known is not None:
        return _of(known)
    await _check_not_live(places, agent, found.id)
    return PastSession(id=None, agent_session=found.id)


def _of(found: SessionSummary) -> PastSession:
    if found.agent_session is None:
        raise UnsupportedError(
            found.agent, "any transport", "resume it: the agent never reported its session id"
        )
    return PastSession(id=found.id, agent_session=found.agent_session)


async def _check_not_live(places: Places, agent: str, theirs: str) -> None:
    """Two programs must not continue one session of an agent at the same time."""

    def find(connection: sqlite3.Connection) -> AgentEntry | None:
        live = (entry for entry in load_unarchived(connection) if entry.is_started)
        return next(
            (e for e in live if e.spawn.options.agent == agent and e.agent_session == theirs), None
        )

    entry = await _look_in_fleet(places, find)
    if entry is not None:
        raise SessionInFleetError(theirs, entry.name)


async def _look_in_fleet(
    places: Places, look: Callable[[sqlite3.Connection], AgentEntry | None]
) -> AgentEntry | None:
    if not await asyncio.to_thread(places.journal_file.exists):
        return None
    try:
        async with Journal.open(places.journal_file, write=False) as journal:
            return await journal.query(lambda c: look(c) if _has_roster(c) else None)
    except JournalError:
        return None  # a log that cannot be read does not keep a run from its own


def _has_roster(connection: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE name = 'fleet'"
    return connection.execute(query).fetchone() is not None
