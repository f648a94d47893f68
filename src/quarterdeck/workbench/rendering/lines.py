"""Lines of text in spans with roles: wrapping at once or as text arrives, clipping, and marked
matches.
"""

import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from rich.cells import cell_len, chop_cells

__all__ = [
    "READING_WIDTH",
    "GrowingLines",
    "Line",
    "LineWrapper",
    "LinkRole",
    "PixelRole",
    "Span",
    "clip",
    "compile_pattern",
    "find_url_at",
    "flow",
    "indented",
    "is_case_sensitive",
    "mark_matches",
    "plain",
    "text_of",
    "width_of",
    "words_of",
    "wrap",
]

Span: TypeAlias = tuple[str, str]
"""Text without any end of line, and the name of its role."""
Line: TypeAlias = tuple[Span, ...]
READING_WIDTH = 100
"""Cells of a line of text for reading, at the most; code, changes, tables and output take all."""


class LinkRole(str):
    """The role ``link`` with where the link goes, which a terminal opens."""

    __slots__ = ("target",)
    target: str

    def __new__(cls, target: str) -> "LinkRole":
        """A role for one target."""
        role = super().__new__(cls, "link")
        role.target = target
        return role

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinkRole) and self.target == other.target

    def __hash__(self) -> int:
        return hash(("link", self.target))


class PixelRole(str):
    """The role of an upper half block: the colours of the two pixels of its cell."""

    __slots__ = ("above", "below")
    above: tuple[int, int, int]
    below: tuple[int, int, int]

    def __new__(cls, above: tuple[int, int, int], below: tuple[int, int, int]) -> "PixelRole":
        """A role for two colours: red, green and blue of each, from 0 to 255."""
        role = super().__new__(cls, "pixels")
        role.above, role.below = above, below
        return role

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PixelRole) and self.colours == other.colours

    def __hash__(self) -> int:
        return hash(self.colours)

    @property
    def colours(self) -> tuple[int, ...]:
        """Both."""
        return (*self.above, *self.below)

    @property
    def brightness(self) -> float:
        """From 0, black, to 1, of both together."""
        red, green, blue = map(sum, zip(self.above, self.below, strict=True))
        return (0.299 * red + 0.587 * green + 0.114 * blue) / 510


_WORDS = re.compile(r"\s+|[^\s]+")


def plain(text: str, role: str = "text") -> Line:
    """A line of one span."""
    return ((text, role),)


def text_of(line: Line) -> str:
    """The text of a line."""
    return "".join(text for text, _ in line)


def width_of(line: Line) -> int:
    """The cells that a line takes."""
    return sum(cell_len(text) for text, _ in line)


class LineWrapper:
    """Breaks words into lines of at most ``width`` cells, a word at a time.

    White space at the beginning of a text stays, so that code keeps its shape; that at a break
    goes. A word that is longer than a line is broken anywhere.
    """

    def __init__(self, width: int) -> None:
        self.width = max(1, width)
        self.done: list[Line] = []
        self.used = 0
        """Cells of the line that is not full."""
        self.line: list[Span] = []
        """What stands in that line."""
        self._is_continued = False

    def add(self, word: str, role: str) -> None:
        """Take the next word, or the white space between two."""
        size = cell_len(word)
        if word.isspace() and (self.used + size > self.width or self._is_fresh):
            self._break()
            return
        if self.used + size > self.width:
            self._break()
            *full, word = chop_cells(word, self.width) if size > self.width else [word]
            for part in full:
                self.add_row(part, role)
        self.line.append((word, role))
        self.used += cell_len(word)

    def add_last(self, word: str, role: str) -> None:
        """Take a word that may be empty."""
        if word:
            self.add(word, role)

    def add_row(self, part: str, role: str) -> None:
        """Take a part of a word that fills a line of its own."""
        self._break()
        self.done.append(((part, role),))
        self._is_continued = True

    def end(self) -> list[Line]:
        """All lines; the last may be empty only if it is the only one of its text."""
        if self.line or not self._is_continued:
            return [*self.done, _joined(self.line)]
        return list(self.done)

    def next_text(self) -> None:
        """End the line: what follows is a text of its own."""
        self.done = self.end()
        self.line, self.used, self._is_continued = [], 0, False

    @property
    def _is_fresh(self) -> bool:
        return self._is_continued and not self.line

    def _break(self) -> None:
        if any(not text.isspace() for text, _ in self.line):
            self.done.append(_joined(self.line))
            self._is_continued = True
        self.line, self.used = [], 0


def wrap(spans: Iterable[Span], width: int) -> list[Line]:
    """Break spans into lines; see ``LineWrapper``. There is at least one line.

    An end of line in a text ends the line: none is ever within one.
    """
    wrapping = LineWrapper(width)
    for text, role in spans:
        for at, part in enumerate(text.split("\n")):
            if at:
                wrapping.next_text()
            for word in words_of(part):
                wrapping.add(word, role)
    return wrapping.end()


def words_of(text: str) -> list[str]:
    """Words and the white space between them, in order."""
    return _WORDS.findall(text)


def flow(
    items: Iterable[Sequence[Span]], width: int, between: Span = ("   ", "text")
) -> list[Line]:
    """Things beside each other, none broken in the middle unless it is longer than a line."""
    lines: list[Line] = []
    for item in items:
        spans = tuple(item)
        if width_of(spans) > width or any("\n" in text for text, _ in spans):
            lines += wrap(spans, width)
        elif lines and width_of((*lines[-1], between, *spans)) <= width:
            lines[-1] = (*lines[-1], between, *spans)
        else:
            lines.append(spans)
    return lines


def clip(line: Line, width: int) -> Line:
    """The line within ``width`` cells; the last is … where something is left out."""
    if width_of(line) <= width:
        return line
    clipped: list[Span] = []
    room = max(0, width - 1)
    for text, role in line:
        size = cell_len(text)
        if size > room:
            clipped.append(((chop_cells(text, room)[0] if room else "") + "…", role))
            return tuple(clipped)
        clipped.append((text, role))
        room -= size
    return tuple(clipped)


def indented(lines: Iterable[Line], first: Span, rest: Span) -> Iterator[Line]:
    """Put something before the first line, and something else before the others."""
    before = first
    for line in lines:
        yield (before, *line)
        before = rest


def _joined(line: list[Span]) -> Line:
    """Neighbours of one role become one span."""
    joined: list[Span] = []
    for text, role in line:
        if joined and joined[-1][1] == role:
            joined[-1] = (joined[-1][0] + text, role)
        else:
            joined.append((text, role))
    if joined:
        text, role = joined[-1]
        joined[-1] = (text.rstrip(), role)
    return tuple(span for span in joined if span[0])


class GrowingLines:
    """Wraps text at one width, piece by piece, to what wrapping it whole would give.

    Lines that are full never change: a word that did not fit does not fit later either. Only the
    last word is held back, because it may go on.
    """

    def __init__(self, width: int, role: str = "text") -> None:
        self.width = max(1, width)
        self._role = role
        self._wrapping = LineWrapper(self.width)
        self._word = ""

    def add(self, text: str) -> None:
        """Take the next piece, which must be literal already."""
        first, *others = (self._word + text).split("\n")
        self._word = self._wrapped(first)
        for line in others:
            self._wrapping.add_last(self._word, self._role)
            self._wrapping.next_text()
            self._word = self._wrapped(line)

    @property
    def full(self) -> list[Line]:
        """The lines that never change any more; only ever grows."""
        return self._wrapping.done

    @property
    def rest(self) -> list[Line]:
        """The lines after those, at this moment."""
        trial = copy.copy(self._wrapping)
        trial.done, trial.line = [], list(self._wrapping.line)
        trial.add_last(self._word, self._role)
        return trial.end()

    @property
    def lines(self) -> list[Line]:
        """All lines at this moment."""
        return [*self.full, *self.rest]

    def _wrapped(self, text: str) -> str:
        """Wrap all words but the last, which is returned."""
        if not text:
            return ""
        *words, last = words_of(text)
        for word in words:
            self._wrapping.add(word, self._role)
        if not last.isspace() and cell_len(last) > self.width:
            *full, rest = chop_cells(last, self.width)
            # Longer than any line already: its beginning is where it will stay.
            for part in full:
                self._wrapping.add_row(part, self._role)
            return rest
        return last


def is_case_sensitive(words: str) -> bool:
    """Whether capital letters count: they do once someone types one."""
    return words != words.lower()


def compile_pattern(words: str) -> "re.Pattern[str]":
    """What finds the words in a line."""
    return re.compile(re.escape(words), re.NOFLAG if is_case_sensitive(words) else re.IGNORECASE)


def mark_matches(line: Line, words: "re.Pattern[str]") -> Line:
    """The line with each match in a span of its own, whose role is ``match``."""
    found = [match.span() for match in words.finditer(text_of(line))]
    if not found:
        return line
    spans: list[Span] = []
    begin = 0
    for text, role in line:
        at = 0
        for start, end in found:
            left, right = max(at, start - begin), min(len(text), end - begin)
            if left < right:
                spans += [(text[at:left], role), (text[left:right], "match")]
                at = right
        spans.append((text[at:], role))
        begin += len(text)
    return tuple(span for span in spans if span[0])


_URL = r"https?://[^\s<>\"'`]+[^\s<>\"'`.,;:!?)\]}]"


def find_url_at(line: Line, x: int) -> str | None:
    """The address that stands at a cell."""
    text = text_of(line)
    for found in re.finditer(_URL, text):
        begin = cell_len(text[: found.start()])
        if begin <= x < begin + cell_len(found[0]):
            return found[0]
    return None
