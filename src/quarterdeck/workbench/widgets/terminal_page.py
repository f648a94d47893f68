"""A page of a terminal: the rows that are seen of it, drawn anew only where they changed."""

import asyncio
import time
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from quarterdeck.terminal.emulator.api import TerminalModes

from ..terminal.display import TerminalDisplay
from ..terminal.rendering import RowRenderer, StripCache, overlay_style, render_text

if TYPE_CHECKING:
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


class TerminalPage(Widget):
    """Draws a terminal that is fed to it. A subclass says who types, and what is told."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"terminal--idle-cursor", "terminal--match"}

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.shown = TerminalDisplay()
        self._drawer = RowRenderer(lambda: self.rich_style)
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
    def has_cursor(self) -> bool:
        """Whether the next character would come somewhere."""
        raise NotImplementedError

    @property
    def takes_every_key(self) -> bool:
        """Whether no key is for anybody else."""
        raise NotImplementedError

    def tell_facts(self) -> None:
        """Something that is said about the terminal may be another now."""
        raise NotImplementedError

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
            self._frame = asyncio.get_running_loop().call_later(wait, self._beat)

    def _beat(self) -> None:
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
        self.tell_facts()
        if (
            is_new
            or change.is_whole
            or self._first - first != 0
            or len(rows) * 2 > self.size.height
        ):
            self.refresh()
            return
        width = self.size.width
        lines = [row - self._first for row in rows if 0 <= row - self._first < self.size.height]
        if lines:
            self.refresh(*[Region(0, line, width, 1) for line in lines])

    def _settle(self) -> None:
        """Know which rows are seen."""
        height = self.size.height
        total = self.shown.above + self.shown.height - self._blank_rows(height)
        self.back = max(0, min(self.back, total - height))
        self._first = max(0, total - height - self.back)
        self._total = total
        self.left = min(self.left, max(0, self._columns - self.size.width))
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
        self.tell_facts()
        self.refresh()

    def _follow_cursor(self, column: int) -> None:
        room = self.size.width
        if self.takes_every_key and not self.left <= column < self.left + room:
            self.left = max(0, min(column - room // 2, self._columns - room))
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw a line of the screen."""
        width = self.size.width
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
        if screen is None or place != self._cursor_row or not self.has_cursor:
            return strip
        cursor = screen.cursor
        column = cursor.column - self.left
        if not cursor.is_visible or not 0 <= column < strip.cell_length:
            return strip
        is_wide = len(strip.crop(column, column + 2).text) == 1
        if not self.takes_every_key:
            style, turns = (
                self.get_component_rich_style("terminal--idle-cursor", partial=True),
                False,
            )
        elif cursor.shape == "block":
            style, turns = Style(reverse=True), True
        else:
            style, turns = Style(underline=True, bold=True), False
        return overlay_style(strip, column, column + 1 + is_wide, style, turns=turns)

    def _with_matches(self, strip: Strip, text: str) -> Strip:
        shown, sought = render_text(text).casefold(), self.found.casefold()
        style = self.get_component_rich_style("terminal--match", partial=True)
        at = shown.find(sought)
        while at >= 0:
            begin = cell_len(shown[:at]) - self.left
            strip = overlay_style(strip, begin, begin + cell_len(sought), style)
            at = shown.find(sought, at + len(sought))
        return strip

    def _with_selected(self, strip: Strip, place: int) -> Strip:
        span = self.selected.span(place) if self.selected is not None else None
        if span is None:
            return strip
        style = self.screen.get_component_rich_style("screen--selection", partial=True)
        end = strip.cell_length if span[1] is None else span[1] - self.left
        return overlay_style(strip, span[0] - self.left, end, style)

    def clear_selected(self) -> None:
        """Select nothing."""
        if self.selected is not None:
            self.selected = None
            self.refresh()

    def stop_frames(self) -> None:
        """Draw nothing that waits."""
        if self._frame is not None:
            self._frame.cancel()
            self._frame = None

    def notify_style_update(self) -> None:
        """Forget looks when the style sheet or the theme changed."""
        self._strips.forget()
        super().notify_style_update()

    def watch_has_focus(self, has_focus: bool) -> None:
        """See Textual; the colours may be others with the focus."""
        super().watch_has_focus(has_focus)
        self._strips.forget()

    # Looking around

    def action_scroll_page(self, pages: int) -> None:
        """A page up or down."""
        self.scroll_rows(pages * max(1, self.size.height - 1))

    def action_scroll_rows(self, rows: int) -> None:
        """Some rows down; up, if negative."""
        self.scroll_rows(rows)

    def action_scroll_far(self, way: int) -> None:
        """To the beginning, or to the end."""
        self.scroll_rows(way * (self.shown.above + self.shown.height))

    def action_shift(self, columns: int) -> None:
        """Show what is left or right, where the terminal is wider than this."""
        self.left = max(0, min(self.left + columns, self._columns - self.size.width))
        self.refresh()

    def scroll_rows(self, rows: int) -> None:
        """Some rows down; up, if negative."""
        before = self.back
        self.back = max(0, self.back - rows)
        self._settle()
        if self.back != before:
            self.tell_facts()
            self.refresh()

    def find(self, words: str, step: int = -1) -> bool:
        """Show the next row above (or below) with these words; False: there is none."""
        self.found = words
        self.refresh()
        if not words:
            return True
        total = self._total
        edge = self._first if step < 0 else self._first + 1
        spots = range(edge - 1, -1, -1) if step < 0 else range(edge, total)
        sought = words.casefold()
        for begin in range(0, len(spots), _CHUNK):
            part = spots[begin : begin + _CHUNK]
            low = min(part)
            rows = self.shown.rows(low, len(part))
            for place in part:
                if sought in rows[place - low].text.casefold():
                    self.back = max(0, total - self.size.height - place)
                    self.redraw()
                    return True
        return any(sought in row.text.casefold() for row in self._rows)

    def go_to_end(self) -> None:
        """Follow again, with nothing selected."""
        self.clear_selected()
        if self.back:
            self.back = 0
            self.redraw()
