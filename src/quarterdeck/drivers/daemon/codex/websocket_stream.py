"""A server of an agent on this machine, over WebSocket: each message is a line of bytes.

Importing this module loads ``websockets``, so it is imported where a server is attached to.
"""

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_connection
from websockets.exceptions import (
    ConnectionClosed,
    ConnectionClosedOK,
    InvalidMessage,
    InvalidStatus,
    WebSocketException,
)
from websockets.frames import CloseCode

from quarterdeck.net.http1 import BadUrlError
from quarterdeck.wire.errors import (
    LinkBrokenError,
    LinkClosedError,
    LinkError,
    QuarterdeckError,
)
from quarterdeck.wire.rpc.stream import CHUNK, ByteStream

__all__ = ["MESSAGE_LIMIT", "BadHandshakeError", "WebSocketStream", "check_address", "connect"]

MESSAGE_LIMIT = 32 * 1024 * 1024
"""Bytes that one message may have."""
_LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
_CLOSE_SECONDS = 0.5
"""Within which the server must answer that the connection is closed."""
_LINE_BREAKS = re.compile(rb"[\r\n]")


class BadHandshakeError(QuarterdeckError):
    """The server did not agree to WebSocket; ``status`` is its answer's, 0: it sent no HTTP."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


def check_address(url: str) -> tuple[str, str, int, str]:
    """The path of a Unix socket, or else host, port and path of a WebSocket, at this address.

    Raises:
        BadUrlError: it is neither, or on another machine: passwords are sent in plain text.
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


async def connect(url: str, token: str = "", *, limit: int = MESSAGE_LIMIT) -> "WebSocketStream":
    """Connect to the server there.

    Args:
        url: see ``check_address``.
        token: the bearer token that the server requires; empty: none.
        limit: bytes that a message of the server may have.

    Raises:
        BadUrlError: that is not an address, or not of this machine.
        LinkBrokenError: no server listens there, or it closed the connection.
        BadHandshakeError: the server refuses us, or speaks another protocol.
    """
    place, host, port, path = check_address(url)
    named = f"[{host}]" if ":" in host else host
    uri = f"ws://{named}:{port}{path}" if port else f"ws://{named}{path}"
    where: dict[str, Any] = {"unix": True, "path": place} if place else {"host": host, "port": port}
    opening = _DirectConnect(
        uri,
        additional_headers={"Authorization": f"Bearer {token}"} if token else None,
        user_agent_header=None,
        compression=None,
        proxy=None,
        open_timeout=None,
        ping_interval=None,
        close_timeout=_CLOSE_SECONDS,
        max_size=limit,
        **where,
    )
    try:
        return WebSocketStream(await opening, limit=limit)
    except OSError as error:
        at = repr(place) if place else f"{host!r} port {port}"
        raise LinkBrokenError(f"cannot connect to {at}: {error}") from error
    except InvalidStatus as error:
        status = error.response.status_code
        raise BadHandshakeError(f"it answers with status {status}", status) from None
    except InvalidMessage as error:
        if isinstance(error.__cause__, EOFError):
            reason = "the server closed the connection before it answered"
            raise LinkBrokenError(reason) from None
        raise BadHandshakeError(f"it does not speak HTTP: {error}", 0) from None
    except WebSocketException as error:
        raise BadHandshakeError(str(error), 101) from None


class _DirectConnect(open_connection):
    """Follows no redirect: what the server there is sent is for no other."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class WebSocketStream:
    """A byte stream whose lines are the messages of a WebSocket; see ``ByteStream``.

    What is sent must end with a line. Pings are answered.

    Args:
        connection: an open connection; closed with this.
        limit: bytes that a message may have by that connection.
    """

    def __init__(self, connection: ClientConnection, *, limit: int = MESSAGE_LIMIT) -> None:
        self._connection = connection
        self._limit = limit
        self._ready = bytearray()
        self._is_closed = False

    async def receive(self) -> bytes:
        """See ``ByteStream``.

        The end is ``LinkBrokenError`` unless the server closes the connection in order.
        """
        while not self._ready:
            try:
                message = await self._connection.recv(decode=False)
            except ConnectionClosedOK:
                if self._is_closed:
                    raise LinkClosedError("the stream was closed") from None
                return b""
            except ConnectionClosed as error:
                raise self._explain(error) from None
            # Within JSON such a byte can only be white space.
            self._ready += _LINE_BREAKS.sub(b" ", message)
            self._ready += b"\n"
        piece = bytes(memoryview(self._ready)[:CHUNK])
        del self._ready[:CHUNK]
        return piece

    async def send(self, data: bytes) -> None:
        """See ``ByteStream``; each line goes as one message."""
        try:
            for line in data.split(b"\n"):
                if line:
                    await self._connection.send(line, text=True)
        except ConnectionClosed as error:
            raise self._explain(error) from None

    async def close(self) -> None:
        """See ``ByteStream``; waits a moment for the server to close the connection too."""
        self._is_closed = True
        await self._connection.close()

    def _explain(self, error: ConnectionClosed) -> LinkError:
        if self._is_closed:
            return LinkClosedError("the stream was closed")
        received, sent = error.rcvd, error.sent
        if received is not None:
            why = f"{received.code} {received.reason}".strip()
            return LinkBrokenError(f"the server closed the connection: {why}")
        if sent is None or sent.code == CloseCode.INTERNAL_ERROR:
            return LinkBrokenError("the connection to the server was lost")
        reason = sent.reason
        if sent.code == CloseCode.MESSAGE_TOO_BIG:
            reason = f"a message is longer than {self._limit} bytes"
        return LinkBrokenError(f"the server violated the protocol: {reason or sent.code}")


if TYPE_CHECKING:
    from typing import cast

    _stream: ByteStream = WebSocketStream(cast("ClientConnection", None))
