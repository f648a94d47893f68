"""The mouse over a terminal: for the program if it asks for it, else to select and to scroll."""

from typing import TYPE_CHECKING, cast

from textual import events

from ..terminal.input_sequences import MouseAction, MouseKind, encode_key, encode_mouse
from ..terminal.selection import CellPlace, CellSelection, cut_row, find_word, join_rows
from .terminal_page import TerminalPage

if TYPE_CHECKING:
    from textual.app import App

__all__ = ["TerminalMouse"]

_NOTCH = 3
"""Rows for a turn of the wheel."""
_MOST_COPIED = 20_000
"""Rows that are copied at once."""


class TerminalMouse(TerminalPage):
    """A page that the mouse acts on; shift keeps it from the program."""

    _button = 0
    """The button that the program was told of and that is still held."""
    _anchor: CellPlace | None = None
    """Where a selection was begun."""
    _last_cell: tuple[int, int] | None = None

    @property
    def can_type(self) -> bool:
        """Whether the program may be sent something."""
        raise NotImplementedError

    def send(self, data: bytes) -> None:
        """Type bytes."""
        raise NotImplementedError

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Press, or begin to select."""
        event.stop()
        if self._is_for_program(event):
            self._button = event.button
            self._tell_mouse("press", event, event.button)
            self.capture_mouse()
        elif event.button == 1:
            self.clear_selected()
            self._anchor = self._place(event)
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Move, or select."""
        event.stop()
        if self._anchor is not None:
            self._select(CellSelection(self._anchor, self._place(event)))
        elif self._is_for_program(event) and (event.x, event.y) != self._last_cell:
            self._last_cell = event.x, event.y
            self._tell_mouse("move", event, self._button or event.button)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Release, or copy what is selected."""
        event.stop()
        self.release_mouse()
        if self._button:
            self._tell_mouse("release", event, self._button)
            self._button = 0
        elif self._anchor is not None:
            self._anchor = None
            self._copy()

    def on_click(self, event: events.Click) -> None:
        """A double click selects a word, one more the row."""
        event.stop()
        if event.chain < 2 or self._is_for_program(event):
            return
        row, column = self._place(event)
        text = self.shown.rows(row, 1)[0].text
        span = find_word(text, column) if event.chain == 2 else (0, 10_000)
        if span is not None:
            self._select(CellSelection((row, span[0]), (row, span[1])))
            self._copy()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """What is above."""
        self._turn("up", event)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """What is below."""
        self._turn("down", event)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        """What is left."""
        self._turn("left", event)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        """What is right."""
        self._turn("right", event)

    def _turn(self, way: MouseKind, event: events.MouseEvent) -> None:
        event.stop()
        event.prevent_default()
        if self._is_for_program(event):
            self._tell_mouse(way, event, 0)
        elif way in ("left", "right"):
            self.action_shift(-_NOTCH if way == "left" else _NOTCH)
        elif self.modes.alternate_screen and self.can_type and not event.shift:
            # As terminals do: a program without a mouse that fills the screen has arrows.
            self.send(encode_key(way, None, self.modes) * _NOTCH)
        else:
            self.scroll_rows(-_NOTCH if way == "up" else _NOTCH)

    def _is_for_program(self, event: events.MouseEvent) -> bool:
        return bool(self.can_type and self.modes.mouse and not event.shift and not self.back)

    def _tell_mouse(self, kind: MouseKind, event: events.MouseEvent, button: int) -> None:
        place, column = self._place(event)
        row = place - self.shown.above
        columns, rows = self.shown.screen.size if self.shown.screen is not None else (0, 0)
        if not 0 <= row < rows or not 0 <= column < columns:
            if kind != "release":
                return
            row, column = max(0, min(row, rows - 1)), max(0, min(column, columns - 1))
        deed = MouseAction(
            kind=kind,
            column=column,
            row=row,
            button=button,
            shift=event.shift,
            alt=event.meta,
            ctrl=event.ctrl,
        )
        if data := encode_mouse(deed, self.modes):
            self.send(data)

    def _place(self, event: events.MouseEvent) -> CellPlace:
        y = max(0, min(event.y, self.size.height - 1))
        x = max(0, min(event.x, self.size.width - 1))
        return self._first + y, self.left + x

    def _select(self, selected: CellSelection) -> None:
        if selected != self.selected:
            self.selected = selected
            self.refresh()

    def _copy(self) -> None:
        """Copy what is selected; a click alone selects nothing."""
        selected = self.selected
        if selected is None or selected.anchor == selected.head:
            self.clear_selected()
            return
        places = selected.rows[:_MOST_COPIED]
        rows = self.shown.rows(places.start, len(places))
        spans = [selected.span(place) or (0, None) for place in places]
        taken = [cut_row(row.text, *span) for row, span in zip(rows, spans, strict=True)]
        wraps = self.shown.wraps(places.start, len(places))
        text = join_rows(taken, [row.text for row in rows], wraps)
        if text.strip():
            cast("App[object]", self.app).copy_to_clipboard(text)  # pyright: ignore[reportUnknownMemberType]
