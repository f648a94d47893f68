"""What a peer sends: frames in the order they were issued, and requests that wait for an answer."""

from __future__ import annotations

import asyncio
from copy import copy
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from quarterdeck.wire.errors import LinkBrokenError, LinkBusyError, LinkError, RpcError
from quarterdeck.wire.rpc.errors import INTERNAL_ERROR, FrameTooLargeError
from quarterdeck.wire.rpc.frames import ErrorBody, Frame

if TYPE_CHECKING:
    from quarterdeck.wire.rpc.handler import Observers, RpcCounters, RpcLimits
    from quarterdeck.wire.rpc.stream import ByteStream

__all__ = ["Outbox", "PendingRequests"]


class Outbox:
    """The only writer of a stream.

    ``put`` takes a frame at once and never waits; ``room`` is where its caller waits for the
    peer. ``run`` sends everything that gathered since its last turn as one piece.
    """

    def __init__(self, stream: ByteStream, limits: RpcLimits, observers: Observers) -> None:
        self._stream = stream
        self._limits = limits
        self._observers = observers
        self._is_observed = bool(observers)
        self._lines: list[bytes] = []
        self._unsent = 0
        self._failure: LinkError | None = None
        self._filled = asyncio.Event()
        self._roomy = asyncio.Event()
        self._empty = asyncio.Event()
        self._roomy.set()
        self._empty.set()

    @property
    def is_full(self) -> bool:
        """Whether who can wait should."""
        return self._unsent > self._limits.high_water_bytes

    def put(self, line: bytes) -> None:
        """Issue a frame.

        Raises:
            FrameTooLargeError: the frame is longer than the limit; nothing is written.
            LinkError: the link is over.
        """
        if self._failure is not None:
            raise copy(self._failure)
        if len(line) > self._limits.max_frame_bytes:
            raise FrameTooLargeError(len(line), self._limits.max_frame_bytes)
        if self._is_observed:
            self._observers.saw("out", line)
        if not self._lines:
            self._filled.set()
            self._empty.clear()
        self._lines.append(line)
        self._unsent += len(line) + 1
        if self._unsent > self._limits.high_water_bytes:
            self._roomy.clear()

    def put_from_reader(self, line: bytes) -> None:
        """Issue a frame from the task that reads, which must not wait for the peer to read.

        Raises:
            LinkBrokenError: the peer sends and sends and does not read what it gets.
        """
        self.put(line)
        if self._unsent > self._limits.max_unsent_bytes:
            raise LinkBrokenError(
                f"the peer does not read: {self._unsent} bytes wait for it, more than the limit "
                f"of {self._limits.max_unsent_bytes} (Limits.max_unsent_bytes)"
            )

    async def room(self) -> None:
        """Wait until the peer has read enough.

        Raises:
            LinkError: the link ended meanwhile.
        """
        await self._roomy.wait()
        if self._failure is not None:
            raise copy(self._failure)

    async def flush(self) -> None:
        """Wait until all is sent, or cannot be."""
        await self._empty.wait()

    def fail(self, failure: LinkError) -> None:
        """Drop what is unsent; every waiting and later call raises."""
        if self._failure is None:
            self._failure = failure
        self._lines.clear()
        self._roomy.set()
        self._empty.set()

    async def run(self) -> None:
        """Write until cancelled.

        Raises:
            LinkError: the stream takes no more bytes.
        """
        while True:
            await self._filled.wait()
            self._filled.clear()
            lines, self._lines = self._lines, []
            lines.append(b"")
            data = b"\n".join(lines)
            await self._stream.send(data)
            self._unsent -= len(data)
            if not self.is_full:
                self._roomy.set()
            if not self._unsent:
                self._empty.set()


_NULL = Raw(b"null")
_decode_error = msgspec.json.Decoder(ErrorBody).decode


class PendingRequests:
    """Ids of ours, each with the future of its answer.

    A future always gets a value (the response, or how the link ended): an exception set on a
    future whose waiter was cancelled in the same moment would be reported as lost.
    """

    def __init__(self, limit: int, counters: RpcCounters) -> None:
        self._limit = limit
        self._counters = counters
        self._last = 0
        self._futures: dict[object, asyncio.Future[Frame | LinkError]] = {}

    def __len__(self) -> int:
        """How many requests wait."""
        return len(self._futures)

    def open(self) -> tuple[int, asyncio.Future[Frame | LinkError]]:
        """Take the next id.

        Raises:
            Busy: as many requests as the limit allows already wait.
        """
        if len(self._futures) >= self._limit:
            raise LinkBusyError(
                f"{self._limit} requests already wait for an answer (Limits.max_pending); "
                f"wait for some of them"
            )
        self._last += 1
        future: asyncio.Future[Frame | LinkError] = asyncio.get_running_loop().create_future()
        self._futures[self._last] = future
        return self._last, future

    def forget(self, id: int) -> None:
        """Give an id up; its answer will be late."""
        self._futures.pop(id, None)

    def resolve(self, frame: Frame) -> bool:
        """Deliver a response; False, and counted, if nobody waits for it."""
        future = self._futures.pop(frame.id, None)
        if future is not None and not future.done():
            future.set_result(frame)
            return True
        if isinstance(frame.id, int) and 0 < frame.id <= self._last:
            self._counters.late += 1
        else:
            self._counters.unasked += 1
        return False

    def fail(self, ending: LinkError) -> None:
        """Let every waiting request raise this."""
        futures, self._futures = self._futures, {}
        for future in futures.values():
            if not future.done():
                future.set_result(ending)

    @staticmethod
    def unwrap(outcome: Frame | LinkError) -> Raw:
        """Return the result in an answer, or raise what it stands for."""
        if isinstance(outcome, LinkError):
            raise copy(outcome)
        error = outcome.error
        if not error or error == _NULL:
            # No member at all is what JavaScript makes of a result that is undefined.
            return outcome.result or _NULL
        try:
            body = _decode_error(error)
        except (msgspec.DecodeError, RecursionError) as problem:
            raise RpcError(
                INTERNAL_ERROR, f"the peer answered with an error that cannot be read: {problem}"
            ) from None
        data = None if body.data is msgspec.UNSET else body.data
        raise RpcError(body.code, body.message, data)
