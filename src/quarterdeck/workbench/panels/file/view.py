"""The lines of a window of a file, with their numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from rich.cells import cell_len, chop_cells
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message

from ...rendering.lines import Line, Span, clip
from ...sanitize import sanitize_text
from ...widgets.lines_view import LineCanvas
from .model import FileWindow

__all__ = ["FileView", "format_line", "slice_line"]

_SHIFT = 8
_LONGEST = 200_000
"""Characters of one line that are shown."""


class FileView(LineCanvas):
    """Shows a window; says when someone comes near its ends."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", "up", show=False),
        Binding("j", "scroll_down", "down", show=False),
        Binding("home", "end_of_file('first')", "beginning of the file"),
        Binding("end", "end_of_file('last')", "end of the file"),
        Binding("left", "shift(-1)", "left", show=False),
        Binding("right", "shift(1)", "right", show=False),
    ]

    @dataclass
    class Wanted(Message):
        """Someone is at an end of the window, or wants to see an end of the file."""

        what: Literal["around", "first", "last"]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.window: FileWindow | None = None
        self.wraps = False
        self.marked: int | None = None
        """The place in the window of a line to look at."""
        self._shown: dict[int, str] = {}
        """Lines as they are shown, made when they are drawn: most never are."""
        self._colours: Sequence[Line] | None = None
        self._rows: list[tuple[int, int, int]] | None = None
        """Line, first and last character of each row; None: a row for each line."""
        self._left = 0
        self._due: int | None = None
        """The line to be at the top as soon as there is any room."""

    def show(self, window: FileWindow | None, *, top: int = 0, marked: int | None = None) -> None:
        """Show a window with a line of it at the top."""
        self.window, self.marked, self._colours = window, marked, None
        self._shown = {}
        self._fit()
        self.go(top)

    def colour(self, window: FileWindow, lines: Sequence[Line]) -> None:
        """Take the colours of a window, if it is still the one that is shown."""
        if window is self.window and len(lines) == len(window.lines):
            self._colours = lines
            self.refresh()

    @property
    def top(self) -> int:
        """The line at the top, by its place in the window."""
        y = self.scroll_offset.y
        if self._rows is None:
            return y
        return self._rows[min(y, len(self._rows) - 1)][0] if self._rows else 0

    def go(self, line: int) -> None:
        """Put a line at the top."""
        self._due = line if self.size.height == 0 else None
        self.scroll_to(y=self._row_of(line), animate=False, force=True)

    def reveal(self, line: int) -> None:
        """Mark a line and bring it into view with some lines before it."""
        self.marked = line
        row = self._row_of(line)
        height = max(1, self.size.height)
        if not self.scroll_offset.y <= row < self.scroll_offset.y + height - 1:
            self.scroll_to(y=max(0, row - height // 3), animate=False, force=True)
        self.refresh()

    def set_wraps(self, wraps: bool) -> None:
        """Break long lines, or let them go on to the right."""
        top = self.top
        self.wraps, self._left = wraps, 0
        self._fit()
        self.go(top)

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``LineCanvas``."""
        width = self.scrollable_content_region.width
        if self._rows is None:
            at, begin, end = y, self._left, self._left + width + 1
        elif y < len(self._rows):
            at, begin, end = self._rows[y]
        else:
            return (), False
        if at >= self._count:
            return (), False
        line = self._colours[at] if self._colours is not None else ((self._text(at), "text"),)
        is_first = self._rows is None or begin == 0
        text = slice_line(line, begin, end)
        return clip((self._number(at, is_first), *text), width), at == self.marked

    def on_resize(self) -> None:
        """Break lines anew."""
        due, top = self._due, self.top
        self._fit()
        if due is not None or self.wraps:
            self.go(top if due is None else due)

    def action_shift(self, step: int) -> None:
        """Look further to the right or left, where lines are not broken."""
        if not self.wraps:
            self._left = max(0, min(_LONGEST, self._left + step * _SHIFT))
            self.refresh()

    def action_end_of_file(self, which: Literal["first", "last"]) -> None:
        """Go to an end of the file."""
        self.post_message(self.Wanted(which))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Notice the ends of the window."""
        super().watch_scroll_y(old_value, new_value)
        window = self.window
        if window is None or old_value == new_value:
            return
        at_end = new_value > old_value and new_value >= self.max_scroll_y and not window.is_end
        at_start = new_value < old_value and new_value <= 0 and not window.is_start
        if at_end or at_start:
            self.post_message(self.Wanted("around"))

    @property
    def _count(self) -> int:
        return len(self.window.lines) if self.window is not None else 0

    def _text(self, at: int) -> str:
        assert self.window is not None
        found = self._shown.get(at)
        if found is None:
            found = self._shown[at] = format_line(self.window.lines[at])
        return found

    def _gutter(self) -> int:
        if self.window is None:
            return 2
        last = self.window.number(self._count)
        return max(len(str(self.window.first)), len(str(last))) + 1

    def _number(self, at: int, is_first: bool) -> Span:
        assert self.window is not None
        width = self._gutter()
        return (f"{self.window.number(at) if is_first else '':>{width - 1}} ", "faint")

    def _fit(self) -> None:
        width = self.scrollable_content_region.width
        if width <= 0:
            return
        self._rows = None
        if self.wraps:
            room = max(1, width - self._gutter())
            self._rows = [
                (at, begin, end)
                for at in range(self._count)
                for begin, end in _parts(self._text(at), room)
            ]
        count = self._count if self._rows is None else len(self._rows)
        self.virtual_size = Size(width, count)
        self.refresh()

    def _row_of(self, line: int) -> int:
        if self._rows is None:
            return line
        low, high = 0, len(self._rows)
        while low < high:
            middle = (low + high) // 2
            if self._rows[middle][0] < line:
                low = middle + 1
            else:
                high = middle
        return low

    def __rich_repr__(self) -> Any:
        yield "id", self.id


def format_line(text: str) -> str:
    """A line as it may be shown; a very long one is cut, and says so."""
    if len(text) > _LONGEST:
        left = len(text) - _LONGEST
        return sanitize_text(text[:_LONGEST]).replace("\n", "\\n") + f"… {left:,} more characters"
    return sanitize_text(text)


def _parts(text: str, width: int) -> list[tuple[int, int]]:
    if len(text) <= width and (text.isascii() or cell_len(text) <= width):
        return [(0, len(text))]
    if text.isascii():
        return [(at, at + width) for at in range(0, len(text), width)]
    parts: list[tuple[int, int]] = []
    at = 0
    for piece in chop_cells(text, max(2, width)):
        parts.append((at, at + len(piece)))
        at += len(piece)
    return parts or [(0, 0)]


def slice_line(line: Line, begin: int, end: int) -> Line:
    """The characters of a line from one to another."""
    found: list[Span] = []
    at = 0
    for text, role in line:
        if at >= end:
            break
        part = text[max(0, begin - at) : end - at]
        if part and at + len(text) > begin:
            found.append((part, role))
        at += len(text)
    return tuple(found)
