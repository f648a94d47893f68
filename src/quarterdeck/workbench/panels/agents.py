"""The agents, as a panel: who needs a person first; moving the cursor selects one."""

from textual import on
from textual.app import ComposeResult

from ..widgets.agents import AgentTable
from ..widgets.picker import Picker
from .panel import Panel

__all__ = ["AgentsPanel"]


class AgentsPanel(Panel):
    """The table of agents; the row of the selected one is marked."""

    has_head = False

    def compose(self) -> ComposeResult:
        """The parts."""
        yield AgentTable(self.desk.roster, self.desk.clock, id="agents")

    def on_mount(self) -> None:
        """Follow the agents and which is selected."""
        self.table = self.query_one(AgentTable)
        self._stops = [self.desk.watch(self._show), self.desk.roster.watch(self._show)]
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
        count = len(self.desk.roster.agents)
        return count + 1 if count else 0

    @on(Picker.Moved, "#agents")
    def _moved(self, event: Picker.Moved) -> None:
        event.stop()
        agent = next((a for a in self.desk.roster.agents if a.session == event.key), None)
        if agent is not None:
            self.desk.select(agent.session)

    @on(Picker.Chosen, "#agents")
    def _chosen(self, event: Picker.Chosen) -> None:
        event.stop()
        agent = next((a for a in self.desk.roster.agents if a.session == event.key), None)
        if agent is not None:
            self.post_message(self.AgentWanted(agent.session))

    def _show(self) -> None:
        self.table.place(self.desk.shown)
        self.refresh(layout=True)
