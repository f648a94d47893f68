"""Careful reading of files: regular ones only, and a window of lines of a large one.

Opening a named pipe waits for a writer, reading a device may never end, and what was a file when
it was checked may be something else when it is opened. So the check comes after the opening. The
memory for a window of lines depends on the window alone.
"""

import errno
import os
import stat
from typing import BinaryIO, Protocol

from msgspec import Struct

from quarterdeck.system.output import whole_characters

__all__ = ["COUNT_LIMIT", "LineWindow", "open_regular_file", "read_regular_file", "read_window"]


def open_regular_file(
    path: str | bytes | os.PathLike[str], *, follow: bool = True, dir_fd: int | None = None
) -> BinaryIO:
    """Open a regular file for reading; ``follow``: a link to one counts. Blocks.

    ``dir_fd``: the open directory where a relative path begins.

    Raises:
        OSError: it cannot be opened, or it is no regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    flags |= 0 if follow else os.O_NOFOLLOW
    descriptor = os.open(path, flags, dir_fd=dir_fd)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fsdecode(path))
        raise OSError(errno.EINVAL, "it is not a regular file", os.fsdecode(path))
    return os.fdopen(descriptor, "rb")


def read_regular_file(path: str | bytes | os.PathLike[str], most: int) -> bytes:
    """The first ``most`` bytes of a regular file. Blocks. Raises as ``open_regular_file``."""
    with open_regular_file(path) as file:
        return file.read(most)


COUNT_LIMIT = 256 * 1_048_576
"""Files up to this many bytes have their lines counted to the end (about 0.2 ms per MiB)."""
_PIECE = 262_144


class Hasher(Protocol):
    """What of ``hashlib`` is used."""

    def update(self, data: bytes, /) -> None:
        """Take more content in."""
        ...


class LineWindow(Struct, frozen=True):
    """The bytes of the window, their number of lines, the lines of the file, cut or not."""

    data: bytes
    count: int
    total: int | None
    is_cut: bool


def read_window(
    descriptor: int, line: int, limit: int | None, max_bytes: int, hasher: Hasher | None = None
) -> LineWindow:
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

    def window(self, *, total: int | None) -> LineWindow:
        data, is_cut = bytes(self._kept), False
        if self._limit is not None:
            data = _first_lines(data, self._limit)
        if len(data) > self._room:
            end = data.rfind(b"\n", 0, self._room) + 1
            is_cut = end == 0
            data = whole_characters(data[: self._room]) if is_cut else data[:end]
        count = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
        return LineWindow(data, count, total, is_cut)


def _first_lines(data: bytes, limit: int) -> bytes:
    end = 0
    for _ in range(limit):
        found = data.find(b"\n", end)
        if found < 0:
            return data
        end = found + 1
    return data[:end]
