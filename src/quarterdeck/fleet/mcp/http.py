"""MCP over streamable HTTP, on loopback only: one server in the host for the tools of all
agents.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from quarterdeck.wire.tasks import start_task

from .protocol import VERSIONS, McpEndpoint, Message

__all__ = [
    "MOST_BODY",
    "PATH",
    "HttpRefusalError",
    "McpHttpRequest",
    "McpHttpServer",
    "read_http_request",
    "serve_http",
]

_MOST_HEAD = 32 * 1024
MOST_BODY = 4 * 1024 * 1024
"""Bytes of a message, at the most."""


class HttpRefusalError(Exception):
    """A request that is answered with a status and a sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class McpHttpRequest:
    """A request without its body."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Their names in small letters; where one came twice the last."""

    @property
    def length(self) -> int:
        """Bytes of the body. Raises HttpRefusalError."""
        if "transfer-encoding" in self.headers:
            raise HttpRefusalError(411, "Content-Length is required")
        text = self.headers.get("content-length", "0")
        if not (text.isascii() and text.isdigit()) or len(text) > 12:
            raise HttpRefusalError(400, "Content-Length is not a number")
        if int(text) > MOST_BODY:
            raise HttpRefusalError(413, f"a message may have at most {MOST_BODY} bytes")
        return int(text)


async def read_http_request(reader: asyncio.StreamReader) -> McpHttpRequest:
    """Read the head of a request. ``reader`` must hold back heads that are too long.

    Raises:
        HttpRefusalError: it is none that we take.
        IncompleteReadError: the client went away.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise HttpRefusalError(431, f"the headers may have at most {_MOST_HEAD} bytes") from None
    if len(head) > _MOST_HEAD:
        raise HttpRefusalError(431, f"the headers may have at most {_MOST_HEAD} bytes")
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise HttpRefusalError(400, "this is not an HTTP/1.1 request")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or "\n" in line or "\r" in line:
            raise HttpRefusalError(400, "a header cannot be read")
        lower = name.lower()
        if lower in headers and lower in ("content-length", "host", "authorization", "origin"):
            raise HttpRefusalError(400, f"there is more than one {lower}")
        headers[lower] = value.strip()
    return McpHttpRequest(method=words[0], path=words[1].partition("?")[0], headers=headers)


_log = logging.getLogger(__name__)

PATH = "/mcp"
_ADDRESS = "127.0.0.1"
_LOCAL_NAMES = frozenset((_ADDRESS, "localhost"))
_READ_SECONDS = 30.0
"""Within which a request must have arrived."""
_LINGER_SECONDS = 1.0
_MOST_CONNECTIONS = 256
_QUIET_SECONDS = 10.0
"""After which a client that takes a stream is shown that we are still there."""
_REASONS = {
    200: "OK",
    202: "Accepted",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    411: "Length Required",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class McpHttpServer:
    """The server while it listens. ``url`` is where."""

    def __init__(
        self,
        endpoint_of: Callable[[str], McpEndpoint | None],
        quiet_seconds: float = _QUIET_SECONDS,
    ) -> None:
        self.port = 0
        self._endpoint_of = endpoint_of
        self._quiet_seconds = quiet_seconds
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The address that agents are told."""
        return f"http://{_ADDRESS}:{self.port}{PATH}"

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: one request."""
        task = asyncio.current_task()
        assert task is not None
        full = len(self._connections) >= _MOST_CONNECTIONS
        self._connections.add(task)
        try:
            if full:
                await _refuse(writer, HttpRefusalError(503, "too many connections are open"))
            else:
                await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away
        except Exception:
            _log.exception("a connection of an agent failed")
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def close(self) -> None:
        """Send everybody away."""
        tasks = tuple(self._connections)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                request = await read_http_request(reader)
                endpoint = self._admit(request)
                if request.method == "DELETE":
                    await _write(writer, 200, b"")
                    return
                body = await reader.readexactly(request.length)
            message = _message(body)
        except TimeoutError:
            await _refuse(writer, HttpRefusalError(408, "the request timed out"))
            return
        except HttpRefusalError as refusal:
            await _refuse(writer, refusal)
            await _hear_out(reader, writer)
            return
        await _unless_left(reader, self._answer(endpoint, message, request, writer))

    def _admit(self, request: McpHttpRequest) -> McpEndpoint:
        """Whose request this is. Raises HttpRefusalError."""
        headers = request.headers
        if not self._is_here(headers.get("host", "")):
            raise HttpRefusalError(403, "wrong Host header")
        if (origin := headers.get("origin")) is not None:
            parts = urlsplit(origin)
            if parts.scheme != "http" or not self._is_here(parts.netloc):
                raise HttpRefusalError(403, "other origins are not allowed")
        if request.path != PATH:
            raise HttpRefusalError(404, f"only {PATH} exists")
        scheme, _, token = headers.get("authorization", "").partition(" ")
        endpoint = self._endpoint_of(token.strip()) if scheme.lower() == "bearer" else None
        if endpoint is None:
            raise HttpRefusalError(401, "this needs the token of a running agent")
        if request.method not in ("POST", "DELETE"):
            raise HttpRefusalError(405, "use POST")
        if headers.get("mcp-protocol-version", VERSIONS[0]) not in VERSIONS:
            raise HttpRefusalError(400, f"supported versions are {', '.join(VERSIONS)}")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method == "POST" and kind != "application/json":
            raise HttpRefusalError(415, "the content type must be application/json")
        return endpoint

    def _is_here(self, host: str) -> bool:
        name, _, port = host.rpartition(":")
        return name in _LOCAL_NAMES and port == str(self.port)

    async def _answer(
        self,
        endpoint: McpEndpoint,
        message: Any,
        request: McpHttpRequest,
        writer: asyncio.StreamWriter,
    ) -> None:
        answering = start_task(endpoint.handle(message), name="MCP: answer")
        try:
            if "text/event-stream" in request.headers.get("accept", ""):
                done, _ = await asyncio.wait([answering], timeout=self._quiet_seconds)
                if not done:
                    await self._stream(answering, message, writer)
                    return
            answer = await answering
        finally:
            if not answering.done():
                answering.cancel()
                await asyncio.wait([answering])
        if answer is None:
            await _write(writer, 202, b"")
        else:
            await _write(writer, 200, msgspec.json.encode(answer))

    async def _stream(
        self, answering: "asyncio.Future[Any]", message: Any, writer: asyncio.StreamWriter
    ) -> None:
        """Answer as a stream of events, with signs of life until the answer is there."""
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        progress = _progress_token(message)
        ticks = 0
        while not answering.done():
            ticks += 1
            writer.write(b": still at it\n\n" if progress is None else _progress(progress, ticks))
            await writer.drain()
            await asyncio.wait([answering], timeout=self._quiet_seconds)
        if (answer := answering.result()) is not None:
            writer.write(_event(answer))
        await writer.drain()


@asynccontextmanager
async def serve_http(
    endpoint_of: Callable[[str], McpEndpoint | None], *, quiet_seconds: float = _QUIET_SECONDS
) -> AsyncGenerator[McpHttpServer]:
    """Listen on loopback, at a port that the system chooses.

    ``endpoint_of``: whose tools a token opens; None: nobody's.

    Raises:
        OSError: there is no loopback to listen at.
    """
    server = McpHttpServer(endpoint_of, quiet_seconds)
    listener = await asyncio.start_server(server.accept, _ADDRESS, 0, limit=64 * 1024)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.close()


async def _unless_left(reader: asyncio.StreamReader, work: Coroutine[Any, Any, None]) -> None:
    """Do some work; a client that goes away meanwhile cancels it."""
    working = start_task(work, name="MCP: request")
    leaving = start_task(_left(reader), name="MCP: client")
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, leaving):
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
    if not working.cancelled():
        working.result()


async def _hear_out(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Let a client that still sends read why it was refused, for a moment."""
    writer.write_eof()
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            await _left(reader)


async def _left(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while await reader.read(4096):
            pass  # a second request on the same connection is not answered: we close it


def _message(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise HttpRefusalError(400, f"the message is not JSON: {error}") from None


def _progress_token(message: Any) -> str | int | None:
    try:
        token = message["params"]["_meta"]["progressToken"]
    except (TypeError, KeyError, IndexError):
        return None
    return token if isinstance(token, str | int) else None


def _progress(token: str | int, ticks: int) -> bytes:
    params = {"progressToken": token, "progress": ticks}
    return _event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


def _event(message: Message | list[Message]) -> bytes:
    return b"event: message\ndata: " + msgspec.json.encode(message) + b"\n\n"


async def _refuse(writer: asyncio.StreamWriter, refusal: HttpRefusalError) -> None:
    told = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": str(refusal)}}
    await _write(writer, refusal.status, msgspec.json.encode(told))


async def _write(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    head = [
        f"HTTP/1.1 {status} {_REASONS[status]}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(("Content-Type: application/json",) if body else ()),
        *(("Allow: POST, DELETE",) if status == 405 else ()),
        *(("WWW-Authenticate: Bearer",) if status == 401 else ()),
    ]
    writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    await writer.drain()
