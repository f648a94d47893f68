"""Searching one text for a pattern.

Standard library only: the file is also a program. It reads frames (length in four bytes, then
content) from standard input, first the query as JSON, then files; each file is answered by a
frame with what was found.
"""

import json
import re
import sys
import warnings
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

__all__ = ["NOTHING", "FileMatches", "GrepLine", "GrepQuery", "Searcher", "frame", "is_quick"]

LINE_CHARACTERS = 400
_BEFORE = 80
_HEAD = 8192


class GrepLine(NamedTuple):
    """A line to show. Matches of a file are counted from 1."""

    number: int
    near: int
    """The first match that this line is part of or near to."""
    match: int
    """The first match that it is part of; 0: of none."""
    text: str


class GrepQuery(NamedTuple):
    """What to look for in each file."""

    pattern: str
    ignore_case: bool = False
    multiline: bool = False
    context: int = 0
    rows: int = 0
    """Matches of one file to give lines for; all are counted."""


class FileMatches(NamedTuple):
    """What was found in one file."""

    total: int
    """Matching lines; with ``multiline`` matches."""
    rows: tuple[GrepLine, ...] = ()
    is_binary: bool = False


NOTHING = FileMatches(0)
_BINARY = FileMatches(0, is_binary=True)


def is_quick(pattern: str) -> bool:
    """Whether a pattern cannot take long, whatever the text: nothing in it can be retried.

    Python's engine holds the interpreter while it searches and cannot be stopped; anything that
    repeats or groups belongs in a process of its own.
    """
    return not set(pattern) & set("*+?{(")


class Searcher:
    """A compiled query.

    Raises:
        re.error: The pattern is not valid.
    """

    def __init__(self, query: GrepQuery) -> None:
        self._query = query
        flags = re.IGNORECASE if query.ignore_case else 0
        with warnings.catch_warnings():
            # Such as "possible nested set": advice for programmers, not for a search.
            warnings.simplefilter("ignore")
            if query.multiline:
                flags |= re.MULTILINE | re.DOTALL
            self._regex = re.compile(query.pattern, flags)
            self._sieve = (
                re.compile(query.pattern, flags | re.MULTILINE)
                if _is_local(query.pattern)
                else None
            )

    def search(self, data: bytes) -> FileMatches:
        """Search the content of a file; one that is no text is not searched."""
        if b"\0" in data[:_HEAD]:
            return _BINARY
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        if not text or (self._sieve is not None and not self._sieve.search(text)):
            return NOTHING
        lines = text.removesuffix("\n").split("\n")
        found = self._across(text, lines) if self._query.multiline else self._by_line(lines)
        return self._matches(lines, list(found))

    def _by_line(self, lines: list[str]) -> Iterator[tuple[int, int, int]]:
        search = self._regex.search
        for index, line in enumerate(lines):
            match = search(line)
            if match:
                yield index, index, match.start()

    def _across(self, text: str, lines: list[str]) -> Iterator[tuple[int, int, int]]:
        """Each match as its first and last line and its column in the first."""
        index = start = 0
        for match in self._regex.finditer(text):
            index += text.count("\n", start, match.start())
            start = match.start()
            if index >= len(lines):  # after the last line end
                return
            last = index + text.count("\n", start, max(match.end() - 1, start))
            column = start - (text.rfind("\n", 0, start) + 1)
            yield index, min(last, len(lines) - 1), column

    def _matches(self, lines: list[str], found: list[tuple[int, int, int]]) -> FileMatches:
        around = self._query.context
        near: dict[int, int] = {}
        matching: dict[int, tuple[int, int]] = {}
        for count, (first, last, column) in enumerate(found[: self._query.rows], 1):
            for index in range(first, last + 1):
                matching.setdefault(index, (count, column if index == first else 0))
            for index in range(max(first - around, 0), min(last + around + 1, len(lines))):
                near.setdefault(index, count)
        rows = [
            GrepLine(index + 1, near[index], match, _shown(lines[index], column))
            for index in sorted(near)
            for match, column in (matching.get(index, (0, 0)),)
        ]
        return FileMatches(len(found), tuple(rows))


def _is_local(pattern: str) -> bool:
    """Whether a match within one line is also a match within the whole text.

    Then one search of the text tells that no line matches. What looks beyond the match, or will
    not give back what it took, can tell a line from a text.
    """
    return not re.search(r"\(\?|\\[AZ]|[+*?}]\+", pattern)


def _shown(line: str, column: int) -> str:
    """A line, cut around the match where it is long, with the exact number left out."""
    if len(line) <= LINE_CHARACTERS:
        return line
    start = 0 if column < LINE_CHARACTERS - _BEFORE else column - _BEFORE
    end = min(start + LINE_CHARACTERS, len(line))
    before = f"[{start} characters …] " if start else ""
    after = f" [… {len(line) - end} characters]" if end < len(line) else ""
    return f"{before}{line[start:end]}{after}"


def frame(data: bytes) -> bytes:
    """One message of the program: its length in four bytes, then itself."""
    return len(data).to_bytes(4, "big") + data


def _receive(stream: BinaryIO) -> bytes | None:
    head = stream.read(4)
    return stream.read(int.from_bytes(head, "big")) if len(head) == 4 else None


def _main() -> None:
    query = _receive(sys.stdin.buffer)
    searcher = Searcher(GrepQuery(*json.loads(query or b"[]")))
    while (data := _receive(sys.stdin.buffer)) is not None:
        sys.stdout.buffer.write(frame(json.dumps(searcher.search(data)).encode()))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _main()
