"""A window of lines of a large file, in memory that depends on the window alone."""

import os
from typing import Protocol

from msgspec import Struct

from quarterdeck.system.ring import whole_characters

__all__ = ["COUNT_LIMIT", "Window", "read_window"]

COUNT_LIMIT = 256 * 1_048_576
"""Files up to this many bytes have their lines counted to the end (about 0.2 ms per MiB)."""
_PIECE = 262_144


class Hasher(Protocol):
    """What of ``hashlib`` is used."""

    def update(self, data: bytes, /) -> None:
        """Take more content in."""
        ...


class Window(Struct, frozen=True):
    """The bytes of the window, their number of lines, the lines of the file, cut or not."""

    data: bytes
    count: int
    total: int | None
    is_cut: bool


def read_window(
    descriptor: int, line: int, limit: int | None, max_bytes: int, hasher: Hasher | None = None
) -> Window:
    """Read ``limit`` lines from ``line`` (from 1) on; at most ``max_bytes``, ending with a line.

    The file is read from its beginning to its end (or to the end of the window, when it is larger
    than ``COUNT_LIMIT``); ``hasher`` sees all of it then. Blocks. Raises OSError.
    """
    collector = _Collector(line, limit, max_bytes)
    counts_all = os.fstat(descriptor).st_size <= COUNT_LIMIT
    position = 0
    while piece := os.pread(descriptor, _PIECE, position):
        position += len(piece)
        if hasher is not None:
            hasher.update(piece)
        collector.take(piece)
        if collector.is_full and not counts_all:
            return collector.window(total=None)
    return collector.window(total=collector.ends + collector.has_open_line)


class _Collector:
    def __init__(self, line: int, limit: int | None, max_bytes: int) -> None:
        self._skip = line - 1
        self._limit = limit
        self._room = max_bytes
        self._kept = bytearray()
        self.ends = 0
        """Line ends seen."""
        self.has_open_line = False
        """The last byte seen was no line end."""
        self.is_full = limit == 0
        self._overflowed = False

    def take(self, piece: bytes) -> None:
        ends = piece.count(b"\n")
        if not self.is_full and self.ends + ends >= self._skip:
            self._keep(piece[self._start_in(piece) :])
        self.ends += ends
        self.has_open_line = not piece.endswith(b"\n")

    def _start_in(self, piece: bytes) -> int:
        """Where in this piece the window begins, or goes on."""
        start = 0
        for _ in range(self._skip - self.ends):
            start = piece.index(b"\n", start) + 1
        return start

    def _keep(self, data: bytes) -> None:
        room = self._room + 1 - len(self._kept)  # one more, to know that there was more
        self._kept += data[:room]
        self._overflowed = len(self._kept) > self._room
        self.is_full = self._overflowed or (
            self._limit is not None and self._kept.count(b"\n") >= self._limit
        )

    def window(self, *, total: int | None) -> Window:
        data, is_cut = bytes(self._kept), False
        if self._limit is not None:
            data = _first_lines(data, self._limit)
        if len(data) > self._room:
            end = data.rfind(b"\n", 0, self._room) + 1
            is_cut = end == 0
            data = whole_characters(data[: self._room]) if is_cut else data[:end]
        count = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
        return Window(data, count, total, is_cut)


def _first_lines(data: bytes, limit: int) -> bytes:
    end = 0
    for _ in range(limit):
        found = data.find(b"\n", end)
        if found < 0:
            return data
        end = found + 1
    return data[:end]
