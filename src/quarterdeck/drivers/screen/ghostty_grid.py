"""What libghostty-vt does not write as text: coloured cells without characters, and line ends."""

# The library's Python layer has no types, and its structures come from C.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Iterator
from itertools import groupby
from typing import Any, cast

from .ghostty_text import ffi, lib

__all__ = ["Grid", "has_end", "painted"]

_MOST_ABOVE = 0xFFFF
_CELL = 8
# How a cell is packed, from its lowest bit: 2 what it holds, 24 that, 16 style, 2 width.
_PALETTE, _RGB = 2, 3
_NARROW = 0


class Grid:
    """Reads the cells of a terminal, a row at a time."""

    def __init__(self) -> None:
        state, rows = ffi.new("GhosttyRenderState*"), ffi.new("GhosttyRenderStateRowIterator*")
        lib.ghostty_render_state_new(ffi.NULL, state)
        lib.ghostty_render_state_row_iterator_new(ffi.NULL, rows)
        self._state = ffi.gc(state[0], lib.ghostty_render_state_free)
        self._rows = ffi.gc(rows[0], lib.ghostty_render_state_row_iterator_free)
        self._place = ffi.new("GhosttyRenderStateRowIterator*", self._rows)
        self._view, self._row = ffi.new("GhosttyCellsView*"), ffi.new("GhosttyRow*")
        self._flag = ffi.new("bool*")

    def reach(self, above: int) -> None:
        """Read this many rows above the screen too."""
        overscan = ffi.new("GhosttyRenderStateOverscan*")
        overscan.above = min(above, _MOST_ABOVE)
        lib.ghostty_render_state_set(
            self._state, lib.GHOSTTY_RENDER_STATE_OPTION_OVERSCAN, overscan
        )

    def rows(self, terminal: Any) -> Iterator["Grid"]:
        """Go to each row, from the top; what it is is asked of the grid itself."""
        lib.ghostty_render_state_update(self._state, terminal)
        lib.ghostty_render_state_get(
            self._state, lib.GHOSTTY_RENDER_STATE_DATA_ROW_ITERATOR, self._place
        )
        go = lib.ghostty_render_state_row_iterator_next
        while go(self._rows):
            yield self

    def cells(self) -> bytes:
        """The cells of this row, eight bytes each."""
        kind = lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS_RAW
        lib.ghostty_render_state_row_get(self._rows, kind, self._view)
        return cast("bytes", ffi.buffer(self._view.ptr, self._view.len * _CELL)[:])

    def is_wrapped(self) -> bool:
        """This row goes on in the next."""
        kind = lib.GHOSTTY_RENDER_STATE_ROW_DATA_RAW
        lib.ghostty_render_state_row_get(self._rows, kind, self._row)
        lib.ghostty_row_get(self._row[0], lib.GHOSTTY_ROW_DATA_WRAP, self._flag)
        return bool(self._flag[0])


def painted(cells: bytes) -> str:
    """Cells without characters as the library would write them; empty where nothing is to see."""
    if not cells.strip(b"\0"):
        return ""
    parts: list[str] = []
    for color, group in groupby(memoryview(cells).cast("Q"), _background):
        blanks = " " * len(list(group))
        parts.append(f"\x1b[0m\x1b[48;{color}m{blanks}\x1b[0m" if color else blanks)
    return "".join(parts).rstrip(" ")


def has_end(cells: bytes) -> bool:
    """There is something in the last column, or a wide character did not fit there."""
    last = int.from_bytes(cells[-_CELL:], "little")
    has_text = last & 3 < _PALETTE and (last >> 2) & 0xFFFFFF != 0
    return has_text or (last >> 42) & 3 != _NARROW


def _background(cell: int) -> str:
    if cell & 3 == _PALETTE:
        return f"5;{cell >> 2 & 0xFF}"
    if cell & 3 == _RGB:
        return f"2;{cell >> 2 & 0xFF};{cell >> 10 & 0xFF};{cell >> 18 & 0xFF}"
    return ""
