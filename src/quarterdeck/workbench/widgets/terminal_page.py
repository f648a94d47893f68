"""A page of a terminal: the rows that are seen of it, drawn anew only where they changed."""

import asyncio
import time
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip

from quarterdeck.terminal.emulator.api import TerminalModes

from ..terminal.display import TerminalDisplay
from ..terminal.rendering import RowRenderer, StripCache, overlay_style, render_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.widget import Widget

    from quarterdeck.terminal.emulator.api import GridRow
    from quarterdeck.terminal.viewer_events import ViewerEvent

    from ..terminal.selection import CellSelection

__all__ = ["TerminalPage"]

_PACE = 1 / 30
"""Seconds between two frames at the least."""
_FEEDING = 0.008
"""Seconds of a frame for reading what the program wrote."""
_HALF_DRAWN = 0.15
"""Seconds for which a program may keep the screen as it was while it draws."""
_CHUNK = 500
"""Rows that are searched at once."""
_NO_MODES = TerminalModes()


class TerminalPage:
    """The rows of a terminal that a widget shows: it is fed events, scrolled and searched.

    Args:
        widget: is refreshed where rows changed; has the component classes ``COMPONENT_CLASSES``.
        has_cursor: whether the next character of the program would appear somewhere.
        takes_every_key: whether the person types into it.
        changed: called when the title or the scroll position may be another.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"terminal--idle-cursor", "terminal--match"}

    def __init__(
        self,
        widget: "Widget",
        *,
        has_cursor: "Callable[[], bool]",
        takes_every_key: "Callable[[], bool]",
        changed: "Callable[[], None]",
    ) -> None:
        self._widget = widget
        self._has_cursor = has_cursor
        self._takes_every_key = takes_every_key
        self._changed = changed
        self.shown = TerminalDisplay()
        self._drawer = RowRenderer(lambda: widget.rich_style)
        self._strips = StripCache(self._drawer)
        self.back = 0
        """Rows between the end and what is seen; 0: it follows."""
        self.left = 0
        """Columns that are left of what is seen."""
        self.found = ""
        """What is searched for; marked where it stands."""
        self.selected: CellSelection | None = None
        self._first = 0
        """The place of the first row that is seen."""
        self._total = 0
        """Rows that there are to be seen."""
        self._rows: list[GridRow] = []
        self._seen = (0, 0)
        """How often the whole screen had come, and the revision that was drawn."""
        self._above = 0
        self._cursor_row = -1
        self._frame: asyncio.TimerHandle | None = None
        self._last_frame = 0.0
        self._held_since: float | None = None
        self._room = asyncio.Event()

    @property
    def first_row(self) -> int:
        """The place of the first row that is seen."""
        return self._first

    @property
    def text(self) -> str:
        """What is seen, without line ends."""
        return "".join(row.text for row in self._rows)

    @property
    def modes(self) -> TerminalModes:
        """What the program has asked for."""
        return self.shown.screen.modes if self.shown.screen is not None else _NO_MODES

    # Frames

    async def take(self, seen: "ViewerEvent") -> None:
        """Show what was seen next; waits while more comes than can be drawn."""
        self.shown.give(seen)
        self._plan_frame()
        while not self.shown.has_room:
            self._room.clear()
            await self._room.wait()

    def _plan_frame(self, pause: float = _PACE) -> None:
        if self._frame is None:
            wait = max(0.0, self._last_frame + pause - time.monotonic())
            self._frame = asyncio.get_running_loop().call_later(wait, self._run_frame)

    def _run_frame(self) -> None:
        self._frame = None
        self._last_frame = time.monotonic()
        self.shown.feed(_FEEDING)
        if self.shown.has_room:
            self._room.set()
        if self.shown.is_due:
            self._plan_frame()
        if not self._is_half_drawn():
            self._draw()

    def _is_half_drawn(self) -> bool:
        if not self.modes.synchronized:
            self._held_since = None
            return False
        if self._held_since is None:
            self._held_since = self._last_frame
        left = self._held_since + _HALF_DRAWN - self._last_frame
        if left <= 0:
            return False
        self._plan_frame(left)
        return True

    def _draw(self) -> None:
        screen = self.shown.screen
        if screen is None:
            return
        drawn, revision = self._seen
        is_new = drawn != self.shown.drawn
        change = screen.changes(0 if is_new else revision)
        self._seen = self.shown.drawn, change.revision
        above = self.shown.above
        if is_new or above < self._above:
            self.clear_selected()
        elif self.back:
            self.back += above - self._above
        self._above = above
        first = self._first
        self._settle()
        cursor = above + change.cursor.row
        rows = {above + row for row in change.rows} | {cursor, self._cursor_row}
        self._cursor_row = cursor
        self._follow_cursor(change.cursor.column)
        self._changed()
        if (
            is_new
            or change.is_whole
            or self._first - first != 0
            or len(rows) * 2 > self._widget.size.height
        ):
            self._widget.refresh()
            return
        width = self._widget.size.width
        lines = [
            row - self._first for row in rows if 0 <= row - self._first < self._widget.size.height
        ]
        if lines:
            self._widget.refresh(*[Region(0, line, width, 1) for line in lines])

    def _settle(self) -> None:
        """Know which rows are seen."""
        height = self._widget.size.height
        total = self.shown.above + self.shown.height - self._blank_rows(height)
        self.back = max(0, min(self.back, total - height))
        self._first = max(0, total - height - self.back)
        self._total = total
        self.left = min(self.left, max(0, self._columns - self._widget.size.width))
        self._rows = self.shown.rows(self._first, height)

    @property
    def _columns(self) -> int:
        return self.shown.screen.size[0] if self.shown.screen is not None else 0

    def _blank_rows(self, height: int) -> int:
        """Rows at the end that need not be seen, where there is no room for all of the screen."""
        screen = self.shown.screen
        if screen is None or (missing := screen.size[1] - height) <= 0:
            return 0
        below = screen.rows()[screen.cursor.row + 1 :]
        used = max((n for n, row in enumerate(below, 1) if row.spans), default=0)
        return max(0, min(missing, len(below) - used))

    def redraw(self) -> None:
        """Draw all of it anew."""
        self._settle()
        self._changed()
        self._widget.refresh()

    def _follow_cursor(self, column: int) -> None:
        room = self._widget.size.width
        if self._takes_every_key() and not self.left <= column < self.left + room:
            self.left = max(0, min(column - room // 2, self._columns - room))
            self._widget.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw a line of the screen."""
        width = self._widget.size.width
        if y >= len(self._rows):
            return Strip.blank(width, self._drawer.base)
        row, place = self._rows[y], self._first + y
        strip = self._strips.fitted(row, self.left, width)
        if self.found:
            strip = self._with_matches(strip, row.text)
        strip = self._with_selected(strip, place)
        return self._with_cursor(strip, place)

    def _with_cursor(self, strip: Strip, place: int) -> Strip:
        screen = self.shown.screen
        if screen is None or place != self._cursor_row or not self._has_cursor():
            return strip
        cursor = screen.cursor
        column = cursor.column - self.left
        if not cursor.is_visible or not 0 <= column < strip.cell_length:
            return strip
        is_wide = len(strip.crop(column, column + 2).text) == 1
        if not self._takes_every_key():
            style, turns = (
                self._widget.get_component_rich_style("terminal--idle-cursor", partial=True),
                False,
            )
        elif cursor.shape == "block":
            style, turns = Style(reverse=True), True
        else:
            style, turns = Style(underline=True, bold=True), False
        return overlay_style(strip, column, column + 1 + is_wide, style, turns=turns)

    def _with_matches(self, strip: Strip, text: str) -> Strip:
        shown, query = render_text(text).casefold(), self.found.casefold()
        style = self._widget.get_component_rich_style("terminal--match", partial=True)
        at = shown.find(query)
        while at >= 0:
            begin = cell_len(shown[:at]) - self.left
            strip = overlay_style(strip, begin, begin + cell_len(query), style)
            at = shown.find(query, at + len(query))
        return strip

    def _with_selected(self, strip: Strip, place: int) -> Strip:
        span = self.selected.span(place) if self.selected is not None else None
        if span is None:
            return strip
        style = self._widget.screen.get_component_rich_style("screen--selection", partial=True)
        end = strip.cell_length if span[1] is None else span[1] - self.left
        return overlay_style(strip, span[0] - self.left, end, style)

    def select(self, selected: "CellSelection") -> None:
        """Select some cells."""
        if selected != self.selected:
            self.selected = selected
            self._widget.refresh()

    def clear_selected(self) -> None:
        """Select nothing."""
        if self.selected is not None:
            self.selected = None
            self._widget.refresh()

    def stop_frames(self) -> None:
        """Draw nothing that waits."""
        if self._frame is not None:
            self._frame.cancel()
            self._frame = None

    def forget_styles(self) -> None:
        """Draw in other colours from now on."""
        self._strips.forget()

    # Looking around

    def scroll_pages(self, pages: int) -> None:
        """Some pages down; up, if negative."""
        self.scroll_rows(pages * max(1, self._widget.size.height - 1))

    def scroll_far(self, direction: int) -> None:
        """To the beginning, or to the end."""
        self.scroll_rows(direction * (self.shown.above + self.shown.height))

    def scroll_columns(self, columns: int) -> None:
        """Show what is left or right, where the terminal is wider than the widget."""
        self.left = max(0, min(self.left + columns, self._columns - self._widget.size.width))
        self._widget.refresh()

    def scroll_rows(self, rows: int) -> None:
        """Some rows down; up, if negative."""
        before = self.back
        self.back = max(0, self.back - rows)
        self._settle()
        if self.back != before:
            self._changed()
            self._widget.refresh()

    def find(self, words: str, step: int = -1) -> bool:
        """Show the next row above (or below) with these words; False: there is none."""
        self.found = words
        self._widget.refresh()
        if not words:
            return True
        total = self._total
        edge = self._first if step < 0 else self._first + 1
        spots = range(edge - 1, -1, -1) if step < 0 else range(edge, total)
        query = words.casefold()
        for begin in range(0, len(spots), _CHUNK):
            part = spots[begin : begin + _CHUNK]
            low = min(part)
            rows = self.shown.rows(low, len(part))
            for place in part:
                if query in rows[place - low].text.casefold():
                    self.back = max(0, total - self._widget.size.height - place)
                    self.redraw()
                    return True
        return any(query in row.text.casefold() for row in self._rows)

    def go_to_end(self) -> None:
        """Follow again, with nothing selected."""
        self.clear_selected()
        if self.back:
            self.back = 0
            self.redraw()
