"""Text for a plain terminal: the words of ``wire.shown``, and tables of them."""

from collections.abc import Iterable, Iterator, Sequence

from quarterdeck.wire.terminal_text import (
    count,
    count_columns,
    cut_to_width,
    escape_controls,
    escape_json,
    escape_to_line,
    format_age,
)

__all__ = [
    "count",
    "count_columns",
    "cut_to_width",
    "escape_controls",
    "escape_json",
    "escape_to_line",
    "format_age",
    "table",
]

_GAP = "  "


def table(head: Sequence[str], rows: Iterable[Sequence[str]], width: int | None) -> Iterator[str]:
    """Rows below each other, the last column as wide as it may be; literal, one line each.

    Args:
        head: names of the columns.
        rows: a text for each.
        width: columns of the terminal; None: nothing is cut.
    """
    lines = [tuple(head), *(tuple(escape_to_line(cell) for cell in row) for row in rows)]
    widths = [max(count_columns(line[place]) for line in lines) for place in range(len(head))]
    if width is not None:
        _narrow(widths, width)
    for line in lines:
        cells = [cut_to_width(cell, wide) for cell, wide in zip(line, widths, strict=True)]
        padded = [
            cell + " " * (wide - count_columns(cell))
            for cell, wide in zip(cells, widths, strict=True)
        ]
        yield _GAP.join(padded).rstrip()


def _narrow(widths: list[int], width: int) -> None:
    """Take from the last column down to 12, then from the widest, until all fits."""
    room = width - len(_GAP) * (len(widths) - 1)
    over = sum(widths) - room
    taken = min(over, max(0, widths[-1] - 12))
    if over > 0:
        widths[-1] -= taken
        over -= taken
    while over > 0 and max(widths) > 4:
        widths[widths.index(max(widths))] -= 1
        over -= 1
