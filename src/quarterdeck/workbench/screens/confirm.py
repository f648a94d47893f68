"""A question with two answers, before something that cannot be undone."""

import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label

from ..literal import literal, one_line
from .guard import Guard

__all__ = ["ConfirmScreen"]


class ConfirmScreen(ModalScreen[bool]):
    """Gives True if the person wants it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "yes"),
        Binding("n,escape", "no", "no"),
    ]

    def __init__(self, title: str, words: str) -> None:
        super().__init__()
        self._asked = title
        self._words = words
        self._guard = Guard(time.monotonic)

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = Content(one_line(self._asked, 60))
            box.border_subtitle = "y does it · n or esc does not"
            yield Label(literal(self._words), markup=False)

    def action_yes(self) -> None:
        """Yes, unless the key was meant for something else."""
        if not self._guard.holds:
            self.dismiss(True)

    def action_no(self) -> None:
        """No."""
        self.dismiss(False)
