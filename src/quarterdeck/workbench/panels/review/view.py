"""The parts of a review on the screen: the list of files, the changes, keys, an input."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Offset, Size
from textual.message import Message
from textual.widgets import TextArea

from ...rendering.glyphs import RANGE
from ...rendering.lines import Line
from ...widgets.lines_view import LineCanvas
from ...widgets.picker import Picker
from .document import (
    ChangedLine,
    PatchDocument,
    PatchPlace,
    PatchRow,
    PatchSlot,
    SlotChange,
    line_numbers,
)
from .lines import LinePainter, RowCanvas, draw_file_row, draw_row
from .model import CommentTarget, ReviewModel

__all__ = ["CommentInput", "PatchCanvas", "ReviewFileList"]

_AHEAD = 40
"""Rows above and below the screen whose pages are wanted too."""


class ReviewFileList(Picker):
    """The files that an agent changed."""

    def __init__(self, model: ReviewModel, conflicts: Callable[[str], tuple[str, ...]]) -> None:
        super().__init__(id="files")
        self._model = model
        self._conflicts = conflicts

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        found = [
            (file.id, draw_file_row(file, width, self._conflicts(file.path)))
            for file in self._model.files
        ]
        changes = self._model.changes
        if changes is not None and changes.count > len(found):
            more: Line = ((f"… {changes.count - len(found):,} more files", "faint"),)
            found.append(("", more))
        return found


class PatchCanvas(LineCanvas, can_focus=True):
    """The changes, with a cursor, and lines that are selected or marked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", "up"),
        Binding("down", "step(1)", "down"),
        Binding("pageup", "page(-1)", "a page up"),
        Binding("pagedown", "page(1)", "a page down"),
        Binding("home", "step(-1000000000)", "first line"),
        Binding("end", "step(1000000000)", "last line"),
        Binding("left", "shift(-8)", "left", show=False),
        Binding("right", "shift(8)", "right", show=False),
        Binding("v", "select", "select lines from here, or stop"),
        Binding("shift+up", "extend(-1)", "select upwards"),
        Binding("shift+down", "extend(1)", "select downwards"),
        Binding("space", "mark", "mark this line"),
    ]

    @dataclass
    class PagesWanted(Message):
        """Pages that are on the screen, or nearly, and not there."""

        slots: list[PatchSlot]

    class PaintWanted(Message):
        """Lines were shown without their colours."""

    class Moved(Message):
        """The cursor, or what is selected, is another."""

    class Resized(Message):
        """There is more or less room for the lines."""

    def __init__(self, conflicts: Callable[[str], tuple[str, ...]]) -> None:
        super().__init__(id="patch")
        self.document = PatchDocument()
        self.painter = LinePainter()
        self.cursor = 0
        self.instead: Callable[[int], list[Line]] = lambda _: []
        """What is shown where there are no changes, for a width."""
        self.marked: set[ChangedLine] = set()
        self._conflicts = conflicts
        self._from: int | None = None
        """Where the selection begins; it ends at the cursor."""
        self._left = 0
        self._is_painting = False

    # What is shown

    def show(self, document: PatchDocument) -> None:
        """Show other changes, from their beginning."""
        self.document = document
        self.painter = LinePainter()
        self._from = None
        self._is_painting = False
        self.cursor = 0
        self.measure()
        self.move_to(0, top=True)

    def exchange(self, document: PatchDocument) -> None:
        """Show the same changes as they are now, where the person reads."""
        self.marked.clear()
        self._is_painting = False

        def change() -> None:
            self.document = document
            self.painter = LinePainter()

        self.lay_out_again(change)

    def visible_slots(self) -> list[PatchSlot]:
        """The slots that are on the screen."""
        top = self.scroll_offset.y
        return self.document.slots_in(top, top + max(1, self.size.height))

    def measure(self) -> None:
        """Be as long as the changes are."""
        width = self.scrollable_content_region.width
        self.virtual_size = Size(width, max(1, self.document.height))
        self.refresh()
        self.demand()

    def take(self, change: SlotChange) -> None:
        """A page came: what is read stays where it is."""
        grown = change.after - change.before
        end = change.start + change.before
        top = self.scroll_offset.y
        if self.cursor >= end:
            self.cursor += grown
        else:
            self.cursor = min(self.cursor, max(0, change.start + change.after - 1))
        if self._from is not None and self._from >= end:
            self._from += grown
        self.measure()
        if grown and end <= top:
            self.scroll_to(y=max(0, top + grown), animate=False, force=True)

    def lay_out_again(self, change: Callable[[], None]) -> None:
        """Let rows be made anew, and stay where the person reads."""
        place, top = self.document.place(self.cursor), self.scroll_offset.y
        offset = self.cursor - top
        self._from = None
        change()
        row = self.document.find(place) if place is not None else None
        self.cursor = row if row is not None else min(self.cursor, max(0, self.document.height - 1))
        self.measure()
        self.scroll_to(y=max(0, self.cursor - offset), animate=False, force=True)
        self.post_message(self.Moved())

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``LineCanvas``."""
        width = self.scrollable_content_region.width
        if not self.document.slots:
            lines = self.instead(width)
            return (lines[y] if y < len(lines) else ()), False
        if y >= self.document.height:
            return (), False
        found = self.document.row(y)
        is_marked = self.has_focus_within_panel and (y == self.cursor or y in self.selection)
        if found is None:
            return (("  …", "faint"),), is_marked
        canvas = RowCanvas(self.painter, width, self._left, self.marked, self._conflicts)
        line = draw_row(*found, canvas)
        if self.painter.is_due and not self._is_painting:
            self._is_painting = True
            self.call_later(self.post_message, self.PaintWanted())
        return line, is_marked

    @property
    def has_focus_within_panel(self) -> bool:
        """Whether the cursor is shown: while the panel has the focus."""
        focused = self.screen.focused
        return (
            focused is not None
            and self.parent is not None
            and (focused is self or any(node is self.parent for node in focused.ancestors))
        )

    def painted(self) -> None:
        """Colours have come."""
        self._is_painting = False
        self.refresh()

    def demand(self) -> None:
        """Ask for the pages that are on the screen."""
        top, height = self.scroll_offset.y, max(1, self.size.height)
        slots = self.document.slots_in(max(0, top - _AHEAD), top + height + _AHEAD)
        wanted = [slot for slot in slots if not slot.is_loaded]
        if wanted:
            self.post_message(self.PagesWanted(wanted))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Pages are wanted where someone looks."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.demand()

    def on_resize(self) -> None:
        """Comments, and old beside new, are made for a width."""
        self.post_message(self.Resized())

    def watch_show_vertical_scrollbar(self) -> None:
        """A bar takes a column, and the size stays."""
        if self.is_mounted:
            self.post_message(self.Resized())

    def on_focus(self) -> None:
        """Show the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """The cursor may be gone."""
        self.refresh()

    # The cursor

    @property
    def selection(self) -> range:
        """The rows that are selected; empty: none."""
        if self._from is None:
            return range(0)
        return range(min(self._from, self.cursor), max(self._from, self.cursor) + 1)

    @property
    def has_selection(self) -> bool:
        """Whether lines are selected or marked."""
        return self._from is not None or bool(self.marked)

    @property
    def row(self) -> tuple[PatchSlot, PatchRow] | None:
        """The row under the cursor."""
        return self.document.row(self.cursor)

    @property
    def place(self) -> PatchPlace | None:
        """Where the cursor is."""
        return self.document.place(self.cursor)

    def move_to(self, y: int, *, top: bool = False) -> None:
        """Move the cursor; ``top``: also to the top of the screen."""
        self.cursor = max(0, min(y, self.document.height - 1))
        height = max(1, self.scrollable_content_region.height)
        first = self.scroll_offset.y
        if top or self.cursor < first:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif self.cursor >= first + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, force=True)
        self.refresh()
        self.post_message(self.Moved())

    def reveal_below(self, lines: int) -> None:
        """Scroll so that there is room below the cursor."""
        height = self.scrollable_content_region.height
        missing = self.cursor - self.scroll_offset.y + 1 + lines - height
        if missing > 0:
            self.scroll_to(y=self.scroll_offset.y + missing, animate=False, force=True)

    def clear(self) -> bool:
        """Select nothing; False: nothing was."""
        had = self.has_selection
        self._from = None
        self.marked.clear()
        self.refresh()
        self.post_message(self.Moved())
        return had

    def action_step(self, step: int) -> None:
        """Move the cursor."""
        self.move_to(self.cursor + step)

    def action_page(self, step: int) -> None:
        """Move by a screen."""
        self.move_to(self.cursor + step * max(1, self.scrollable_content_region.height - 1))

    def action_shift(self, step: int) -> None:
        """Look further to the right or left."""
        self._left = max(0, min(2_000, self._left + step))
        self.refresh()

    def action_select(self) -> None:
        """Begin to select lines at the cursor, or stop."""
        self._from = self.cursor if self._from is None else None
        self.move_to(self.cursor)

    def action_extend(self, step: int) -> None:
        """Select the next line too."""
        if self._from is None:
            self._from = self.cursor
        self.move_to(self.cursor + step)

    def action_mark(self) -> None:
        """Mark the changed lines of the row, or take the marks away, and go on."""
        rows = list(self.selection) or [self.cursor]
        lines = {line for y in rows for line in self._changed_lines(y)}
        if lines <= self.marked:
            self.marked -= lines
        else:
            self.marked |= lines
        self._from = None
        self.move_to(max(rows) + 1)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where it was clicked; with shift, select up to there."""
        y = self.scroll_offset.y + event.y
        if y >= self.document.height:
            return
        if event.shift and self._from is None:
            self._from = self.cursor
        elif not event.shift:
            self._from = None
        self.move_to(y)

    def find_hunk(self, step: int) -> int | None:
        """The next hunk, or the one before, as far as pages are there up to it."""
        document, at = self.document, self.cursor
        if step > 0:
            found = next(document.hunk_rows(at + 1, document.height), None)
        else:
            found = max(document.hunk_rows(0, at - 1), default=None)
        if found is None:
            return None
        between = document.slots_in(min(at, found), max(at, found))
        return found if all(slot.is_loaded for slot in between) else None

    # What is selected

    def selected_lines(self) -> list[ChangedLine]:
        """The changed lines that are marked, or those of the selected rows."""
        if self.marked:
            return sorted(self.marked)
        return [line for y in self.selection for line in self._changed_lines(y)]

    def comment_target(self) -> CommentTarget | None:
        """The lines that a comment would be about; None: there is no line here."""
        rows = [
            found for y in list(self.selection) or [self.cursor] if (found := self._line_row(y))
        ]
        if not rows:
            return None
        file = rows[0][0].file
        numbers = [line_numbers(*found) for found in rows if found[0].file.id == file.id]
        news = [new for _, new in numbers if new]
        olds = [old for old, _ in numbers if old]
        lines = news or olds
        if not lines:
            return None
        return CommentTarget(
            file=file.id,
            line=min(lines),
            end_line=max(lines),
            is_old=not news,
            content=file.content,
        )

    def go_to_line(self) -> None:
        """Go from the title of a hunk or file to the line that a comment there is about."""
        found, line = self.row, self._line_row(self.cursor)
        if found is not None and line is not None and self._from is None:
            slot = line[0]
            self.move_to(self.document.start_of(slot) + slot.rows.index(line[1]))

    def _line_row(self, y: int) -> tuple[PatchSlot, PatchRow] | None:
        found = self.document.row(y)
        if found is None or found[1].kind in ("comment", "note", "blank"):
            return None
        slot, row = found
        if row.kind in ("file", "hunk"):  # the first line that changed
            at = slot.rows.index(row)
            lines = [one for one in slot.rows[at + 1 :] if one.kind in ("line", "pair")]
            added = [one for one in lines if one.right >= 0 and one.left != one.right]
            changed = [one for one in lines if one.left != one.right]
            return (slot, (added or changed or lines)[0]) if lines else None
        return slot, row

    def _changed_lines(self, y: int) -> list[ChangedLine]:
        found = self.document.row(y)
        if found is None or found[1].kind not in ("line", "pair"):
            return []
        slot, row = found
        hunk = slot.hunks[row.hunk]
        lines: list[ChangedLine] = []
        if row.left >= 0 and hunk.hunk.lines[row.left].sign == "-":
            lines.append(ChangedLine(slot.file.id, True, hunk.olds[row.left]))
        if row.right >= 0 and hunk.hunk.lines[row.right].sign == "+":
            lines.append(ChangedLine(slot.file.id, False, hunk.news[row.right]))
        return lines


class CommentInput(TextArea):
    """A few lines below a line of the changes."""

    LINES = 4
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "save the comment"),
        Binding("ctrl+j,shift+enter", "newline", "new line"),
        Binding("escape", "cancel", "close; the text is kept"),
    ]

    @dataclass
    class Given(Message):
        """The text is done; None: the input was closed."""

        target: CommentTarget
        text: str | None

    def __init__(self) -> None:
        super().__init__(compact=True, classes="review-comment")
        self.target: CommentTarget | None = None
        self.display = False

    async def _on_key(self, event: events.Key) -> None:
        # A binding with priority would come before letters that were typed just before it.
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self.action_submit()
        elif event.key in ("ctrl+j", "shift+enter"):
            event.stop()
            event.prevent_default()
            self.action_newline()
        else:
            await super()._on_key(event)

    def open(self, target: CommentTarget, text: str, below: Offset, width: int) -> None:
        """Ask for a comment, below a place of the screen."""
        self.target = target
        self.text = text
        self.move_cursor(self.document.end)
        self.border_title = "edit the comment" if target.comment else _title(target)
        self.border_subtitle = "enter save · ctrl+j new line · esc close"
        self.styles.width = width
        self.absolute_offset = below
        self.display = True
        self.focus()

    def close(self) -> None:
        """Hide the input; the text stays."""
        self.display = False
        self.target = None

    def action_submit(self) -> None:
        """Save the comment."""
        self._give(self.text if self.text.strip() else None)

    def action_cancel(self) -> None:
        """Close the input."""
        self._give(None)

    def action_newline(self) -> None:
        """Begin a new line."""
        self.insert("\n")

    def _give(self, text: str | None) -> None:
        if self.target is not None:
            self.post_message(self.Given(self.target, text))


def _title(target: CommentTarget) -> str:
    side = "removed " if target.is_old else ""
    if target.line == target.end_line:
        return f"comment on {side}line {target.line}"
    return f"comment on {side}lines {target.line}{RANGE}{target.end_line}"
