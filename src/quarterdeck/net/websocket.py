"""The WebSocket protocol (RFC 6455) as a client speaks it: pure, bytes in and messages out.

No extensions: none is offered, so none may be used by the peer.
"""

import base64
import hashlib
from collections.abc import Mapping

from msgspec import Struct

from quarterdeck.wire.errors import QuarterdeckError

__all__ = [
    "BINARY",
    "CLOSE",
    "MESSAGE_LIMIT",
    "PING",
    "PONG",
    "TEXT",
    "BadFrameError",
    "BadHandshakeError",
    "MessageDecoder",
    "WebSocketMessage",
    "check_handshake",
    "encode_frame",
    "handshake_accept",
    "handshake_request",
]

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
MESSAGE_LIMIT = 32 * 1024 * 1024
"""Bytes that one message may have."""

_CONTINUATION = 0x0
_KINDS = frozenset((_CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG))
_FINAL, _RESERVED, _MASKED = 0x80, 0x70, 0x80
_CONTROL_LIMIT = 125
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class BadFrameError(QuarterdeckError):
    """The peer broke the protocol; ``code`` is what a closing frame calls it."""

    def __init__(self, reason: str, code: int = 1002) -> None:
        super().__init__(reason)
        self.code = code


class BadHandshakeError(QuarterdeckError):
    """The peer did not agree to speak this protocol; ``status`` is its answer's."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


class WebSocketMessage(Struct, frozen=True):
    """A whole message, or a control frame; ``kind`` is one of the constants above."""

    kind: int
    data: bytes


# Opening


def handshake_request(host: str, path: str, key: bytes, headers: Mapping[str, str]) -> bytes:
    """The head of the request that opens a connection; ``key`` is 16 random bytes."""
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {base64.b64encode(key).decode()}",
        "Sec-WebSocket-Version: 13",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def handshake_accept(key: bytes) -> str:
    """What a server must answer to this key, to show that it knows the protocol."""
    told = base64.b64encode(key) + _GUID
    return base64.b64encode(hashlib.sha1(told, usedforsecurity=False).digest()).decode()


def check_handshake(head: bytes, key: bytes) -> None:
    """Make sure that the head of an answer agrees to what ``handshake_request`` asked.

    Raises:
        BadHandshakeError: it does not.
    """
    first, *rest = head.decode("latin-1").split("\r\n")
    version, _, told = first.partition(" ")
    code = told.partition(" ")[0]
    if not version.startswith("HTTP/1.") or not (code.isascii() and code.isdigit()):
        raise BadHandshakeError(f"it does not speak HTTP: {first[:80]!r}", 0)
    pairs = (line.partition(":") for line in rest if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    status = int(code[:3])
    if status != 101:
        raise BadHandshakeError(f"it answers with status {status}", status)
    if headers.get("upgrade", "").lower() != "websocket":
        raise BadHandshakeError("it changes to another protocol", status)
    if headers.get("sec-websocket-accept") != handshake_accept(key):
        raise BadHandshakeError("its answer does not match our key", status)
    if "sec-websocket-extensions" in headers or "sec-websocket-protocol" in headers:
        raise BadHandshakeError("it uses an extension that was not offered", status)


# Frames


def encode_frame(kind: int, data: bytes, mask: bytes) -> bytes:
    """One whole frame of a client; ``mask`` is four bytes that nobody can guess."""
    size = len(data)
    if size < 126:
        head = bytes((_FINAL | kind, _MASKED | size))
    elif size < 1 << 16:
        head = bytes((_FINAL | kind, _MASKED | 126)) + size.to_bytes(2)
    else:
        head = bytes((_FINAL | kind, _MASKED | 127)) + size.to_bytes(8)
    return head + mask + _masked(data, mask)


def _masked(data: bytes, mask: bytes) -> bytes:
    # As one large number: a hundred times as fast as byte by byte.
    size = len(data)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data) ^ int.from_bytes(key)).to_bytes(size)


class MessageDecoder:
    """Collects bytes of a server into messages; holds at most one message and a piece more.

    Control frames come out where they stand, also between the parts of a message.
    """

    def __init__(self, limit: int = MESSAGE_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._kind = 0
        """Of the message whose parts are being collected; 0: none is."""
        self._parts = bytearray()

    def feed(self, piece: bytes) -> list[WebSocketMessage]:
        """Take bytes and give the messages that they complete.

        Raises:
            BadFrameError: the peer broke the protocol; what was complete before it is lost with it.
        """
        self._buffer += piece
        messages: list[WebSocketMessage] = []
        start = 0
        while (frame := self._frame(start)) is not None:
            first, begin, start = frame
            data = bytes(memoryview(self._buffer)[begin:start])
            if (message := self._join(first & 0xF, bool(first & _FINAL), data)) is not None:
                messages.append(message)
        del self._buffer[:start]
        return messages

    def _frame(self, start: int) -> tuple[int, int, int] | None:
        """The first byte of the frame here, where its data begin and end; None: not all is here."""
        buffer = self._buffer
        if len(buffer) < start + 2:
            return None
        first, second = buffer[start], buffer[start + 1]
        self._check(first, second)
        begin, size = start + 2, second & 0x7F
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(buffer) < begin + width:
                return None
            size = int.from_bytes(buffer[begin : begin + width])
            begin += width
        if size + len(self._parts) > self._limit:
            raise BadFrameError(f"a message is longer than {self._limit} bytes", 1009)
        end = begin + size
        return (first, begin, end) if len(buffer) >= end else None

    def _check(self, first: int, second: int) -> None:
        kind = first & 0xF
        if first & _RESERVED or kind not in _KINDS:
            raise BadFrameError(f"a frame starts with the invalid byte {first:#04x}")
        if second & _MASKED:
            raise BadFrameError("a server does not mask its frames")
        if kind >= CLOSE and (not first & _FINAL or second > _CONTROL_LIMIT):
            raise BadFrameError("a control frame is too long or in parts")
        if kind < CLOSE and (kind == _CONTINUATION) != bool(self._kind):
            raise BadFrameError("the parts of a message are mixed up")

    def _join(self, kind: int, is_final: bool, data: bytes) -> WebSocketMessage | None:
        if kind >= CLOSE:
            return WebSocketMessage(kind, data)
        if kind and is_final:
            return _checked(kind, data)
        self._kind = kind or self._kind
        self._parts += data
        if not is_final:
            return None
        whole, kind = bytes(self._parts), self._kind
        self._kind, self._parts = 0, bytearray()
        return _checked(kind, whole)


def _checked(kind: int, data: bytes) -> WebSocketMessage:
    if kind == TEXT and not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise BadFrameError(f"a text is not UTF-8: {error}", 1007) from None
    return WebSocketMessage(kind, data)
