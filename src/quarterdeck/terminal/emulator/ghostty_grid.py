"""The cells and the text of a terminal of libghostty-vt.

The library writes a cell without a character in the style of the one before it, and rows without
characters not at all. Here these are written as they look.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Literal, TypeAlias, cast

import pyghostty
from pyghostty.core import init_sized, union_fn

from .sgr_rows import ESCAPES

__all__ = [
    "Extra",
    "GhosttyGrid",
    "GhosttyTextWriter",
    "Region",
    "cell_at",
    "cell_reference",
    "ffi",
    "has_end",
    "is_on",
    "is_second_half",
    "lib",
    "may_hide",
    "read",
    "shown_row",
    "track",
    "write",
    "written_of",
]

# The library's Python layer has no types, and its structures come from C.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false


ffi: Any = pyghostty.ffi
lib: Any = pyghostty.lib


Region: TypeAlias = Literal["ACTIVE", "HISTORY", "SCREEN"]
"""The screen, what is above it, or both."""
Extra: TypeAlias = Literal[
    "modes", "tabstops", "scrolling_region", "keyboard",
    "cursor", "style", "hyperlink", "protection", "charsets",
]  # fmt: skip
"""What a terminal has besides characters, and can write as the sequences that set it."""

_OF_A_SCREEN = frozenset(("cursor", "style", "hyperlink", "protection", "charsets"))
_FIRST_BUFFER = 1 << 16
_KEPT_BUFFER = 1 << 20


def read(terminal: Any, name: str, kind: str = "uint16_t") -> Any:
    """One value of a terminal, by the library's name for it."""
    out = ffi.new(f"{kind}*")
    lib.ghostty_terminal_get(terminal, getattr(lib, f"GHOSTTY_TERMINAL_DATA_{name}"), out)
    return out[0]


def is_on(terminal: Any, mode: int) -> bool:
    """Whether a private mode is set."""
    asked = ffi.new("GhosttyTerminalModeConfig*")
    asked.mode = mode
    lib.ghostty_terminal_get(terminal, lib.GHOSTTY_TERMINAL_DATA_MODE, asked)
    return bool(asked.value)


def write(terminal: Any, data: bytes) -> None:
    """Have a terminal take what a program could have written."""
    lib.ghostty_terminal_vt_write(terminal, data, len(data))


def cell_reference(terminal: Any, region: Region, column: int, row: int) -> Any | None:
    """A cell, valid until the next change; None if there is none."""
    find = union_fn(
        "ghostty_terminal_grid_ref",
        "GhosttyResult(*)(GhosttyTerminal, GhosttyPointS, GhosttyGridRef*)",
    )
    found = init_sized("GhosttyGridRef")
    return None if find(terminal, _point(region, column, row)[0], found) else found


def cell_at(terminal: Any, column: int, row: int) -> int:
    """A cell of the screen as the library packs it."""
    at, cell = cell_reference(terminal, "ACTIVE", column, row), ffi.new("GhosttyCell*")
    if at is None or lib.ghostty_grid_ref_cell(at, cell):
        return 0
    return int(cell[0])


def track(terminal: Any) -> Any | None:
    """The first cell of the screen, followed while it moves up; None if there is no memory."""
    follow = union_fn(
        "ghostty_terminal_grid_ref_track",
        "GhosttyResult(*)(GhosttyTerminal, GhosttyPointS, GhosttyTrackedGridRef*)",
    )
    found = ffi.new("GhosttyTrackedGridRef*")
    return None if follow(terminal, _point("ACTIVE", 0, 0)[0], found) else found[0]


def _point(region: Region, column: int, row: int) -> Any:
    point = ffi.new("GhosttyPointS*")
    point.tag = getattr(lib, f"GHOSTTY_POINT_TAG_{region}")
    point.value.x, point.value.y = column, row
    return point


class GhosttyTextWriter:
    """Writes a terminal as text; keeps its buffer, so that the library mostly writes once."""

    def __init__(self) -> None:
        self._data: Any = ffi.new("uint8_t[]", _FIRST_BUFFER)
        self._written: Any = ffi.new("size_t*")

    def rows(self, terminal: Any, region: Region, first: int, size: tuple[int, int]) -> str:
        """Rows of a region with their styles, ``size`` from ``first`` on, each on a line.

        Each row begins plain and ends so. Rows without text are empty, also where they are
        coloured, and left out at the end.
        """
        columns, count = size
        start = cell_reference(terminal, region, 0, first)
        end = cell_reference(terminal, region, columns - 1, first + count - 1)
        return self._write(terminal, lib.GHOSTTY_FORMATTER_FORMAT_VT, start, end)

    def cell(self, terminal: Any, column: int, row: int) -> str:
        """One character of the screen with its style."""
        at = cell_reference(terminal, "ACTIVE", column, row)
        return self._write(terminal, lib.GHOSTTY_FORMATTER_FORMAT_VT, at, at)

    def extra(self, terminal: Any, name: Extra) -> str:
        """The sequences that set something besides characters; the first cell has to be blank."""
        at = cell_reference(terminal, "ACTIVE", 0, 0)
        return self._write(terminal, lib.GHOSTTY_FORMATTER_FORMAT_VT, at, at, extra=name)

    def plain(self, terminal: Any, start: Any, end: Any) -> str:
        """Characters alone, wrapped lines whole, between two cells."""
        return self._write(terminal, lib.GHOSTTY_FORMATTER_FORMAT_PLAIN, start, end, unwrap=True)

    def _write(
        self,
        terminal: Any,
        kind: int,
        start: Any,
        end: Any,
        *,
        unwrap: bool = False,
        extra: Extra | None = None,
    ) -> str:
        if start is None or end is None:
            return ""
        # C holds a pointer to the selection, which Python does not know: it has to stay.
        selection: Any = init_sized("GhosttySelection")
        selection.start, selection.end = start[0], end[0]
        options: Any = init_sized("GhosttyFormatterTerminalOptions")
        options.emit, options.unwrap, options.selection = kind, unwrap, selection
        if extra is not None:
            within = options.extra.screen if extra in _OF_A_SCREEN else options.extra
            setattr(within, extra, True)
        formatter = ffi.new("GhosttyFormatter*")
        if lib.ghostty_formatter_terminal_new(ffi.NULL, formatter, terminal, options[0]):
            return ""
        try:
            return self._read(formatter[0])
        finally:
            lib.ghostty_formatter_free(formatter[0])

    def _read(self, formatter: Any) -> str:
        for _ in range(2):
            data, written = self._data, self._written
            if not lib.ghostty_formatter_format_buf(formatter, data, len(data), written):
                text = cast("bytes", ffi.buffer(data, written[0])[:])
                if len(data) > _KEPT_BUFFER:
                    self._data = ffi.new("uint8_t[]", _FIRST_BUFFER)
                return text.decode("utf-8", "replace")
            self._data = ffi.new("uint8_t[]", int(written[0]) + 1)
        return ""


# The library's Python layer has no types, and its structures come from C.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false


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
    """A row of which the library may not have written all; only the cells show it."""
    return not line or (" " in line and "\x1b" in line)


def shown_row(line: str, row: GhosttyGrid) -> str:
    """A row as the library has written it, repaired."""
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
    """For each character of a row ``b`` where nothing was written, else ``c``."""
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
