"""The mouse over a terminal: for the program if it asks for it, else to select and to scroll."""

from typing import TYPE_CHECKING, cast

from textual import events

from ..terminal.input_sequences import MouseAction, MouseKind, encode_key, encode_mouse
from ..terminal.selection import CellPlace, CellSelection, cut_row, find_word, join_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App
    from textual.widget import Widget

    from .terminal_page import TerminalPage

__all__ = ["TerminalMouse"]

_NOTCH = 3
"""Rows for a turn of the wheel."""
_MOST_COPIED = 20_000
"""Rows that are copied at once."""


class TerminalMouse:
    """What the mouse does over a page of a terminal; shift keeps it from the program.

    Args:
        widget: gets the events and hands them on.
        page: what is selected and scrolled.
        can_type: whether the program may be sent something.
        send: sends bytes to the program.
    """

    def __init__(
        self,
        widget: "Widget",
        page: "TerminalPage",
        *,
        can_type: "Callable[[], bool]",
        send: "Callable[[bytes], None]",
    ) -> None:
        self._widget = widget
        self._page = page
        self._can_type = can_type
        self._send = send
        self._button = 0
        """The button that the program knows to be held."""
        self._anchor: CellPlace | None = None
        """Where a selection was begun."""
        self._last_cell: tuple[int, int] | None = None

    def press(self, event: events.MouseDown) -> None:
        """Press, or begin to select."""
        event.stop()
        if self._is_for_program(event):
            self._button = event.button
            self._report("press", event, event.button)
            self._widget.capture_mouse()
        elif event.button == 1:
            self._page.clear_selected()
            self._anchor = self._place(event)
            self._widget.capture_mouse()

    def move(self, event: events.MouseMove) -> None:
        """Move, or select."""
        event.stop()
        if self._anchor is not None:
            self._page.select(CellSelection(self._anchor, self._place(event)))
        elif self._is_for_program(event) and (event.x, event.y) != self._last_cell:
            self._last_cell = event.x, event.y
            self._report("move", event, self._button or event.button)

    def release(self, event: events.MouseUp) -> None:
        """Release, or copy what is selected."""
        event.stop()
        self._widget.release_mouse()
        if self._button:
            self._report("release", event, self._button)
            self._button = 0
        elif self._anchor is not None:
            self._anchor = None
            self._copy()

    def click(self, event: events.Click) -> None:
        """A double click selects a word, one more the row."""
        event.stop()
        if event.chain < 2 or self._is_for_program(event):
            return
        row, column = self._place(event)
        text = self._page.shown.rows(row, 1)[0].text
        span = find_word(text, column) if event.chain == 2 else (0, 10_000)
        if span is not None:
            self._page.select(CellSelection((row, span[0]), (row, span[1])))
            self._copy()

    def turn(self, way: MouseKind, event: events.MouseEvent) -> None:
        """Turn the wheel."""
        event.stop()
        event.prevent_default()
        if self._is_for_program(event):
            self._report(way, event, 0)
        elif way in ("left", "right"):
            self._page.scroll_columns(-_NOTCH if way == "left" else _NOTCH)
        elif self._page.modes.alternate_screen and self._can_type() and not event.shift:
            # As terminals do: a program without a mouse that fills the screen has arrows.
            self._send(encode_key(way, None, self._page.modes) * _NOTCH)
        else:
            self._page.scroll_rows(-_NOTCH if way == "up" else _NOTCH)

    def _is_for_program(self, event: events.MouseEvent) -> bool:
        return bool(
            self._can_type() and self._page.modes.mouse and not event.shift and not self._page.back
        )

    def _report(self, kind: MouseKind, event: events.MouseEvent, button: int) -> None:
        place, column = self._place(event)
        row = place - self._page.shown.above
        columns, rows = (
            self._page.shown.screen.size if self._page.shown.screen is not None else (0, 0)
        )
        if not 0 <= row < rows or not 0 <= column < columns:
            if kind != "release":
                return
            row, column = max(0, min(row, rows - 1)), max(0, min(column, columns - 1))
        action = MouseAction(
            kind=kind,
            column=column,
            row=row,
            button=button,
            shift=event.shift,
            alt=event.meta,
            ctrl=event.ctrl,
        )
        if data := encode_mouse(action, self._page.modes):
            self._send(data)

    def _place(self, event: events.MouseEvent) -> CellPlace:
        y = max(0, min(event.y, self._widget.size.height - 1))
        x = max(0, min(event.x, self._widget.size.width - 1))
        return self._page.first_row + y, self._page.left + x

    def _copy(self) -> None:
        """Copy what is selected; a click alone selects nothing."""
        selected = self._page.selected
        if selected is None or selected.anchor == selected.head:
            self._page.clear_selected()
            return
        places = selected.rows[:_MOST_COPIED]
        rows = self._page.shown.rows(places.start, len(places))
        spans = [selected.span(place) or (0, None) for place in places]
        taken = [cut_row(row.text, *span) for row, span in zip(rows, spans, strict=True)]
        wraps = self._page.shown.wraps(places.start, len(places))
        text = join_rows(taken, [row.text for row in rows], wraps)
        if text.strip():
            cast("App[object]", self._widget.app).copy_to_clipboard(text)  # pyright: ignore[reportUnknownMemberType]
