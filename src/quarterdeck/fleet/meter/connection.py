"""A connection of an agent at the meter: its requests and their answers, passed on byte for byte.

The bytes of an answer go to the agent first, as they arrived; a parser sees them afterwards and
finds the counts and the end. What it cannot read is passed on all the same. Headers are passed on
and neither logged nor kept.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable
from contextlib import suppress
from http import HTTPStatus
from typing import Protocol, TypeVar

import h11

from quarterdeck.wire.tasks import cancel_tasks, start_task

from .api import (
    CallPlayer,
    CallRefusal,
    PlayedAnswer,
)
from .calls import OwnAnswer, describe_call, refuse_call
from .exchange import BROKEN, GONE, MeterExchange, MeterSeat
from .upstream import READ_SIZE, Upstream, UpstreamConnection, UpstreamError

__all__ = ["MOST_REQUEST", "MeterClient", "MeterGate", "fail_request"]

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
_RESET = struct.pack("ii", 1, 0)
_T = TypeVar("_T")


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
        self._is_own = False

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
            if exchange.seat.player is not None:
                return await self._play(exchange, exchange.seat.player)
            if exchange.wire is not None:
                await self._authorize(exchange)
            else:
                exchange.seat.pass_other()
            if exchange.seat.recorder is not None:
                exchange.recording = await exchange.seat.recorder.begin(exchange.describe())
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
        return reason is None and exchange.is_kept and exchange.is_persistent

    async def _play(self, exchange: MeterExchange, player: CallPlayer) -> bool:
        """Answer without an upstream; False: the connection ends. Raises _OwnAnswerError."""
        exchange.body = await self._read_body(exchange)
        answer = await player.answer(exchange.describe())
        if isinstance(answer, CallRefusal):
            raise _OwnAnswerError(refuse_call(exchange.wire, answer.reason))
        writer = self._writer
        has_body = exchange.head.method != b"HEAD" and answer.status not in (204, 304)
        writer.write(_make_answer_head(answer, has_body=has_body))
        if not has_body:
            await writer.drain()
            return exchange.is_persistent
        async for piece in answer.pieces:
            if piece:
                writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
        if not answer.is_whole:
            _reset_on_close(writer)
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return exchange.is_persistent

    # The request

    async def _receive(self, protocol: h11.Connection) -> MeterExchange | None:
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
        if exchange.seat.is_exposed and not await self._is_own_user():
            raise fail_request(403, "only programs of the user of the agent may use this")
        return exchange

    async def _is_own_user(self) -> bool:
        """Whose program this is does not change while it is connected."""
        if not self._is_own:
            self._is_own = await self._server.is_own_user(self._writer)
        return self._is_own

    def _admit(self, head: h11.Request, protocol: h11.Connection) -> MeterExchange:
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
        if of not in seat.upstreams:
            raise fail_request(404, "the agent's file has no such upstream")
        if "upgrade" in headers.get(b"connection", "").lower():
            raise fail_request(
                426, "the meter passes on HTTP/1.1 alone; connections cannot be upgraded"
            )
        path = f"/{rest}" if rest else (f"?{query}" if query else "")
        return MeterExchange(head, protocol, seat, of, path)

    async def _authorize(self, exchange: MeterExchange) -> None:
        """Read a model call whole and have it authorized. Raises _OwnAnswerError."""
        assert exchange.wire is not None
        body = exchange.body = await self._read_body(exchange)
        call = describe_call(exchange.wire, exchange.path, body)
        refusal = await exchange.seat.begin(call)
        if refusal is not None:
            raise _OwnAnswerError(refuse_call(exchange.wire, refusal.reason))
        exchange.call = call
        if self._reader.at_eof() or self._reader.exception() is not None:
            exchange.finish(GONE)
            raise ConnectionResetError(GONE)

    async def _read_body(self, exchange: MeterExchange) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async for piece in self._body(exchange):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_REQUEST:
                reason = f"a model call may have at most {MOST_REQUEST} bytes"
                raise _OwnAnswerError(refuse_call(exchange.wire, reason, "too-large"))
        return b"".join(pieces)

    async def _body(self, exchange: MeterExchange) -> AsyncGenerator[bytes, None]:
        """The body of the request in the pieces in which it arrives."""
        protocol = exchange.protocol
        if protocol.they_are_waiting_for_100_continue:
            going_on = h11.InformationalResponse(status_code=100, headers=[], reason="Continue")
            self._writer.write(protocol.send(going_on) or b"")
        if exchange.length is None:
            while isinstance(event := await self._in_time(self._next_event(protocol)), h11.Data):
                yield bytes(event.data)
            self._left += protocol.trailing_data[0]
            return
        piece, left = protocol.trailing_data[0], exchange.length
        while len(piece) < left:
            if piece:
                left -= len(piece)
                yield piece
            piece = await self._in_time(self._reader.read(READ_SIZE))
            if not piece:
                raise fail_request(400, "the request broke off")
        if left:
            yield piece[:left]
        self._left += piece[left:]

    async def _in_time(self, reading: Awaitable[_T]) -> _T:
        try:
            async with asyncio.timeout(_READ_SECONDS):
                return await reading
        except TimeoutError:
            raise fail_request(408, "the request timed out") from None

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

    async def _pass(self, exchange: MeterExchange) -> str | None:
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
            if exchange.has_answer or reason == GONE:
                return reason
            # The server had closed a connection that was kept: it has not seen the request.
            if not is_reused or exchange.body is None:
                host = exchange.upstream.origin.host
                raise UpstreamError(f"{host!r} closed the connection before it answered")

    async def _exchange(
        self, exchange: MeterExchange, connection: UpstreamConnection
    ) -> str | None:
        exchange.begin()
        up = start_task(self._upload(exchange, connection), name="meter: request")
        try:
            reason = await self._download(exchange, connection)
        finally:
            await cancel_tasks([up])
        if not up.cancelled():
            up.result()
        return reason

    async def _upload(self, exchange: MeterExchange, connection: UpstreamConnection) -> None:
        """Send the request, then wait until the agent is gone, which ends the call."""
        try:
            with suppress(ConnectionError):
                # It may have answered and closed without reading everything.
                await self._send(exchange, connection.writer, exchange.make_head(connection))
            await self._wait_for_disconnect(exchange)
        except asyncio.CancelledError:
            raise  # the answer is over
        except _OwnAnswerError:
            pass  # the request broke off
        finally:
            if not exchange.is_answered:
                exchange.is_gone = True
                connection.close()
                if self._reader.at_eof() and self._writer.transport.get_write_buffer_size():
                    self._writer.transport.abort()  # it does not read either

    async def _send(
        self, exchange: MeterExchange, writer: asyncio.StreamWriter, head: bytes
    ) -> None:
        body = exchange.body
        if body is None:
            writer.write(head)
            async for piece in self._body(exchange):
                writer.write(exchange.frame(piece))
                await writer.drain()
        elif len(body) < READ_SIZE:
            writer.write(head + exchange.frame(body) if body else head)
        else:
            writer.write(head)
            writer.write(exchange.frame(body))
        if exchange.length is None:
            writer.write(exchange.frame(b""))
        exchange.is_uploaded = True
        await writer.drain()

    async def _wait_for_disconnect(self, exchange: MeterExchange) -> None:
        with suppress(ConnectionError):
            while piece := await self._reader.read(READ_SIZE):
                self._left += piece  # the next request, ahead of the answer
                if not exchange.is_readable:
                    return  # so that was the end of the answer
                if len(self._left) > READ_SIZE:
                    await asyncio.get_running_loop().create_future()

    async def _download(
        self, exchange: MeterExchange, connection: UpstreamConnection
    ) -> str | None:
        """Pass the answer back; why it is not whole, None: it is."""
        reason: str | None = BROKEN
        try:
            while piece := await connection.reader.read(READ_SIZE):
                exchange.has_answer = True
                self._writer.write(piece)
                is_over = exchange.observe(piece)
                await self._writer.drain()
                await exchange.record()
                if is_over:
                    reason = None
                    break
            else:
                if exchange.is_gone:
                    reason = GONE
                elif exchange.observe(b""):
                    reason = None
        except (ConnectionError, ssl.SSLError):
            if self._writer.is_closing():
                reason = GONE
            elif exchange.has_answer:
                _reset_on_close(self._writer)
        exchange.is_answered = True
        return reason

    def _drop_upstream(self) -> None:
        if self._upstream is not None:
            self._upstream.close()
            self._upstream = None


def _make_answer_head(answer: PlayedAnswer, *, has_body: bool) -> bytes:
    """The head of a played answer; headers that are none are left out."""
    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = "Recorded"  # vendors have statuses of their own, such as 529
    lines = [f"HTTP/1.1 {answer.status} {phrase}"]
    lines += [
        f"{name}: {value}" for name, value in answer.headers if f"{name}{value}".isprintable()
    ]
    lines.append("Transfer-Encoding: chunked" if has_body else "Content-Length: 0")
    return "\r\n".join((*lines, "", "")).encode("latin-1", "replace")


def _reset_on_close(writer: asyncio.StreamWriter) -> None:
    """Let the agent see a reset where we saw one; without it a stream would seem to have ended."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
