"""MCP over streamable HTTP, on loopback only: one server in the host for the tools of all
agents.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import h11
import msgspec

from quarterdeck.wire.tasks import start_task

from .protocol import VERSIONS, McpEndpoint, Message

__all__ = [
    "MOST_BODY",
    "PATH",
    "HttpRefusalError",
    "McpHttpConnection",
    "McpHttpRequest",
    "McpHttpServer",
    "serve_http",
]

_log = logging.getLogger(__name__)

_MOST_HEAD = 32 * 1024
MOST_BODY = 4 * 1024 * 1024
"""Bytes of a message, at the most."""
_HEAD_PIECE, _BODY_PIECE = 4 * 1024, 64 * 1024
"""Bytes that are read at a time; a head may exceed its limit by one piece."""

PATH = "/mcp"
_ADDRESS = "127.0.0.1"
_LOCAL_NAMES = frozenset((_ADDRESS, "localhost"))
_READ_SECONDS = 30.0
"""Within which a request must have arrived."""
_LINGER_SECONDS = 1.0
_MOST_CONNECTIONS = 256
_QUIET_SECONDS = 10.0
"""After which a client that takes a stream is shown that we are still there."""

_Fields: TypeAlias = list[tuple[str, str]]


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

    def check_length(self) -> None:
        """Refuse a body that is too long or does not say how long it is.

        Raises:
            HttpRefusalError: the status and text to answer with.
        """
        if "transfer-encoding" in self.headers:
            raise HttpRefusalError(411, "Content-Length is required")
        if int(self.headers.get("content-length", "0")) > MOST_BODY:
            raise HttpRefusalError(413, f"a message may have at most {MOST_BODY} bytes")


class McpHttpConnection:
    """One request and its answer; h11 reads and writes the protocol."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST_HEAD)

    async def read_request(self) -> McpHttpRequest:
        """Read the head of the request.

        Raises:
            HttpRefusalError: it is not a request that we accept.
            ConnectionError: the client disconnected.
        """
        head = await self._next_event(_HEAD_PIECE)
        if not isinstance(head, h11.Request):
            raise ConnectionResetError("the client sent no request")
        if head.http_version not in (b"1.1", b"1.0"):
            raise HttpRefusalError(400, "this is not an HTTP/1.1 request")
        headers: dict[str, str] = {}
        for raw_name, value in head.headers:
            name = raw_name.decode("latin-1")
            if name in headers and name in ("authorization", "origin"):
                raise HttpRefusalError(400, f"there is more than one {name}")
            headers[name] = value.decode("latin-1")
        path = head.target.decode("latin-1").partition("?")[0]
        return McpHttpRequest(method=head.method.decode("latin-1"), path=path, headers=headers)

    async def read_body(self) -> bytes:
        """Read the body of the request, whose length was checked.

        Raises:
            HttpRefusalError: it is incomplete.
        """
        if self._protocol.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
        body = bytearray()
        while isinstance(event := await self._next_event(_BODY_PIECE), h11.Data):
            body += event.data
        return bytes(body)

    async def respond(self, status: int, body: bytes = b"") -> None:
        """Send the whole answer; ``body`` is JSON."""
        fields: _Fields = [("Content-Length", str(len(body)))]
        if body:
            fields.append(("Content-Type", "application/json"))
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            fields.append(("Allow", "POST, DELETE"))
        if status == HTTPStatus.UNAUTHORIZED:
            fields.append(("WWW-Authenticate", "Bearer"))
        await self._send(_head(status, fields), h11.Data(data=body), h11.EndOfMessage())

    async def refuse(self, refusal: HttpRefusalError) -> None:
        """Send the status of a refusal and its text as a JSON-RPC error."""
        error = {"code": -32000, "message": str(refusal)}
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error})
        await self.respond(refusal.status, body)

    async def begin_stream(self) -> None:
        """Send the head of an answer that is a stream of events."""
        fields = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store")]
        await self._send(_head(HTTPStatus.OK, fields))

    async def send_event(self, data: bytes) -> None:
        """Send a piece of the stream."""
        await self._send(h11.Data(data=data))

    async def end_stream(self) -> None:
        """Send the end of the stream."""
        await self._send(h11.EndOfMessage())

    async def _next_event(self, size: int) -> Any:
        while True:
            try:
                event = self._protocol.next_event()
            except h11.RemoteProtocolError as error:
                raise _refusal(error) from None
            if event is not h11.NEED_DATA:
                return event
            self._protocol.receive_data(await self.reader.read(size))

    async def _send(self, *events: h11.Event) -> None:
        self.writer.write(b"".join(self._protocol.send(event) or b"" for event in events))
        await self.writer.drain()


def _head(status: int, fields: _Fields) -> h11.Response:
    return h11.Response(
        status_code=status,
        headers=[*fields, ("Connection", "close")],
        reason=HTTPStatus(status).phrase,
    )


def _refusal(error: h11.RemoteProtocolError) -> HttpRefusalError:
    if error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
        return HttpRefusalError(431, f"the headers may have at most {_MOST_HEAD} bytes")
    # Behind a colon h11 repeats the bytes, in which a token may be.
    reason = str(error).partition(":")[0]
    return HttpRefusalError(error.error_status_hint, f"this is not an HTTP/1.1 request: {reason}")


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
        """The address that agents are sent."""
        return f"http://{_ADDRESS}:{self.port}{PATH}"

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: one request."""
        task = asyncio.current_task()
        assert task is not None
        full = len(self._connections) >= _MOST_CONNECTIONS
        self._connections.add(task)
        connection = McpHttpConnection(reader, writer)
        try:
            if full:
                await connection.refuse(HttpRefusalError(503, "too many connections are open"))
            else:
                await self._serve(connection)
        except ConnectionError:
            pass  # the client disconnected
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

    async def _serve(self, connection: McpHttpConnection) -> None:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                request = await connection.read_request()
                endpoint = self._admit(request)
                if request.method == "DELETE":
                    await connection.respond(200)
                    return
                request.check_length()
                body = await connection.read_body()
            message = _message(body)
        except TimeoutError:
            await connection.refuse(HttpRefusalError(408, "the request timed out"))
            return
        except HttpRefusalError as refusal:
            await connection.refuse(refusal)
            await _hear_out(connection)
            return
        answering = self._answer(endpoint, message, request, connection)
        await _unless_disconnected(connection.reader, answering)

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
        connection: McpHttpConnection,
    ) -> None:
        answering = start_task(endpoint.handle(message), name="MCP: answer")
        try:
            if "text/event-stream" in request.headers.get("accept", ""):
                done, _ = await asyncio.wait([answering], timeout=self._quiet_seconds)
                if not done:
                    await self._stream(answering, message, connection)
                    return
            answer = await answering
        finally:
            if not answering.done():
                answering.cancel()
                await asyncio.wait([answering])
        if answer is None:
            await connection.respond(202)
        else:
            await connection.respond(200, msgspec.json.encode(answer))

    async def _stream(
        self, answering: "asyncio.Future[Any]", message: Any, connection: McpHttpConnection
    ) -> None:
        """Answer as a stream of events, with signs of life until the answer is there."""
        await connection.begin_stream()
        progress = _progress_token(message)
        ticks = 0
        while not answering.done():
            ticks += 1
            sign = b": still at it\n\n" if progress is None else _progress(progress, ticks)
            await connection.send_event(sign)
            await asyncio.wait([answering], timeout=self._quiet_seconds)
        if (answer := answering.result()) is not None:
            await connection.send_event(_event(answer))
        await connection.end_stream()


@asynccontextmanager
async def serve_http(
    endpoint_of: Callable[[str], McpEndpoint | None], *, quiet_seconds: float = _QUIET_SECONDS
) -> AsyncGenerator[McpHttpServer]:
    """Listen on loopback, at a port that the system chooses.

    ``endpoint_of``: whose tools a token opens; None: no one's.

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


async def _unless_disconnected(
    reader: asyncio.StreamReader, work: Coroutine[Any, Any, None]
) -> None:
    """Do some work; a client that goes away meanwhile cancels it."""
    working = start_task(work, name="MCP: request")
    disconnecting = start_task(_wait_for_disconnect(reader), name="MCP: client")
    try:
        await asyncio.wait([working, disconnecting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, disconnecting):
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
    if not working.cancelled():
        working.result()


async def _hear_out(connection: McpHttpConnection) -> None:
    """Let a client that still sends read why it was refused, for a moment."""
    connection.writer.write_eof()
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            await _wait_for_disconnect(connection.reader)


async def _wait_for_disconnect(reader: asyncio.StreamReader) -> None:
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
