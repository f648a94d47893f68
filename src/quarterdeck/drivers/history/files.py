"""Bounded reads of files that other programs write: directories, lines, JSON, word search."""

import contextlib
import os
import re
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import IO, Any, cast

import msgspec

from .session import HistoryUnreadableError

__all__ = [
    "LONGEST_LINE",
    "FoundFile",
    "ReadBudget",
    "ReadTally",
    "decode_json",
    "head_lines",
    "is_same_place",
    "json_lines",
    "list_files",
    "list_folders",
    "make_title",
    "may_contain",
    "open_plain",
    "parse_time",
    "read_json",
    "session_folders",
    "tail_lines",
]

LONGEST_LINE = 8 * 1024 * 1024
"""Bytes; a longer line is left out, so that no file decides how much memory we take."""
_CHUNK = 256 * 1024
_TITLE = 120
_LATEST = 253_402_300_800_000
"""Milliseconds since the epoch at which years get five digits."""
_decoder = msgspec.json.Decoder()


@dataclass(slots=True, kw_only=True)
class ReadTally:
    """What a reading came across; filled while the events are taken."""

    lines: int = 0
    """Lines or rows that were read."""
    corrupt: int = 0
    """Left out: no JSON, or not of a form that can be read."""
    too_long: int = 0
    """Left out: longer than ``LONGEST_LINE``."""
    is_cut: bool = False
    """The last line has no end: it is being written, or writing broke off."""
    unknown: dict[str, int] = field(default_factory=dict[str, int])
    """Entries of kinds that we do not know, left out, by kind; 50 kinds at the most."""

    @property
    def skipped(self) -> int:
        """How many entries could not be reported."""
        return self.corrupt + self.too_long + sum(self.unknown.values())

    def note_unknown(self, kind: str) -> None:
        """Count an entry of a kind that we do not know."""
        kind = kind[:60] if kind in self.unknown or len(self.unknown) < 50 else "…"
        self.unknown[kind] = self.unknown.get(kind, 0) + 1


class ReadBudget:
    """Bytes that may be read; shared by threads."""

    def __init__(self, most: int = 19_500_000) -> None:
        self.most = most
        self.spent = 0
        self._lock = Lock()

    def take(self, wanted: int) -> int:
        """How many of these bytes may be read; they count as read."""
        with self._lock:
            given = max(0, min(wanted, self.most - self.spent))
            self.spent += given
            return given

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.spent >= self.most

    def give_back(self, unread: int) -> None:
        """Say that some were not read after all."""
        with self._lock:
            self.spent -= unread


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of a session."""

    path: Path
    size: int
    changed: int
    """Microseconds since the epoch."""


def list_files(directory: Path, is_wanted: Callable[[str], bool]) -> Iterator[FoundFile]:
    """Regular files of a directory, also behind links; nothing where there is no directory.

    A link that leads nowhere, a pipe or a device is left out.
    """
    try:
        entries = os.scandir(directory)
    except OSError:
        return
    with entries:
        for entry in entries:
            if not is_wanted(entry.name):
                continue
            try:
                status = entry.stat()
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                path = Path(entry.path)
                yield FoundFile(path, status.st_size, status.st_mtime_ns // 1_000)


def list_folders(directory: Path) -> Iterator[Path]:
    """Directories in a directory, also behind links; nothing where there is none."""
    try:
        entries = os.scandir(directory)
    except OSError:
        return
    with entries:
        for entry in entries:
            try:
                is_folder = entry.is_dir()
            except OSError:
                continue
            if is_folder:
                yield Path(entry.path)


def session_folders(home: Path, directory: Path | None) -> list[Path]:
    """Directories that are named after the one in which their sessions worked, as far as is known.

    Where none has the name, all: who wrote them may name them otherwise. A name can stand for
    several, so what a session itself says still decides.
    """
    folders = list(list_folders(home))
    if directory is None:
        return folders
    wanted = _slug(str(directory))
    return [folder for folder in folders if _slug(folder.name) == wanted] or folders


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", name).strip("-").lower()


@contextlib.contextmanager
def open_plain(path: Path) -> Generator[IO[bytes]]:
    """Open a regular file; never waits for someone at the other end of a pipe.

    Raises:
        HistoryUnreadableError: it cannot be opened, or is no regular file.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise HistoryUnreadableError(path, error.strerror or str(error)) from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise HistoryUnreadableError(path, "it is not a regular file")
    with os.fdopen(number, "rb", buffering=0) as file:
        yield cast("IO[bytes]", file)


def head_lines(
    path: Path, budget: ReadBudget, *, most: int = 65_536, first: int = 2_048
) -> Iterator[bytes]:
    """The first lines, read only as far as they are drawn; the last may be cut short.

    Each reading takes twice as much as the one before. A file that cannot be read has none.
    """
    kept, read, step = b"", 0, first
    try:
        with open_plain(path) as file:
            while read < most and (given := budget.take(min(step, most - read))):
                data = file.read(given)
                budget.give_back(given - len(data))
                read, step = read + len(data), step * 2
                *lines, kept = (kept + data).split(b"\n")
                yield from lines
                if len(data) < given:
                    break
    except (HistoryUnreadableError, OSError):
        return
    if kept:
        yield kept


def tail_lines(path: Path, size: int, budget: ReadBudget, *, most: int = 4_096) -> list[bytes]:
    """The last whole lines, the last of all first; empty where they cannot be read."""
    start = max(0, size - most)
    given = budget.take(size - start)
    if given < size - start:
        budget.give_back(given)
        return []
    try:
        with open_plain(path) as file:
            file.seek(start)
            data = file.read(given)
    except (HistoryUnreadableError, OSError):
        return []
    lines = data.split(b"\n")
    return [line for line in reversed(lines if start == 0 else lines[1:]) if line]


def json_lines(file: IO[bytes], tally: ReadTally, *, limit: int = LONGEST_LINE) -> Iterator[Any]:
    """Each line's object; what is none is counted. Takes about one line of memory."""
    for line in _lines(file, tally, limit):
        if not line.strip():
            continue
        tally.lines += 1
        value = decode_json(line)
        if isinstance(value, dict):
            yield cast("dict[str, Any]", value)
        else:
            tally.corrupt += 1


def _lines(file: IO[bytes], tally: ReadTally, limit: int) -> Iterator[bytes]:
    kept: list[bytes] = []
    size, is_over = 0, False
    while data := file.read(_CHUNK):
        *whole, rest = data.split(b"\n")
        for part in whole:
            if not is_over and size + len(part) <= limit:
                yield b"".join((*kept, part))
            else:
                tally.too_long += 1
            kept, size, is_over = [], 0, False
        size += len(rest)
        if size > limit:
            kept, is_over = [], True
        elif rest:
            kept.append(rest)
    if is_over:
        tally.too_long += 1
    elif (last := b"".join(kept)).strip():
        # The one who writes it may be in the middle of the line.
        tally.is_cut = decode_json(last) is None
        if not tally.is_cut:
            yield last


def decode_json(data: bytes) -> Any:
    """The JSON value of some bytes; None where they are none."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    if b"\\ud" not in data and b"\\uD" not in data:
        return None
    import json

    # Programs in JavaScript cut texts within a character and write one half of it.
    try:
        halved = json.dumps(json.loads(data), ensure_ascii=False)
        return _decoder.decode(halved.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def read_json(path: Path, budget: ReadBudget | None = None, *, most: int = LONGEST_LINE) -> Any:
    """The value of a whole file; None where it cannot be had, or not within the bounds."""
    try:
        with open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > most or (budget is not None and budget.take(size) < size):
                return None
            return decode_json(file.read(most + 1) or b"")
    except (HistoryUnreadableError, OSError):
        return None


def is_same_place(value: str | None, directory: Path) -> bool:
    """Whether a path that a session tells is this directory, whose links are resolved already."""
    if not value or "\0" in value:
        return False
    if value == str(directory):
        return True
    try:
        # Also where the file system takes several spellings of a name for one.
        return os.path.samestat(Path(value).stat(), directory.stat())
    except FileNotFoundError:
        pass  # it is gone; a link on the way to it may be there
    except (OSError, ValueError):
        return False
    try:
        return Path(os.path.realpath(value)) == directory
    except (OSError, ValueError):
        return False


def parse_time(value: object) -> int:
    """Microseconds since the epoch, of a text as in ISO 8601 or of milliseconds; 0: neither."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value * 1_000) if 0 < value < _LATEST else 0
    if not isinstance(value, str):
        return 0
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return max(0, int(moment.timestamp() * 1_000_000))
    except (OverflowError, ValueError):
        return 0


def make_title(prompt: str | None) -> str | None:
    """The beginning of a text in one line, as a title; None where there is nothing."""
    words = " ".join((prompt or "")[:1_000].split())
    if not words:
        return None
    return words if len(words) <= _TITLE else words[: _TITLE - 1] + "…"


_SEARCH_CHUNK = 1024 * 1024


def may_contain(paths: Iterable[Path], words: tuple[str, ...], budget: ReadBudget) -> bool:
    """Whether every word may be in one of the files; casefolded words, JSON's escapes beside them.

    False where the budget is used up or a file cannot be read. Words with letters beyond ASCII
    may be escaped in many ways and count as found.
    """
    left = {word.encode() for word in words if word.isascii() and not set('"\\\n\t') & set(word)}
    try:
        for path in paths:
            left = _left(path, left, budget)
            if not left:
                break
    except (HistoryUnreadableError, OSError):
        return False
    return not left


def _left(path: Path, left: set[bytes], budget: ReadBudget) -> set[bytes]:
    """Those of the words that are not in a file."""
    longest = max((len(word) for word in left), default=0)
    kept = b""
    with open_plain(path) as file:
        while left and (given := budget.take(_SEARCH_CHUNK)):
            data = file.read(given)
            budget.give_back(given - len(data))
            if not data:
                break
            seen = kept + data.lower()
            left = {word for word in left if word not in seen}
            kept = seen[-longest:]
    return left
