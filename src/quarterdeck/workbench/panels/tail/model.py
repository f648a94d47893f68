"""The end of a file that somebody else writes: every line once, in order, within bounds.

The file may be missing at first, be renamed away and begun anew, or be cut. What cannot be seen:
a file that is cut and written beyond its old length between two looks, and one that is renamed
away twice between two looks (the one in the middle is never seen).
"""

import os
import re
import stat as modes
from collections import deque
from typing import Literal, TypeAlias

__all__ = ["MOST_BYTES", "MOST_LINES", "Tail", "TailState", "strip_colours"]

MOST_LINES = 20_000
MOST_BYTES = 8_000_000
"""What is kept; older lines go."""
LONGEST = 16_384
"""Bytes after which a line is broken."""
_FIRST = 512 * 1024
_PIECE = 262_144

_COLOURS = re.compile("\x1b\\[[0-9;:]*[mK]")

TailState: TypeAlias = Literal["missing", "reading", "unreadable"]


class Tail:
    r"""Follows a file by name.

    ``poll`` reads what came since the last time. A line ends with ``\n``; what stands after the
    last one is ``partial``. Bytes that are no UTF-8 are shown as ``\xNN``; colours are left out,
    every other sequence stays.

    Args:
        path: absolute.
        first: how many bytes of a file that is there already are read; None: all that is kept.
    """

    def __init__(
        self,
        path: str,
        *,
        most_lines: int = MOST_LINES,
        most_bytes: int = MOST_BYTES,
        first: int | None = _FIRST,
    ) -> None:
        self.path = path
        self.state: TailState = "missing"
        self.reason = ""
        self.lines: deque[str] = deque()
        self.taken = 0
        """Lines that ever came; those that are not in ``lines`` any more included."""
        self.skipped = 0
        """Bytes that were not read, because more came than is kept."""
        self.is_from_start = True
        """The first line that came was the first of the file."""
        self._most_lines = most_lines
        self._most_bytes = most_bytes
        self._first: int | None = first
        self._held_bytes = 0
        self._open_line = bytearray()
        self._descriptor: int | None = None
        self._offset = 0
        self._has_polled = False

    @property
    def partial(self) -> str:
        """The line that has not ended."""
        return _text(bytes(self._open_line))

    def close(self) -> None:
        """Let go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def poll(self) -> bool:
        """Read what is new; whether anything changed. Blocks."""
        before = (self.state, self.reason, self.taken, len(self._open_line), self.skipped)
        if self._descriptor is not None:
            self._read_on()
            if not self._is_same():
                # Whoever wrote the old file may have written after the first reading.
                self._read_on()
                self._end_line()
                self.close()
        if self._descriptor is None:
            self._open()
        self._has_polled = True
        after = (self.state, self.reason, self.taken, len(self._open_line), self.skipped)
        return before != after

    def clear(self) -> None:
        """Forget the lines that came; what comes later is shown."""
        self.lines.clear()
        self._held_bytes = 0

    def _is_same(self) -> bool:
        assert self._descriptor is not None
        ours = os.fstat(self._descriptor)
        try:
            there = os.stat(self.path)  # noqa: PTH116
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def _open(self) -> None:
        try:
            found = os.stat(self.path)  # noqa: PTH116
            if not modes.S_ISREG(found.st_mode):
                self.state, self.reason = "unreadable", "it is not a regular file"
                return
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            self.state, self.reason = "missing", ""
            return
        except (OSError, ValueError) as error:
            self.state = "unreadable"
            self.reason = getattr(error, "strerror", None) or str(error)
            return
        self.state, self.reason, self._offset = "reading", "", 0
        if not self._has_polled and self._first is not None:
            self._go_to_last(os.fstat(self._descriptor).st_size, self._first)
        self._read_on()

    def _read_on(self) -> None:
        """Read to the end; of very much only the last part."""
        assert self._descriptor is not None
        try:
            size = os.fstat(self._descriptor).st_size
            if size < self._offset:
                self._end_line()
                self._offset = 0
            if size - self._offset > 2 * self._most_bytes:
                at = self._offset
                self._go_to_last(size, self._most_bytes)
                self.skipped += self._offset - at
            # Not beyond the size that was seen: a fast writer would hold us here for ever.
            while self._offset < size:
                data = os.pread(self._descriptor, min(_PIECE, size - self._offset), self._offset)
                if not data:
                    break
                self._offset += len(data)
                self._take(data)
        except OSError as error:
            self.state, self.reason = "unreadable", error.strerror or str(error)

    def _go_to_last(self, size: int, bytes_: int) -> None:
        """Move to the first line that begins within the last bytes."""
        assert self._descriptor is not None
        at = size - bytes_
        if at <= 0:
            return
        data = os.pread(self._descriptor, bytes_, at - 1)
        begin = data.find(b"\n")
        self._end_line()
        self._offset = at if begin < 0 else at + begin
        self.is_from_start = False

    def _take(self, data: bytes) -> None:
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._open_line += part
            self._end_line(is_ended=True)
        self._open_line += rest
        while len(self._open_line) > LONGEST:
            self._break_line()

    def _break_line(self) -> None:
        """End a line that is too long, not within a character."""
        end = LONGEST
        while end > LONGEST - 4 and self._open_line[end] & 0xC0 == 0x80:
            end -= 1
        self._add(bytes(self._open_line[:end]))
        del self._open_line[:end]

    def _end_line(self, *, is_ended: bool = False) -> None:
        while len(self._open_line) > LONGEST:
            self._break_line()
        if self._open_line or is_ended:
            line = bytes(self._open_line)
            self._open_line.clear()
            self._add(line.removesuffix(b"\r"))

    def _add(self, line: bytes) -> None:
        text = _text(line)
        self.taken += 1
        self.lines.append(text)
        self._held_bytes += len(text) + 1
        while len(self.lines) > self._most_lines or self._held_bytes > self._most_bytes:
            self._held_bytes -= len(self.lines.popleft()) + 1


def strip_colours(text: str) -> str:
    """A text without the sequences that only colour it or clear the rest of its line."""
    return _COLOURS.sub("", text)


def _text(line: bytes) -> str:
    return strip_colours(line.decode("utf-8", "backslashreplace"))
