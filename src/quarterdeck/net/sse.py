"""Server-sent events out of bytes that arrive in any pieces."""

import re

from msgspec import Struct

from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["EVENT_LIMIT", "EventDecoder", "EventTooLargeError", "ServerEvent"]

EVENT_LIMIT = 32 * 1024 * 1024
"""Bytes that one event may have; more means that the peer does not speak this format."""

_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventTooLargeError(QuarterdeckError):
    """An event of a stream is larger than its reader allows."""


class ServerEvent(Struct, frozen=True):
    """One event: its name (empty when the server gave none) and its data."""

    name: str
    data: str
    id: str = ""
    """The last id that the server gave, to this event or to an earlier one."""
    retry: int | None = None
    """Milliseconds to wait before the stream is opened again, if the server has sent it by now."""


class EventDecoder:
    """Collects bytes into events.

    Lines end with LF, CR LF or CR; comments and unknown fields are skipped; the data lines of one
    event are joined with LF. Text is decoded line by line, so a character that is split between
    two pieces arrives whole; bytes that are no UTF-8 become U+FFFD.
    """

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._name = ""
        self._id = ""
        self._retry: int | None = None
        self._data: list[str] = []
        self._size = 0
        self._is_first = True

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """Take bytes and give the events that they complete.

        Raises:
            EventTooLargeError: an event is larger than the limit.
        """
        self._buffer += piece
        events: list[ServerEvent] = []
        start = 0
        for end in _LINE_END.finditer(self._buffer):
            if end.group() == b"\r" and end.end() == len(self._buffer):
                break  # perhaps the first half of CR LF
            self._line(bytes(self._buffer[start : end.start()]), events)
            start = end.end()
        del self._buffer[:start]
        if len(self._buffer) + self._size > self._limit:
            raise EventTooLargeError(f"an event of the stream is larger than {self._limit} bytes")
        return events

    def end(self) -> list[ServerEvent]:
        """Give the last event of a stream whose server left out the closing blank line."""
        events = self.feed(b"\n\n") if self._buffer else []
        self._dispatch(events)
        return events

    def _line(self, line: bytes, events: list[ServerEvent]) -> None:
        if self._is_first:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._is_first = False
        if not line:
            self._dispatch(events)
            return
        field, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._size += len(value)
        elif field == "event":
            self._name = value
        elif field == "id" and "\0" not in value:
            self._id = value
        elif field == "retry" and value.isascii() and value.isdigit() and len(value) < 10:
            self._retry = int(value)

    def _dispatch(self, events: list[ServerEvent]) -> None:
        if self._data:
            events.append(ServerEvent(self._name, "\n".join(self._data), self._id, self._retry))
        self._name, self._data, self._size = "", [], 0
