"""The widgets of the editor: a text area that can hold any text, and a bar with single-key
answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.document._edit import Edit
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import TextArea

from ...rendering.lines import Line, flow
from ...sanitize import sanitize_text
from ...widgets.lines_view import LineCanvas
from .model import StandInCharacters, UndecodableFileError

__all__ = ["ChoiceBar", "EditorArea"]


class EditorArea(TextArea):
    """Where a file is edited. ``real_text`` is what the file holds."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+f", "want('search')", "find"),
        Binding("ctrl+l", "want('goto')", "go to a line"),
        Binding("ctrl+z", "undo", "undo"),
        Binding("ctrl+y", "redo", "redo"),
    ]

    @dataclass
    class Wanted(Message):
        """A line to type in is wanted."""

        purpose: Literal["search", "goto"]

    def __init__(self) -> None:
        super().__init__(
            "",
            id="area",
            soft_wrap=False,
            show_line_numbers=True,
            tab_behavior="indent",
            max_checkpoints=1_000,
        )
        self.stand_ins = StandInCharacters()

    @property
    def real_text(self) -> str:
        """The text with everything that stand-ins stand for."""
        return self.stand_ins.real(self.text)

    def put(self, text: str) -> None:
        """Begin with another text, unheard; there is nothing to undo."""
        self.stand_ins = StandInCharacters()
        self.indent_type = "tabs" if "\n\t" in text or text.startswith("\t") else "spaces"
        with self.prevent(TextArea.Changed):
            self.load_text(self.stand_ins.edited(text))

    def put_over(self, text: str) -> None:
        """Take another text in place of this one, as an edit that can be undone."""
        row, column = self.cursor_location
        start, end = self.document.start, self.document.end
        self.edit(Edit(self.stand_ins.edited(text), start, end, False))
        self.move_cursor((min(row, self.document.line_count - 1), column))

    def find(self, words: str) -> bool:
        """Move to the next place of some words after the cursor, going around."""
        row, column = self.cursor_location
        count = self.document.line_count
        fold = words == words.lower()
        for step in range(count + 1):
            at = (row + step) % count
            line = self.document.get_line(at)
            line = line.lower() if fold and len(line.lower()) == len(line) else line
            found = line.find(words, column + 1 if step == 0 else 0)
            if found >= 0:
                self.move_cursor((at, found), center=True)
                return True
        return False

    def edit(self, edit: Edit) -> Any:
        """Take an edit, with stand-ins where they are needed."""
        try:
            edit.text = self.stand_ins.edited(_with_plain_ends(edit.text))
        except UndecodableFileError as error:
            self.notify(str(error), severity="error", markup=False)
            edit.text = ""
        return super().edit(edit)

    def get_line(self, line_index: int) -> Text:
        """A line as it is drawn."""
        line = self.stand_ins.faces(self.document.get_line(line_index))
        return Text(line, end="", no_wrap=True)

    def under_cursor(self) -> str | None:
        """What the stand-in under the cursor stands for."""
        row, column = self.cursor_location
        line = self.document.get_line(row)
        return self.stand_ins.name(line[column]) if column < len(line) else None

    def action_want(self, purpose: Literal["search", "goto"]) -> None:
        """Ask for a line to type in."""
        self.post_message(self.Wanted(purpose))

    def on_key(self, event: events.Key) -> None:
        """Let escape pass: Textual would move the focus, which surprises while typing."""
        if event.key == "escape":
            event.prevent_default()


def _with_plain_ends(text: str) -> str:
    """What a terminal pastes ends lines with carriage returns."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


class ChoiceBar(LineCanvas):
    """Shows a question; escape leaves it open to be asked again."""

    @dataclass
    class Chosen(Message):
        """A key was pressed; None: the person left."""

        topic: str
        key: str | None

    def __init__(self) -> None:
        super().__init__(classes="panel-choice")
        self.topic = ""
        self.display = False
        self._items: list[Line] = []
        self._keys: frozenset[str] = frozenset()
        self._lines: list[Line] = []
        self._back: Widget | None = None

    def ask(
        self, topic: str, question: str, answers: Sequence[tuple[str, str]], *, back: Widget
    ) -> None:
        """Ask; each answer is a key and what it does."""
        self.topic, self._back = topic, back
        self._keys = frozenset(key for key, _ in answers)
        self._items = [((sanitize_text(question).replace("\n", " "), "asking"),)]
        for key, words in (*answers, ("esc", "later")):
            self._items.append(((key, "key"), (f" {words}", "text")))
        self.display = True
        self.focus()
        self._fit()

    def close(self) -> None:
        """Hide, and give the focus back."""
        if self.display:
            self.display = False
            if self._back is not None:
                self._back.focus()

    def line_at(self, y: int) -> tuple[Line, bool]:
        """See ``LineCanvas``."""
        return (self._lines[y] if y < len(self._lines) else ()), False

    def on_resize(self) -> None:
        """Break the question anew."""
        self._fit()

    def on_key(self, event: events.Key) -> None:
        """Take an answer."""
        if event.key == "escape" or event.key in self._keys:
            event.stop()
            event.prevent_default()
            self.close()
            key = None if event.key == "escape" else event.key
            self.post_message(self.Chosen(self.topic, key))

    def _fit(self) -> None:
        width = self.scrollable_content_region.width or self.size.width
        if width > 0:
            self._lines = flow(self._items, width)
            self.virtual_size = Size(width, len(self._lines))
            self.styles.height = min(4, len(self._lines))
            self.refresh()
