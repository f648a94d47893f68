"""Byte streams: the contract, and those in memory, over pipes and files, and over Unix sockets."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import sys
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol, cast

from quarterdeck.wire.errors import LinkBrokenError, LinkBusyError, LinkClosedError
from quarterdeck.wire.tasks import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from pathlib import Path

    from quarterdeck.wire.errors import LinkError


__all__ = [
    "CHUNK",
    "ByteStream",
    "ChunkQueue",
    "TransportStream",
    "connect_unix",
    "join_streams",
    "memory_pair",
    "pipe_stream",
    "serve_unix",
    "stdio_stream",
]

log = logging.getLogger(__name__)

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


class TransportStream(asyncio.Protocol):
    """A stream over an asyncio transport: a socket, or one direction of a pipe.

    Give it to the loop as the protocol. Reading stops at the operating system when ``CHUNK``
    bytes wait here; ``send`` returns when the operating system has taken every byte, so that a
    peer which is gone is met by the one who writes to it.
    """

    def __init__(self) -> None:
        self._incoming = ChunkQueue()
        self._transport: asyncio.Transport | None = None
        self._sink: asyncio.WriteTransport | None = None
        self._is_paused = False
        self._is_closed = False
        self._writable = asyncio.Event()
        self._lost = asyncio.Event()
        self._loss: Exception | None = None
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport (called by the loop)."""
        self._transport = cast("asyncio.Transport", transport)
        if isinstance(transport, asyncio.WriteTransport):
            self._sink = transport
            transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        """Take bytes (called by the loop)."""
        self._incoming.put(data)
        if self._incoming.is_full and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Take the end (called by the loop); what we still send may yet be read."""
        self._incoming.end()
        return True

    def pause_writing(self) -> None:
        """Stop (called by the loop)."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Go on (called by the loop)."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Take the loss (called by the loop)."""
        self._loss = exc
        self._incoming.end(None if exc is None else LinkBrokenError(f"the stream failed: {exc}"))
        self._lost.set()
        self._writable.set()

    async def receive(self) -> bytes:
        """See ``ByteStream``."""
        if self._is_closed:
            raise LinkClosedError("the stream was closed")
        chunk = await self._incoming.get()
        if self._is_paused and self._transport is not None and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()
        return chunk

    async def send(self, data: bytes) -> None:
        """See ``ByteStream``."""
        self._check_open()
        assert self._transport is not None
        self._transport.write(data)
        if not self._writable.is_set():
            await self._writable.wait()
        self._check_open()

    async def close(self) -> None:
        """See ``ByteStream``."""
        self._is_closed = True
        self._incoming.drop(LinkClosedError("the stream was closed"))
        if self._transport is None:
            return
        if self._sink is not None and self._sink.get_write_buffer_size():
            self._sink.abort()  # close() would wait for a peer that does not read
        else:
            self._transport.close()
        await self._lost.wait()

    def extra_info(self, name: str) -> object:
        """What asyncio knows about the transport, such as its ``socket``; None if nothing."""
        return None if self._transport is None else self._transport.get_extra_info(name)

    def _check_open(self) -> None:
        if self._is_closed:
            raise LinkClosedError("the stream was closed")
        if self._transport is None or self._lost.is_set() or self._transport.is_closing():
            why = "it closed its end" if self._loss is None else str(self._loss)
            raise LinkBrokenError(f"the peer takes no more bytes: {why}")


class _FileStream:
    """A stream over a file or a device that cannot be waited for, such as ``/dev/null``.

    The work is done in a thread; such files answer soon.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._is_closed = False

    async def receive(self) -> bytes:
        if self._is_closed:
            raise LinkClosedError("the stream was closed")
        try:
            return await asyncio.to_thread(os.read, self._fd, CHUNK)
        except OSError as error:
            raise LinkBrokenError(f"cannot read: {error}") from error

    async def send(self, data: bytes) -> None:
        if self._is_closed:
            raise LinkClosedError("the stream was closed")
        try:
            await asyncio.to_thread(self._write, data)
        except OSError as error:
            raise LinkBrokenError(f"cannot write: {error}") from error

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await asyncio.to_thread(os.close, self._fd)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]


class _JoinedStream:
    """Receives from one stream and sends to another."""

    def __init__(self, incoming: ByteStream, outgoing: ByteStream) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    async def receive(self) -> bytes:
        return await self._incoming.receive()

    async def send(self, data: bytes) -> None:
        await self._outgoing.send(data)

    async def close(self) -> None:
        try:
            await self._outgoing.close()
        finally:
            await self._incoming.close()


def join_streams(incoming: ByteStream, outgoing: ByteStream) -> ByteStream:
    """Return the stream that receives from ``incoming`` and sends to ``outgoing``; owns both."""
    return _JoinedStream(incoming, outgoing)


async def pipe_stream(read_fd: int, write_fd: int) -> ByteStream:
    """Return a stream over two file descriptors, which it owns from now on, also if this raises.

    For a child: the read end of its standard output and the write end of its standard input.
    Pipes, sockets, terminals, files and devices will do.

    Raises:
        LinkBrokenError: the operating system refuses one of them.
    """
    try:
        incoming = await _open(read_fd, for_reading=True)
    except BaseException:
        os.close(write_fd)
        raise
    try:
        outgoing = await _open(write_fd, for_reading=False)
    except BaseException:
        await incoming.close()
        raise
    return join_streams(incoming, outgoing)


async def stdio_stream() -> ByteStream:
    """Return a stream over our own standard input and output, and keep everyone else off them.

    For the rest of the process descriptor 0 is empty and descriptor 1 is standard error: a
    ``print`` of a library, or a child that inherits them, harms nothing. Closing the stream is
    what the peer sees as our end.

    Raises:
        LinkBrokenError: standard input or output is not open.
    """
    # Python's own streams tell: a descriptor that was closed at the start may be the loop's now.
    for name, stream in (("input", sys.__stdin__), ("output", sys.__stdout__)):
        if stream is None:
            raise LinkBrokenError(
                f"standard {name} is not open; start this program with a pipe there"
            )
    read_fd, write_fd = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing if sys.__stderr__ is None else 2, 1)
    os.close(nothing)
    return await pipe_stream(read_fd, write_fd)


async def _open(fd: int, *, for_reading: bool) -> ByteStream:
    """Open one direction; closes the descriptor if it cannot."""
    try:
        if not _can_be_waited_for(fd):
            return _FileStream(fd)
    except OSError as error:
        raise LinkBrokenError(f"cannot use descriptor {fd}: {error}") from error
    loop = asyncio.get_running_loop()
    stream = TransportStream()
    pipe = os.fdopen(fd, "rb" if for_reading else "wb", buffering=0)
    connect = loop.connect_read_pipe if for_reading else loop.connect_write_pipe
    try:
        await connect(lambda: stream, pipe)
    except (OSError, ValueError) as error:
        pipe.close()
        raise LinkBrokenError(f"cannot use descriptor {fd}: {error}") from error
    return stream


def _can_be_waited_for(fd: int) -> bool:
    # The selectors of Linux refuse regular files and /dev/null, and asyncio finds out too late.
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


_BACKLOG = 128


async def connect_unix(path: str | os.PathLike[str]) -> ByteStream:
    """Connect to the socket at ``path``.

    Raises:
        LinkBrokenError: no one listens there, or we may not connect.
    """
    loop = asyncio.get_running_loop()
    try:
        _, stream = await loop.create_unix_connection(TransportStream, os.fspath(path))
    except OSError as error:
        raise LinkBrokenError(f"cannot connect to {os.fspath(path)!r}: {error}") from error
    return stream


@asynccontextmanager
async def serve_unix(
    path: str | os.PathLike[str], serve: Callable[[ByteStream], Awaitable[None]]
) -> AsyncGenerator[None]:
    """Listen at ``path`` and run ``serve`` with each stream, in a task of its own.

    Only this user may connect. The stream is closed when ``serve`` returns; if it raises, that
    is logged and the others go on. At the end every task is cancelled and the path is removed.

    Raises:
        LinkBusyError: another process listens there.
        LinkBrokenError: the operating system refuses the path.
    """
    from pathlib import Path  # late: an agent on a pipe starts without it

    place = Path(path)
    listener, inode = await asyncio.to_thread(_bind, place)
    tasks = BackgroundTasks()

    def accept() -> TransportStream:
        return _AcceptedStream(begin)

    def begin(stream: TransportStream) -> None:
        tasks.start(_serve(stream, serve), name=f"serve {place.name}")

    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(accept, sock=listener, backlog=_BACKLOG)
    try:
        yield
    finally:
        server.close()
        await tasks.close()
        await asyncio.to_thread(_remove, place, inode)


class _AcceptedStream(TransportStream):
    def __init__(self, begin: Callable[[TransportStream], None]) -> None:
        super().__init__()
        self._begin = begin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._begin(self)


async def _serve(stream: ByteStream, serve: Callable[[ByteStream], Awaitable[None]]) -> None:
    try:
        await serve(stream)
    except Exception:
        log.exception("serving a connection failed")
    finally:
        await stream.close()


def _bind(path: Path) -> tuple[socket.socket, int]:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket():
            _remove_if_dead(path)
        listener.bind(os.fspath(path))
        # No one can connect before listen(), so there is no moment when others may.
        path.chmod(0o600)
        return listener, path.stat().st_ino
    except OSError as error:
        listener.close()
        raise LinkBrokenError(f"cannot listen at {os.fspath(path)!r}: {error}") from error
    except BaseException:
        listener.close()
        raise


def _remove_if_dead(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise LinkBusyError(f"another process listens at {os.fspath(path)!r}; connect to it or stop it")


def _remove(path: Path, inode: int) -> None:
    with suppress(OSError):
        if path.stat().st_ino == inode:
            path.unlink()
