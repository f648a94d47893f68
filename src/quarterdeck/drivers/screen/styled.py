"""Rows with styles, out of lines in which the styles stand as escape sequences.

Emulators say a whole screen this way a thousand times as fast as cell by cell. Rows are kept by
their line: what did not change, or only moved, is not read again.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from .port import BLANK, PLAIN, Color, Row, Span, Style

__all__ = ["ESCAPES", "Rows", "line_of", "styled_row"]

ESCAPES = re.compile(r"((?:\x1b\[[0-9;:]*m)+)")
"""Styles, as they stand in lines."""
_MOST_KEPT = 16_384

T = TypeVar("T")

_FLAGS = {
    1: "bold",
    2: "faint",
    3: "italic",
    4: "underline",
    5: "blink",
    6: "blink",
    7: "inverse",
    8: "invisible",
    9: "strikethrough",
    21: "underline",
}
_SIMPLE = {
    first + color: (field, base + color)
    for first, field, base in (
        (30, "foreground", 0),
        (40, "background", 0),
        (90, "foreground", 8),
        (100, "background", 8),
    )
    for color in range(8)
}
_styles: dict[str, Style] = {}
"""What a run of sequences that begins with a reset means; the same for every screen."""
_orders: dict[str, dict[str, Any]] = {}
"""What one sequence sets."""


class Rows:
    """The rows of a screen, with the revision at which each of them changed last."""

    def __init__(self, count: int) -> None:
        self.revision = 0
        self.rows: list[Row] = [BLANK] * count
        self.changed: list[int] = [0] * count
        self.resized = 0
        self._known: dict[str, Row] = {}

    def update(self, lines: Sequence[str]) -> None:
        """Take the lines as they are now."""
        self.revision += 1
        known: dict[str, Row] = {}
        for index, line in enumerate(lines):
            row = known.get(line)
            if row is None:
                row = self._known.get(line)
                known[line] = row = styled_row(line) if row is None else row
            if row is not self.rows[index] and row != self.rows[index]:
                self.rows[index] = row
                self.changed[index] = self.revision
        self._known = known

    def replace(self, rows: Mapping[int, Row]) -> None:
        """Take some rows as they are now."""
        self.revision += 1
        for index, row in rows.items():
            if row != self.rows[index]:
                self.rows[index] = row
                self.changed[index] = self.revision

    def resize(self, count: int) -> None:
        """The size is another: everything is new."""
        self.revision += 1
        self.resized = self.revision
        self.rows, self.changed = [BLANK] * count, [self.revision] * count

    def since(self, revision: int) -> tuple[bool, dict[int, Row]]:
        """Whether all has to be drawn anew, and the rows that have to be drawn."""
        if revision <= 0 or revision < self.resized:
            return True, dict(enumerate(self.rows))
        return False, {
            index: self.rows[index]
            for index, changed in enumerate(self.changed)
            if changed > revision
        }


def styled_row(line: str) -> Row:
    """The row that a line is, each style of which begins with a reset."""
    if not line:
        return BLANK
    pieces = ESCAPES.split(line)
    spans: list[Span] = []
    style = PLAIN
    for index, piece in enumerate(pieces):
        if index % 2:
            style = _styles.get(piece) or _style(piece)
        elif piece:
            if spans and spans[-1].style == style:
                piece = spans.pop().text + piece
            spans.append(Span(piece, style))
    while spans and spans[-1].style is PLAIN:
        last = spans.pop()
        if text := last.text.rstrip(" "):
            spans.append(Span(text, PLAIN))
            break
    return Row(tuple(spans), "".join([span.text for span in spans]).rstrip(" "))


def line_of(row: Row) -> str:
    """A line that is this row; ``styled_row`` reads it."""
    return "".join(
        [
            span.text if span.style == PLAIN else f"{_written(span.style)}{span.text}\x1b[0m"
            for span in row.spans
        ]
    )


def _written(style: Style) -> str:
    numbers = [
        str(number)
        for number, name in _FLAGS.items()
        if number not in (6, 21) and getattr(style, name)
    ]
    for first, color in ((38, style.foreground), (48, style.background)):
        if isinstance(color, int):
            numbers.append(f"{first};5;{color}")
        elif color is not None:
            numbers.append(f"{first};2;{color[0]};{color[1]};{color[2]}")
    return f"\x1b[0m\x1b[{';'.join(numbers)}m"


def _style(run: str) -> Style:
    fields: dict[str, Any] = {}
    for numbers in run[2:-1].split("m\x1b["):
        if numbers in ("", "0"):
            fields.clear()
            continue
        order = _orders.get(numbers)
        if order is None:
            order = _order(numbers)
            _keep(_orders, numbers, order)
        fields.update(order)
    style = Style(**fields) if fields else PLAIN
    if style == PLAIN:
        style = PLAIN
    _keep(_styles, run, style)
    return style


def _keep(table: dict[str, T], key: str, value: T) -> None:
    if len(table) >= _MOST_KEPT:
        table.clear()
    table[key] = value


def _order(numbers: str) -> dict[str, Any]:
    """What one sequence sets, as emulators write them; what it does not know sets nothing."""
    values = [int(one or 0) for one in numbers.replace("::", ":").replace(":", ";").split(";")]
    fields: dict[str, Any] = {}
    while values:
        number = values.pop(0)
        if number in (38, 48, 58):
            color = _extended(values)
            if number != 58:
                fields["foreground" if number == 38 else "background"] = color
        elif number == 4 and ":" in numbers:
            fields["underline"] = bool(values.pop(0))
        elif number in _FLAGS:
            fields[_FLAGS[number]] = True
        elif number in _SIMPLE:
            field, color = _SIMPLE[number]
            fields[field] = color
    return fields


def _extended(values: list[int]) -> Color:
    """``5;n`` or ``2;r;g;b``; takes them from the list."""
    count = 2 if values[:1] == [5] else 4
    taken = values[:count]
    del values[:count]
    if len(taken) < count:
        return None
    return taken[1] if count == 2 else (taken[1], taken[2], taken[3])
