"""A session's way back, for a process that does not run it: its log and its files are enough."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from quarterdeck.agent.checkpoints import delete_checkpoints
from quarterdeck.agent.checkpoints.file_state import BlobStore
from quarterdeck.agent.checkpoints.snapshot import TurnSnapshots
from quarterdeck.agent.checkpoints.turn_history import TurnHistory
from quarterdeck.agent.session_store import NoSuchSessionError
from quarterdeck.config.places import Places
from quarterdeck.journal import Journal
from quarterdeck.journal.errors import JournalLockedError
from quarterdeck.wire.clock import read_wall_seconds
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import Event, SessionOpened
from quarterdeck.wire.ids import SessionId, TurnId
from quarterdeck.wire.record import Record

from ..checkpoints.recovery import finish_left_over
from ..checkpoints.turn_snapshots import FleetSnapshots, load_checkpoint_settings
from .retention import find_session_log, list_logged_sessions, open_host_journal

__all__ = [
    "RewindableSession",
    "SessionInUseError",
    "delete_unused_checkpoints",
    "find_newest_session",
    "open_rewind",
]

_STRAY = 7 * 86_400
"""Seconds after which a directory that no log explains is deleted."""


class SessionInUseError(QuarterdeckError):
    """Another process runs the session; only that one can take its turns back."""


@dataclass(frozen=True, slots=True)
class RewindableSession:
    """A session that can be taken back, and what its files were."""

    session: SessionId
    history: TurnHistory
    blobs: BlobStore
    agent: str
    """What runs it, by its name in the catalogue."""
    kept: TurnSnapshots


@asynccontextmanager
async def open_rewind(
    places: Places, session: str, *, write: bool = False
) -> AsyncGenerator[RewindableSession]:
    """Open a session's past, by its id or its agent's name; ``write``: to go back.

    Raises:
        NoSuchSessionError: there is none.
        SessionInUseError: another process has its log open, with ``write``.
    """
    path, id_ = await find_session_log(places, session)
    try:
        async with _log(places, path, write) as journal:
            yield await _open(places, journal, id_, write)
    except JournalLockedError as error:
        raise SessionInUseError(
            f"session {session!r} is open in another process; if that is the host, use "
            "quarterdeck undo, redo or rewind, else type /undo or /rewind there"
        ) from error


async def find_newest_session(places: Places, cwd: str) -> SessionId:
    """The session that changed last, among those that work in a directory.

    Raises:
        NoSuchSessionError: none does.
    """
    for one in reversed(await list_logged_sessions(places)):
        if one.cwd == cwd:
            return one.session
    raise NoSuchSessionError(f"in {cwd}")


async def delete_unused_checkpoints(places: Places, sessions: Iterable[SessionId]) -> None:
    """Delete what files were in these sessions, and in those that no log holds any more."""
    known = {one.session for one in await list_logged_sessions(places)}
    await asyncio.to_thread(_forget, places.state, set(sessions) - known, known)


def _forget(state: Path, gone: set[SessionId], known: set[SessionId]) -> None:
    for directory in (state / "checkpoints").glob("ses_*"):
        name = SessionId(directory.name)
        # A session within another's log is not listed: it may be at work.
        is_stray = name not in known and read_wall_seconds() - directory.stat().st_mtime > _STRAY
        if name in gone or is_stray:
            delete_checkpoints(state, name)


def _log(places: Places, path: Path, write: bool) -> AbstractAsyncContextManager[Journal]:
    if write and path == places.journal_file:
        return open_host_journal(places)
    return Journal.open(path, write=write)


async def _open(places: Places, journal: Journal, id_: SessionId, write: bool) -> RewindableSession:
    async def records() -> AsyncIterator[Record]:
        async for record in journal.history(session=id_):
            yield record

    async def emit(event: Event) -> None:
        await journal.commit(id_, event)

    async def emit_in_turn(event: Event, turn: TurnId) -> None:
        await journal.commit(id_, event, turn=turn)

    cwd, agent = os.sep, "native"
    async for record in records():
        if isinstance(record.event, SessionOpened):
            cwd, agent = record.event.cwd, record.event.agent
            break
    keeping = await asyncio.to_thread(TurnSnapshots, places.state, id_, (cwd,))
    history = TurnHistory(keeping, records, emit)
    if write:
        await finish_left_over(
            FleetSnapshots(places.state),
            history,
            keeping,
            id_,
            settings=await asyncio.to_thread(load_checkpoint_settings, places, os.environ, cwd),
            write=emit_in_turn,
        )
    return RewindableSession(id_, history, keeping.blobs, agent, keeping)
