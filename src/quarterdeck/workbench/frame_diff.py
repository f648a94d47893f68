"""Frames as what changed since the last one: a slow line carries the cells that are other now, and
not every line that a widget has drawn anew; lines that move up are moved by the terminal.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from operator import ne
from typing import TYPE_CHECKING, TypeAlias, cast

from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate

if TYPE_CHECKING:
    from rich.console import Console
    from textual.strip import Strip

__all__ = ["FrameDiff"]

_Piece: TypeAlias = "tuple[int, int, Strip]"
"""A row, a column, and what is drawn from there on."""
_Row: TypeAlias = list[tuple[str, str] | None]
"""Each cell with its character and its style; None: not known. A cell of something that is only
drawn whole has all of that as its character, and as its style ``@`` and its place in that."""
_CLOSE = 8
"""Cells between two changes that are drawn again rather than moved over."""
_LEAST_MOVED = 6
"""Lines that change at once before it is looked whether they moved."""
_FARTHEST = 4
"""Lines that a part of the screen moves up at once, at the most."""
_SCROLL_COST = 40
"""Cells that could be drawn instead of telling a terminal to move lines."""


class FrameDiff:
    """Knows what is on the terminal, and makes updates shorter.

    Terminals do not agree how wide some characters are. A piece of a row that has any other than
    plain ones, or a link, is drawn whole where it differs, as it would be without this.
    """

    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}

    def reduce(self, update: object) -> object:
        """An update that draws the same; anything that is not understood makes all unknown."""
        if isinstance(update, ChopsUpdate):
            return _ReducedUpdate(self, update)
        if isinstance(update, LayoutUpdate):
            return _KnownUpdate(self, update)
        if update is not None:
            self._rows.clear()
        return update

    def draw_changes(self, pieces: "Iterable[_Piece]", console: "Console") -> str:
        """What has to be written so that these pieces are on the terminal."""
        drawn = [(y, x, strip, _cells(strip, console)) for y, x, strip in pieces]
        written: list[str] = []
        self._scroll(written, [(y, x, cells) for y, x, _, cells in drawn])
        style = ""
        for y, x, strip, cells in drawn:
            row = self._rows.setdefault(y, [])
            if len(row) < x + len(cells):
                row.extend([None] * (x + len(cells) - len(row)))
            before = row[x : x + len(cells)]
            if before == cells:
                continue
            row[x : x + len(cells)] = cells
            if _is_plain(cells) and _is_plain(before):
                style = _write_runs(written, (y, x), before, cells, style)
            else:
                reset = "\x1b[0m" if style else ""
                written.append(f"{reset}\x1b[{y + 1};{x + 1}H{strip.render(console)}")
                style = ""
        return "".join([*written, "\x1b[0m"]) if style else "".join(written)

    def _scroll(self, written: list[str], pieces: "list[tuple[int, int, _Row]]") -> None:
        """Let the terminal move lines up where that is less to write, and draw what is new."""
        changed = [(y, x, cells) for y, x, cells in pieces if self._part(y, x, len(cells)) != cells]
        if len(changed) < _LEAST_MOVED:
            return
        wanted: dict[int, _Row] = {}
        for y, x, cells in pieces:
            row = wanted.setdefault(y, list(self._rows.get(y, ())))
            row[x : x + len(cells)] = cells
        _, x, widest = max(changed, key=lambda change: len(change[2]))
        band = self._find_band(wanted, x, len(widest))
        if band is None:
            return
        top, bottom, step = band
        rows = [wanted.get(y, self._rows.get(y, [])) for y in range(top, bottom + 1)]
        before = [self._rows.get(y, []) for y in range(top, bottom + 1)]
        unknown: _Row = [None] * len(rows[0])
        moved = [*before[step:], *[unknown] * step]
        if not all(_is_whole(row, len(unknown)) for row in (*rows, *before)):
            return
        if _count_changes(moved, rows) + _SCROLL_COST > _count_changes(before, rows):
            return
        written.append(f"\x1b[{top + 1};{bottom + 1}r\x1b[{top + 1};1H\x1b[{step}M\x1b[r")
        for y, old, new in zip(range(top, bottom + 1), moved, rows, strict=True):
            _write_row(written, y, old, new)
            self._rows[y] = new

    def _part(self, y: int, x: int, width: int) -> _Row:
        return self._rows.get(y, [])[x : x + width]

    def _find_band(
        self, wanted: dict[int, _Row], x: int, width: int
    ) -> tuple[int, int, int] | None:
        """The first and the last line of what moves up most, and how far; None: nothing does."""
        best: tuple[int, int, int] | None = None
        first, last = min(wanted), max(wanted)
        for step in range(1, _FARTHEST + 1):
            top = first
            for y in range(first, last + 1):
                row = wanted.get(y, self._rows.get(y, []))
                if y + step <= last and row[x : x + width] == self._part(y + step, x, width):
                    if best is None or y + step - top > best[1] - best[0]:
                        best = (top, y + step, step)
                else:
                    top = y + 1
        return best if best is not None and best[1] - best[0] >= _LEAST_MOVED else None

    def note(self, pieces: "Iterable[_Piece]", console: "Console", *, is_all: bool) -> None:
        """Note what is drawn whole; ``is_all``: there is nothing besides."""
        if is_all:
            self._rows.clear()
        for y, x, strip in pieces:
            cells = _cells(strip, console)
            row = self._rows.setdefault(y, [])
            if len(row) < x + len(cells):
                row.extend([None] * (x + len(cells) - len(row)))
            row[x : x + len(cells)] = cells


class _ReducedUpdate(CompositorUpdate):
    """Known only when it is written: an update may be dropped before."""

    def __init__(self, frames: FrameDiff, update: ChopsUpdate) -> None:
        self._frames = frames
        self._update = update

    def render_segments(self, console: "Console") -> str:
        return self._frames.draw_changes(_chops(self._update), console)


class _KnownUpdate(CompositorUpdate):
    def __init__(self, frames: FrameDiff, update: LayoutUpdate) -> None:
        self._frames = frames
        self._update = update

    def render_segments(self, console: "Console") -> str:
        update, region = self._update, self._update.region
        lines = [list(line) for line in update.strips]
        update.strips = cast("list[Iterable[Strip]]", lines)
        is_all = not region.x and not region.y
        self._frames.note(_laid_out(lines, region.x, region.y), console, is_all=is_all)
        return update.render_segments(console)


def _laid_out(lines: "list[list[Strip]]", x: int, y: int) -> "Iterator[_Piece]":
    for row, line in enumerate(lines, y):
        at = x
        for strip in line:
            yield row, at, strip
            at += strip.cell_length


def _chops(update: ChopsUpdate) -> "Iterator[_Piece]":
    """The pieces as Textual would draw them."""
    for y, x1, x2 in update.spans:
        pieces = update.chops[y].items()
        for end, (x, strip) in zip(update.chop_ends[y], pieces, strict=False):
            if strip is None or x > x2 or end <= x1:
                continue
            is_within = x2 > x >= x1 and end <= x2
            yield y, x, strip if is_within else strip.crop(0, min(end, x2) - x)


def _cells(strip: "Strip", console: "Console") -> _Row:
    from rich.color import ColorSystem

    colours = console._color_system or ColorSystem.TRUECOLOR  # pyright: ignore[reportPrivateUsage]
    cells: _Row = []
    for text, style, control in strip:
        codes = ""
        if style is not None:
            codes = style._ansi or style._make_ansi_codes(colours)  # pyright: ignore[reportPrivateUsage]
        if control or not _is_simple(text) or (style is not None and style.link):
            whole = strip.render(console)
            return [(whole, f"@{at}") for at in range(strip.cell_length)]
        cells += [(character, codes) for character in text]
    return cells


def _is_simple(text: str) -> bool:
    """Whether every character takes one cell, on every terminal that counts."""
    return text.isascii() or all(
        character < "\u0300" or "\u2500" <= character < "\u2600" for character in text
    )


def _is_plain(cells: _Row) -> bool:
    return all(cell is not None and not cell[1].startswith("@") for cell in cells)


def _is_whole(row: _Row, width: int) -> bool:
    """Whether a line is known to its end, and nothing in it that is drawn whole is cut."""
    at = 0
    while at < len(row):
        cell = row[at]
        if cell is None:
            return False
        at += 1
        if cell[1].startswith("@"):
            if cell[1] != "@0":
                return False
            at += _count_rest(row, at, cell[0])
    return len(row) == width


def _count_rest(row: _Row, at: int, whole: str) -> int:
    """How many cells from here on belong to what began one cell before."""
    size = 0
    while at + size < len(row) and row[at + size] == (whole, f"@{size + 1}"):
        size += 1
    return size


def _count_changes(before: list[_Row], after: list[_Row]) -> int:
    return sum(
        sum(map(ne, row, other))
        for row, other in zip(before, after, strict=True)
        if row is not other
    )


def _write_row(written: list[str], y: int, before: _Row, row: _Row) -> None:
    """Write what differs between two lines; what is drawn whole is, where any of it differs."""
    at = 0
    while at < len(row):
        cell = row[at]
        assert cell is not None
        end = at + 1
        if cell[1] == "@0":
            end += _count_rest(row, end, cell[0])
            if before[at:end] != row[at:end]:
                written.append(f"\x1b[{y + 1};{at + 1}H{cell[0]}")
        else:
            while end < len(row) and not (row[end] or ("", ""))[1].startswith("@"):
                end += 1
            if _write_runs(written, (y, at), before[at:end], row[at:end], ""):
                written.append("\x1b[0m")
        at = end


def _write_runs(
    written: list[str], place: tuple[int, int], before: _Row, cells: _Row, style: str
) -> str:
    """Write what differs between two rows; returns the style that is set then."""
    y, x = place
    for start, end in _runs(before, cells):
        written.append(f"\x1b[{y + 1};{x + start + 1}H")
        for cell in cells[start:end]:
            assert cell is not None
            character, codes = cell
            if codes != style:
                written.append(_change_style(style, codes))
                style = codes
            written.append(character)
    return style


@lru_cache(maxsize=4_096)
def _change_style(before: str, after: str) -> str:
    """The shortest way from one style to another: a colour alone, or everything anew."""
    if not after:
        return "\x1b[0m"
    anew = f"\x1b[0;{after}m"
    if not before:
        return anew
    old, new = _parse(before), _parse(after)
    if old[0] != new[0] or (old[1] and not new[1]) or (old[2] and not new[2]):
        return anew
    changed = [part for was, part in zip(old[1:], new[1:], strict=True) if was != part]
    return f"\x1b[{';'.join(changed)}m"


def _parse(codes: str) -> tuple[str, str, str]:
    """Attributes, foreground and background of a style."""
    found: dict[str, list[str]] = {"attributes": [], "foreground": [], "background": []}
    words = codes.split(";")
    at = 0
    while at < len(words):
        size = {"2": 5, "5": 3}.get(words[at + 1], 1) if words[at] in ("38", "48") else 1
        kind = "attributes"
        if size > 1 or int(words[at]) >= 30:
            number = int(words[at])
            is_ground = number == 48 or 40 <= number <= 49 or 100 <= number <= 107
            kind = "background" if is_ground else "foreground"
        found[kind] += words[at : at + size]
        at += size
    return (
        ";".join(found["attributes"]),
        ";".join(found["foreground"]),
        ";".join(found["background"]),
    )


def _runs(before: _Row, cells: _Row) -> Iterator[tuple[int, int]]:
    """Where two rows differ; what is close together is one."""
    start, end = -1, -1
    for at, (old, new) in enumerate(zip(before, cells, strict=True)):
        if old == new:
            continue
        if start < 0:
            start = at
        elif at - end > _CLOSE:
            yield start, end
            start = at
        end = at + 1
    if start >= 0:
        yield start, end
