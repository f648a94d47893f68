"""The emulator's interface, and ``open_emulator``, which chooses an implementation."""

from collections.abc import Collection, Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

__all__ = [
    "BLANK",
    "PLAIN",
    "Color",
    "CursorShape",
    "Emulator",
    "EmulatorBackend",
    "GridChange",
    "GridCursor",
    "GridRow",
    "GridSpan",
    "Mouse",
    "RowMark",
    "Style",
    "TerminalModes",
    "mouse_of",
]

Color: TypeAlias = int | tuple[int, int, int] | None
"""A place in the palette of 256, red green blue, or the terminal's own."""
CursorShape: TypeAlias = Literal["block", "underline", "bar"]
Mouse: TypeAlias = Literal["", "press", "drag", "any"]
"""Mouse events that a program wants: none, buttons, moves while one is held too, all."""


class Style(Struct, frozen=True, gc=False):
    """How characters look."""

    foreground: Color = None
    background: Color = None
    bold: bool = False
    faint: bool = False
    italic: bool = False
    underline: bool = False
    blink: bool = False
    inverse: bool = False
    invisible: bool = False
    strikethrough: bool = False


PLAIN = Style()


class GridSpan(Struct, frozen=True, gc=False):
    """Characters next to each other that look the same."""

    text: str
    style: Style


class GridRow(Struct, frozen=True, gc=False):
    """One row of the screen, without what is blank at its end."""

    spans: tuple[GridSpan, ...]
    text: str
    """All characters; a wide one stands once and takes two columns."""


BLANK = GridRow((), "")


class GridCursor(Struct, frozen=True):
    """Where the next character goes, from 0."""

    column: int
    row: int
    is_visible: bool = True
    shape: CursorShape = "block"


class TerminalModes(Struct, frozen=True, kw_only=True):
    """What the program has asked its terminal for."""

    alternate_screen: bool = False
    bracketed_paste: bool = False
    application_cursor: bool = False
    mouse: Mouse = ""
    mouse_sgr: bool = False
    """It wants them as ``CSI < button ; column ; row M``, which works beyond column 223."""
    focus: bool = False
    synchronized: bool = False
    """It is in the middle of drawing; what is seen now may be half of it."""
    kitty_keyboard: int = 0
    """Flags of the keyboard protocol; 0: keys as they always were."""


def mouse_of(modes: Collection[int]) -> Mouse:
    """The mouse events that a program wants, by the private modes that are on."""
    if 1003 in modes:
        return "any"
    if 1002 in modes:
        return "drag"
    return "press" if 1000 in modes or 9 in modes else ""


class GridChange(Struct, frozen=True, kw_only=True):
    """What is new on a screen since a revision."""

    revision: int
    """What to ask with the next time."""
    is_whole: bool
    """The size is another: forget what was drawn."""
    rows: Mapping[int, GridRow]
    cursor: GridCursor


class RowMark(Protocol):
    """A row that is remembered while the text moves up."""

    def release(self) -> None:
        """Forget it; may be called again."""
        ...


class Emulator(Protocol):
    """A terminal without a window. Not for use from two threads at once; ``close`` it.

    Bytes may be cut anywhere, also within a character or an escape sequence. Nothing that a
    program writes raises.
    """

    @property
    def backend(self) -> str:
        """Who keeps it."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        ...

    @property
    def cursor(self) -> GridCursor:
        """Where it is."""
        ...

    @property
    def modes(self) -> TerminalModes:
        """What the program has asked for."""
        ...

    @property
    def title(self) -> str:
        """The window's title, as the program set it; empty where that is not kept."""
        ...

    @property
    def scrolled(self) -> int:
        """Rows that are kept above the screen."""
        ...

    def feed(self, data: bytes) -> bytes:
        """Take what the program has written; returns what has to be written back to it."""
        ...

    def resize(self, columns: int, rows: int) -> None:
        """Change the size, to between 1 and 1000 each way; long lines are wrapped anew."""
        ...

    def rows(self) -> tuple[GridRow, ...]:
        """Every row, from the top."""
        ...

    def above(self, first: int, count: int) -> tuple[GridRow, ...]:
        """Rows that are kept above the screen, from the ``first``; 0 is the oldest.

        As many as there are, where ``count`` is more.
        """
        ...

    def wraps(self, first: int, count: int) -> tuple[int, ...]:
        """Of rows from the ``first``, 0 being the oldest that is kept: where each is wrapped.

        The columns that are written of a row which goes on in the next, blanks counted: both are
        one line as it was written. 0: a line ends here.
        """
        ...

    def changes(self, since: int = 0) -> GridChange:
        """What is new since a revision; 0: everything. Each viewer keeps its own."""
        ...

    def mark(self) -> RowMark:
        """Remember the row at the top of the screen as it is now."""
        ...

    def text(self, since: RowMark | None = None) -> list[str]:
        """Lines as they were written, wrapped ones whole, from a mark to the end of the screen.

        Without a mark, or when the marked row is gone: all that is kept.
        """
        ...

    def snapshot(self, history: int = 2000) -> bytes:
        """Bytes that draw the same on an empty terminal of the same size.

        What the program writes afterwards has the same effect there as here, also in the middle of
        a character or a sequence: both screens, up to ``history`` rows above them but no more than
        512 KiB of these, the cursor, also one that was saved, the modes, the title, and the
        beginning of what is not complete are in it.
        """
        ...

    def close(self) -> None:
        """Free it; may be called again."""
        ...


EmulatorBackend: TypeAlias = Literal["ghostty", "avt"]
