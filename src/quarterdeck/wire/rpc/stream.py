"""The contract of a byte stream, and the one that lives in memory."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Protocol

from quarterdeck.wire.errors import LinkBrokenError, LinkClosedError

if TYPE_CHECKING:
    from quarterdeck.wire.errors import LinkError

__all__ = ["CHUNK", "ByteStream", "ChunkQueue", "memory_pair"]

CHUNK = 256 * 1024
"""Most bytes that one ``receive`` returns."""


class ByteStream(Protocol):
    """Bytes to and from a peer, in order.

    One task receives and one task sends; both may do so at once, and either may be cancelled
    between bytes that the caller saw and bytes that it did not. The raised words are those of
    ``wire.errors``: a stream of a child process may wait for its exit and say more than "ended".
    """

    async def receive(self) -> bytes:
        """Wait for some bytes, at most ``CHUNK``; ``b""`` is the end.

        Raises:
            LinkClosedError: we closed the stream, before or while waiting.
            LinkBrokenError: the operating system or the peer failed.
        """
        ...

    async def send(self, data: bytes) -> None:
        """Hand all the bytes on; waits as long as the peer does not read.

        Raises:
            LinkClosedError: we closed the stream.
            LinkBrokenError: the peer takes no more bytes.
        """
        ...

    async def close(self) -> None:
        """Release everything; may be called again. Bytes on their way in are dropped."""
        ...


class ChunkQueue:
    """Chunks on their way to one reader.

    ``put`` never waits: who fills the queue looks at ``is_full`` and stops its source.
    """

    __slots__ = ("_capacity", "_chunks", "_ending", "_is_ended", "_size", "_waiter")

    def __init__(self, capacity: int = CHUNK) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._capacity = capacity
        self._is_ended = False
        self._ending: LinkError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether the queue holds its capacity."""
        return self._size >= self._capacity

    def put(self, chunk: bytes) -> None:
        """Add a chunk; after the end it is dropped."""
        if self._is_ended:
            return
        self._chunks.append(chunk)
        self._size += len(chunk)
        self._wake()

    def end(self, ending: LinkError | None = None) -> None:
        """Say that no chunk follows, and why; the first call counts."""
        if not self._is_ended:
            self._is_ended = True
            self._ending = ending
            self._wake()

    def drop(self, ending: LinkError) -> None:
        """Forget the chunks and end at once."""
        self._chunks.clear()
        self._size = 0
        self._is_ended = True
        self._ending = ending
        self._wake()

    async def get(self) -> bytes:
        """Wait for bytes; several small chunks come as one. ``b""`` or a raise is the end."""
        while not self._chunks:
            if self._is_ended:
                if self._ending is not None:
                    raise self._ending
                return b""
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if len(self._chunks) == 1 or self._size > CHUNK:
            chunk = self._chunks.popleft()
        else:
            chunk = b"".join(self._chunks)
            self._chunks.clear()
        self._size -= len(chunk)
        return chunk

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _MemoryStream:
    """One end of a pair in memory."""

    def __init__(self, incoming: ChunkQueue, outgoing: ChunkQueue) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._room = asyncio.Event()
        self._is_closed = False
        self.other: _MemoryStream = self

    async def receive(self) -> bytes:
        if self._is_closed:
            raise LinkClosedError("this end of the memory stream was closed")
        chunk = await self._incoming.get()
        self.other._room.set()
        return chunk

    async def send(self, data: bytes) -> None:
        for start in range(0, len(data), CHUNK):
            while self._outgoing.is_full and not self._is_over:
                self._room.clear()
                await self._room.wait()
            if self._is_closed:
                raise LinkClosedError("this end of the memory stream was closed")
            if self.other._is_closed:
                raise LinkBrokenError("the other end of the memory stream was closed")
            self._outgoing.put(data[start : start + CHUNK])

    async def close(self) -> None:
        self._is_closed = True
        self._incoming.drop(LinkClosedError("this end of the memory stream was closed"))
        self._outgoing.end()
        self._room.set()
        self.other._room.set()

    @property
    def _is_over(self) -> bool:
        return self._is_closed or self.other._is_closed


def memory_pair(capacity: int = CHUNK) -> tuple[ByteStream, ByteStream]:
    """Return two connected streams; each direction holds ``capacity`` bytes before it waits."""
    there, back = ChunkQueue(capacity), ChunkQueue(capacity)
    left, right = _MemoryStream(back, there), _MemoryStream(there, back)
    left.other, right.other = right, left
    return left, right
