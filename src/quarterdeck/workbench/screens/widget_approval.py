"""The source of a custom widget, whole and literal, before it may run."""

import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from ..custom_widgets.library import WidgetSource
from ..rendering.lines import Line, indented, plain, wrap
from ..sanitize import sanitize_line, sanitize_text
from ..widgets.lines_view import LinesView
from .key_guard import KeyGuard

__all__ = ["ApproveScreen"]


class _Code(LinesView, can_focus=True):
    def __init__(self, text: str) -> None:
        super().__init__(id="code")
        self._text = text

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``: every line has its number, so that none hides behind another."""
        lines: list[Line] = []
        source = sanitize_text(self._text).split("\n")
        wide = len(str(len(source)))
        for number, line in enumerate(source, 1):
            parts = wrap([(line, "code")], max(10, width - wide - 2))
            lines += indented(
                parts, (f"{number:>{wide}}  ", "faint"), (f"{'↪':>{wide}}  ", "faint")
            )
        return lines


class _Facts(LinesView, can_focus=False):
    def __init__(self, source: WidgetSource) -> None:
        super().__init__(id="facts")
        self._source = source

    def lines(self, width: int) -> list[Line]:
        """See ``LinesView``."""
        who = (
            f"offered by {sanitize_line(self._source.by, 40)}"
            if self._source.by
            else "your own file"
        )
        facts = [
            plain(f"{who} · {sanitize_line(str(self._source.path))}", "faint"),
            plain(
                "It runs with your permissions and without a sandbox, like any program you start.",
                "bad",
            ),
            plain("y approve exactly this source · n or esc cancel", "key"),
        ]
        return [part for line in facts for part in wrap(line, width)]


class ApproveScreen(ModalScreen[bool]):
    """Gives True if the person approves what is shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "approve", "approve"),
        Binding("n,escape", "leave", "cancel"),
    ]

    def __init__(self, source: WidgetSource) -> None:
        super().__init__()
        self._source = source
        self._guard = KeyGuard(time.monotonic)

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = Content(f"widget {sanitize_line(self._source.name, 40)}")
            yield _Facts(self._source)
            yield _Code(self._source.text)

    def on_mount(self) -> None:
        """Let keys scroll."""
        self.query_one(_Code).focus()

    def action_approve(self) -> None:
        """Yes, unless the key was meant for something else."""
        if not self._guard.holds:
            self.dismiss(True)

    def action_leave(self) -> None:
        """No."""
        self.dismiss(False)
