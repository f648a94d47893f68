"""A box for a panel whose widget is not there any more: says so, and gives nothing up."""

from typing import TYPE_CHECKING, Any

from msgspec import field
from textual.app import ComposeResult
from textual.widgets import Static

from ..sanitize import sanitize_line
from .panel import Panel, PanelOptions

if TYPE_CHECKING:
    from ..context import WorkbenchContext

__all__ = ["MissingOptions", "MissingPanel"]


class MissingOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What it stands for."""

    widget: str = ""
    options: dict[str, Any] = field(default_factory=dict[str, Any])


class MissingPanel(Panel):
    """Kept in the layout until the widget is back or somebody closes it."""

    options_type = MissingOptions
    can_focus = True

    def __init__(self, context: "WorkbenchContext", options: Any, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self._state: dict[str, Any] = {}

    def compose(self) -> ComposeResult:
        """The parts."""
        name = sanitize_line(self.options.widget, 60)
        words = f"No widget {name!r}.\n\n/widgets shows why; ctrl+w closes this panel."
        yield Static(words, markup=False)

    def remember(self) -> dict[str, Any]:
        """See ``Panel``: what the widget itself remembered."""
        return self._state

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        self._state = state

    @property
    def title(self) -> str:
        """See ``Panel``."""
        return f"{self.options.widget} (missing)"
