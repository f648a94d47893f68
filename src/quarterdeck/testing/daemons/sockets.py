"""The side of a server of a WebSocket, as little of it as a fake needs."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from quarterdeck.wire.websocket import CLOSE, PING, PONG, TEXT, accept_of

__all__ = ["Connection", "frame", "listen"]

_LIMIT = 64 * 1024 * 1024


class Connection:
    """One client. ``left`` are the bytes after which it is cut; None: it is not."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._left = left
        self.headers: dict[str, str] = {}

    async def greet(self, token: str) -> bool:
        """Agree on the protocol; False: the client does not know the token."""
        import base64

        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        pairs = (line.partition(":") for line in head.split("\r\n")[1:] if line)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        if token and self.headers.get("authorization") != f"Bearer {token}":
            self._writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
            return False
        key = base64.b64decode(self.headers["sec-websocket-key"])
        answer = [
            "HTTP/1.1 101 Switching Protocols",
            "connection: upgrade",
            "upgrade: websocket",
            f"sec-websocket-accept: {accept_of(key)}",
        ]
        self._writer.write(("\r\n".join(answer) + "\r\n\r\n").encode())
        return True

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """What the client says until it leaves."""
        while True:
            try:
                kind, data = await self._frame()
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            if kind == TEXT:
                yield data
            elif kind == PING:
                self.write(frame(PONG, data))
            elif kind == CLOSE:
                return

    async def _frame(self) -> tuple[int, bytes]:
        first, second = await self._reader.readexactly(2)
        size = second & 0x7F
        if size >= 126:
            size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8))
        mask = await self._reader.readexactly(4)
        data = await self._reader.readexactly(size)
        key = (mask * (size // 4 + 1))[:size]
        return first & 0xF, (int.from_bytes(data) ^ int.from_bytes(key)).to_bytes(size)

    def send(self, text: bytes) -> None:
        """Send a message, or as much of it as may be sent."""
        self.write(frame(TEXT, text))

    def write(self, data: bytes) -> None:
        """Send bytes, or as many of them as may be sent."""
        if self._left is not None and self._left <= len(data):
            self._writer.write(data[: self._left])
            self.cut()
        elif not self._writer.is_closing():
            self._left = self._left - len(data) if self._left is not None else None
            self._writer.write(data)

    def cut(self) -> None:
        """Hang up without a word; what was sent arrives."""
        self._left = 0
        self._writer.close()

    async def drain(self) -> None:
        """Wait until the client has read enough."""
        await self._writer.drain()


def frame(kind: int, data: bytes) -> bytes:
    """One frame of a server."""
    size = len(data)
    if size < 126:
        return bytes((0x80 | kind, size)) + data
    if size < 1 << 16:
        return bytes((0x80 | kind, 126)) + size.to_bytes(2) + data
    return bytes((0x80 | kind, 127)) + size.to_bytes(8) + data


_Serve: TypeAlias = Callable[
    [asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]
]


@asynccontextmanager
async def listen(url: str, serve: _Serve) -> AsyncGenerator[str]:
    """Listen at ``unix://PATH`` or ``ws://127.0.0.1:PORT``; gives the address that it has."""
    tasks: set[asyncio.Task[Any]] = set()

    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await serve(reader, writer)
        except asyncio.CancelledError:
            pass  # the server is over
        finally:
            tasks.discard(task)
            writer.close()

    if url.startswith("unix://"):
        path = url.removeprefix("unix://")
        server = await asyncio.start_unix_server(begin, path, limit=_LIMIT)
        address = url
    else:
        path = ""
        port = int(url.rpartition(":")[2])
        server = await asyncio.start_server(begin, "127.0.0.1", port, limit=_LIMIT)
        address = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield address
    finally:
        server.close()
        waiting = list(tasks)
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)
        if path:
            await asyncio.to_thread(Path(path).unlink, missing_ok=True)
