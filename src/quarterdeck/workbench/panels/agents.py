"""The agents, as a panel: who needs a person first; moving the cursor selects one."""

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from textual import on
from textual.app import ComposeResult

from quarterdeck.wire.errors import QuarterdeckError

from ..rendering.agent_rows import COLUMNS
from ..stores.roster import GROUPS, SORTS
from ..widgets.agent_table import AgentTable
from ..widgets.picker import Picker
from .panel import Panel

if TYPE_CHECKING:
    from quarterdeck.wire.ids import SessionId

    from ..context import WorkbenchContext

__all__ = ["AgentsPanel"]

_PAST = 60
"""Records of an agent that are read to tell what it does."""
_MOST_RECALLED = 200
"""Agents for which that is done."""


class AgentsPanel(Panel):
    """The table of agents; the row of the selected one is marked."""

    has_head = False

    def __init__(self, context: "WorkbenchContext", options: Any, *, id: str | None = None) -> None:
        super().__init__(context, options, id=id)
        self.table = AgentTable(
            context.roster, context.clock, context.inbox, context.budgets, id="agents"
        )
        self._lines = -1
        """How many lines the layout gave it room for."""
        self._recalled: set[SessionId] = set()

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
        if choices.group in GROUPS:
            self.context.roster.group(choices.group)
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
        agents = self.context.roster.agents
        if self.context.is_home and not any(one.is_live for one in agents):
            return 0  # they are what the home screen offers to continue
        return self.table.count_lines(max(20, width))

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
        self.table.number(self.context.shown is not None)  # else keys with numbers are for home
        self.table.place(self.context.shown)
        wanted = self.wanted(self.size.width) or 0
        if wanted != self._lines:  # laying out costs far more than drawing
            self._lines = wanted
            self.refresh(layout=True)
        self._recall()

    def _recall(self) -> None:
        """Read what agents at work did before this was opened, so that their rows can tell it."""
        roster = self.context.roster
        missing = [
            agent.session
            for agent in roster.agents
            if agent.state in ("running", "waiting") and agent.session not in self._recalled
        ]
        if missing and len(self._recalled) < _MOST_RECALLED:
            self._recalled.update(missing)
            self.run_worker(partial(self._read_past, missing[:_MOST_RECALLED]), group="recall")

    async def _read_past(self, sessions: "list[SessionId]") -> None:
        for session in sessions:
            with suppress(QuarterdeckError):
                last = self.context.roster.find(session)
                before = last.last_seq + 1 if last is not None else 1
                page = await self.context.fleet.read(session, before=before, limit=_PAST)
                self.context.roster.recall(session, page)
        self.table.update()
