"""A connection of an agent at the meter: its requests and their answers, passed on byte for byte.

The bytes of an answer go to the agent first, as they arrived; a parser sees them afterwards and
finds the counts and the end. What it cannot read is passed on all the same. Headers are passed on
and neither logged nor kept.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

import h11

from quarterdeck.models.answer_usage import AnswerUsage
from quarterdeck.wire.tasks import cancel_tasks, start_task
from quarterdeck.wire.usage import TokenUsage

from .api import CallRefusal, MeteredRequest
from .calls import OwnAnswer, describe_call, find_wire, narrow_codings, refuse_call
from .upstream import READ_SIZE, Upstream, UpstreamConnection, UpstreamError

if TYPE_CHECKING:
    from quarterdeck.wire.settings import VendorWire

__all__ = ["MOST_REQUEST", "MeterClient", "MeterGate", "MeterSeat", "fail_request"]

MOST_REQUEST = 64 * 1024 * 1024
"""Bytes of a model call, at the most; it is held until it is authorized."""
_LOCAL_NAMES = frozenset(("127.0.0.1", "localhost"))
_MOST_HEAD = 64 * 1024
_HEAD_PIECE = 4 * 1024
"""Bytes that are read at a time; a head may exceed its limit by one piece."""
_IDLE_SECONDS = 300.0
"""A connection may wait so long for its next request."""
_READ_SECONDS = 60.0
"""Between two pieces of a request."""
_LINGER_SECONDS = 1.0
_OF_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"upgrade", b"expect", b"host")
)
"""Headers that are about one connection alone."""
_RESET = struct.pack("ii", 1, 0)


class MeterSeat(Protocol):
    """An agent that may use the meter."""

    @property
    def is_exposed(self) -> bool:
        """Its secret can be seen by other users of this machine: they must be kept out."""
        ...

    @property
    def upstreams(self) -> Mapping[str, Upstream]:
        """Where its requests go, by the second part of their path."""
        ...

    async def begin(self, request: MeteredRequest) -> CallRefusal | None:
        """A call is about to be made; None: it may be. Then ``finish`` follows, once."""
        ...

    def finish(
        self,
        request: MeteredRequest,
        usage: TokenUsage | None,
        status: int | None,
        reason: str | None,
    ) -> None:
        """The call is over; ``reason``: why the answer did not arrive whole."""
        ...

    def pass_other(self) -> None:
        """A request that is no model call goes out."""
        ...


class MeterGate(Protocol):
    """What a connection needs of the meter."""

    @property
    def port(self) -> int:
        """Where it listens."""
        ...

    def seat_of(self, token: str) -> MeterSeat | None:
        """Whose secret this is; None: no one's."""
        ...

    async def is_own_user(self, writer: asyncio.StreamWriter) -> bool:
        """Whether the program at the other end is known to run as this user."""
        ...

    async def open(self, upstream: Upstream) -> UpstreamConnection:
        """Connect to an upstream. Raises UpstreamError."""
        ...


class _OwnAnswerError(Exception):
    def __init__(self, answer: OwnAnswer) -> None:
        super().__init__(answer.status)
        self.answer = answer


def fail_request(status: int, text: str) -> _OwnAnswerError:
    """An error that is answered with a status and a sentence, in the form of most vendors."""
    answer = refuse_call(None, text)
    return _OwnAnswerError(OwnAnswer(status, answer.body))


class _Exchange:
    """One request of an agent and the answer to it."""

    def __init__(
        self,
        head: h11.Request,
        protocol: h11.Connection,
        seat: MeterSeat,
        upstream: Upstream,
        path: str,
    ) -> None:
        self.head = head
        self.protocol = protocol
        self.seat = seat
        self.upstream = upstream
        self.path = path
        """Behind that of the upstream, with the query."""
        self.wire: VendorWire | None = find_wire(
            head.method.decode("latin-1"), path.partition("?")[0]
        )
        self.call: MeteredRequest | None = None
        self.body: bytes | None = None
        """Of a model call; others are streamed."""
        self.usage: AnswerUsage | None = None
        self.status: int | None = None
        self.is_whole = False
        self.is_kept = False
        """Both connections can be used again."""
        self.is_readable = True
        """The answer is HTTP as the parser knows it."""
        self.has_answer = False
        """Bytes of it have arrived."""

    def make_request(self, connection: UpstreamConnection) -> h11.Request:
        headers = [(b"Host", self.upstream.origin.host_header.encode("latin-1"))]
        headers += connection.headers
        for name, value in self.head.headers.raw_items():
            lowered = name.lower()
            if lowered in _OF_HOP:
                continue
            if self.wire is not None and lowered == b"accept-encoding":
                value = narrow_codings(value)
            headers.append((name, value))
        target = f"{connection.prefix}{self.upstream.path}{self.path}"
        return h11.Request(method=self.head.method, target=target, headers=headers)

    def observe(self, parser: h11.Connection, piece: bytes) -> bool:
        """Read a copy of what has passed; True: the answer is over."""
        parser.receive_data(piece)
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                return False
            if isinstance(event, h11.Response):
                self._take_head(event)
            elif isinstance(event, h11.Data):
                if self.usage is not None:
                    self.usage.feed(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self.is_whole = True
                states = (parser.our_state, parser.their_state)
                self.is_kept = states == (h11.DONE, h11.DONE) and not parser.trailing_data[0]
                return True
            elif not isinstance(event, h11.InformationalResponse):
                return True

    def _take_head(self, head: h11.Response) -> None:
        self.status = head.status_code
        if self.wire is None or not 200 <= head.status_code < 300:
            return
        headers = {name: value.decode("latin-1") for name, value in head.headers}
        kind, coding = headers.get(b"content-type", ""), headers.get(b"content-encoding", "")
        self.usage = AnswerUsage(self.wire, kind, coding)

    def finish(self, reason: str | None) -> None:
        """Report the call, if it is one."""
        if self.call is None:
            return
        if self.usage is not None:
            self.usage.end()
        usage = self.usage.usage if self.usage is not None else None
        self.seat.finish(self.call, usage, self.status, None if self.is_whole else reason)


class MeterClient:
    """The connection of an agent: one request after another, each passed on and answered."""

    def __init__(
        self,
        server: MeterGate,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._left = bytearray()
        """Read and not used yet: the beginning of the next request."""
        self._upstream: UpstreamConnection | None = None

    async def serve(self) -> None:
        """Serve until one side is done."""
        try:
            while await self._serve_one():
                pass
        finally:
            self._drop_upstream()

    async def answer(self, answer: OwnAnswer) -> None:
        """Send an answer of our own; the connection ends with it."""
        protocol = h11.Connection(h11.SERVER)
        head = h11.Response(
            status_code=answer.status,
            headers=answer.headers(),
            reason=HTTPStatus(answer.status).phrase,
        )
        self._writer.write(
            (protocol.send(head) or b"")
            + (protocol.send(h11.Data(data=answer.body)) or b"")
            + (protocol.send(h11.EndOfMessage()) or b"")
        )
        await self._writer.drain()
        # Who still sends can read why it was refused, for a moment.
        self._writer.write_eof()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                while await self._reader.read(READ_SIZE):
                    pass

    async def _serve_one(self) -> bool:
        """Serve one request; False: it was the last."""
        protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST_HEAD)
        try:
            exchange = await self._receive(protocol)
            if exchange is None:
                return False
            if exchange.wire is not None:
                await self._authorize(exchange)
            else:
                exchange.seat.pass_other()
        except _OwnAnswerError as error:
            await self.answer(error.answer)
            return False
        reason: str | None = "the host stopped"
        try:
            reason = await self._pass(exchange)
        except UpstreamError as error:
            reason = str(error)
            await self.answer(refuse_call(exchange.wire, reason, "unreachable"))
        finally:
            exchange.finish(reason)
        return reason is None and exchange.is_kept and _is_persistent(exchange.head)

    # The request

    async def _receive(self, protocol: h11.Connection) -> _Exchange | None:
        if self._left:
            protocol.receive_data(bytes(self._left))
            self._left.clear()
        try:
            async with asyncio.timeout(_IDLE_SECONDS):
                head = await self._next_event(protocol, _HEAD_PIECE)
        except TimeoutError:
            return None
        if not isinstance(head, h11.Request):
            return None
        exchange = self._admit(head, protocol)
        if exchange.seat.is_exposed and not await self._server.is_own_user(self._writer):
            raise fail_request(403, "only programs of the user of the agent may use this")
        return exchange

    def _admit(self, head: h11.Request, protocol: h11.Connection) -> _Exchange:
        if head.http_version != b"1.1":
            raise fail_request(505, "this needs HTTP/1.1")
        headers = {name: value.decode("latin-1") for name, value in head.headers}
        name, _, port = headers.get(b"host", "").rpartition(":")
        if name not in _LOCAL_NAMES or port != str(self._server.port):
            raise fail_request(403, "wrong Host header")
        target = head.target.decode("latin-1")
        empty, token, of, rest = (*target.split("/", 3), "", "", "")[:4]
        if empty:
            raise fail_request(400, "the target of a request must be a path")
        seat = self._server.seat_of(token)
        if seat is None:
            raise fail_request(403, "this is not the address of a running agent")
        of, _, query = of.partition("?")
        upstream = seat.upstreams.get(of)
        if upstream is None:
            raise fail_request(404, "the agent's file has no such upstream")
        if "upgrade" in headers.get(b"connection", "").lower():
            raise fail_request(
                426, "the meter passes on HTTP/1.1 alone; connections cannot be upgraded"
            )
        path = f"/{rest}" if rest else (f"?{query}" if query else "")
        return _Exchange(head, protocol, seat, upstream, path)

    async def _authorize(self, exchange: _Exchange) -> None:
        """Read a model call whole and have it authorized. Raises _OwnAnswerError."""
        assert exchange.wire is not None
        body = exchange.body = await self._read_body(exchange)
        call = describe_call(exchange.wire, exchange.path, body)
        refusal = await exchange.seat.begin(call)
        if refusal is not None:
            raise _OwnAnswerError(refuse_call(exchange.wire, refusal.reason))
        exchange.call = call
        if self._reader.at_eof() or self._reader.exception() is not None:
            exchange.finish(_GONE)
            raise ConnectionResetError(_GONE)

    async def _read_body(self, exchange: _Exchange) -> bytes:
        body = bytearray()
        async for piece in self._body(exchange.protocol):
            body += piece
            if len(body) > MOST_REQUEST:
                reason = f"a model call may have at most {MOST_REQUEST} bytes"
                raise _OwnAnswerError(refuse_call(exchange.wire, reason, "too-large"))
        return bytes(body)

    async def _body(self, protocol: h11.Connection) -> AsyncGenerator[bytes, None]:
        """The body of the request in the pieces in which it arrives."""
        if protocol.they_are_waiting_for_100_continue:
            going_on = h11.InformationalResponse(status_code=100, headers=[], reason="Continue")
            self._writer.write(protocol.send(going_on) or b"")
        while True:
            try:
                async with asyncio.timeout(_READ_SECONDS):
                    event = await self._next_event(protocol)
            except TimeoutError:
                raise fail_request(408, "the request timed out") from None
            if not isinstance(event, h11.Data):
                self._left += protocol.trailing_data[0]
                return
            yield bytes(event.data)

    async def _next_event(self, protocol: h11.Connection, size: int = READ_SIZE) -> object:
        while True:
            try:
                event = protocol.next_event()
            except h11.RemoteProtocolError as error:
                if error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
                    reason = f"the headers may have at most {_MOST_HEAD} bytes"
                    raise fail_request(431, reason) from None
                # Its text may repeat bytes of the request, in which a key may be.
                raise fail_request(400, "this is not an HTTP/1.1 request") from None
            if event is not h11.NEED_DATA:
                return event
            protocol.receive_data(await self._reader.read(size))

    # Passing on

    async def _pass(self, exchange: _Exchange) -> str | None:
        """Pass the request on and its answer back; why it was not whole, None: it was.

        Raises:
            UpstreamError: there is no connection, or it ended before any answer.
        """
        while True:
            connection = self._upstream
            is_reused = (
                connection is not None
                and connection.is_fit
                and connection.upstream == exchange.upstream
            )
            if connection is None or not is_reused:
                self._drop_upstream()
                connection = self._upstream = await self._server.open(exchange.upstream)
            try:
                reason = await self._exchange(exchange, connection)
            finally:
                if not exchange.is_kept:
                    self._drop_upstream()
            if exchange.has_answer or reason == _GONE:
                return reason
            # The server had closed a connection that was kept: it has not seen the request.
            if not is_reused or exchange.body is None:
                host = exchange.upstream.origin.host
                raise UpstreamError(f"{host!r} closed the connection before it answered")

    async def _exchange(self, exchange: _Exchange, connection: UpstreamConnection) -> str | None:
        parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD * 4)
        exchange.is_readable = True
        up = start_task(self._upload(exchange, connection, parser), name="meter: request")
        down = start_task(self._download(exchange, connection, parser), name="meter: answer")
        try:
            await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
            if down.done():
                return down.result()
            up.result()
            return _GONE
        except ConnectionError:
            return _GONE
        finally:
            await cancel_tasks([up, down])

    async def _upload(
        self, exchange: _Exchange, connection: UpstreamConnection, parser: h11.Connection
    ) -> None:
        """Send the request, then wait until the agent is gone."""
        writer = connection.writer
        try:
            writer.write(parser.send(exchange.make_request(connection)) or b"")
            if exchange.body is not None:
                writer.write(parser.send(h11.Data(data=exchange.body)) or b"")
                await writer.drain()
            else:
                async for piece in self._body(exchange.protocol):
                    writer.write(parser.send(h11.Data(data=piece)) or b"")
                    await writer.drain()
            writer.write(parser.send(h11.EndOfMessage()) or b"")
            await writer.drain()
        except (ConnectionError, h11.LocalProtocolError):
            pass  # it may have answered and closed without reading everything
        except _OwnAnswerError:
            return  # the request broke off
        await self._wait_for_disconnect(exchange)

    async def _wait_for_disconnect(self, exchange: _Exchange) -> None:
        with suppress(ConnectionError):
            while piece := await self._reader.read(READ_SIZE):
                self._left += piece  # the next request, ahead of the answer
                if not exchange.is_readable:
                    return  # so that was the end of the answer
                if len(self._left) > READ_SIZE:
                    await asyncio.get_running_loop().create_future()

    async def _download(
        self, exchange: _Exchange, connection: UpstreamConnection, parser: h11.Connection
    ) -> str | None:
        """Pass the answer back; why it is not whole, None: it is."""
        writer = self._writer
        while True:
            try:
                piece = await connection.reader.read(READ_SIZE)
            except (ConnectionError, ssl.SSLError):
                if exchange.has_answer:
                    _reset_on_close(writer)
                return _BROKEN
            if piece:
                exchange.has_answer = True
                writer.write(piece)
            if exchange.is_readable:
                try:
                    if exchange.observe(parser, piece):
                        await writer.drain()
                        return None if exchange.is_whole else _BROKEN
                except h11.RemoteProtocolError:
                    exchange.is_readable = False
            if not piece:
                return _BROKEN
            await writer.drain()

    def _drop_upstream(self) -> None:
        if self._upstream is not None:
            self._upstream.close()
            self._upstream = None


_GONE = "the agent closed the connection"
_BROKEN = "the server broke the answer off"


def _is_persistent(head: h11.Request) -> bool:
    return not any(
        name == b"connection" and b"close" in value.lower() for name, value in head.headers
    )


def _reset_on_close(writer: asyncio.StreamWriter) -> None:
    """Let the agent see a reset where we saw one; without it a stream would seem to have ended."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
