"""What shall become of a program when the panel that shows it is closed."""

import time
from typing import ClassVar, Literal, TypeAlias

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label

from ..literal import literal, one_line
from .guard import Guard

__all__ = ["Choice", "LeaveTerminal"]

Choice: TypeAlias = Literal["end", "leave"]


class LeaveTerminal(ModalScreen[Choice | None]):
    """Gives what is chosen; None: the panel stays."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "choose('end')", "end it"),
        Binding("l", "choose('leave')", "leave it running"),
        Binding("escape", "dismiss(None)", "keep the panel"),
    ]

    def __init__(self, title: str, place: str) -> None:
        super().__init__()
        self._named = title
        self._place = place
        self._guard = Guard(time.monotonic)

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = Content(f"{one_line(self._named, 60)} is running")
            box.border_subtitle = "e ends it · l leaves it running · esc keeps the panel"
            yield Label(literal(f"in {self._place}"), markup=False)
            yield Label("Left running, /terminals shows it again.", markup=False)

    def action_choose(self, choice: Choice) -> None:
        """Choose, unless the key was meant for something else."""
        if not self._guard.holds:
            self.dismiss(choice)
