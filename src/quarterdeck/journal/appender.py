"""The event loop's side of writing: numbers events, bounds what is pending, keeps who waits."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from quarterdeck.wire.clock import WallClock
from quarterdeck.wire.events import Event
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId
from quarterdeck.wire.record import Record, encode_event, event_type

from .errors import (
    JournalClosedError,
    JournalDiskFullError,
    JournalStalledError,
    UnrecordableEventError,
)
from .limits import JournalLimits
from .recent_records import RecentRecords
from .writer import Entry, JournalWriter

__all__ = ["Appender"]

_HAND_OVER = 512
_BEYOND = 1 << 63


class Appender:
    """Takes events on. All of it runs in the event loop's thread; it is the writer's listener."""

    def __init__(self, path: Path, clock: WallClock, limits: JournalLimits) -> None:
        self._path = path
        self._clock = clock
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._writer: JournalWriter | None = None
        self._recent: RecentRecords | None = None
        self._last = self._durable = 0
        self._fresh: list[Entry] = []
        self._events = self._bytes = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._wanting_room: list[asyncio.Future[None]] = []
        self._stall: JournalStalledError | None = None
        self.closed = False

    def begin(self, writer: JournalWriter, recent: RecentRecords) -> None:
        """Start numbering after the last record of the log."""
        self._writer, self._recent = writer, recent
        self._last = self._durable = recent.last

    @property
    def last(self) -> int:
        """The last sequence number given out."""
        return self._last

    @property
    def stall(self) -> JournalStalledError | None:
        """Why nothing can be written at the moment."""
        return self._stall

    async def append(
        self,
        session: SessionId,
        event: Event,
        turn: TurnId | None,
        parent: ToolCallId | None,
        time: int | None = None,
    ) -> Record:
        """Take an event on; waits only while too much is pending. ``time``: None for now."""
        try:
            body = encode_event(event)
        except (UnicodeEncodeError, msgspec.MsgspecError, TypeError, RecursionError) as error:
            raise UnrecordableEventError(
                f"this {event_type(event)!r} event has no JSON form: {error}"
            ) from (error)
        if time is not None and not -_BEYOND <= time < _BEYOND:
            raise UnrecordableEventError(f"{time} is not a time in microseconds since the epoch")
        # An event larger than the whole bound is let in alone rather than never.
        while self._events and (
            self._events >= self._limits.pending_events
            or self._bytes + len(body) > self._limits.pending_bytes
        ):
            await self._room()
        if self.closed:
            raise JournalClosedError(self._path)
        self._last = seq = self._last + 1
        if time is None:
            time = self._clock()
        record = Record(seq=seq, time=time, session=session, turn=turn, parent=parent, event=event)
        fresh = self._fresh
        if not fresh:
            self._loop.call_soon(self._hand_over)
        fresh.append((record, event_type(event), body))
        self._events += 1
        self._bytes += len(body)
        if len(fresh) >= _HAND_OVER:
            self._hand_over()
        return record

    async def durable(self, seq: int) -> None:
        """Return once everything up to ``seq`` is on disk."""
        if seq <= self._durable:
            return
        if seq > self._last:
            raise ValueError(f"no event has the number {seq} yet; the last is {self._last}")
        if self._stall is not None:
            raise self._again(self._stall, kept=True)
        if self.closed:
            raise JournalClosedError(self._path)
        assert self._writer is not None
        self._hand_over()
        self._writer.hurry()
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((seq, future))
        await future

    def finish(self) -> None:
        """Take nothing more on and hand over the rest."""
        self.closed = True
        self._hand_over()

    def abandon(self) -> None:
        """Let go of everyone who still waits, after the writer ended."""
        for _, future in self._waiting:
            _fail(future, JournalClosedError(self._path))
        for future in self._wanting_room:
            _fail(future, JournalClosedError(self._path))
        self._waiting, self._wanting_room = [], []

    def committed(self, entries: Sequence[Entry]) -> None:
        """The writer's word that these are on disk: only now they are published."""
        assert self._recent is not None
        sizes = [len(body) for _, _, body in entries]
        self._stall = None
        self._events -= len(entries)
        self._bytes -= sum(sizes)
        self._durable = durable = entries[-1][0].seq
        self._recent.publish([record for record, _, _ in entries], sizes)
        if self._waiting:
            for seq, future in self._waiting:
                if seq <= durable and not future.done():
                    future.set_result(None)
            self._waiting = [(seq, future) for seq, future in self._waiting if not future.done()]
        if self._wanting_room:
            for future in self._wanting_room:
                if not future.done():
                    future.set_result(None)
            self._wanting_room = []

    def stalled(self, error: JournalStalledError) -> None:
        """The writer's word that it cannot write; it goes on trying."""
        self._stall = error
        for _, future in self._waiting:
            _fail(future, self._again(error, kept=True))
        for future in self._wanting_room:
            _fail(future, self._again(error, kept=False))
        self._waiting, self._wanting_room = [], []

    async def _room(self) -> None:
        if self._stall is not None:
            raise self._again(self._stall, kept=False)
        if self.closed:
            raise JournalClosedError(self._path)
        self._hand_over()
        future: asyncio.Future[None] = self._loop.create_future()
        self._wanting_room.append(future)
        await future

    def _hand_over(self) -> None:
        if self._fresh:
            assert self._writer is not None
            self._writer.put(self._fresh)
            self._fresh = []

    def _again(self, error: JournalStalledError, *, kept: bool) -> JournalStalledError:
        kind = (
            JournalDiskFullError if isinstance(error, JournalDiskFullError) else JournalStalledError
        )
        return kind(self._path, error.reason, kept=kept)


def _fail(future: asyncio.Future[None], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
