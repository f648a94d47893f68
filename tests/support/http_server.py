"""A loopback HTTP server whose answers a test writes byte by byte."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass
class Exchange:
    """What a handler works with: the request, and the way to answer."""

    request: Seen
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def reply(self, status: int, body: bytes, **headers: str) -> None:
        head = [f"HTTP/1.1 {status} Something", f"Content-Length: {len(body)}"]
        head += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send(("\r\n".join(head) + "\r\n\r\n").encode() + body)

    async def stream(self, *pieces: bytes, is_ended: bool = True) -> None:
        await self.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for piece in pieces:
            await self.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        if is_ended:
            await self.send(b"0\r\n\r\n")

    async def gone(self) -> None:
        """Wait until the client has closed its side."""
        with suppress(ConnectionError):
            while await self.reader.read(1024):
                pass


Handler = Callable[[Exchange], Awaitable[None]]


@dataclass
class Server:
    handler: Handler
    url: str = ""
    requests: list[Seen] = field(default_factory=list)
    connections: int = 0
    is_keeping: bool = True
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        try:
            while request := await _read(reader, number):
                self.requests.append(request)
                await self.handler(Exchange(request, reader, writer))
                if not self.is_keeping:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.closed.set()
            writer.close()


async def _read(reader: asyncio.StreamReader, number: int) -> Seen | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode().strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(method, target, headers, body, number)


@asynccontextmanager
async def serving(
    handler: Handler, *, is_keeping: bool = True, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    """Serve on loopback; every connection is closed at the end."""
    server = Server(handler, is_keeping=is_keeping)
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await server.accept(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            tasks.discard(task)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    host, port = listener.sockets[0].getsockname()[:2]
    server.url = f"{'https' if tls else 'http'}://{host}:{port}"
    try:
        yield server
    finally:
        listener.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*list(tasks), return_exceptions=True)
        await asyncio.sleep(0)
