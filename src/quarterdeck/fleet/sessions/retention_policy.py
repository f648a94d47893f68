"""What the settings no longer keep: old sessions, and the oldest of too many bytes, by themselves.

A session that is live, open in another process or pinned stays, and so does one that has prompts in
its queue or a worktree. What is removed is named in the
log file of the host.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

from msgspec import Struct

from quarterdeck.agent.checkpoints import delete_checkpoints
from quarterdeck.agent.session_store import SessionStore, find_own_log, read_summary
from quarterdeck.config.schema import Settings
from quarterdeck.journal import Journal
from quarterdeck.wire.clock import WallClock, format_local_time, read_wall_clock
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.ids import SessionId

from ..live_index import LiveIndex
from .pins import load_pins
from .retention import LoggedSession, list_hosted_sessions
from .standalone import StandaloneSessions

__all__ = ["RetentionPolicy"]

_log = logging.getLogger(__name__)
_INTERVAL = 3_600.0
_DAY = 86_400 * 1_000_000
_GIGABYTE = 1_000_000_000
_MANY = 1_000_000


class _Stored(Struct, frozen=True):
    session: LoggedSession
    size: int
    """Bytes; 0 where no limit of the settings needs it."""


class RetentionPolicy:
    """Removes sessions of a fleet and those in logs of their own; see ``HostSettings``."""

    def __init__(
        self,
        state: Path,
        journal: Journal,
        current: LiveIndex,
        standalone: StandaloneSessions,
        load_settings: Callable[[str], Settings],
        delete: Callable[[str], Awaitable[None]],
        clock: WallClock = read_wall_clock,
    ) -> None:
        self._state = state
        self._journal = journal
        self._current = current
        self._standalone = standalone
        self._load_settings = load_settings
        self._delete = delete
        self._clock = clock

    async def keep_tidy(self) -> None:
        """Remove, again and again, what the settings no longer keep; until it is cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL)
            try:
                await self.apply()
            except (QuarterdeckError, OSError) as error:
                _log.warning("old sessions are not removed: %s", error)

    async def apply(self) -> list[SessionId]:
        """Remove what the settings no longer keep; returns which sessions those were.

        Raises:
            QuarterdeckError, OSError: the settings or the logs cannot be read; nothing was removed.
        """
        host = (await asyncio.to_thread(self._load_settings, "/")).host
        if not host.session_days and not host.session_size:
            return []
        pinned = await asyncio.to_thread(load_pins, self._state)
        stored = await self._list(with_sizes=bool(host.session_size))
        chosen: dict[SessionId, str] = {}
        if host.session_days:
            before = self._clock() - int(host.session_days * _DAY)
            reason = f"unchanged for {host.session_days:g} days"
            chosen = {one.session.session: reason for one in stored if one.session.updated < before}
        if host.session_size:
            reason = f"all sessions take more than {host.session_size:g} GB"
            left = int(host.session_size * _GIGABYTE)
            chosen |= dict.fromkeys(_find_excess(stored, chosen, pinned, left), reason)
        by_id = {one.session.session: one.session for one in stored}
        return [
            id_
            for id_, reason in chosen.items()
            if id_ not in pinned and await self._remove(by_id[id_], reason)
        ]

    async def _list(self, *, with_sizes: bool) -> list[_Stored]:
        """Every session, the one that was used last first."""
        hosted = await self._journal.query(list_hosted_sessions)
        sizes = await self._journal.query(_load_sizes) if with_sizes else {}
        stored = [_Stored(one, sizes.get(one.session, 0)) for one in hosted]
        known = {one.session for one in hosted}
        for one in await self._standalone.sessions(limit=_MANY):
            if one.id in known or one.damage is not None:
                continue  # a person decides about what cannot be read or is there twice
            own = LoggedSession(
                session=one.id,
                updated=one.updated,
                where="own",
                agent=one.agent,
                cwd=one.cwd,
                title=one.title,
            )
            size = await asyncio.to_thread(self._measure, one.id) if with_sizes else 0
            stored.append(_Stored(own, size))
        return sorted(stored, key=lambda one: one.session.updated, reverse=True)

    def _measure(self, session: SessionId) -> int:
        """Bytes of a log; what beside it is shared by readers belongs to none of them."""
        files = (self._state / "sessions" / f"{session}.db{end}" for end in ("", "-wal"))
        return sum(path.stat().st_size for path in files if path.exists())

    async def _remove(self, one: LoggedSession, reason: str) -> bool:
        try:
            is_gone = await (self._remove_hosted(one) if one.where == "host" else self._forget(one))
        except QuarterdeckError as error:
            _log.info("session %s stays: %s", one.session, error)
            return False
        if is_gone:
            changed = format_local_time(one.updated)
            words = (one.agent or "?", one.title or "no title")
            _log.warning(
                "removed session %s (%s, %s): %s; last changed %s",
                one.session,
                *words,
                reason,
                changed,
            )
        return is_gone

    async def _remove_hosted(self, one: LoggedSession) -> bool:
        entry = await self._current.find(one.session)
        if entry.is_started or entry.queue or entry.worktree is not None:
            return False  # what it has left to do, or has not landed, would be lost with it
        if entry.updated > one.updated:
            return False
        await self._delete(one.session)
        return True

    async def _forget(self, one: LoggedSession) -> bool:
        path = find_own_log(self._state / "sessions", one.session)
        now = await asyncio.to_thread(read_summary, path) if path is not None else None
        if now is None or now.updated > one.updated:
            return False  # someone has used it meanwhile
        is_gone = await SessionStore(self._state / "sessions").delete(one.session)
        await asyncio.to_thread(delete_checkpoints, self._state, one.session)
        return is_gone


def _find_excess(
    stored: list[_Stored],
    gone: Collection[SessionId],
    pinned: Collection[SessionId],
    left: int,
) -> list[SessionId]:
    """The oldest that do not fit; those that are pinned take their room first."""
    rest = [one for one in stored if one.session.session not in gone]
    left -= sum(one.size for one in rest if one.session.session in pinned)
    excess: list[SessionId] = []
    for one in rest:
        if one.session.session in pinned:
            continue
        left -= one.size
        if left < 0:
            excess.append(one.session.session)
    return excess


def _load_sizes(connection: sqlite3.Connection) -> dict[SessionId, int]:
    """Bytes of each session in the log; takes time in proportion to it."""
    rows = connection.execute(
        "SELECT i.id, sum(length(e.body)) FROM events e JOIN session_ids i ON i.key = e.session"
        " GROUP BY e.session"
    )
    return dict(rows.fetchall())
