"""A server of an agent on this machine, over WebSocket: each message is a line of bytes."""

import asyncio
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from quarterdeck.net.http1 import BadUrlError
from quarterdeck.net.websocket import (
    BINARY,
    CLOSE,
    MESSAGE_LIMIT,
    PING,
    PONG,
    TEXT,
    BadFrameError,
    BadHandshakeError,
    MessageDecoder,
    check_handshake,
    encode_frame,
    handshake_request,
)
from quarterdeck.wire.errors import LinkBrokenError, LinkClosedError, LinkError
from quarterdeck.wire.rpc.pipes import TransportStream
from quarterdeck.wire.rpc.stream import CHUNK, ByteStream
from quarterdeck.wire.rpc.unix_socket import connect_unix
from quarterdeck.wire.tasks import start_task

__all__ = ["WebSocketStream", "check_address", "connect"]

_LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
_HEAD_LIMIT = 64 * 1024
_GOODBYE = 0.5
"""Seconds that the last words may take to get through."""
_FINE = frozenset((b"", b"\x03\xe8", b"\x03\xe9"))
"""Reasons to close that are none: nothing, 1000, 1001."""
_BREAKS = re.compile(rb"[\r\n]")


def check_address(url: str) -> tuple[str, str, int, str]:
    """The path of a Unix socket, or else host, port and path of a WebSocket, at this address.

    Raises:
        BadUrlError: it is neither, or on another machine: passwords go there unhidden.
    """
    parts = urlsplit(url)
    hint = "such as ws://127.0.0.1:4500, or unix:///run/user/1000/codex.sock"
    if parts.scheme == "unix" and not parts.netloc and parts.path.startswith("/"):
        return unquote(parts.path), "localhost", 0, "/"
    try:
        port = parts.port
    except ValueError as error:
        raise BadUrlError(f"{url!r} is not a URL: {error}") from None
    if parts.scheme != "ws" or parts.hostname not in _LOOPBACK or not port:
        raise BadUrlError(f"{url!r} must be ws:// and on this machine, or unix://, {hint}")
    return "", parts.hostname, port, parts.path or "/"


async def connect(url: str, token: str = "") -> ByteStream:
    """Connect to the server there; ``token`` is what it wants to be told, empty: nothing.

    Raises:
        BadUrlError: that is no address, or not of this machine.
        LinkBrokenError: nobody listens there, or hangs up.
        BadHandshakeError: whoever listens does not let us in, or speaks something else.
    """
    place, host, port, path = check_address(url)
    if place:
        inner = await connect_unix(place)
    else:
        inner = await _connect_tcp(host, port)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    named = f"[{host}]" if ":" in host else host
    stream = WebSocketStream(inner)
    try:
        await stream.open(f"{named}:{port}" if port else named, path, headers)
    except BaseException:
        await inner.close()
        raise
    return stream


async def _connect_tcp(host: str, port: int) -> ByteStream:
    loop = asyncio.get_running_loop()
    try:
        _, stream = await loop.create_connection(TransportStream, host, port)
    except OSError as error:
        raise LinkBrokenError(f"cannot connect to {host!r} port {port}: {error}") from error
    return stream


class WebSocketStream:
    """A byte stream whose lines are the messages of a WebSocket; see ``ByteStream``.

    ``open`` it first. What is sent must end with a line. Pings are answered as long as somebody
    receives.

    Args:
        inner: the connection; closed with this.
        limit: bytes that a message of the peer may have.
    """

    def __init__(self, inner: ByteStream, *, limit: int = MESSAGE_LIMIT) -> None:
        self._inner = inner
        self._decoder = MessageDecoder(limit)
        self._ready = bytearray()
        self._rest = b""
        self._ending: LinkError | None = None
        self._is_over = False
        self._is_closed = False
        self._sending = asyncio.Lock()
        self._owed: bytes | None = None
        """The data of the last ping that is not answered; older ones need no answer."""
        self._ponging: asyncio.Task[None] | None = None

    async def open(self, host: str, path: str, headers: Mapping[str, str]) -> None:
        """Agree with the server on the protocol.

        Raises:
            BadHandshakeError: it does not agree.
            LinkError: it hung up.
        """
        key = secrets.token_bytes(16)
        await self._inner.send(handshake_request(host, path, key, headers))
        head = bytearray()
        while b"\r\n\r\n" not in head:
            data = await self._inner.receive()
            if not data:
                raise LinkBrokenError("the server closed the connection before it answered")
            head += data
            if len(head) > _HEAD_LIMIT:
                raise BadHandshakeError("its answer is incomplete", 0)
        first, _, self._rest = bytes(head).partition(b"\r\n\r\n")
        check_handshake(first, key)

    async def receive(self) -> bytes:
        """See ``ByteStream``.

        The end is ``LinkBrokenError`` when the server did not say goodbye.
        """
        while not self._ready:
            if self._is_closed:
                raise LinkClosedError("the stream was closed")
            if self._ending is not None:
                raise self._ending
            if self._is_over:
                return b""
            await self._fill()
        piece = bytes(memoryview(self._ready)[:CHUNK])
        del self._ready[:CHUNK]
        return piece

    async def _fill(self) -> None:
        data, self._rest = self._rest or await self._inner.receive(), b""
        if not data:
            self._ending = LinkBrokenError("the connection to the server was lost")
            return
        try:
            messages = self._decoder.feed(data)
        except BadFrameError as error:
            self._ending = LinkBrokenError(f"the server violated the protocol: {error}")
            await self._say(CLOSE, error.code.to_bytes(2))
            return
        for message in messages:
            if message.kind in (TEXT, BINARY) and not self._is_over:
                # Within JSON such a byte can only be white space.
                self._ready += _BREAKS.sub(b" ", message.data)
                self._ready += b"\n"
            elif message.kind == PING:
                self._pong(message.data)
            elif message.kind == CLOSE:
                self._leave(message.data)

    def _leave(self, data: bytes) -> None:
        self._is_over = True
        if data[:2] not in _FINE:
            why = f"{int.from_bytes(data[:2])} {data[2:].decode('utf-8', 'replace')}".strip()
            self._ending = LinkBrokenError(f"the server closed the connection: {why}")

    async def send(self, data: bytes) -> None:
        """See ``ByteStream``; each line goes as one message."""
        frames = [_frame(TEXT, line) for line in data.split(b"\n") if line]
        async with self._sending:
            await self._inner.send(b"".join(frames))

    def _pong(self, data: bytes) -> None:
        # Not here: who reads must not wait for the peer to read.
        self._owed = data
        if self._ponging is None or self._ponging.done():
            self._ponging = start_task(self._answer_pings(), name="codex: answer pings")

    async def _answer_pings(self) -> None:
        while self._owed is not None:
            data, self._owed = self._owed, None
            with suppress(LinkError):  # who receives will hear of it
                async with self._sending:
                    await self._inner.send(_frame(PONG, data))

    async def close(self) -> None:
        """See ``ByteStream``; says goodbye if that is possible at once."""
        if self._ponging is not None:
            self._ponging.cancel()
            await asyncio.wait([self._ponging])
        if not self._is_closed:
            self._is_closed = True
            await self._say(CLOSE, (1000).to_bytes(2))
        await self._inner.close()

    async def _say(self, kind: int, data: bytes) -> None:
        with suppress(LinkError, TimeoutError):
            async with asyncio.timeout(_GOODBYE), self._sending:
                await self._inner.send(_frame(kind, data))


def _frame(kind: int, data: bytes) -> bytes:
    return encode_frame(kind, data, secrets.token_bytes(4))


if TYPE_CHECKING:
    from typing import cast

    _stream: ByteStream = WebSocketStream(cast("ByteStream", None))
