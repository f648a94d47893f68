"""The newest records in memory, and the followers that wait for the next.

Bounded in number and bytes. A follower waits for its own session only, so a batch wakes those it
concerns; being woken it learns where that batch began, and skips what it need not look at.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record

from .limits import JournalLimits

__all__ = ["RecentRecords"]

_LOOK = 512


def _seq(record: Record) -> int:
    return record.seq


class RecentRecords:
    """A window on the end of the log. Used in the event loop's thread only."""

    def __init__(self, last: int, limits: JournalLimits) -> None:
        self.last = last
        """The newest sequence number that has been published."""
        self.closed = False
        self._after = last  # every published record beyond this one is in the window
        self._records: list[Record] = []
        self._sizes: list[int] = []
        self._bytes = 0
        self._limits = limits
        self._waiters: dict[SessionId | None, set[asyncio.Future[int]]] = {}
        self._wanted = asyncio.Event()

    def publish(self, records: Sequence[Record], sizes: Sequence[int]) -> None:
        """Add committed records, in order, and wake whom they concern."""
        if not records:
            return
        self._records.extend(records)
        self._sizes.extend(sizes)
        self._bytes += sum(sizes)
        self.last = records[-1].seq
        self._trim()
        if self._waiters:
            before = records[0].seq - 1
            for session in {record.session for record in records} | {None}:
                self._wake(session, before)

    def since(self, position: int, session: SessionId | None) -> tuple[list[Record], int] | None:
        """What follows ``position`` and how far that reaches; None: it must come from disk."""
        if position < self._after:
            return None
        start = bisect_right(self._records, position, key=_seq)
        found = self._records[start : start + _LOOK]
        if not found:
            return [], position
        reached = found[-1].seq
        if session is not None:
            found = [record for record in found if record.session == session]
        return found, reached

    async def wait(self, position: int, session: SessionId | None) -> int:
        """Wait for something new of a session (None: of any) or for the end.

        Returns the position up to which nothing new needs to be looked at.
        """
        future = asyncio.get_running_loop().create_future()
        waiting = self._waiters.setdefault(session, set())
        waiting.add(future)
        self._wanted.set()
        try:
            return max(position, await future)
        finally:
            waiting.discard(future)
            if not waiting and self._waiters.get(session) is waiting:
                del self._waiters[session]
            if not self._waiters:
                self._wanted.clear()

    async def wanted(self) -> None:
        """Return once somebody waits."""
        await self._wanted.wait()

    def forget(self, session: SessionId) -> None:
        """Drop a deleted session from the window."""
        kept = [
            (record, size)
            for record, size in zip(self._records, self._sizes, strict=True)
            if record.session != session
        ]
        self._records = [record for record, _ in kept]
        self._sizes = [size for _, size in kept]
        self._bytes = sum(self._sizes)

    def close(self) -> None:
        """End all followers."""
        self.closed = True
        for session in list(self._waiters):
            self._wake(session, 0)

    def _wake(self, session: SessionId | None, before: int) -> None:
        for future in self._waiters.pop(session, ()):
            if not future.done():
                future.set_result(before)

    def _trim(self) -> None:
        limits = self._limits
        # Cut well below the bounds at once: deleting from a list's head moves the rest.
        if len(self._records) <= limits.recent_events and self._bytes <= limits.recent_bytes:
            return
        cut = max(0, len(self._records) - limits.recent_events * 3 // 4)
        kept = self._bytes - sum(self._sizes[:cut])
        while kept > limits.recent_bytes * 3 // 4 and cut < len(self._records):
            kept -= self._sizes[cut]
            cut += 1
        self._after = self._records[cut - 1].seq
        del self._records[:cut], self._sizes[:cut]
        self._bytes = kept
