"""Bytes to frames and back: one JSON object per line, split on the newline byte only."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from quarterdeck.wire.rpc.errors import INTERNAL_ERROR

__all__ = [
    "MALFORMED",
    "ErrorBody",
    "Frame",
    "LineSplitter",
    "RequestId",
    "decode_frame",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
    "identify",
    "is_utf8",
    "replace_surrogates",
]

RequestId: TypeAlias = "int | float | str | None"

MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are no frame."""

_SHOWN_TEXT = 500


class Frame(Struct, gc=False):
    """A message as it arrived: request, notification or response.

    ``jsonrpc`` is not looked at, so that peers which leave it out are understood. ``params``,
    ``result`` and ``error`` are empty when absent.
    """

    id: int | float | str | UnsetType | None = UNSET
    method: str | None = None
    params: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()


class ErrorBody(Struct):
    """The ``error`` member of a response."""

    code: int
    message: str
    data: Any = UNSET


class _Identity(Struct):
    """What can be known of an object that is no frame."""

    id: Any = None
    method: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()


class _Notification(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    method: str
    params: Any = UNSET


class _Request(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    id: int
    method: str
    params: Any = UNSET


class _Result(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    id: RequestId
    result: Any


class _Error(Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    id: RequestId
    error: ErrorBody


_encode = msgspec.json.Encoder().encode

decode_frame = msgspec.json.Decoder(Frame).decode
"""Decode one line. Raises one of ``MALFORMED``."""


class LineSplitter:
    """Cuts a stream of chunks into complete lines, holding at most one line more than a chunk."""

    __slots__ = ("_limit", "_rest", "is_over")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self.is_over = False
        """A line longer than the limit was met; lines before it were returned, it is lost."""

    def feed(self, chunk: bytes) -> bytes:
        """Return the lines that this chunk completes, each with its newline, as one block."""
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            self._keep(chunk)
            return b""
        if not self._rest and cut == len(chunk):
            block = chunk
        else:
            block = b"".join((self._rest, memoryview(chunk)[:cut]))
            self._rest.clear()
            self._keep(memoryview(chunk)[cut:])
        return block if len(block) <= self._limit else self._within_limit(block)

    def rest(self) -> bytes:
        """Return the last line, which has no newline; call it at the end of the stream."""
        return bytes(self._rest)

    def _keep(self, piece: bytes | memoryview) -> None:
        # A bytearray, not a list of pieces: a peer that sends byte by byte costs no more.
        self._rest += piece
        if len(self._rest) > self._limit:
            self._rest.clear()
            self.is_over = True

    def _within_limit(self, block: bytes) -> bytes:
        start = 0
        while start < len(block):
            end = block.index(b"\n", start)
            if end - start > self._limit:
                self.is_over = True
                return block[:start]
            start = end + 1
        return block


def is_utf8(data: bytes) -> bool:
    """Say whether the bytes are UTF-8; msgspec does not look inside a ``Raw``."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def replace_surrogates(line: bytes) -> bytes | None:
    r"""Replace each half of a surrogate pair by ``\ufffd``; None if there is none.

    JavaScript writes such a half when it cuts a text in the middle of an emoji. It is valid JSON
    and no valid text; losing the character is better than losing the message.
    """
    if b"\\ud" not in line and b"\\uD" not in line:
        return None

    def mend(match: re.Match[bytes]) -> bytes:
        return match[0] if len(match[0]) != 6 else b"\\ufffd"

    mended = re.sub(
        rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
        rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
        mend,
        line,
    )
    return None if mended == line else mended


def identify(line: bytes) -> tuple[RequestId, bool]:
    """Return the id of an object that is no frame, and whether it is meant as a response.

    For JSON that is no object the id is None.

    Raises:
        DecodeError, UnicodeDecodeError, RecursionError: the line is no JSON at all.
    """
    msgspec.json.decode(line, type=Raw)
    try:
        found = msgspec.json.decode(line, type=_Identity)
    except msgspec.ValidationError:
        return None, False
    is_response = not found.method and bool(found.result or found.error)
    known = isinstance(found.id, (int, float, str)) and not isinstance(found.id, bool)
    return (found.id if known else None), is_response


def encode_request(id: int, method: str, params: Any) -> bytes:
    """Encode a request; ``params`` None leaves them out."""
    return _line(_Request(id, method, UNSET if params is None else params))


def encode_notification(method: str, params: Any) -> bytes:
    """Encode a notification; ``params`` None leaves them out."""
    return _line(_Notification(method, UNSET if params is None else params))


def encode_result(id: RequestId, result: Any) -> bytes:
    """Encode a response."""
    return _line(_Result(id, result))


def encode_error(id: RequestId, code: int, message: str, data: Any = None) -> bytes:
    """Encode an error response. Never fails: what cannot be encoded is left out."""
    try:
        return _line(_Error(id, ErrorBody(code, message, UNSET if data is None else data)))
    except Exception:  # msgspec raises whatever a value's own encoding raises
        shown = message[:_SHOWN_TEXT].encode("utf-8", "replace").decode()
        try:
            return _encode(_Error(id, ErrorBody(code, shown)))
        except Exception:
            return _encode(_Error(id, ErrorBody(INTERNAL_ERROR, "error could not be encoded")))


def _line(message: Struct) -> bytes:
    line = _encode(message)
    if b"\n" in line:  # only from a Raw that its maker wrote over several lines
        return msgspec.json.format(line, indent=-1)
    return line
