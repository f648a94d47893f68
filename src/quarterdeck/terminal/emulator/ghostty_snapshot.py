"""A terminal of libghostty-vt as bytes that draw it on another one.

The library's own way to do that sets modes before it draws, so that some of them spoil what is
drawn, and knows nothing of what is saved, stacked or behind. Here each thing is asked for by
itself, from copies that may be spoilt.
"""

# The library's Python layer has no types, and its structures come from C.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportUntypedFunctionDecorator=false

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from .ghostty_grid import (
    GhosttyGrid,
    GhosttyTextWriter,
    cell_at,
    ffi,
    has_end,
    is_on,
    is_second_half,
    lib,
    read,
    shown_row,
    write,
)
from .sgr_rows import ESCAPES

__all__ = ["unfinished_sequence", "write_snapshot"]

_MOST_BYTES = 512 * 1024
"""Of what is above the screen."""
_LIKELY_ENOUGH = 128 * 1024
"""Bytes of a copy that mostly hold all but what is above the screen."""
_STACK = 8
_SCREENS = (1049, 1047, 47)
_NOTHING_SAVED = re.compile(r"\x1b\[1;1H(?:\x1b\[0m)*")
_MODE = re.compile(r"\x1b\[\??(\d+)[hl]")
_ELSEWHERE = frozenset(("3", "6", "47", "1047", "1048", "1049"))
"""Modes that do something at once, or are set where they belong."""
_STYLED = re.compile(r"\A((?:\x1b\[[0-9;:]*m)+)(.)", re.DOTALL)
_WITHOUT_COLOR = "\\1\\2\x1b[0m\x1b[K\\1"
"""A row that is begun by the end of the one before it is filled with the colour of that moment."""
_REGION = re.compile(r"\x1b\[(\d+);\d+r")
_MARGIN = re.compile(r"\x1b\[(\d+);\d+s")
_AS_AT_FIRST = "\x1b[0m\x1b(B\x1b)B\x0f"

_LINES = dict(zip("◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·", map(chr, range(0x60, 0x7F)), strict=True))
"""Characters of the set for lines and what they are written as."""


def write_snapshot(terminal: Any, size: tuple[int, int], history: int) -> str:
    """Both screens, up to ``history`` rows above them, the cursor and the modes."""
    entered = next((mode for mode in _SCREENS if is_on(terminal, mode)), 1049)
    drawing = _Drawing(terminal, size)
    if read(terminal, "ACTIVE_SCREEN", "int") == 0:
        return drawing.screen(history) + drawing.saved() + drawing.state() + drawing.keyboard()
    parts: list[str] = []
    with _copied(terminal, whole=True) as copy:
        if copy is not None:
            write(copy, b"\x1b[?%dl" % entered)
            behind = _Drawing(copy, size)
            # What 1049 saves is what it finds.
            saved = "" if entered == 1049 else behind.saved()
            parts += [behind.screen(history), saved, behind.of_screen(), behind.keyboard()]
    parts.append(f"\x1b[?{entered}h{_AS_AT_FIRST}\x1b[2J\x1b[H")
    parts += [drawing.screen(0), drawing.saved(), drawing.state(), drawing.keyboard()]
    return "".join(parts)


def unfinished_sequence(terminal: Any) -> bytes:
    """The beginning of a sequence of which the rest has not come yet."""
    if read(terminal, "VT_GROUND", "bool"):
        return b""
    needed = ffi.new("size_t*")
    lib.ghostty_terminal_continuation_buf(terminal, ffi.NULL, 0, needed)
    data = ffi.new("uint8_t[]", max(int(needed[0]), 1))
    if lib.ghostty_terminal_continuation_buf(terminal, data, len(data), needed):
        return b"\x1b]0"  # too long to be kept: an unknown string, until its end
    return ffi.buffer(data, needed[0])[:]


class _Drawing:
    """One terminal, whichever screen it shows, written down piece by piece."""

    def __init__(self, terminal: Any, size: tuple[int, int]) -> None:
        self._terminal = terminal
        self._size = size
        self._writer = GhosttyTextWriter()

    def screen(self, history: int) -> str:
        """Its characters, drawn on an empty screen; leaves the cursor anywhere."""
        columns, rows = self._size
        scrolled = int(read(self._terminal, "SCROLLBACK_ROWS", "size_t"))
        above = min(scrolled, max(history, 0))
        region = (scrolled - above, (columns, above + rows))
        lines = self._writer.rows(self._terminal, "SCREEN", *region).split("\r\n")
        lines += [""] * (above + rows - len(lines))
        first = _first_that_fits(lines, rows)
        drawn: list[str] = []
        goes_on = False
        for index, row in enumerate(GhosttyGrid().rows(self._terminal, above=above)):
            if index >= first:
                line = shown_row(lines[index], row)
                drawn.append(_STYLED.sub(_WITHOUT_COLOR, line) if goes_on else line)
                follows = lines[index + 1] if index + 1 < len(lines) else ""
                goes_on = bool(follows) and row.is_wrapped() and has_end(row.cells())
                drawn.append("" if goes_on else "\r\n")
        return "".join(drawn[:-1]) + self._repeated()

    def saved(self) -> str:
        """The cursor that the program has put away."""
        with _copied(self._terminal) as copy:
            if copy is None:
                return ""
            write(copy, b"\x1b8")
            column, row, waits = self._waiting(copy)
            write(copy, b"\x1b[2J")
            was = f"\x1b[{row + 1};{column + 1}H{waits}{self._of_screen(copy)}"
            origin = is_on(copy, 6)
        if not origin and _NOTHING_SAVED.fullmatch(was):
            return ""
        set_origin = "\x1b[?6h" if origin else ""
        return f"{set_origin}{was}\x1b7\x1b[?6l{_AS_AT_FIRST}"

    def state(self) -> str:
        """Modes, tabs, margins, and all that ``of_screen`` says."""
        with _copied(self._terminal) as copy:
            if copy is None:
                return ""
            write(copy, b"\x1b[2J")
            modes = _MODE.sub(_kept, self._writer.extra(copy, "modes"))
            others = [self._writer.extra(copy, name) for name in ("tabstops", "keyboard")]
            region = self._writer.extra(copy, "scrolling_region")
        origin = (0, 0)
        if is_on(self._terminal, 6):
            top, left = _REGION.search(region), _MARGIN.search(region)
            origin = (int(left[1]) - 1 if left else 0, int(top[1]) - 1 if top else 0)
            region += "\x1b[?6h"
        return "".join([modes, *others, region, self.of_screen(origin)])

    def of_screen(self, origin: tuple[int, int] = (0, 0)) -> str:
        """The cursor, with the end of a line that it waits at, and what it writes with."""
        column, row, waits = self._waiting(self._terminal)
        with _copied(self._terminal) as copy:
            if copy is None:
                return ""
            write(copy, b"\x1b[2J")
            pen = self._of_screen(copy)
        return f"\x1b[{row - origin[1] + 1};{column - origin[0] + 1}H{waits}{pen}"

    def keyboard(self) -> str:
        """The flags of the keyboard protocol, those below them too."""
        with _copied(self._terminal) as copy:
            if copy is None:
                return ""
            flags = [int(read(copy, "KITTY_KEYBOARD_FLAGS", "uint8_t"))]
            for _ in range(_STACK - 1):
                write(copy, b"\x1b[<u")
                flags.append(int(read(copy, "KITTY_KEYBOARD_FLAGS", "uint8_t")))
        while flags and not flags[-1]:
            flags.pop()
        if not flags:
            return ""
        return f"\x1b[={flags.pop()}u" + "".join(f"\x1b[>{flag}u" for flag in reversed(flags))

    def _repeated(self) -> str:
        """The character before the cursor once more: a program may ask to have it repeated."""
        column, row = read(self._terminal, "CURSOR_X"), read(self._terminal, "CURSOR_Y")
        if column == 0:
            return ""
        column, text = self._character(column - 1, row)
        if (character := ESCAPES.sub("", text)) in _LINES and (charset := self._charset()):
            text = charset + text.replace(character, _LINES[character]) + _AS_AT_FIRST
        return f"\x1b[{row + 1};{column + 1}H{text}" if text else ""

    def _charset(self) -> str:
        """What has letters drawn as lines; empty if they are not."""
        with _copied(self._terminal) as copy:
            if copy is None:
                return ""
            write(copy, b"\x1b[2J")
            charset = self._writer.extra(copy, "charsets")
        return charset if ("\x1b)0" if "\x0e" in charset else "\x1b(0") in charset else ""

    def _character(self, column: int, row: int) -> tuple[int, str]:
        """What is in a column, and the column where it begins: a wide one has two."""
        if column and is_second_half(cell_at(self._terminal, column, row)):
            column -= 1
        return column, self._writer.cell(self._terminal, column, row)

    def _waiting(self, terminal: Any) -> tuple[int, int, str]:
        """Where the cursor has to go, and what has to be written there to wait at a line's end."""
        column, row = read(terminal, "CURSOR_X"), read(terminal, "CURSOR_Y")
        if not read(terminal, "CURSOR_PENDING_WRAP", "bool"):
            return column, row, ""
        column, text = self._character(column, row)
        return column, row, text or " "

    def _of_screen(self, copy: Any) -> str:
        pens = ("style", "hyperlink", "protection", "charsets")
        return "".join([self._writer.extra(copy, name) for name in pens])


def _first_that_fits(lines: list[str], rows: int) -> int:
    """The first line with which what is above the screen is not too much."""
    room = _MOST_BYTES
    for index in range(len(lines) - rows - 1, -1, -1):
        room -= len(lines[index]) + 2
        if room < 0:
            return index + 1
    return 0


def _kept(mode: "re.Match[str]") -> str:
    return "" if mode[1] in _ELSEWHERE else mode[0]


@contextmanager
def _copied(terminal: Any, *, whole: bool = False) -> Generator[Any | None]:
    """Another terminal in the same state, outside any sequence; None if there can be none.

    Without ``whole`` it may lack what is above the screen, and takes a tenth of the time.
    """
    copy = None if whole else _decoded(_encoded(terminal, _LIKELY_ENOUGH), whole=False)
    if copy is None:
        copy = _decoded(_encoded(terminal, None), whole=whole)
    try:
        if copy is not None:
            write(copy, b"\x18")
        yield copy
    finally:
        if copy is not None:
            lib.ghostty_terminal_free(copy)


def _encoded(terminal: Any, limit: int | None) -> bytes:
    found: list[bytes] = []
    total = 0

    @ffi.callback("bool(void*, const uint8_t*, size_t)")
    def take(_: Any, data: Any, size: int) -> bool:
        nonlocal total
        found.append(ffi.buffer(data, size)[:])
        total += size
        return limit is None or total < limit

    taker = ffi.new("GhosttyWriter*")
    taker.write = take
    lib.ghostty_snapshot_encode(terminal, taker[0])
    return b"".join(found)


def _decoded(data: bytes, *, whole: bool) -> Any | None:
    source = ffi.from_buffer("uint8_t[]", data)
    decoder = ffi.new("GhosttySnapshotDecoder*")
    if lib.ghostty_snapshot_decoder_new_buf(ffi.NULL, decoder, source, len(data)):
        return None
    copy = ffi.new("GhosttyTerminal*")
    decode = lib.ghostty_snapshot_decoder_decode if whole else lib.ghostty_snapshot_decoder_ready
    try:
        return None if decode(decoder[0], copy) else copy[0]
    finally:
        lib.ghostty_snapshot_decoder_free(decoder[0])
