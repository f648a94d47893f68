"""Something to read: rows of names and words under titles; stays until it is closed."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from ..literal import literal, one_line
from ..rendering.lines import Line, indented, plain, wrap
from ..widgets.lined import LinesView

__all__ = ["Part", "ReadingScreen"]

Part = tuple[str, Sequence[tuple[str, str]]]
"""A title, and below it names with words; any text."""
_NAMES = 24


class _Parts(LinesView, can_focus=True):
    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__(id="reading")
        self._parts = parts

    def lines(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for title, rows in self._parts:
            wide = min(_NAMES, max((len(name) for name, _ in rows), default=0)) + 2
            lines.append(plain(one_line(title), "heading"))
            for name, words in rows:
                before = (f"  {one_line(name, _NAMES):<{wide}}", "key")
                inner = wrap([(literal(words), "text")], max(10, width - wide - 2))
                lines += indented(inner, before, (" " * (wide + 2), "text"))
            lines.append(())
        return lines


class ReadingScreen(ModalScreen[None]):
    """Shows what was found, or anything else in rows."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss(None)", "close")]

    def __init__(self, title: str, parts: Sequence[Part]) -> None:
        super().__init__()
        self._head = title
        self._parts = parts

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = Content(one_line(self._head, 60))
            box.border_subtitle = "↑ ↓ scroll · esc closes"
            yield _Parts(self._parts)

    def on_mount(self) -> None:
        """Let keys scroll."""
        self.query_one(_Parts).focus()
