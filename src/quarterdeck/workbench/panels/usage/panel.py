"""Usage and cost: by agent, model or day, and over the last hour."""

from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from ...rendering.lines import Line
from ..components import PanelPage, PolledPanel
from ..panel import PanelOptions
from .model import GROUPINGS, Grouping, UsageHistory, usage_lines

__all__ = ["UsageOptions", "UsagePanel"]


class UsageOptions(PanelOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a usage panel can be told."""

    by: Grouping = "agent"


class UsagePanel(PolledPanel):
    """Bars with figures; redrawn when the agents change, and each minute."""

    options_type: ClassVar[type[PanelOptions]] = UsageOptions
    EVERY: ClassVar[float | None] = 60.0
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "group", "group by agent, model or day"),
        Binding("a", "archived", "show or hide archived agents"),
    ]

    def __init__(self, context: Any, options: UsageOptions, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.grouping: Grouping = options.by
        self.history = UsageHistory()
        self._counts_archived = False
        self._unwatch = lambda: None
        self.page = PanelPage(self._lines, id="page")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.page

    def on_mount(self) -> None:
        """Follow the agents."""
        self._unwatch = self.context.roster.watch(self._changed)
        self.history.take(self.context.roster.everyone, self.context.clock())

    def on_unmount(self) -> None:
        """Let go of the store."""
        self._unwatch()

    def focus_target(self) -> PanelPage:
        """See ``PolledPanel``."""
        return self.page

    def change(self, options: Any) -> bool:
        """See ``Panel``."""
        self.options, self.grouping = options, options.by
        self._update()
        return True

    def remember(self) -> dict[str, Any]:
        """See ``Panel``."""
        return {"by": self.grouping, "archived": self._counts_archived}

    def recall(self, state: dict[str, Any]) -> None:
        """See ``Panel``."""
        self._counts_archived = state.get("archived") is True
        for grouping in GROUPINGS:
            if grouping == state.get("by"):
                self.grouping = grouping

    async def look(self) -> None:
        """Draw the passing of time."""
        self._update()

    def action_group(self) -> None:
        """Add up by something else."""
        self.grouping = GROUPINGS[(GROUPINGS.index(self.grouping) + 1) % len(GROUPINGS)]
        self._update()

    def action_archived(self) -> None:
        """Count agents that are put away, or not."""
        self._counts_archived = not self._counts_archived
        self._update()

    def _changed(self) -> None:
        self.history.take(self.context.roster.everyone, self.context.clock())
        if self.is_seen:
            self._update()

    def _update(self) -> None:
        if self.is_mounted:
            self.page.update()

    def _lines(self, width: int) -> list[Line]:
        everyone, now = self.context.roster.everyone, self.context.clock()
        agents = [one for one in everyone if self._counts_archived or not one.is_archived]
        return usage_lines(agents, self.history, self.grouping, now, width)
