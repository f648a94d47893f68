"""Bytes to frames and back, and the frames on their way.

A frame is one JSON object per line, split on the newline byte only. What a peer sends leaves in the
order in which it was issued; its requests wait for their answers.
"""

from __future__ import annotations

import asyncio
import re
from copy import copy
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from quarterdeck.wire.errors import LinkBrokenError, LinkBusyError, LinkError, RpcError
from quarterdeck.wire.rpc.errors import INTERNAL_ERROR, FrameTooLargeError

from ..decoders import decode_json, json_decoder

if TYPE_CHECKING:
    from quarterdeck.wire.rpc.handler import Observers, RequestId, RpcCounters, RpcLimits
    from quarterdeck.wire.rpc.stream import ByteStream

__all__ = [
    "MALFORMED",
    "ErrorBody",
    "Frame",
    "LineSplitter",
    "Outbox",
    "PendingRequests",
    "decode_frame",
    "encode_error",
    "encode_notification",
    "encode_request",
    "encode_result",
    "identify",
    "is_utf8",
    "replace_surrogates",
]

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

decode_frame = json_decoder(Frame).decode
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

    def replace_surrogate(match: re.Match[bytes]) -> bytes:
        return match[0] if len(match[0]) != 6 else b"\\ufffd"

    mended = re.sub(
        rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
        rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
        replace_surrogate,
        line,
    )
    return None if mended == line else mended


def identify(line: bytes) -> tuple[RequestId, bool]:
    """Return the id of an object that is no frame, and whether it is meant as a response.

    For JSON that is no object the id is None.

    Raises:
        msgspec.DecodeError, UnicodeDecodeError, RecursionError: the line is no JSON at all.
    """
    decode_json(line, Raw)
    try:
        found = decode_json(line, _Identity)
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


class Outbox:
    """The only writer of a stream.

    ``put`` takes a frame at once and never waits; ``room`` is where its caller waits for the
    peer. ``run`` sends everything that gathered since its last turn as one piece.
    """

    def __init__(self, stream: ByteStream, limits: RpcLimits, observers: Observers) -> None:
        self._stream = stream
        self._limits = limits
        self._observers = observers
        self._is_observed = bool(observers)
        self._lines: list[bytes] = []
        self._unsent = 0
        self._failure: LinkError | None = None
        self._filled = asyncio.Event()
        self._roomy = asyncio.Event()
        self._empty = asyncio.Event()
        self._roomy.set()
        self._empty.set()

    @property
    def is_full(self) -> bool:
        """Whether who can wait should."""
        return self._unsent > self._limits.high_water_bytes

    def put(self, line: bytes) -> None:
        """Issue a frame.

        Raises:
            FrameTooLargeError: the frame is longer than the limit; nothing is written.
            LinkError: the link is over.
        """
        if self._failure is not None:
            raise copy(self._failure)
        if len(line) > self._limits.max_frame_bytes:
            raise FrameTooLargeError(len(line), self._limits.max_frame_bytes)
        if self._is_observed:
            self._observers.saw("out", line)
        if not self._lines:
            self._filled.set()
            self._empty.clear()
        self._lines.append(line)
        self._unsent += len(line) + 1
        if self._unsent > self._limits.high_water_bytes:
            self._roomy.clear()

    def put_from_reader(self, line: bytes) -> None:
        """Issue a frame from the task that reads, which must not wait for the peer to read.

        Raises:
            LinkBrokenError: the peer sends and sends and does not read what it gets.
        """
        self.put(line)
        if self._unsent > self._limits.max_unsent_bytes:
            raise LinkBrokenError(
                f"the peer does not read: {self._unsent} bytes wait for it, more than the limit "
                f"of {self._limits.max_unsent_bytes} (Limits.max_unsent_bytes)"
            )

    async def room(self) -> None:
        """Wait until the peer has read enough.

        Raises:
            LinkError: the link ended meanwhile.
        """
        await self._roomy.wait()
        if self._failure is not None:
            raise copy(self._failure)

    async def flush(self) -> None:
        """Wait until all is sent, or cannot be."""
        await self._empty.wait()

    def fail(self, failure: LinkError) -> None:
        """Drop what is unsent; every waiting and later call raises."""
        if self._failure is None:
            self._failure = failure
        self._lines.clear()
        self._roomy.set()
        self._empty.set()

    async def run(self) -> None:
        """Write until cancelled.

        Raises:
            LinkError: the stream takes no more bytes.
        """
        while True:
            await self._filled.wait()
            self._filled.clear()
            lines, self._lines = self._lines, []
            lines.append(b"")
            data = b"\n".join(lines)
            await self._stream.send(data)
            self._unsent -= len(data)
            if not self.is_full:
                self._roomy.set()
            if not self._unsent:
                self._empty.set()


_NULL = Raw(b"null")
_decode_error = json_decoder(ErrorBody).decode


class PendingRequests:
    """Ids of ours, each with the future of its answer.

    A future always gets a value (the response, or how the link ended): an exception set on a
    future whose waiter was cancelled in the same moment would be reported as lost.
    """

    def __init__(self, limit: int, counters: RpcCounters) -> None:
        self._limit = limit
        self._counters = counters
        self._last = 0
        self._futures: dict[object, asyncio.Future[Frame | LinkError]] = {}

    def __len__(self) -> int:
        """How many requests wait."""
        return len(self._futures)

    def open(self) -> tuple[int, asyncio.Future[Frame | LinkError]]:
        """Take the next id.

        Raises:
            LinkBusyError: as many requests as the limit allows already wait.
        """
        if len(self._futures) >= self._limit:
            raise LinkBusyError(
                f"{self._limit} requests already wait for an answer (Limits.max_pending); "
                f"wait for some of them"
            )
        self._last += 1
        future: asyncio.Future[Frame | LinkError] = asyncio.get_running_loop().create_future()
        self._futures[self._last] = future
        return self._last, future

    def forget(self, id: int) -> None:
        """Give an id up; its answer will be late."""
        self._futures.pop(id, None)

    def resolve(self, frame: Frame) -> bool:
        """Deliver a response; False, and counted, if no one waits for it."""
        future = self._futures.pop(frame.id, None)
        if future is not None and not future.done():
            future.set_result(frame)
            return True
        if isinstance(frame.id, int) and 0 < frame.id <= self._last:
            self._counters.late += 1
        else:
            self._counters.unasked += 1
        return False

    def fail(self, ending: LinkError) -> None:
        """Let every waiting request raise this."""
        futures, self._futures = self._futures, {}
        for future in futures.values():
            if not future.done():
                future.set_result(ending)

    @staticmethod
    def unwrap(outcome: Frame | LinkError) -> Raw:
        """Return the result in an answer, or raise what it stands for."""
        if isinstance(outcome, LinkError):
            raise copy(outcome)
        error = outcome.error
        if not error or error == _NULL:
            # No member at all is what JavaScript makes of a result that is undefined.
            return outcome.result or _NULL
        try:
            body = _decode_error(error)
        except (msgspec.DecodeError, RecursionError) as problem:
            raise RpcError(
                INTERNAL_ERROR, f"the peer answered with an error that cannot be read: {problem}"
            ) from None
        data = None if body.data is msgspec.UNSET else body.data
        raise RpcError(body.code, body.message, data)
