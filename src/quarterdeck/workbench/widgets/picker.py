"""Rows to choose from, with a cursor."""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message

from ..rendering.lines import Line, clip
from .lines_view import LineCanvas

__all__ = ["Picker"]


class Picker(LineCanvas, can_focus=True):
    """A list whose rows have keys; the cursor stays on its key when rows come, go or move.

    Lines that follow each other with the same key are one row; a line whose key is empty is a title
    or a gap, and cannot be chosen.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "step(-1)", "up"),
        Binding("down,j", "step(1)", "down"),
        Binding("home", "step(-1000)", "first"),
        Binding("end", "step(1000)", "last"),
        Binding("enter,space", "choose", "choose"),
    ]

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, picker: "Picker", key: str) -> None:
            super().__init__()
            self.picker = picker
            self.key = key

        @property
        def control(self) -> "Picker":
            """Who posted it."""
            return self.picker

    class Chosen(Message):
        """A row was chosen."""

        def __init__(self, picker: "Picker", key: str) -> None:
            super().__init__()
            self.picker = picker
            self.key = key

        @property
        def control(self) -> "Picker":
            """Who posted it."""
            return self.picker

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.cursor: str | None = None
        self._head: list[Line] = []
        self._rows: list[tuple[str, Line]] = []

    def head(self, width: int) -> list[Line]:
        """Lines above the rows."""
        return []

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """A key and a line for each line of a row."""
        raise NotImplementedError

    def update(self) -> None:
        """Work the rows out anew."""
        width = self.scrollable_content_region.width
        if width <= 0:
            return
        self._head = [clip(line, width) for line in self.head(width)]
        self._rows = [(key, clip(line, width)) for key, line in self.rows(width)]
        self.virtual_size = Size(width, len(self._head) + len(self._rows))
        lowest = max(0, self.virtual_size.height - self.scrollable_content_region.height)
        if self.scroll_offset.y > lowest:  # rows went, and there is room for all that are left
            self.scroll_to(y=lowest, animate=False)
        self.refresh()

    def place(self, key: str | None) -> None:
        """Put the cursor on a row, without telling anybody."""
        self.cursor = key
        at = self._at()
        if at is not None:
            y = at + len(self._head) - self.scroll_offset.y
            last = y + sum(one == key for one, _ in self._rows[at : at + 2]) - 1
            if not len(self._head) <= y <= last < self.size.height:
                self.scroll_to(y=max(0, at - self.size.height // 2), animate=False)
        self.refresh()

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``LineCanvas``."""
        if (row := y - self.scroll_offset.y) < len(self._head):  # it stays while rows scroll
            return self._head[max(0, row)], False
        y -= len(self._head)
        if y >= len(self._rows):
            return (), False
        key, line = self._rows[y]
        return line, bool(key) and key == self.cursor

    def on_resize(self) -> None:
        """Fit the rows anew."""
        self.update()

    def watch_show_vertical_scrollbar(self) -> None:
        """Fit the rows beside the scrollbar, or where it was."""
        self.call_after_refresh(self.update)

    def action_step(self, step: int) -> None:
        """Move the cursor."""
        keys = list(dict.fromkeys(key for key, _ in self._rows if key))
        if not keys:
            return
        is_there = self.cursor in keys
        at = max(0, min(len(keys) - 1, keys.index(self.cursor or "") + step)) if is_there else 0
        self.place(keys[at])
        self.post_message(self.Moved(self, keys[at]))

    VIM_KEYS: ClassVar[frozenset[str]] = frozenset({"j", "k"})

    def step_lines(self, step: int) -> None:
        """See ``LineCanvas``."""
        self.action_step(step)

    def action_choose(self) -> None:
        """Choose the row of the cursor."""
        if self.cursor is not None and self._at() is not None:
            self.post_message(self.Chosen(self, self.cursor))

    def on_click(self, event: events.Click) -> None:
        """Choose the row that was clicked."""
        at = self.scroll_offset.y + event.y - len(self._head)
        if event.y >= len(self._head) and at < len(self._rows) and self._rows[at][0]:
            self.place(self._rows[at][0])
            self.post_message(self.Moved(self, self._rows[at][0]))
            self.post_message(self.Chosen(self, self._rows[at][0]))

    def _at(self) -> int | None:
        """The first line of the row with the cursor."""
        for at, (key, _) in enumerate(self._rows):
            if key and key == self.cursor:
                return at
        return None
