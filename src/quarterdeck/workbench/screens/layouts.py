"""Choosing a layout by its name."""

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from ..literal import one_line
from ..rendering.lines import Line
from ..widgets.picker import Picker

__all__ = ["LayoutsScreen"]


class _Layouts(Picker):
    def __init__(self, layouts: Sequence[dict[str, Any]]) -> None:
        super().__init__(id="layouts")
        self._layouts = layouts
        self.cursor = layouts[0]["name"] if layouts else None

    def rows(self, width: int) -> list[tuple[str, Line]]:
        """See ``Picker``."""
        return [
            (
                one["name"],
                (
                    (f"{one_line(one['name'], 24):<26}", "strong"),
                    (f"{one['scope']:<10}", "faint"),
                    (one_line(one["help"]), "text"),
                ),
            )
            for one in self._layouts
        ]


class LayoutsScreen(ModalScreen[str | None]):
    """Gives the name of a layout, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss(None)", "leave")]

    def __init__(self, layouts: Sequence[dict[str, Any]]) -> None:
        super().__init__()
        self._layouts = layouts

    def compose(self) -> ComposeResult:
        """The parts."""
        with Vertical(id="box") as box:
            box.border_title = "layouts"
            box.border_subtitle = "enter loads · esc leaves · /layout save NAME keeps what is open"
            yield _Layouts(self._layouts)

    def on_mount(self) -> None:
        """Let keys choose."""
        self.query_one(_Layouts).focus()

    @on(Picker.Chosen, "#layouts")
    def _chosen(self, event: Picker.Chosen) -> None:
        event.stop()
        self.dismiss(event.key)
