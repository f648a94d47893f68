"""Having libghostty-vt write a terminal, or a part of it, as text."""

# The library's Python layer has no types, and its structures come from C.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from typing import Any, Literal, TypeAlias, cast

import pyghostty
from pyghostty.core import init_sized, union_fn

ffi: Any = pyghostty.ffi
lib: Any = pyghostty.lib

__all__ = ["Region", "Writer", "copy_of", "ffi", "lib", "place", "track"]

Region: TypeAlias = Literal["ACTIVE", "HISTORY", "SCREEN"]
"""The screen, what is above it, or both."""

_FIRST_BUFFER = 1 << 16
_KEPT_BUFFER = 1 << 20


def place(terminal: Any, region: Region, column: int, row: int) -> Any | None:
    """A cell, valid until the next change; None if there is none."""
    find = union_fn(
        "ghostty_terminal_grid_ref",
        "GhosttyResult(*)(GhosttyTerminal, GhosttyPointS, GhosttyGridRef*)",
    )
    found = init_sized("GhosttyGridRef")
    return None if find(terminal, _point(region, column, row)[0], found) else found


def track(terminal: Any) -> Any | None:
    """The first cell of the screen, followed while it moves up; None if there is no memory."""
    follow = union_fn(
        "ghostty_terminal_grid_ref_track",
        "GhosttyResult(*)(GhosttyTerminal, GhosttyPointS, GhosttyTrackedGridRef*)",
    )
    found = ffi.new("GhosttyTrackedGridRef*")
    return None if follow(terminal, _point("ACTIVE", 0, 0)[0], found) else found[0]


def copy_of(terminal: Any) -> Any | None:
    """Another terminal in the same state, to be freed; None if there can be none."""
    needed = ffi.new("size_t*")
    lib.ghostty_snapshot_encode_buf(terminal, ffi.NULL, 0, needed)
    data = ffi.new("uint8_t[]", max(int(needed[0]), 1))
    if lib.ghostty_snapshot_encode_buf(terminal, data, len(data), needed):
        return None
    decoder = ffi.new("GhosttySnapshotDecoder*")
    if lib.ghostty_snapshot_decoder_new_buf(ffi.NULL, decoder, data, needed[0]):
        return None
    copy = ffi.new("GhosttyTerminal*")
    try:
        return None if lib.ghostty_snapshot_decoder_decode(decoder[0], copy) else copy[0]
    finally:
        lib.ghostty_snapshot_decoder_free(decoder[0])


def _point(region: Region, column: int, row: int) -> Any:
    point = ffi.new("GhosttyPointS*")
    point.tag = getattr(lib, f"GHOSTTY_POINT_TAG_{region}")
    point.value.x, point.value.y = column, row
    return point


class Writer:
    """Writes a terminal as text; keeps its buffer, so that the library mostly writes once."""

    def __init__(self) -> None:
        self._data: Any = ffi.new("uint8_t[]", _FIRST_BUFFER)
        self._written: Any = ffi.new("size_t*")

    def rows(
        self,
        terminal: Any,
        region: Region,
        first: int,
        size: tuple[int, int],
        *,
        unwrap: bool = False,
        state: bool = False,
    ) -> str:
        """Rows of a region with their styles, ``size`` from ``first`` on.

        ``state`` adds what else a terminal needs to go on from there: modes, cursor, margins.
        """
        columns, count = size
        start = place(terminal, region, 0, first)
        end = place(terminal, region, columns - 1, first + count - 1)
        if start is None or end is None:
            return ""
        options = self._options(lib.GHOSTTY_FORMATTER_FORMAT_VT, start, end, unwrap=unwrap)
        if state:
            for name in ("modes", "scrolling_region", "tabstops", "keyboard"):
                setattr(options.extra, name, True)
            for name in ("cursor", "style", "hyperlink", "protection", "charsets"):
                setattr(options.extra.screen, name, True)
        return self._write(terminal, options)

    def plain(self, terminal: Any, start: Any, end: Any) -> str:
        """Characters alone, wrapped lines whole, between two cells."""
        kind = lib.GHOSTTY_FORMATTER_FORMAT_PLAIN
        return self._write(terminal, self._options(kind, start, end, unwrap=True))

    def _options(self, kind: int, start: Any, end: Any, *, unwrap: bool) -> Any:
        selection: Any = init_sized("GhosttySelection")
        selection.start, selection.end = start[0], end[0]
        options: Any = init_sized("GhosttyFormatterTerminalOptions")
        options.emit, options.unwrap, options.selection = kind, unwrap, selection
        self._held = selection  # C holds a pointer to it, which Python does not know
        return options

    def _write(self, terminal: Any, options: Any) -> str:
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
