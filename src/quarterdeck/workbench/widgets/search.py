"""The line below a transcript into which people type what they look for."""

from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Label

from ..literal import one_line

__all__ = ["SearchBar"]


class SearchBar(Horizontal):
    """Tells what to look for, and shows how many were found."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(1)", "earlier match"),
        Binding("down,shift+enter", "step(-1)", "later match"),
        Binding("escape", "close", "end the search"),
    ]

    @dataclass
    class Changed(Message):
        """Other words are looked for."""

        words: str

    @dataclass
    class Stepped(Message):
        """Go to the next match: 1 for an earlier one, -1 for a later one."""

        step: int

    class Closed(Message):
        """Nobody looks any more."""

    def __init__(self, words: str = "") -> None:
        super().__init__()
        self._words = words

    def compose(self) -> ComposeResult:
        """The parts."""
        yield Label("search ", classes="search-sign")
        hint = "enter, ↑ earlier · ↓ later · esc ends"
        yield Input(one_line(self._words), placeholder=hint, compact=True)
        yield Label("", classes="search-count", markup=False)

    def on_mount(self) -> None:
        """Take the keys."""
        self.query_one(Input).focus()

    def tell(self, words: str) -> None:
        """Show how the search stands."""
        self.query_one(".search-count", Label).update(words)

    def enter(self) -> None:
        """Take the keys again."""
        self.query_one(Input).focus()

    def action_step(self, step: int) -> None:
        """Go to another match."""
        self.post_message(self.Stepped(step))

    def action_close(self) -> None:
        """End the search."""
        self.post_message(self.Closed())

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed(event.value))

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Stepped(1))
