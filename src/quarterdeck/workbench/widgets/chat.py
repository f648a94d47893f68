"""Where people write to an agent: several lines, with the past at hand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from ..literal import literal

__all__ = ["ChatInput"]


class ChatInput(TextArea):
    """A text that is sent with enter.

    Args:
        past: what was sent before, oldest first; asked for when somebody wants to see it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "send"),
        Binding("ctrl+j,shift+enter,alt+enter", "newline", "new line"),
        Binding("ctrl+c", "app.stop", "interrupt", show=False),
        Binding("up", "older", "earlier prompts", show=False),
        Binding("down", "newer", "later prompts", show=False),
    ]

    @dataclass
    class Submitted(Message):
        """A text is to be sent."""

        text: str

    class HelpWanted(Message):
        """A question mark in an empty input."""

    def __init__(self, past: Callable[[], Sequence[str]], *, id: str | None = None) -> None:
        super().__init__(
            id=id,
            soft_wrap=True,
            show_line_numbers=False,
            compact=True,
            highlight_cursor_line=False,
        )
        self.cursor_blink = False  # it would draw twice a second for nothing
        self._past = past
        self._back = 0
        """How far back in the past the text is from; 0: it is new."""
        self._kept = ""

    def set_text(self, text: str) -> None:
        """Put another text in, with the cursor at its end."""
        self._back = 0
        if text != self.text:
            self.load_text(text)
            self.move_cursor(self.document.end)

    def action_submit(self) -> None:
        """Send what is there, unless it is nothing."""
        if self.text.strip():
            self._back = 0
            self.post_message(self.Submitted(self.text))

    def action_newline(self) -> None:
        """Begin another line."""
        self.insert("\n")

    def action_older(self) -> None:
        """One line up, or from the first line to the prompt before."""
        if self.cursor_location[0] > 0 or not self._recall(1):
            self.action_cursor_up()

    def action_newer(self) -> None:
        """One line down, or from the last line to the prompt after."""
        if self.cursor_location[0] < self.document.line_count - 1 or not self._recall(-1):
            self.action_cursor_down()

    def on_key(self, event: events.Key) -> None:
        """Take the keys that the text itself would swallow.

        They are taken here, not by bindings with priority: those run before the characters that
        were typed just before have arrived.
        """
        if event.key == "enter":
            self.action_submit()
        elif event.key in ("ctrl+j", "shift+enter", "alt+enter"):
            self.action_newline()
        elif event.character == "?" and not self.text:
            self.post_message(self.HelpWanted())
        else:
            return
        event.prevent_default()
        event.stop()

    def on_paste(self, event: events.Paste) -> None:
        """A clipboard may hold what would act on the terminal when it is drawn."""
        event.text = literal(event.text.replace("\r\n", "\n").replace("\r", "\n"))

    def _recall(self, step: int) -> bool:
        past = self._past()
        back = self._back + step
        if not 0 <= back <= len(past):
            return False
        if self._back == 0:
            self._kept = self.text
        self.load_text(past[-back] if back else self._kept)
        self.move_cursor(self.document.end)
        self._back = back
        return True
