"""A file of any size, seen through a window of whole lines.

Only the window is in memory, and only as much is read. Lines are numbered from the beginning
where the way from there is known, else from the end, with negative numbers: the last line is -1.
Everything here blocks; callers are in a thread.
"""

import os
import stat as modes
from bisect import bisect_right
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from quarterdeck.wire.errors import QuarterdeckError

__all__ = [
    "SEARCHED",
    "WINDOW",
    "FileFacts",
    "FileMatch",
    "FilePanelReadError",
    "FileReader",
    "FileWindow",
]

WINDOW = 1_048_576
"""Bytes of a window."""
SEARCHED = 512 * 1_048_576
"""Bytes that one search looks through at the most."""
_PIECE = 1_048_576
_HEX = 8_192
_MOST_DECODED = 8 * 1_048_576

FileIdentity: TypeAlias = tuple[int, int, int, int]
"""Device, inode, size, time of the last change in ns."""


class FilePanelReadError(QuarterdeckError):
    """A file cannot be shown; ``reason`` says why in few words."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"cannot show {path!r}: {reason}.")
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """A file when it was looked at."""

    identity: FileIdentity
    size: int
    is_binary: bool
    encoding: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWindow:
    """Some lines of a file, without their ends."""

    start: int
    """Where it begins, in bytes."""
    end: int
    size: int
    """Of the whole file."""
    first: int
    """The number of its first line; negative: counted from the end."""
    lines: tuple[str, ...]
    offsets: tuple[int, ...]
    """Where each line begins, in bytes."""
    begins_inside: bool = False
    """Its first line began before it."""

    @property
    def is_start(self) -> bool:
        """Nothing is before it."""
        return self.start == 0

    @property
    def is_end(self) -> bool:
        """Nothing is after it."""
        return self.end >= self.size

    def number(self, at: int) -> int:
        """The number of a line by its place in the window."""
        return self.first + at

    def at_offset(self, offset: int) -> int:
        """The place of the line that a byte belongs to."""
        return max(0, bisect_right(self.offsets, offset) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMatch:
    """Where something is: the byte, and the number of its line."""

    offset: int
    number: int


class FileReader:
    """Reads windows of one file. It keeps no descriptor; each call opens the file anew."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._decoded: bytes | None = None

    def look(self) -> FileIdentity:
        """Which file it is now. Raises FilePanelReadError."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - a name may be no valid text
        except (OSError, ValueError) as error:
            raise _unreadable(self.path, error) from error
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def open(self) -> FileFacts:
        """Look at the file and its beginning. Raises FilePanelReadError."""
        self._decoded = None
        with _opened(self.path) as descriptor:
            found = os.fstat(descriptor)
            head = os.pread(descriptor, _HEX, 0)
            encoding, size = "utf-8", found.st_size
            if head[:2] in (b"\xff\xfe", b"\xfe\xff") and size <= _MOST_DECODED:
                encoding = "utf-16"
                text = os.pread(descriptor, _MOST_DECODED, 0).decode("utf-16", "backslashreplace")
                self._decoded = text.encode("utf-8", "backslashreplace")
                head, size = self._decoded[:_HEX], len(self._decoded)
        identity = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        is_binary = b"\0" in head
        return FileFacts(identity=identity, size=size, is_binary=is_binary, encoding=encoding)

    def first(self) -> FileWindow:
        """The window at the beginning. Raises FilePanelReadError, as all of these."""
        with self._source() as source:
            return _window(source, 0, 1)

    def last(self) -> FileWindow:
        """The window at the end; numbered from the end unless it reaches the beginning."""
        with self._source() as source:
            start = _line_start(source, max(0, source.size - WINDOW))
            window = _window(source, start, 1)
            if start == 0:
                return window
            return _numbered(window, -len(window.lines))

    def around(self, offset: int, known: FileWindow) -> FileWindow:
        """The window with a byte in its middle, numbered by one that overlaps it."""
        with self._source() as source:
            start = _line_start(source, max(0, offset - WINDOW // 2))
            if start == 0:
                return _window(source, 0, 1)
            if known.start <= start <= known.end:
                return _window(source, start, known.number(known.at_offset(start)))
            window = _window(source, start, 1)
            if start <= known.start <= window.end:
                before = window.at_offset(known.start) - known.begins_inside
                return _numbered(window, known.first - before)
            return window

    def line(self, number: int) -> tuple[FileWindow, int] | None:
        """The window around a line, from 1, and the line's place in it; None: there is none.

        Reads everything before it, in pieces.
        """
        with self._source() as source:
            offset, passed = 0, 1
            while passed < number:
                data = source.read(offset, _PIECE)
                if not data:
                    return None
                ends = data.count(b"\n")
                if passed + ends >= number:
                    at = -1
                    for _ in range(number - passed):
                        at = data.index(b"\n", at + 1)
                    offset, passed = offset + at + 1, number
                else:
                    offset, passed = offset + len(data), passed + ends
            if offset >= source.size and number > 1:
                return None
            return self._at(source, FileMatch(offset=offset, number=number))

    def find(self, words: str, after: FileMatch, *, most: int = SEARCHED) -> FileMatch | int:
        """The next place of some words after a byte; else up to where they are not.

        The line of ``after`` is known, so that the hit's is. Words without capitals fit any.
        """
        needle = words.encode("utf-8", "surrogateescape")
        folds = needle == needle.lower()
        with self._source() as source:
            offset, number = after.offset, after.number
            end = min(source.size, offset + most)
            while offset < end:
                data = source.read(offset, _PIECE + len(needle) - 1)
                found = (data.lower() if folds else data).find(needle)
                if found >= 0:
                    number += data.count(b"\n", 0, found)
                    return FileMatch(offset=offset + found, number=number)
                number += data.count(b"\n", 0, _PIECE)
                offset += _PIECE
            return end

    def find_before(
        self, words: str, before: FileMatch, *, most: int = SEARCHED
    ) -> FileMatch | int:
        """The last place of some words before a byte; else from where on they are not."""
        needle = words.encode("utf-8", "surrogateescape")
        folds = needle == needle.lower()
        with self._source() as source:
            end, number = before.offset, before.number
            last = max(0, end - most)
            while end > last:
                start = max(last, end - _PIECE)
                data = source.read(start, end - start + len(needle) - 1)
                found = (data.lower() if folds else data).rfind(
                    needle, 0, end - start + len(needle) - 1
                )
                if found >= 0:
                    number -= data.count(b"\n", found, end - start)
                    return FileMatch(offset=start + found, number=number)
                number -= data.count(b"\n", 0, end - start)
                end = start
            return last

    def window_at(self, hit: FileMatch) -> tuple[FileWindow, int]:
        """The window around a place whose line is known, and the line's place in it."""
        with self._source() as source:
            return self._at(source, hit)

    def hexadecimal(self, most: int = _HEX) -> list[str]:
        """The first bytes as figures, sixteen in a line."""
        with _opened(self.path) as descriptor:
            data = os.pread(descriptor, most, 0)
        return [_hex_line(at, data[at : at + 16]) for at in range(0, len(data), 16)]

    def _at(self, source: "_Source", hit: FileMatch) -> tuple[FileWindow, int]:
        start = _line_start(source, max(0, hit.offset - WINDOW // 2))
        window = _window(source, start, 1)
        place = window.at_offset(hit.offset)
        return (window if start == 0 else _numbered(window, hit.number - place)), place

    @contextmanager
    def _source(self) -> "Generator[_Source]":
        if self._decoded is not None:
            yield _Source(self._decoded, None, len(self._decoded))
            return
        with _opened(self.path) as descriptor:
            yield _Source(b"", descriptor, os.fstat(descriptor).st_size)


@dataclass(frozen=True, slots=True)
class _Source:
    data: bytes
    descriptor: int | None
    size: int

    def read(self, offset: int, size: int) -> bytes:
        if self.descriptor is None:
            return self.data[offset : offset + size]
        return os.pread(self.descriptor, size, offset)


def _line_start(source: _Source, offset: int) -> int:
    """The first beginning of a line at or after a byte; the byte itself if none is near."""
    if offset <= 0:
        return 0
    data = source.read(offset - 1, WINDOW // 4)
    found = data.find(b"\n")
    return offset + found if 0 <= found < len(data) - 1 else offset


def _window(source: _Source, start: int, first: int) -> FileWindow:
    data = source.read(start, WINDOW)
    if start + len(data) < source.size and (cut := data.rfind(b"\n") + 1):
        data = data[:cut]
    parts = data.split(b"\n")
    if not parts[-1] and len(parts) > 1:
        parts.pop()
    offsets: list[int] = []
    at = start
    for part in parts:
        offsets.append(at)
        at += len(part) + 1
    return FileWindow(
        start=start,
        end=start + len(data),
        size=source.size,
        first=first,
        lines=tuple(part.removesuffix(b"\r").decode("utf-8", "backslashreplace") for part in parts),
        offsets=tuple(offsets),
        begins_inside=start > 0 and source.read(start - 1, 1) != b"\n",
    )


def _numbered(window: FileWindow, first: int) -> FileWindow:
    return FileWindow(
        start=window.start,
        end=window.end,
        size=window.size,
        first=first,
        lines=window.lines,
        offsets=window.offsets,
        begins_inside=window.begins_inside,
    )


def _hex_line(at: int, data: bytes) -> str:
    figures = " ".join(f"{byte:02x}" for byte in data)
    letters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in data)
    return f"{at:08x}  {figures:<47}  {letters}"


@contextmanager
def _opened(path: str) -> Generator[int]:
    """Open a regular file for reading; nothing else, as opening a pipe alone can block."""
    try:
        if not modes.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
            kind = "a directory" if modes.S_ISDIR(os.stat(path).st_mode) else "not a regular file"  # noqa: PTH116
            raise FilePanelReadError(path, f"it is {kind}")
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    try:
        yield descriptor
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)


def _unreadable(path: str, error: OSError | ValueError) -> FilePanelReadError:
    if isinstance(error, FileNotFoundError):
        return FilePanelReadError(path, "it does not exist")
    reason = getattr(error, "strerror", None) or str(error)
    return FilePanelReadError(path, reason)
