"""A small HTTP/1.1 server on the loopback interface, for the fakes that speak HTTP.

It keeps connections alive, streams in chunks, and cancels the handler of a request whose client
has gone. It serves programs of this machine only and refuses to listen anywhere else.
"""

import asyncio
import gzip
import ipaddress
import logging
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias

from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.tasks import start_task

__all__ = ["HttpExchange", "HttpRequest", "HttpServer", "NotLoopbackError"]

_log = logging.getLogger(__name__)
_MAX_HEAD = 64 * 1024
_MAX_BODY = 64 * 1024 * 1024
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class NotLoopbackError(QuarterdeckError):
    """A host that other machines could reach."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host!r} is not a loopback address; this server has no lock, so it listens on "
            f"127.0.0.1 or ::1 only."
        )


class _MalformedRequestError(Exception):
    """Bytes that are no HTTP request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request as it was sent; header names are in lower case."""

    method: str
    target: str
    """Path and query."""
    headers: Mapping[str, str]
    body: bytes


Handler: TypeAlias = Callable[["HttpExchange"], Awaitable[None]]


class HttpExchange:
    """One request and the way to answer it. Cancelled when the client goes away."""

    def __init__(self, request: HttpRequest, connection: "_Connection") -> None:
        self.request = request
        self._connection = connection
        self._streaming = False
        self.is_answered = False

    async def answer(
        self, status: int, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole answer; its type is JSON unless the headers say otherwise."""
        self.is_answered = True
        fields = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            **(headers or {}),
        }
        sent = b"" if self.request.method == "HEAD" else body
        self._connection.write(_head(status, fields) + sent)
        await self._connection.drain()

    def begin(self, headers: Mapping[str, str]) -> None:
        """Send the head of an answer that comes in chunks."""
        self.is_answered = self._streaming = True
        self._connection.write(_head(200, {**headers, "transfer-encoding": "chunked"}))

    async def send(self, data: bytes) -> None:
        """Send one chunk; waits while the client does not read."""
        if data:
            self._connection.write(b"%x\r\n%b\r\n" % (len(data), data))
            await self._connection.drain()

    async def finish(self, data: bytes = b"") -> None:
        """Send a last chunk and the end of the answer."""
        last = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
        self._connection.write(last + b"0\r\n\r\n")
        await self._connection.drain()

    def cut(self) -> None:
        """Close the connection here and now, in good order for TCP, in none for HTTP."""
        self.is_answered = True
        self._connection.close()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Scripted')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


class HttpServer:
    """Serves ``handler`` on loopback for as long as it is open.

    The handler is called once per request, in a task of its own; on one connection the next
    request waits for the answer to the last. An exception from it is logged, kept in ``failures``
    and answered with 500.
    """

    def __init__(self, handler: Handler, *, host: str = "127.0.0.1", port: int = 0) -> None:
        if host != "localhost" and not _is_loopback(host):
            raise NotLoopbackError(host)
        self._handler = handler
        self._host = "127.0.0.1" if host == "localhost" else host
        self._port = port
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self.failures: list[Exception] = []

    async def __aenter__(self) -> "HttpServer":
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self._handler, self._connections, self.failures),
            self._host,
            self._port,
            backlog=1024,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        server = self._server
        assert server is not None
        server.close()
        ended = [connection.end() for connection in tuple(self._connections)]
        await asyncio.gather(*ended)
        await server.wait_closed()

    @property
    def port(self) -> int:
        """The port that is listened on."""
        assert self._server is not None, "the server is not open"
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """Where the server is: ``http://127.0.0.1:PORT``."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Connection(asyncio.Protocol):
    """One client: bytes in, requests to the handler one by one, bytes out."""

    def __init__(
        self, handler: Handler, connections: "set[_Connection]", failures: list[Exception]
    ) -> None:
        self._handler = handler
        self._connections = connections
        self._failures = failures
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()
        self._transport: asyncio.Transport | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._serve_next()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._lost.set()
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # What an exchange asks for.

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        if not self._writable.is_set():
            await self._writable.wait()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def end(self) -> None:
        """Close at once, and wait until the handler has ended too."""
        if self._transport is not None:
            self._transport.abort()
        await self._lost.wait()
        if self._task is not None:
            await asyncio.wait([self._task])

    def _serve_next(self) -> None:
        """Begin with the next request, if all of it is here and none is under way."""
        if self._task is not None or self._lost.is_set():
            return
        try:
            request = _take_request(self._buffer)
        except _MalformedRequestError as error:
            self.write(_head(400, {"content-length": "0", "x-reason": str(error)}))
            self.close()
            return
        if request is None:
            if b"expect: 100-continue" in self._buffer[:_MAX_HEAD].lower():
                self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return
        self._task = start_task(self._serve(request), name=f"serve {request.target}")
        self._task.add_done_callback(self._served)

    async def _serve(self, request: HttpRequest) -> None:
        exchange = HttpExchange(request, self)
        try:
            await self._handler(exchange)
        except Exception as error:
            # The edge to a client that we cannot raise to: it gets a 500, the owner the error.
            _log.exception("no answer to %s %s", request.method, request.target)
            self._failures.append(error)
            if exchange.is_answered:
                self.close()
            else:
                await exchange.answer(500, b'{"error": {"message": "the fake failed"}}')
        if request.headers.get("connection", "").lower() == "close":
            self.close()

    def _served(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled():
            task.result()
            self._serve_next()


def _take_request(buffer: bytearray) -> HttpRequest | None:
    """Take a whole request off the buffer; None when it is not complete yet."""
    head_end = buffer.find(b"\r\n\r\n", 0, _MAX_HEAD)
    if head_end < 0:
        if len(buffer) >= _MAX_HEAD:
            raise _MalformedRequestError("the head is too large")
        return None
    first, *lines = bytes(buffer[:head_end]).decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    target, _, version = rest.rpartition(" ")
    if not version.startswith("HTTP/1.") or not target:
        raise _MalformedRequestError("no request line")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
    }
    taken = _take_body(buffer, head_end + 4, headers)
    if taken is None:
        return None
    body, end = taken
    del buffer[:end]
    return HttpRequest(method=method, target=target, headers=headers, body=_unpacked(body, headers))


def _take_body(
    buffer: bytearray, start: int, headers: Mapping[str, str]
) -> tuple[bytes, int] | None:
    """The body and where it ends; None when it is not complete yet."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _take_chunks(buffer, start)
    size = headers.get("content-length", "0")
    if not size.isdecimal() or int(size) > _MAX_BODY:
        raise _MalformedRequestError("no usable content-length")
    end = start + int(size)
    return (bytes(buffer[start:end]), end) if len(buffer) >= end else None


def _take_chunks(buffer: bytearray, start: int) -> tuple[bytes, int] | None:
    body = bytearray()
    while (line_end := buffer.find(b"\r\n", start)) >= 0:
        try:
            size = int(bytes(buffer[start:line_end]).split(b";")[0], 16)
        except ValueError:
            raise _MalformedRequestError("no chunk size") from None
        if size < 0 or len(body) + size > _MAX_BODY:
            raise _MalformedRequestError("the body is too large")
        end = line_end + 2 + size + 2
        if len(buffer) < end:
            return None
        if size == 0:
            return bytes(body), end
        body += buffer[line_end + 2 : end - 2]
        start = end
    return None


def _unpacked(body: bytes, headers: Mapping[str, str]) -> bytes:
    encoding = headers.get("content-encoding", "").lower()
    try:
        if encoding == "gzip":
            return gzip.decompress(body)
        if encoding == "deflate":
            return zlib.decompress(body)
    except (OSError, zlib.error, EOFError) as error:
        raise _MalformedRequestError(f"the body is no {encoding}") from error
    return body
