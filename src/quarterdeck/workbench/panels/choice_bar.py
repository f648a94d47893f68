"""A question with single keys as answers, inside a panel; it takes the focus while it is open."""

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from ..literal import literal
from ..rendering.lines import Line, Span, wrap
from ..widgets.lined import Lined

__all__ = ["ChoiceBar"]


class ChoiceBar(Lined):
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
        self._spans: list[Span] = []
        self._keys: frozenset[str] = frozenset()
        self._lines: list[Line] = []
        self._back: Widget | None = None

    def ask(
        self, topic: str, question: str, answers: Sequence[tuple[str, str]], *, back: Widget
    ) -> None:
        """Ask; each answer is a key and what it does."""
        self.topic, self._back = topic, back
        self._keys = frozenset(key for key, _ in answers)
        self._spans = [(literal(question).replace("\n", " ") + "  ", "asking")]
        for key, words in (*answers, ("esc", "later")):
            self._spans += [(key, "key"), (f" {words}   ", "text")]
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
        """See ``Lined``."""
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
            self._lines = wrap(self._spans, width)
            self.virtual_size = Size(width, len(self._lines))
            self.styles.height = min(4, len(self._lines))
            self.refresh()
