"""Streams over pipes, sockets and files: those of a child, and our own standard ones."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from typing import TYPE_CHECKING, cast

from quarterdeck.wire.errors import LinkBrokenError, LinkClosedError
from quarterdeck.wire.rpc.stream import CHUNK, ChunkQueue

if TYPE_CHECKING:
    from quarterdeck.wire.rpc.stream import ByteStream

__all__ = ["TransportStream", "join_streams", "pipe_stream", "stdio_stream"]


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
