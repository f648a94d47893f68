"""Writing to the fleet's log: what callers are told is durable, what agents say is never lost."""

import asyncio
import logging

from quarterdeck.journal import Journal, JournalStalledError, UnrecordableEventError
from quarterdeck.wire.events import Event, PermissionAnswered, Prompted, SessionEnded
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId
from quarterdeck.wire.record import Record, sanitize_event

from .live_index import LiveIndex

__all__ = ["LogWriter"]

_log = logging.getLogger(__name__)
_AGAIN = 0.5
"""Seconds until an agent that is held back by a full disk tries again."""


class LogWriter:
    """The fleet's pen."""

    def __init__(self, journal: Journal, current: LiveIndex) -> None:
        self._journal = journal
        self._current = current
        self._last = 0

    async def note(self, session: SessionId, *events: Event, time: int | None = None) -> None:
        """Write events; when this returns they are durable and ``LiveIndex`` shows them.

        ``time``: when they happened, if that was not now.

        Raises:
            JournalError: they could not be written, or not yet.
        """
        for event in events:
            record = await self._journal.append(session, event, time=time)
            self._last = max(self._last, record.seq)
        await self._journal.durable(self._last)
        await self._current.reached(self._last)

    async def take(
        self,
        session: SessionId,
        event: Event,
        *,
        turn: TurnId | None = None,
        parent: ToolCallId | None = None,
    ) -> None:
        """Write what an agent said; it is held back while the log can take no more.

        A prompt is durable before the agent sees it, and a decision before the agent acts on it.
        """
        record = await self._append(session, event, turn, parent)
        self._last = max(self._last, record.seq)
        if isinstance(event, Prompted | PermissionAnswered | SessionEnded):
            try:
                await self._journal.durable(record.seq)
            except JournalStalledError as error:
                # It is kept and will be written; agents go on meanwhile.
                _log.warning("not durable yet: %s", error)

    async def keep(
        self,
        session: SessionId,
        event: Event,
        *,
        turn: TurnId | None = None,
        parent: ToolCallId | None = None,
        time: int | None = None,
    ) -> None:
        """Write what happened elsewhere and earlier; ``settled`` waits until it is durable."""
        record = await self._append(session, event, turn, parent, time)
        self._last = max(self._last, record.seq)

    async def settled(self) -> None:
        """Wait until everything written so far is durable and shown."""
        last = max(self._last, self._journal.last)
        await self._journal.durable(last)
        await self._current.reached(last)

    async def _append(
        self,
        session: SessionId,
        event: Event,
        turn: TurnId | None,
        parent: ToolCallId | None,
        time: int | None = None,
    ) -> Record:
        while True:
            try:
                return await self._journal.append(
                    session, event, turn=turn, parent=parent, time=time
                )
            except JournalStalledError:
                await asyncio.sleep(_AGAIN)
            except UnrecordableEventError:
                event = sanitize_event(event)
