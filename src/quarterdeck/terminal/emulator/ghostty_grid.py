"""The cells of libghostty-vt, for what its text does not tell: blanks, colours of them, line ends.

The library writes a cell without a character in the style of the one before it, and rows without
characters not at all. Here these are written as they look.
"""

# The library's Python layer has no types, and its structures come from C.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any, cast

from pyghostty.core import union_fn

from .ghostty_text import ffi, lib
from .sgr_rows import ESCAPES

__all__ = ["GhosttyGrid", "has_end", "is_second_half", "may_hide", "shown_row", "written_of"]

_MOST_ABOVE = 0xFFFF
_SIZE = 8
_ZEROES = b"\0" * _SIZE
# How a cell is packed, from its lowest bit: 2 what it holds, 24 that, 16 style, 2 width.
_LOOKS = (1 << 42) - 1
_JOINED, _PALETTE, _RGB = 1, 2, 3
_NARROW, _SECOND_HALF, _NO_ROOM = 0, 2, 3
_PLAIN = "\x1b[0m"
_RUNS = re.compile("b+|c+")


class GhosttyGrid:
    """Reads the cells of a terminal, a row at a time."""

    def __init__(self) -> None:
        state, rows = ffi.new("GhosttyRenderState*"), ffi.new("GhosttyRenderStateRowIterator*")
        cells = ffi.new("GhosttyRenderStateRowCells*")
        lib.ghostty_render_state_new(ffi.NULL, state)
        lib.ghostty_render_state_row_iterator_new(ffi.NULL, rows)
        lib.ghostty_render_state_row_cells_new(ffi.NULL, cells)
        self._state = ffi.gc(state[0], lib.ghostty_render_state_free)
        self._rows = ffi.gc(rows[0], lib.ghostty_render_state_row_iterator_free)
        self._cells = ffi.gc(cells[0], lib.ghostty_render_state_row_cells_free)
        self._view, self._row = ffi.new("GhosttyCellsView*"), ffi.new("GhosttyRow*")
        self._flag, self._count = ffi.new("bool*"), ffi.new("uint32_t*")

    def rows(self, terminal: Any, *, above: int = 0) -> Iterator["GhosttyGrid"]:
        """Go to each row of the screen and so many above it, from the top.

        What a row is is asked of the grid itself.
        """
        overscan = ffi.new("GhosttyRenderStateOverscan*")
        overscan.above = min(above, _MOST_ABOVE)
        option = lib.GHOSTTY_RENDER_STATE_OPTION_OVERSCAN
        lib.ghostty_render_state_set(self._state, option, overscan)
        return self._each(terminal)

    def rows_from(self, terminal: Any, first: int, below: int) -> Iterator["GhosttyGrid"]:
        """Go to rows from one above the screen on; the oldest is 0."""
        overscan = ffi.new("GhosttyRenderStateOverscan*")
        overscan.below = min(below, _MOST_ABOVE)
        option = lib.GHOSTTY_RENDER_STATE_OPTION_OVERSCAN
        lib.ghostty_render_state_set(self._state, option, overscan)
        _scroll(terminal, lib.GHOSTTY_SCROLL_VIEWPORT_ROW, first)
        try:
            yield from self._each(terminal)
        finally:
            _scroll(terminal, lib.GHOSTTY_SCROLL_VIEWPORT_BOTTOM, 0)

    def _each(self, terminal: Any) -> Iterator["GhosttyGrid"]:
        lib.ghostty_render_state_update(self._state, terminal)
        kind, place = lib.GHOSTTY_RENDER_STATE_DATA_ROW_ITERATOR, ffi.new("void**", self._rows)
        lib.ghostty_render_state_get(self._state, kind, place)
        go = lib.ghostty_render_state_row_iterator_next
        while go(self._rows):
            yield self

    def cells(self) -> bytes:
        """The cells of this row, eight bytes each."""
        kind = lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS_RAW
        lib.ghostty_render_state_row_get(self._rows, kind, self._view)
        return cast("bytes", ffi.buffer(self._view.ptr, self._view.len * _SIZE)[:])

    def is_wrapped(self) -> bool:
        """This row goes on in the next."""
        kind = lib.GHOSTTY_RENDER_STATE_ROW_DATA_RAW
        lib.ghostty_render_state_row_get(self._rows, kind, self._row)
        lib.ghostty_row_get(self._row[0], lib.GHOSTTY_ROW_DATA_WRAP, self._flag)
        return bool(self._flag[0])

    def count(self, column: int) -> int:
        """Of how many characters the one in a column of this row is made."""
        kind, place = lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS, ffi.new("void**", self._cells)
        lib.ghostty_render_state_row_get(self._rows, kind, place)
        lib.ghostty_render_state_row_cells_select(self._cells, column)
        kind = lib.GHOSTTY_RENDER_STATE_ROW_CELLS_DATA_GRAPHEMES_LEN
        lib.ghostty_render_state_row_cells_get(self._cells, kind, self._count)
        return int(self._count[0])


def may_hide(line: str) -> bool:
    """A row of which the library may not have written all; only the cells tell."""
    return not line or (" " in line and "\x1b" in line)


def shown_row(line: str, row: GhosttyGrid) -> str:
    """A row as the library has written it, mended."""
    if not line:
        return _painted(row.cells())
    if not may_hide(line):
        return line
    cells = row.cells().rstrip(b"\0")
    return line if cells.find(_ZEROES) < 0 else _mended(line, cells, row)


def has_end(cells: bytes) -> bool:
    """Something is written up to the last column, or to where a wide character did not fit."""
    return written_of(cells) > 0


def written_of(cells: bytes) -> int:
    """The columns of a row that is written up to its end; 0 where it is not."""
    columns = len(cells) // _SIZE
    before, last = memoryview(cells[-2 * _SIZE :].rjust(2 * _SIZE, b"\0")).cast("Q")
    if (last >> 42) & 3 == _NO_ROOM:
        return columns - 1 if _has_text(before) else 0
    return columns if _has_text(last) else 0


def _has_text(cell: int) -> bool:
    return is_second_half(cell) or (cell & 3 < _PALETTE and cell >> 2 & 0xFFFFFF != 0)


def is_second_half(cell: int) -> bool:
    """A wide character stands in the column before this one."""
    return (cell >> 42) & 3 == _SECOND_HALF


def _painted(cells: bytes) -> str:
    """Cells without characters; empty where nothing is to see."""
    if not cells.strip(b"\0"):
        return ""
    parts: list[str] = []
    for color, group in groupby(memoryview(cells).cast("Q"), _background):
        blanks = " " * len(list(group))
        parts.append(f"\x1b[0m\x1b[48;{color}m{blanks}\x1b[0m" if color else blanks)
    return "".join(parts).rstrip(" ")


def _background(cell: int) -> str:
    if cell & 3 == _PALETTE:
        return f"5;{cell >> 2 & 0xFF}"
    if cell & 3 == _RGB:
        return f"2;{cell >> 2 & 0xFF};{cell >> 10 & 0xFF};{cell >> 18 & 0xFF}"
    return ""


def _mended(line: str, cells: bytes, row: GhosttyGrid) -> str:
    """The line with cells that nothing was written to as plain as they are."""
    kinds = _kinds(cells, row)
    parts: list[str] = []
    style, at, ends_plain = _PLAIN, 0, True
    for index, piece in enumerate(ESCAPES.split(line)):
        if index % 2:
            style = piece
            parts.append("" if ends_plain and piece == _PLAIN else piece)
            continue
        end = at + len(piece)
        ends_plain = style == _PLAIN
        if not ends_plain and "b" in kinds[at:end]:
            for run in _RUNS.finditer(kinds, at, end):
                text = piece[run.start() - at : run.end() - at]
                ends_plain = run[0][0] == "b"
                again = style if run.end() < end else ""
                parts.append(f"{_PLAIN}{text}{again}" if ends_plain else text)
        else:
            parts.append(piece)
        at = end
    return "".join(parts)


def _kinds(cells: bytes, row: GhosttyGrid) -> str:
    """For each character of a row ``b`` where it stands for nothing written, else ``c``."""
    cells = cells.ljust(-(-len(cells) // _SIZE) * _SIZE, b"\0")
    kinds: list[str] = []
    for column, cell in enumerate(memoryview(cells).cast("Q").tolist()):
        if not cell & _LOOKS:
            if (cell >> 42) & 3 == _NARROW:
                kinds.append("b")
        elif cell & 3 == _JOINED:
            kinds.append("c" * row.count(column))
        elif (cell >> 42) & 3 < _SECOND_HALF:
            kinds.append("c")
    return "".join(kinds)


def _scroll(terminal: Any, tag: int, row: int) -> None:
    # As large as the library's own, which has a union and so cannot be passed.
    scroll = union_fn("ghostty_terminal_scroll_viewport", "void(*)(GhosttyTerminal, GhosttyPointS)")
    point = ffi.new("GhosttyPointS*")
    point.tag = tag
    ffi.cast("uint64_t*", ffi.addressof(point[0], "value"))[0] = row
    scroll(terminal, point[0])
