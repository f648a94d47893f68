"""One line from a person: a name, a number, a word."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input

from ..literal import one_line

__all__ = ["AskLine"]


class AskLine(ModalScreen[str | None]):
    """Gives the line, or None if there shall be none."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "leave")]

    def __init__(self, title: str, given: str = "") -> None:
        super().__init__()
        self._asked = title
        self._given = given

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = Content(one_line(self._asked, 70))
            box.border_subtitle = "enter · esc leaves"
            yield Input(one_line(self._given))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Done."""
        event.stop()
        if event.value.strip():
            self.dismiss(event.value.strip())
