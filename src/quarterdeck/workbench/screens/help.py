"""Every key and every command; stays until it is closed, and can be searched."""

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input

from ..rendering.lines import Line, indented, plain, wrap
from ..sanitize import sanitize_line
from ..widgets.lines_view import LinesView

__all__ = ["HelpScreen"]

_MOST_KEY = 30


class _Help(LinesView, can_focus=False):
    def __init__(self, parts: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> None:
        super().__init__(id="help")
        self._parts = parts
        self._query: list[str] = []

    def seek(self, words: str) -> None:
        self._query = words.lower().split()
        self.update()
        self.scroll_to(y=0, animate=False)

    def lines(self, width: int) -> list[Line]:
        lines: list[Line] = []
        for title, rows in self._parts:
            shown = [row for row in rows if self._fits(title, *row)]
            if not shown:
                continue
            lines.append(plain(sanitize_line(title), "heading"))
            wide = min(_MOST_KEY, width // 2, max(len(key) for key, _ in shown) + 2)
            for key, words in shown:
                before = (f"  {sanitize_line(key):<{wide}}", "key")
                words_at = wrap([(sanitize_line(words), "text")], max(10, width - wide - 2))
                lines += indented(words_at, before, (" " * (wide + 2), "text"))
            lines.append(())
        return lines or [plain("no matches", "faint")]

    def _fits(self, *words: str) -> bool:
        text = " ".join(words).lower()
        return all(word in text for word in self._query)


class HelpScreen(ModalScreen[None]):
    """Shows rows of keys and words under titles; what is typed narrows them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,f10", "dismiss(None)", "close"),
        Binding("up", "scroll(-1)", "up"),
        Binding("down", "scroll(1)", "down"),
        Binding("pageup", "scroll(-15)", "a page up"),
        Binding("pagedown", "scroll(15)", "a page down"),
    ]

    def __init__(
        self,
        parts: Sequence[tuple[str, Sequence[tuple[str, str]]]],
        *,
        title: str = "help",
        query: str = "",
    ) -> None:
        super().__init__()
        self._parts = parts
        self._named = title
        self._query = query

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = Content(sanitize_line(self._named, 60))
            box.border_subtitle = "type to search · esc close"
            yield Input(self._query, placeholder="search", id="sought")
            yield _Help(self._parts)

    def on_mount(self) -> None:
        """Let keys search."""
        self.query_one(Input).focus()
        self.query_one(_Help).seek(self._query)

    @on(Input.Changed, "#sought")
    def _query_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.query_one(_Help).seek(event.value)

    def action_scroll(self, lines: int) -> None:
        """Move what is shown."""
        self.query_one(_Help).scroll_relative(y=lines, animate=False)
