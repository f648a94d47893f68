"""A screen that libghostty-vt keeps.

Its own Python layer reads cell by cell, which takes 142 ms for a screen; here the library's
formatter writes the screen as one text, 0.1 ms, and only rows that changed are read.
"""

# The library's Python layer has no types, and its structures come from C.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false

from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import pyghostty
from pyghostty.core import init_sized

from .api import GridChange, GridCursor, GridRow, RowMark, TerminalModes, mouse_of
from .ghostty_grid import (
    GhosttyGrid,
    GhosttyTextWriter,
    cell_reference,
    ffi,
    lib,
    may_hide,
    shown_row,
    track,
    written_of,
)
from .ghostty_snapshot import unfinished_sequence, write_snapshot
from .queries import CLEAR_TAB, SOFT_RESET, QueryResponder
from .sgr_rows import StyledRows, styled_rows

__all__ = ["GhosttyEmulator", "warm_up"]

_BYTES = 64 * 1024 * 1024
"""Most memory for what is above the screen; without this the library keeps some hundred rows."""
_UNFINISHED = 64 * 1024
"""Most bytes of a sequence that are kept for a viewer who comes before its end."""
_FOREGROUND, _BACKGROUND = (0xD0, 0xD0, 0xD0), (0x10, 0x10, 0x10)
"""The answer to programs that ask for the terminal's colours: a dark one."""
_CELL = (8, 16)
_SOFTLY = b"\x1b[?1;6;69l\x1b[?25h\x1b[4l\x1b>\x1b[r\x1b[0m\x1b(B\x1b)B\x0f\x1b[H\x1b7"
"""A soft reset, which the library does not know; the cursor has to go back after it."""
_MOUSE = (9, 1000, 1002, 1003)


class _GhosttyMark:
    """A row that the library follows."""

    def __init__(self, reference: Any) -> None:
        self.reference = reference

    def release(self) -> None:
        """Forget it."""
        if self.reference is not None:
            lib.ghostty_tracked_grid_ref_free(self.reference)
            self.reference = None


class GhosttyEmulator:
    """The ``Emulator`` port over libghostty-vt."""

    backend = "ghostty"

    def __init__(self, columns: int, rows: int, scrollback: int) -> None:
        self._terminal: Any = pyghostty.Terminal(
            columns, rows, scrollback=scrollback, fg=_FOREGROUND, bg=_BACKGROUND
        )
        self._handle: Any = self._terminal._t[0]
        self._set("SCROLLBACK_MAX_BYTES", "size_t*", _BYTES)
        self._set("KITTY_IMAGE_STORAGE_LIMIT", "uint64_t*", 0)
        self._set("CONTINUATION_MAX_BYTES", "size_t*", _UNFINISHED)
        self._set_clustering()
        self._replies: list[bytes] = []
        self._terminal.on_reply(self._replies.append)
        self._listener = QueryResponder(windowed=True)
        self._rows = StyledRows(rows)
        self._size = columns, rows
        self._is_stale = True
        self._writer = GhosttyTextWriter()
        self._grid = GhosttyGrid()
        self._marks: list[_GhosttyMark] = []
        self._held = b""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return self._size

    @property
    def cursor(self) -> GridCursor:
        """Where it is."""
        get = self._terminal.get
        is_visible = bool(get("cursor_visible", "bool"))
        return GridCursor(get("cursor_x"), get("cursor_y"), is_visible, self._listener.shape)

    @property
    def modes(self) -> TerminalModes:
        """What the program has asked for."""
        mode = self._terminal.mode
        return TerminalModes(
            alternate_screen=self._is_alternate,
            bracketed_paste=mode(2004),
            application_cursor=mode(1),
            mouse=mouse_of([number for number in _MOUSE if mode(number)]),
            mouse_sgr=mode(1006),
            focus=mode(1004),
            synchronized=mode(2026),
            kitty_keyboard=int(self._terminal.get("kitty_keyboard_flags", "uint8_t")),
        )

    @property
    def title(self) -> str:
        """The window's title."""
        found = self._terminal.get("title", "GhosttyString")
        data = cast("bytes", ffi.buffer(found.ptr, found.len)[:]) if found.len else b""
        return data.decode("utf-8", "replace")

    @property
    def scrolled(self) -> int:
        """Rows that are kept above the screen."""
        return int(self._terminal.get("scrollback_rows", "size_t"))

    @property
    def _is_alternate(self) -> bool:
        return self._terminal.get("active_screen", "int") == 1

    def feed(self, data: bytes) -> bytes:
        """Take what the program has written; returns what has to be written back to it."""
        self._is_stale = self._is_stale or bool(data)
        # It would show what the manuals say to ignore.
        data, self._held = _characters(self._held + data.replace(b"\x7f", b""))
        for piece, query in self._listener.split(data):
            if piece:
                self._terminal.feed(piece)
            if query is not None:
                self._replies.append(self._listener.answer(query, self.size, self.cursor))
                self._complete(query[0])
        if self._terminal.get("cols") != self._size[0]:  # programs may ask for 80 or 132 columns
            self._terminal.resize(*self._size, *_CELL)
        answer = b"".join(self._replies)
        self._replies.clear()
        return answer

    def resize(self, columns: int, rows: int) -> None:
        """Change the size."""
        columns, rows = min(max(columns, 1), 1000), min(max(rows, 1), 1000)
        if (columns, rows) == self._size:
            return
        self._terminal.resize(columns, rows, *_CELL)
        self._size = columns, rows
        self._rows.resize(rows)
        self._is_stale = True

    def rows(self) -> tuple[GridRow, ...]:
        """Every row, from the top."""
        self._refresh()
        return tuple(self._rows.rows)

    def above(self, first: int, count: int) -> tuple[GridRow, ...]:
        """Rows that are kept above the screen."""
        first = max(first, 0)
        count = min(count, self.scrolled - first)
        if count <= 0:
            return ()
        text = self._writer.rows(self._handle, "HISTORY", first, (self._size[0], count))
        lines = text.split("\r\n")
        lines += [""] * (count - len(lines))
        rows = zip(lines, self._grid.rows_from(self._handle, first, count), strict=False)
        return tuple(styled_rows([shown_row(line, row) for line, row in rows]))

    def wraps(self, first: int, count: int) -> tuple[int, ...]:
        """Of rows from the ``first``: where each is wrapped."""
        begin = min(max(first, 0), self.scrolled)
        end = max(first, 0) + max(count, 0)
        rows = islice(self._grid.rows_from(self._handle, begin, end - begin), end - begin)
        found = [written_of(row.cells()) if row.is_wrapped() else 0 for row in rows]
        return tuple(found[max(first, 0) - begin :])

    def changes(self, since: int = 0) -> GridChange:
        """What is new since a revision."""
        self._refresh()
        is_whole, rows = self._rows.since(since)
        revision = self._rows.revision
        return GridChange(revision=revision, is_whole=is_whole, rows=rows, cursor=self.cursor)

    def mark(self) -> RowMark:
        """Remember the row at the top of the screen."""
        mark = _GhosttyMark(track(self._handle))
        self._marks = [one for one in self._marks if one.reference is not None]
        self._marks.append(mark)
        return mark

    def text(self, since: RowMark | None = None) -> list[str]:
        """Lines as they were written, wrapped ones whole."""
        columns, rows = self._size
        start = self._marked(since) if isinstance(since, _GhosttyMark) else None
        start = start or cell_reference(self._handle, "SCREEN", 0, 0)
        end = cell_reference(self._handle, "ACTIVE", columns - 1, rows - 1)
        lines = self._writer.plain(self._handle, start, end).split("\n")
        lines = [line.rstrip(" ") for line in lines]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def snapshot(self, history: int = 2000) -> bytes:
        """Bytes that draw the same on an empty terminal of the same size."""
        parts = [write_snapshot(self._handle, self._size, history), self._listener.shaped]
        if title := self.title:
            parts.append(f"\x1b]2;{title}\x07")
        drawn = "".join(parts).encode("utf-8", "replace")
        return drawn + unfinished_sequence(self._handle) + self._held

    def close(self) -> None:
        """Free it."""
        if self._terminal is not None:
            for mark in self._marks:
                mark.release()
            self._terminal.close()
            self._terminal = self._handle = None

    def _complete(self, order: bytes) -> None:
        """Do what the library does not."""
        if order == SOFT_RESET:
            at = self.cursor
            self._terminal.feed(_SOFTLY + b"\x1b[%d;%dH" % (at.row + 1, at.column + 1))
        elif order == CLEAR_TAB:
            self._terminal.feed(b"\x1b[0g")

    def _refresh(self) -> None:
        if not self._is_stale:
            return
        self._is_stale = False
        lines = self._writer.rows(self._handle, "ACTIVE", 0, self._size).split("\r\n")
        lines += [""] * (self._size[1] - len(lines))
        if any(map(may_hide, lines)):
            for index, row in enumerate(self._grid.rows(self._handle)):
                lines[index] = shown_row(lines[index], row)
        self._rows.update(lines)

    def _marked(self, mark: _GhosttyMark) -> Any | None:
        """The marked cell; None when it is gone, or on the other screen."""
        if mark.reference is None or not lib.ghostty_tracked_grid_ref_has_value(mark.reference):
            return None
        start, at = init_sized("GhosttyGridRef"), ffi.new("GhosttyPointCoordinate*")
        tag = lib.GHOSTTY_POINT_TAG_SCREEN
        if lib.ghostty_tracked_grid_ref_snapshot(mark.reference, start):
            return None
        if lib.ghostty_terminal_point_from_grid_ref(self._handle, start, tag, at):
            return None
        return start

    def _set_clustering(self) -> None:
        """Count what is one character to people as one, as programs of today do."""
        mode = ffi.new("GhosttyTerminalModeConfig*")
        mode.mode, mode.value = 2027, True
        for option in ("MODE_DEFAULT", "MODE"):
            name = getattr(lib, f"GHOSTTY_TERMINAL_OPT_{option}")
            lib.ghostty_terminal_set(self._handle, name, mode)

    def _set(self, option: str, kind: str, value: int) -> None:
        name = getattr(lib, f"GHOSTTY_TERMINAL_OPT_{option}")
        lib.ghostty_terminal_set(self._handle, name, ffi.new(kind, value))


@cache
def warm_up() -> None:
    """Use everything once, which takes a sixth of a second: C declarations are read when needed.

    Who opens a screen in a thread has it there, and not with the first screen that is drawn.
    """
    screen = GhosttyEmulator(2, 1, 10)
    screen.feed(b"\x1b[41m\x1b[K\r\n\x1b[?1049hx\x1b[6n\x1b]0")
    screen.changes()
    screen.text(screen.mark())
    screen.snapshot()
    screen.feed(b"\x18\x1b[?1049l")
    screen.above(0, 1)
    screen.resize(3, 2)
    screen.close()


def _characters(data: bytes) -> tuple[bytes, bytes]:
    """Bytes up to the last whole character, and the beginning of the next."""
    for back in range(1, min(len(data), 3) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:  # not one that goes on
            length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return (data[:-back], data[-back:]) if length > back else (data, b"")
    return data, b""


if TYPE_CHECKING:
    from .api import Emulator

    _screen: Emulator = cast("GhosttyEmulator", None)
