"""Frames on their way out: kept in the order they were issued, written many at a time."""

from __future__ import annotations

import asyncio
from copy import copy
from typing import TYPE_CHECKING

from quarterdeck.wire.errors import Broken
from quarterdeck.wire.rpc.codes import FrameTooLarge

if TYPE_CHECKING:
    from quarterdeck.wire.errors import LinkError
    from quarterdeck.wire.rpc.handler import Limits, Observers
    from quarterdeck.wire.rpc.stream import ByteStream

__all__ = ["Outbox"]


class Outbox:
    """The only writer of a stream.

    ``put`` takes a frame at once and never waits; ``room`` is where its caller waits for the
    peer. ``run`` sends everything that gathered since its last turn as one piece.
    """

    def __init__(self, stream: ByteStream, limits: Limits, observers: Observers) -> None:
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
            FrameTooLarge: the frame is longer than the limit; nothing is written.
            LinkError: the link is over.
        """
        if self._failure is not None:
            raise copy(self._failure)
        if len(line) > self._limits.max_frame_bytes:
            raise FrameTooLarge(len(line), self._limits.max_frame_bytes)
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
            Broken: the peer sends and sends and does not read what it gets.
        """
        self.put(line)
        if self._unsent > self._limits.max_unsent_bytes:
            raise Broken(
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
