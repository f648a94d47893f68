"""Having libghostty-vt write a terminal, or a part of it, as text."""

# The library's Python layer has no types, and its structures come from C.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from typing import Any, Literal, TypeAlias, cast

import pyghostty
from pyghostty.core import init_sized, union_fn

ffi: Any = pyghostty.ffi
lib: Any = pyghostty.lib

__all__ = [
    "Extra",
    "GhosttyTextWriter",
    "Region",
    "cell_at",
    "cell_reference",
    "ffi",
    "is_on",
    "lib",
]
__all__ += ["read", "track", "write"]

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
