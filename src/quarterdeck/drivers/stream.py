"""The events of one session for any number of listeners, without a log behind it.

Events get their place here: sequence, time, session, turn, parent. The last ``capacity`` of them
are kept, so a listener that comes late hears everything from the start, or is told how many are
missing. Listeners read from what is kept; a slow one delays nobody and may find a gap, unless it
was let in as one that holds the session back.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, TypeVar

from quarterdeck.wire.events import Event, SessionEnded
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId
from quarterdeck.wire.record import Record

__all__ = ["EventStream", "Gap"]

E = TypeVar("E", bound=Event)

_AHEAD = 1000
"""Events that a session may be ahead of a listener that holds it back."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that are no longer kept."""

    count: int
    """How many."""


class EventStream:
    """A sink that numbers events and lets listeners follow them."""

    def __init__(self, session: SessionId, *, capacity: int = 10_000) -> None:
        self._session = session
        self._kept: deque[Record] = deque(maxlen=capacity)
        self._changed = asyncio.Event()
        self._moved = asyncio.Event()
        self._holding: dict[object, int] = {}
        """Where each listener is that holds the session back."""
        self.last = 0
        """The sequence number of the newest record."""
        self.is_over = False
        """The session's last event is here."""

    async def __call__(
        self, event: Event, *, turn: TurnId | None = None, parent: ToolCallId | None = None
    ) -> None:
        """Take one event, in its place."""
        while self._holding and min(self._holding.values()) <= self.last - _AHEAD:
            await self._moved.wait()
        self.last += 1
        record = Record(
            seq=self.last,
            time=time.time_ns() // 1000,
            session=self._session,
            turn=turn,
            parent=parent,
            event=event,
        )
        self._kept.append(record)
        self.is_over = isinstance(event, SessionEnded)
        self.wake()

    def last_of(self, kind: type[E]) -> E | None:
        """The newest event of a kind that is still kept."""
        found = (one.event for one in reversed(self._kept) if isinstance(one.event, kind))
        return next(found, None)

    def wake(self) -> None:
        """Let every listener look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def follow(
        self, after: int = 0, *, until: "asyncio.Future[Any] | None" = None, holds: bool = False
    ) -> AsyncGenerator[Record | Gap]:
        """Every record after ``after``, until the session is over; a gap where some are missing.

        ``until``: or until this is done and all is heard; ``wake`` must be called then. ``holds``:
        the session waits for this listener when it is far behind; close the generator.
        """
        me = object()
        try:
            while True:
                if holds:
                    self._holding[me] = after
                    self._moved.set()
                    self._moved = asyncio.Event()
                changed = self._changed
                first = self.last - len(self._kept) + 1
                if after + 1 < first:
                    missing, after = first - after - 1, first - 1
                    yield Gap(missing)
                elif after < self.last:
                    record = self._kept[after - self.last]
                    after = record.seq
                    yield record
                elif self.is_over or (until is not None and until.done()):
                    return
                else:
                    await changed.wait()
        finally:
            self._holding.pop(me, None)
            self._moved.set()
            self._moved = asyncio.Event()
