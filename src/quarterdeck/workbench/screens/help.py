"""Every key and every command; stays until it is closed."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from ..rendering.lines import Line, indented, plain, wrap
from ..widgets.lined import LinesView

__all__ = ["HelpScreen"]


class _Help(LinesView, can_focus=True):
    def __init__(self, parts: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> None:
        super().__init__(id="help")
        self._parts = parts

    def lines(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for title, rows in self._parts:
            lines += [plain(title, "heading")]
            wide = max((len(key) for key, _ in rows), default=0) + 2
            for key, words in rows:
                before = (f"  {key:<{wide}}", "key")
                lines += indented(
                    wrap([(words, "text")], width - wide - 2), before, (" " * (wide + 2), "text")
                )
            lines.append(())
        return lines


class HelpScreen(ModalScreen[None]):
    """Shows rows of keys and words under titles."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,f1", "dismiss(None)", "close")]

    def __init__(self, parts: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> None:
        super().__init__()
        self._parts = parts

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = "help"
            box.border_subtitle = "esc closes"
            yield _Help(self._parts)

    def on_mount(self) -> None:
        """Let keys scroll."""
        self.query_one(_Help).focus()
