"""The agents, as a panel: who needs a person first; moving the cursor selects one."""

from typing import TYPE_CHECKING, Any

from textual import on
from textual.app import ComposeResult

from ..rendering.agent_rows import COLUMNS
from ..stores.roster import SORTS
from ..widgets.agent_table import AgentTable
from ..widgets.picker import Picker
from .panel import Panel

if TYPE_CHECKING:
    from ..context import WorkbenchContext

__all__ = ["AgentsPanel"]


class AgentsPanel(Panel):
    """The table of agents; the row of the selected one is marked."""

    has_head = False

    def __init__(self, context: "WorkbenchContext", options: Any, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.table = AgentTable(context.roster, context.clock, id="agents")

    def compose(self) -> ComposeResult:
        """The parts."""
        yield self.table

    def on_mount(self) -> None:
        """Follow the agents and which is selected."""
        choices = self.context.preferences.choices
        self.table.columns = tuple(name for name in choices.columns if name in COLUMNS)
        by = (choices.sort or "").removeprefix("-")
        if by in SORTS:
            self.context.roster.sort(by, is_reversed=(choices.sort or "").startswith("-"))
        self._stops = [self.context.watch(self._show), self.context.roster.watch(self._show)]
        self._show()

    def on_unmount(self) -> None:
        """Let go of the stores."""
        for stop in self._stops:
            stop()

    @property
    def title(self) -> str:
        """See ``Panel``."""
        return "agents"

    def wanted(self, width: int) -> int | None:
        """See ``Panel``."""
        return len(self.table.head(max(20, width))) + len(self.context.roster.agents)

    @on(Picker.Moved, "#agents")
    def _moved(self, event: Picker.Moved) -> None:
        event.stop()
        agent = next((a for a in self.context.roster.agents if a.session == event.key), None)
        if agent is not None:
            self.context.select(agent.session)

    @on(Picker.Chosen, "#agents")
    def _chosen(self, event: Picker.Chosen) -> None:
        event.stop()
        agent = next((a for a in self.context.roster.agents if a.session == event.key), None)
        if agent is not None:
            self.post_message(self.AgentWanted(agent.session))

    def _show(self) -> None:
        self.table.place(self.context.shown)
        self.refresh(layout=True)
