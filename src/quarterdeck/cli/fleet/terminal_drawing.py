"""A screen drawn on the terminal that a person sits before, whatever the sizes of the two."""

from collections.abc import Iterable

from quarterdeck.drivers.screen import Color, Modes, Row, Screen, Style

from .text import columns, one_line

__all__ = ["ENTER", "LEAVE", "Drawing"]

ENTER = b"\x1b[?1049h\x1b[22;2t\x1b[?7l\x1b[2J"
"""Another screen, the window's title kept for later, nothing wrapped, all blank."""
LEAVE = b"\x1b[0m\x1b[0 q\x1b[?25h\x1b[?7h\x1b[23;2t\x1b[?1049l"
_MOUSE = {"press": 1000, "drag": 1002, "any": 1003}
_SHAPES = {"block": 2, "underline": 4, "bar": 6}
_FLAGS = {
    "bold": 1,
    "faint": 2,
    "italic": 3,
    "underline": 4,
    "blink": 5,
    "inverse": 7,
    "invisible": 8,
    "strikethrough": 9,
}


class Drawing:
    """What is on the person's terminal; each frame is what has to be written to make it right.

    Only what is seen gets there: no query of the program, which would be answered twice.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._title = ""
        self._screen: Screen | None = None
        self._revision = 0
        self._size = (0, 0)
        self._top = 0
        self._modes: frozenset[int] = frozenset()
        self._keyboard: int | None = None
        """The flags of the keyboard protocol; None: never asked for."""

    def frame(self, screen: Screen, size: tuple[int, int]) -> bytes:
        """Show as much of the screen as fits, and always its cursor."""
        wide, high = size
        change = screen.changes(self._revision if screen is self._screen else 0)
        cursor = change.cursor
        top = _top(self._top, cursor.row, screen.size[1], high)
        is_whole = change.is_whole or (screen, size, top) != (self._screen, self._size, self._top)
        self._screen, self._size, self._top = screen, size, top
        self._revision = change.revision
        rows = dict(enumerate(screen.rows())) if is_whole else change.rows
        parts = ["\x1b[?2026h\x1b[?25l", "\x1b[0m\x1b[2J" if is_whole else ""]
        parts += (
            f"\x1b[{number - top + 1};1H\x1b[0m\x1b[2K{_drawn(row, wide)}"
            for number, row in rows.items()
            if top <= number < top + high
        )
        parts.append(f"\x1b[0m\x1b[{cursor.row - top + 1};{min(cursor.column + 1, wide)}H")
        parts.append(f"\x1b[{_SHAPES[cursor.shape]} q")
        parts.append("\x1b[?25h" if cursor.is_visible else "")
        parts += self._follow(screen.modes, is_shifted=top > 0)
        parts += self._entitle(screen.title)
        return "".join((*parts, "\x1b[?2026l")).encode("utf-8", "replace")

    def leave(self) -> bytes:
        """What sets the person's terminal back to how it was."""
        parts = [f"\x1b[?{number}l" for number in sorted(self._modes)]
        if self._keyboard is not None:
            parts.append("\x1b[<u")
        return "".join(parts).encode() + LEAVE

    def _follow(self, modes: Modes, *, is_shifted: bool) -> Iterable[str]:
        """Have keys, pastes and the mouse come as the program wants them."""
        wanted = {
            1: modes.application_cursor,
            1004: modes.focus,
            2004: modes.bracketed_paste,
        }
        if modes.mouse and not is_shifted:  # where it is shifted the places would be wrong
            wanted |= {_MOUSE[modes.mouse]: True, 1006: modes.mouse_sgr}
        now = frozenset(number for number, is_on in wanted.items() if is_on)
        before, self._modes = self._modes, now
        yield from (f"\x1b[?{number}l" for number in sorted(before - now))
        yield from (f"\x1b[?{number}h" for number in sorted(now - before))
        flags = modes.kitty_keyboard
        if flags != (self._keyboard or 0):
            yield f"\x1b[>{flags}u" if self._keyboard is None else f"\x1b[={flags}u"
            self._keyboard = flags

    def _entitle(self, title: str) -> Iterable[str]:
        shown = f"{one_line(title) or self._name} · ctrl+\\ leaves"
        if shown != self._title:
            self._title = shown
            yield f"\x1b]2;{shown}\x07"


def _top(before: int, cursor: int, rows: int, high: int) -> int:
    """The first row that is shown: the same as before where the cursor is seen then."""
    top = min(max(before, cursor - high + 1), cursor)
    return min(top, max(0, rows - high))


def _drawn(row: Row, wide: int) -> str:
    parts: list[str] = []
    for span in row.spans:
        text = _within(span.text, wide)
        wide -= columns(text)
        parts.append(f"\x1b[0{_look(span.style)}m{text}")
        if len(text) < len(span.text):
            break
    return "".join(parts)


def _within(text: str, wide: int) -> str:
    if columns(text) <= wide:
        return text
    for place, character in enumerate(text):
        wide -= columns(character)
        if wide < 0:
            return text[:place]
    return text


def _look(style: Style) -> str:
    flags = "".join(f";{number}" for name, number in _FLAGS.items() if getattr(style, name))
    return f"{flags}{_colour(38, style.foreground)}{_colour(48, style.background)}"


def _colour(which: int, colour: Color) -> str:
    match colour:
        case None:
            return ""
        case int():
            return f";{which};5;{colour}"
        case red, green, blue:
            return f";{which};2;{red};{green};{blue}"
