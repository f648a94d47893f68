"""Small dialogs: type a line, confirm, leave a terminal, read a text; fields of forms."""

import time
from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Label

from ..rendering.lines import Line, Span, indented, plain, wrap
from ..sanitize import sanitize_line, sanitize_text
from ..widgets.lines_view import LinesView
from .key_guard import KeyGuard

__all__ = [
    "AskLineScreen",
    "ConfirmScreen",
    "FactsView",
    "FieldRow",
    "LeaveChoice",
    "LeaveTerminalScreen",
    "ReadingScreen",
    "ReadingSection",
]


class AskLineScreen(ModalScreen[str | None]):
    """Gives the line, or None if there is to be none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "cancel")]

    def __init__(self, title: str, given: str = "") -> None:
        super().__init__()
        self._asked = title
        self._given = given

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = Content(sanitize_line(self._asked, 70))
            box.border_subtitle = "enter confirm · esc cancel"
            yield Input(sanitize_line(self._given))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Done."""
        event.stop()
        if event.value.strip():
            self.dismiss(event.value.strip())


class ConfirmScreen(ModalScreen[bool]):
    """Gives True if the person wants it.

    Args:
        title: what is asked.
        words: what would happen.
        verb: names what the key ``y`` does, such as ``kill``.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "yes"),
        Binding("n,escape", "no", "no"),
    ]

    def __init__(self, title: str, words: str, verb: str) -> None:
        super().__init__()
        self._asked = title
        self._words = words
        self._verb = verb
        self._guard = KeyGuard(time.monotonic)

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = Content(sanitize_line(self._asked, 60))
            box.border_subtitle = f"y {self._verb} · esc cancel"
            yield Label(sanitize_text(self._words), markup=False)

    def action_yes(self) -> None:
        """Yes, unless the key was meant for something else."""
        if not self._guard.holds:
            self.dismiss(True)

    def action_no(self) -> None:
        """No."""
        self.dismiss(False)


LeaveChoice: TypeAlias = Literal["end", "keep"]


class LeaveTerminalScreen(ModalScreen[LeaveChoice | None]):
    """Gives what is chosen; None: the panel stays."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "choose('end')", "end it"),
        Binding("k", "choose('keep')", "keep it running"),
        Binding("l", "choose('keep')", "keep it running", show=False),
        Binding("escape", "dismiss(None)", "cancel"),
    ]

    def __init__(self, title: str, place: str) -> None:
        super().__init__()
        self._named = title
        self._place = place
        self._guard = KeyGuard(time.monotonic)

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = Content(f"{sanitize_line(self._named, 60)} is running")
            box.border_subtitle = "e end it · k keep it running · esc cancel"
            yield Label(sanitize_text(f"in {self._place}"), markup=False)
            yield Label("If you keep it running, /terminals reopens it.", markup=False)

    def action_choose(self, choice: LeaveChoice) -> None:
        """Choose, unless the key was meant for something else."""
        if not self._guard.holds:
            self.dismiss(choice)


ReadingSection = tuple[str, Sequence[tuple[str, str]]]
"""A title, and below it names with words; any text."""
_NAMES = 24


class _Parts(LinesView, can_focus=True):
    def __init__(self, parts: Sequence[ReadingSection]) -> None:
        super().__init__(id="reading")
        self._parts = parts

    def lines(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for title, rows in self._parts:
            wide = min(_NAMES, max((len(name) for name, _ in rows), default=0)) + 2
            lines.append(plain(sanitize_line(title), "heading"))
            for name, words in rows:
                before = (f"  {sanitize_line(name, _NAMES):<{wide}}", "key")
                inner = wrap([(sanitize_text(words), "text")], max(10, width - wide - 2))
                lines += indented(inner, before, (" " * (wide + 2), "text"))
            lines.append(())
        return lines


class ReadingScreen(ModalScreen[None]):
    """Shows what was found, or anything else in rows."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss(None)", "close")]

    def __init__(self, title: str, parts: Sequence[ReadingSection]) -> None:
        super().__init__()
        self._head = title
        self._parts = parts

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = Content(sanitize_line(self._head, 60))
            box.border_subtitle = "↑ ↓ scroll · esc close"
            yield _Parts(self._parts)

    def on_mount(self) -> None:
        """Let keys scroll."""
        self.query_one(_Parts).focus()


class FieldRow(Horizontal):
    """A field with its name before it.

    Args:
        title: the name.
        field: what takes the value.
        begins: it is the first of a group.
        noted: what its value means stands beside it.
    """

    def __init__(
        self, title: str, field: Widget, *, begins: bool = False, noted: bool = False
    ) -> None:
        notes = (Label(classes="note", markup=False),) if noted else ()
        classes = f"field-row{' -begins' * begins}{' -noted' * noted}"
        super().__init__(Label(title), field, *notes, classes=classes)
        self.noted = noted

    def note(self, words: str) -> None:
        """Say what the value means; any text."""
        for label in self.query(".note").results(Label):
            label.update(Content(sanitize_line(words, 200)))


class FactsView(LinesView):
    """Lines at the top of a dialog: what would happen, what happened."""

    def __init__(self) -> None:
        super().__init__(id="facts")
        self._parts: Sequence[Span] = ()

    def show(self, parts: Sequence[Span]) -> None:
        """Show these, each on a line of its own."""
        self._parts = parts
        self.update()

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``."""
        lines = [line for part in self._parts for line in wrap([part], width)]
        self.styles.height = max(1, len(lines))
        return lines
