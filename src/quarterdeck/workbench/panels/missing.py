"""A box for a panel whose widget is not there any more: says so, and gives nothing up."""

from typing import Any

from msgspec import field
from textual.app import ComposeResult
from textual.widgets import Static

from ..literal import one_line
from .panel import Panel, PanelOptions

__all__ = ["MissingOptions", "MissingPanel"]


class MissingOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What it stands for."""

    widget: str = ""
    options: dict[str, Any] = field(default_factory=dict[str, Any])


class MissingPanel(Panel):
    """Kept in the layout until the widget is back or somebody closes it."""

    options_type = MissingOptions
    can_focus = True

    def compose(self) -> ComposeResult:
        """The parts."""
        name = one_line(self.options.widget, 60)
        words = (
            f"There is no widget {name!r} now.\n\nctrl+w closes this panel; /widgets tells more."
        )
        yield Static(words, markup=False)

    @property
    def title(self) -> str:
        """See ``Panel``."""
        return f"{self.options.widget} (missing)"
