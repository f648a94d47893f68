"""The agents as the table shows them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from quarterdeck.wire.events import (
    MessageChunk,
    PermissionAsked,
    Prompted,
    QuestionAsked,
    ThoughtChunk,
    ToolCallStarted,
    TurnStarted,
)

from .ordering import Wish, arrange

if TYPE_CHECKING:
    from quarterdeck.fleet.port import AgentInfo, FleetStatus
    from quarterdeck.wire.ids import SessionId
    from quarterdeck.wire.record import Record

__all__ = ["SYMBOLS", "RosterStore", "Totals"]

SYMBOLS = {
    "starting": "◌",
    "idle": "○",
    "running": "●",
    "waiting": "?",
    "interrupted": "‖",
    "failed": "✗",
    "killed": "✗",
    "done": "✓",
}
"""A sign for each state; the word stands beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What all agents amount to."""

    states: dict[str, int]
    needs_person: int
    tokens: int
    cost: float
    currency: str


class RosterStore:
    """Every agent that is known, who needs a person first."""

    def __init__(self) -> None:
        self.agents: Sequence[AgentInfo] = ()
        self.status: FleetStatus | None = None
        self.is_known = False
        """The fleet has told its agents at least once."""
        self.wish = Wish()
        """What the person wants to see."""
        self._depths: dict[SessionId, int] = {}
        self._all: Sequence[AgentInfo] = ()
        self._doing: dict[SessionId, str] = {}
        self._since: dict[SessionId, int] = {}
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call somebody after each change; returns what ends that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def replace(self, agents: Iterable["AgentInfo"], status: "FleetStatus | None") -> None:
        """Take what the fleet says about its agents."""
        self._all = [agent for agent, _ in arrange(agents, Wish(archived=True), self.doing)]
        self.status = status or self.status
        self.is_known = True
        self._filter()

    def show_archived(self, shown: bool) -> None:
        """Show those that are put away, or hide them."""
        self._want(replace(self.wish, archived=shown))

    @property
    def shows_archived(self) -> bool:
        """Whether those that are put away are shown."""
        return self.wish.archived

    def sort(self, by: str, *, is_reversed: bool = False) -> None:
        """Sort by one of ``ordering.SORTS``."""
        self._want(replace(self.wish, by=by, is_reversed=is_reversed))

    def seek(self, words: str) -> None:
        """Show only agents that have all of these words; none: every one."""
        self._want(replace(self.wish, words=words))

    def narrow(self, within: str | None) -> None:
        """Show only agents that work in a directory or below; None: every one."""
        self._want(replace(self.wish, within=within))

    def depth(self, session: "SessionId") -> int:
        """How many of those that are shown an agent stands below."""
        return self._depths.get(session, 0)

    def take(self, records: Iterable["Record"]) -> None:
        """Note what agents are doing."""
        for record in records:
            match record.event:
                case ToolCallStarted(title=title, name=name):
                    self._doing[record.session] = title or name or "a tool"
                case PermissionAsked(title=title):
                    self._doing[record.session] = f"asks: {title}"
                case QuestionAsked(text=text):
                    self._doing[record.session] = f"asks: {text}"
                case MessageChunk(role="agent"):
                    self._doing[record.session] = "writing"
                case ThoughtChunk():
                    self._doing[record.session] = "thinking"
                case Prompted():
                    self._doing[record.session] = "prompted"
                case TurnStarted():
                    self._since[record.session] = record.time
                case _:
                    continue

    @property
    def everyone(self) -> Sequence["AgentInfo"]:
        """Every agent, archived or not."""
        return self._all

    def find(self, session: "SessionId | None") -> "AgentInfo | None":
        """An agent by its session, archived or not."""
        return next((agent for agent in self._all if agent.session == session), None)

    def doing(self, agent: "AgentInfo") -> str:
        """What an agent does or did last, in its own words."""
        if agent.state in ("failed", "killed", "interrupted") and agent.reason:
            return agent.reason
        at_work = agent.state in ("running", "waiting")
        words = self._doing.get(agent.session, "") if at_work else ""
        return words or agent.title or ""

    def since(self, agent: "AgentInfo") -> int:
        """When the state of an agent began, as far as is known; microseconds."""
        if agent.state in ("running", "waiting"):
            return self._since.get(agent.session, agent.updated)
        return agent.updated

    def beside(self, session: "SessionId | None", step: int) -> "SessionId | None":
        """The agent that is ``step`` rows further, going around."""
        if not self.agents:
            return None
        ids = [agent.session for agent in self.agents]
        at = ids.index(session) + step if session is not None and session in ids else 0
        return ids[at % len(ids)]

    @property
    def totals(self) -> Totals:
        """All agents that are not put away, together."""
        shown = [agent for agent in self._all if not agent.is_archived]
        states: dict[str, int] = {}
        for agent in shown:
            states[agent.state] = states.get(agent.state, 0) + 1
        costs = [agent.cost for agent in self._all if agent.cost is not None]
        currency = costs[0].currency if costs else "USD"
        return Totals(
            states=states,
            needs_person=sum(agent.needs_person for agent in shown),
            tokens=sum(agent.usage.total for agent in shown),
            cost=sum(cost.amount for cost in costs if cost.currency == currency),
            currency=currency,
        )

    def _want(self, wish: Wish) -> None:
        if wish != self.wish:
            self.wish = wish
            self._filter()

    def _filter(self) -> None:
        arranged = arrange(self._all, self.wish, self.doing)
        self.agents = [agent for agent, _ in arranged]
        self._depths = {agent.session: depth for agent, depth in arranged if depth}
        for watcher in list(self._watchers):
            watcher()
