"""The token counts in an answer that someone else asked for: read from a copy of its bytes.

Nothing is raised for what an answer holds: counts that cannot be read are unknown.
"""

import zlib
from typing import TypeVar

import msgspec

from quarterdeck.net.sse import EventDecoder, EventTooLargeError
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.settings import VendorWire
from quarterdeck.wire.usage import TokenUsage

from .anthropic import MessagesCounts
from .google import GenerateUsage
from .openai_chat import ChatUsage
from .openai_responses import ResponsesUsage
from .reply import UNSAID, bound_counts, read_counts

__all__ = ["MOST_BODY", "READABLE_CODINGS", "AnswerUsage", "ContentDecoder"]

MOST_BODY = 32 * 1024 * 1024
"""Bytes of an answer that is no stream, at the most; the counts of a larger one are unknown."""
READABLE_CODINGS = frozenset(("gzip", "x-gzip", "deflate", "identity"))
"""Content codings whose answers can be read."""

_EVENTS, _WHOLE = "text/event-stream", "json"
_FRAMES: dict[VendorWire, int] = {
    "anthropic": 120,
    "openai-chat": 230,
    "openai": 260,
    "google": 130,
}
"""Bytes of an event beside the words in it, about."""
_BYTES_A_TOKEN = 4
_DATA, _COUNTS = b"data:", b"usage"
"""In each event; and in each with counts, as ``usage`` and ``usageMetadata``."""
_LONG_EVENT = 64 * 1024
_T = TypeVar("_T", ChatUsage, ResponsesUsage, GenerateUsage)


class _Inner(msgspec.Struct):
    usage: msgspec.Raw = UNSAID
    usage_metadata: msgspec.Raw = msgspec.field(default=UNSAID, name="usageMetadata")


class _Outer(_Inner):
    message: msgspec.Raw = UNSAID
    response: msgspec.Raw = UNSAID


class AnswerUsage:
    """Counts one answer as its bytes pass; ``usage`` is what is known so far.

    ``content_type`` and ``coding`` are the headers of the answer.
    """

    def __init__(self, wire: VendorWire, content_type: str, coding: str) -> None:
        self._wire: VendorWire = wire
        self._messages = MessagesCounts()
        self._usage: TokenUsage | None = None
        self._events = EventDecoder() if _EVENTS in content_type.lower() else None
        self._whole = bytearray()
        self._decoder = ContentDecoder(coding)
        self._is_lost = self._events is None and _WHOLE not in content_type.lower()
        self._is_known = not self._is_lost
        self._size = 0
        """Of the plain bytes."""
        self._number = 0
        """Of the events."""
        self._is_torn = False
        """Not all events were read as a whole, so none may be skipped."""

    @property
    def usage(self) -> TokenUsage | None:
        """The counts; None: there were none, or none that could be read."""
        if self._wire == "anthropic":
            return bound_counts(self._messages.normal()) if self._messages.is_known else None
        return bound_counts(self._usage) if self._usage is not None else None

    @property
    def output(self) -> int | None:
        """Tokens of what has arrived, about; None: it cannot be read."""
        if not self._is_known:
            return None
        words = self._size - self._number * _FRAMES.get(self._wire, 0)
        return max(self._number, words // _BYTES_A_TOKEN)

    def feed(self, piece: bytes) -> None:
        """Take bytes of the body, in any pieces."""
        if self._is_lost:
            return
        plain = self._decoder.decode(piece)
        if plain is None:
            self._is_known = False
            self._lose()
            return
        self._size += len(plain)
        self._whole += plain
        if self._events is None:
            if len(self._whole) > MOST_BODY:
                self._lose()
        else:
            self._number += plain.count(_DATA)
            self._take_events()

    def _take_events(self) -> None:
        """Read the events that are whole; most have no counts and are not looked at further."""
        end = max(self._whole.rfind(b"\n\n") + 2, self._whole.rfind(b"\n\r\n") + 3)
        if end < 4:
            if len(self._whole) < _LONG_EVENT:
                return
            end = len(self._whole)
            self._is_torn = True
        whole = bytes(self._whole[:end])
        del self._whole[:end]
        if self._is_torn or _COUNTS in whole:
            self._decode(whole)

    def _decode(self, plain: bytes) -> None:
        assert self._events is not None
        try:
            for event in self._events.feed(plain):
                self._read(event.data)
        except EventTooLargeError:
            self._lose()

    def end(self) -> None:
        """The body is over, in good order or not."""
        if self._is_lost:
            return
        if self._events is not None:
            try:
                for event in (*self._events.feed(bytes(self._whole)), *self._events.end()):
                    self._read(event.data)
            except EventTooLargeError:
                pass
        else:
            self._read(bytes(self._whole))
        self._lose()

    def _lose(self) -> None:
        self._is_lost = True
        self._events, self._whole = None, bytearray()

    def _read(self, data: str | bytes) -> None:
        if ("usage" not in data) if isinstance(data, str) else (b"usage" not in data):
            return
        try:
            bodies: _Outer | list[_Outer] = decode_json(data, _Outer | list[_Outer])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        for body in bodies if isinstance(bodies, list) else (bodies,):
            self._count(body)

    def _count(self, body: _Outer) -> None:
        match self._wire:
            case "anthropic":
                self._messages.add(_inner(body.message).usage)
                self._messages.add(body.usage)
            case "openai-chat":
                self._take(body.usage, ChatUsage)
            case "openai":
                self._take(_inner(body.response).usage, ResponsesUsage)
                self._take(body.usage, ResponsesUsage)
            case "google":
                self._take(_inner(body.response).usage_metadata, GenerateUsage)
                self._take(body.usage_metadata, GenerateUsage)

    def _take(self, raw: msgspec.Raw, form: type[_T]) -> None:
        counts = read_counts(raw, form)
        if counts is not None:
            self._usage = counts.normal()


def _inner(raw: msgspec.Raw) -> _Inner:
    return read_counts(raw, _Inner) or _Inner()


class ContentDecoder:
    """Undoes the content coding of a copy."""

    def __init__(self, coding: str) -> None:
        coding = coding.strip().lower() or "identity"
        self._is_known = coding in READABLE_CODINGS
        self._is_plain = coding == "identity"
        self._is_deflate = coding == "deflate"
        self._zlib = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)

    def decode(self, piece: bytes) -> bytes | None:
        """The plain bytes; None: they cannot be read."""
        if self._is_plain:
            return piece
        if not self._is_known:
            return None
        try:
            return self._inflate(piece)
        except zlib.error:
            return None

    def _inflate(self, piece: bytes) -> bytes | None:
        try:
            plain = self._zlib.decompress(piece, MOST_BODY)
        except zlib.error:
            if not self._is_deflate:
                raise
            # Some servers send "deflate" without the header of zlib.
            self._is_deflate = False
            self._zlib = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
            plain = self._zlib.decompress(piece, MOST_BODY)
        # A piece that grows beyond all measure is no answer of a model.
        return None if self._zlib.unconsumed_tail else plain
