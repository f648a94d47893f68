"""Our ends of a child's pipes, read and written straight from the event loop.

Nothing is buffered here: the pipe of the operating system is the buffer, so that a child is held
back when nobody receives and we are when it does not read. No thread is needed.
"""

import array
import asyncio
import fcntl
import os
import termios
from collections.abc import Callable

from quarterdeck.wire.errors import LinkBrokenError, LinkBusyError, LinkClosedError

__all__ = ["CHUNK", "PipeReader", "PipeWriter"]

CHUNK = 262_144
"""Most bytes that are taken from or given to a pipe at once."""


class _Pipe:
    """One end of a pipe and the one task that may wait for it."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """We hold our end."""
        return self._descriptor >= 0

    async def _ready(self, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
        """Wait until the pipe is ready, or somebody calls ``_wake``."""
        descriptor = self._descriptor
        waiter = self._waiter = self._loop.create_future()
        add(descriptor, self._wake)
        try:
            await waiter
        finally:
            self._waiter = None
            if self._descriptor >= 0:
                remove(descriptor)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _release(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._loop.remove_reader(descriptor)
            self._loop.remove_writer(descriptor)
            os.close(descriptor)
        self._wake()


class PipeReader(_Pipe):
    """What a child prints.

    The child's own last bytes are never lost, and never waited for in vain: when it leaves,
    ``child_left`` notes how much is in the pipe. With ``ends_with_child`` the stream ends after
    that much even if a grandchild still holds the other end; without, it goes on until all have
    closed it, and ``caught_up`` tells when that much has been consumed.
    """

    def __init__(self, descriptor: int, *, ends_with_child: bool) -> None:
        super().__init__(descriptor)
        self._ends_with_child = ends_with_child
        self._received = 0
        self._due: int | None = None
        self._rest = b""
        self._is_closed = False
        self._has_caught_up = asyncio.Event()

    async def receive(self) -> bytes:
        """The next bytes; ``b""`` at the end, and again after it.

        Raises:
            LinkClosedError: ``close`` was called.
            Busy: Another task is receiving.
        """
        if self._waiter is not None:
            raise LinkBusyError("Two tasks receive from the same process. Use only one.")
        while True:
            if self._is_closed:
                raise LinkClosedError("The output of the process is already closed.")
            if self._due is not None and self._received >= self._due:
                self._has_caught_up.set()
                if self._ends_with_child:
                    self._release()
            if self._descriptor < 0:
                rest, self._rest = self._rest, b""
                return rest
            data = self._read()
            if data is not None:
                return data
            await self._ready(self._loop.add_reader, self._loop.remove_reader)

    def _read(self) -> bytes | None:
        """Bytes, nothing at the end, None when there are none yet."""
        try:
            data = os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        if not data:
            self._release()
            self._has_caught_up.set()
        self._received += len(data)
        return data

    def child_left(self) -> None:
        """The child is gone: what it wrote is in the pipe, all of it."""
        if self._descriptor < 0:
            self._has_caught_up.set()
            return
        waiting = array.array("i", [0])
        fcntl.ioctl(self._descriptor, termios.FIONREAD, waiting)
        self._due = self._received + waiting[0]
        self._wake()

    async def caught_up(self) -> None:
        """Wait until all that the child wrote before it left was received and dealt with."""
        await self._has_caught_up.wait()

    def absorb(self) -> None:
        """Take what is left in the pipe into memory and close our end; it stays receivable."""
        pieces = [self._rest]
        while self._descriptor >= 0 and (piece := self._read()):
            pieces.append(piece)
        self._rest = b"".join(pieces)
        self._release()

    def close(self) -> None:
        """Close our end; what is in the pipe is dropped."""
        self._is_closed = True
        self._has_caught_up.set()
        self._release()


class PipeWriter(_Pipe):
    """What a child reads."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._is_sending = False
        self._broken = ""

    async def send(self, data: bytes) -> None:
        """Write all of ``data``; waits while the child does not read.

        Raises:
            LinkClosedError: We closed our end, before or meanwhile.
            LinkBrokenError: The child closed its end or left, or an earlier send was cancelled half
                way.
            Busy: Another task is sending.
        """
        if self._is_sending:
            raise LinkBusyError("Two tasks send to the same process. Use only one.")
        self._is_sending = True
        left = memoryview(data)
        try:
            while left:
                left = left[await self._write(left) :]
        except asyncio.CancelledError:
            if len(left) < len(data):
                self._broken = "an earlier message was cut off half way"
            raise
        finally:
            self._is_sending = False

    async def _write(self, data: memoryview) -> int:
        while True:
            if self._broken:
                raise LinkBrokenError(f"Cannot write to the process: {self._broken}.")
            if self._descriptor < 0:
                raise LinkClosedError("The input of the process is already closed.")
            try:
                return os.write(self._descriptor, data[:CHUNK])
            except BlockingIOError:
                await self._ready(self._loop.add_writer, self._loop.remove_writer)
            except OSError:
                self._broken = "it closed its input"

    def child_left(self) -> None:
        """The child is gone: nobody is waited for any more."""
        self._broken = self._broken or "it has exited"
        self._wake()

    def close(self) -> None:
        """Close our end; what a waiting ``send`` still held is dropped."""
        self._release()
