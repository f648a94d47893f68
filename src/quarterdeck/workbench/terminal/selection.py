"""What is selected in a terminal with the mouse: cells, from one place to another."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .rendering import find_graphemes

__all__ = ["CellPlace", "CellSelection", "cut_row", "find_word", "join_rows"]

CellPlace: TypeAlias = tuple[int, int]
"""A row, from the oldest that is kept, and a column."""

_WORD = re.compile(r"[\w./~:@%+#=?&-]+")
"""What a double click takes: also paths and addresses."""


@dataclass(frozen=True, slots=True)
class CellSelection:
    """All cells from one place to another, both included, in the order of reading."""

    anchor: CellPlace
    head: CellPlace

    def span(self, row: int) -> tuple[int, int | None] | None:
        """The columns of a row that are selected; None as the end: to the end of the row."""
        (first, begin), (last, end) = sorted((self.anchor, self.head))
        if not first <= row <= last:
            return None
        return (begin if row == first else 0), (end + 1 if row == last else None)

    @property
    def rows(self) -> range:
        """The rows that are selected."""
        first, last = sorted((self.anchor[0], self.head[0]))
        return range(first, last + 1)


def cut_row(text: str, begin: int, end: int | None) -> str:
    """The characters of a row that stand in these columns, without what is blank at the end."""
    parts = [
        characters
        for column, width, characters in _placed(text)
        if column + width > begin and (end is None or column < end)
    ]
    return "".join(parts).rstrip()


def join_rows(taken: Sequence[str], rows: Sequence[str], wraps: Sequence[int]) -> str:
    """What was cut out of rows, as lines: rows that go on in the next are one line with it.

    ``wraps``: the columns that are written of such a row; 0 for others.
    """
    known = [*wraps, *[0] * len(taken)]
    parts: list[str] = []
    for piece, row, columns in zip(taken[:-1], rows, known, strict=False):
        width = sum(wide for _, wide, _ in _placed(row))
        parts += [piece, " " * (columns - width) if columns else "\n"]
    return "".join([*parts, *taken[-1:]])


def find_word(text: str, column: int) -> tuple[int, int] | None:
    """The first and the last column of the word at a column."""
    placed = list(_placed(text))
    plain = "".join(characters[0] for _, _, characters in placed)
    for found in _WORD.finditer(plain):
        first, last = placed[found.start()], placed[found.end() - 1]
        if first[0] <= column < last[0] + last[1]:
            return first[0], last[0] + last[1] - 1
    return None


def _placed(text: str) -> Iterator[tuple[int, int, str]]:
    """Each character with what stands over it: its column, its width."""
    column = 0
    for characters, width in find_graphemes(text):
        yield column, width, characters
        column += width
