"""Tables within a width: columns are narrowed, cells are wrapped, nothing is cut."""

from collections.abc import Sequence

from .lines import Line, Span, width_of, wrap

__all__ = ["table_lines"]

_GAP = 2
_LEAST = 4


def table_lines(rows: Sequence[Sequence[list[Span]]], width: int) -> list[Line]:
    """The lines of a table whose first row is its head."""
    count = max(map(len, rows), default=0)
    if not count:
        return []
    if count * (_LEAST + _GAP) > width:
        return [line for row in rows for cell in row for line in wrap(cell, width)]
    widths = _widths(rows, count, width)
    lines: list[Line] = []
    for number, row in enumerate(rows):
        lines.extend(_row(row, widths))
        if number == 0:
            lines.append((("─" * (sum(widths) + _GAP * (count - 1)), "faint"),))
    return lines


def _widths(rows: Sequence[Sequence[list[Span]]], count: int, width: int) -> list[int]:
    widths = [_LEAST] * count
    for row in rows:
        for at, cell in enumerate(row):
            widths[at] = max(widths[at], width_of(tuple(cell)))
    over = sum(widths) + _GAP * (count - 1) - width
    while over > 0:
        widest = widths.index(max(widths))
        others = sorted(widths)[-2] if count > 1 else 0
        taken = min(over, max(1, widths[widest] - max(_LEAST, others)))
        widths[widest] -= taken
        over -= taken
    return widths


def _row(row: Sequence[list[Span]], widths: list[int]) -> list[Line]:
    cells = [wrap(cell, size) for cell, size in zip(row, widths, strict=False)]
    height = max(map(len, cells), default=0)
    lines: list[Line] = []
    for level in range(height):
        line: list[Span] = []
        for cell, size in zip(cells, widths, strict=False):
            part = cell[level] if level < len(cell) else ()
            line += [*part, (" " * (size - width_of(part) + _GAP), "text")]
        lines.append(tuple(line))
    return lines
