"""The agents as the table shows them: sorted, filtered, children below their parents."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from quarterdeck.wire.event_text import describe_request
from quarterdeck.wire.events import (
    MessageChunk,
    PermissionAsked,
    Prompted,
    QuestionAsked,
    ThoughtChunk,
    ToolCallStarted,
    TurnStarted,
)

from ..rendering import glyphs

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo, FleetStatus
    from quarterdeck.wire.ids import SessionId
    from quarterdeck.wire.record import Record

__all__ = ["SORTS", "SYMBOLS", "AgentListQuery", "RosterStore", "RosterTotals", "arrange_agents"]

_RANK = {"waiting": 1, "failed": 2, "running": 3, "starting": 3}


def _need(agent: "AgentInfo") -> tuple[Any, ...]:
    # Within a rank by birth: rows that jump about cannot be clicked.
    rank = 0 if agent.needs_person else _RANK.get(agent.state, 4)
    return agent.is_archived, not agent.needs_person, rank, agent.spawned


SORTS: dict[str, Callable[["AgentInfo"], tuple[Any, ...]]] = {
    "need": _need,
    "name": lambda agent: (agent.name.lower(), agent.spawned),
    "kind": lambda agent: (agent.agent, agent.spawned),
    "model": lambda agent: (agent.model or "", agent.spawned),
    "state": lambda agent: (agent.state, agent.spawned),
    "time": lambda agent: (-agent.updated, agent.spawned),
    "tokens": lambda agent: (-agent.usage.total, agent.spawned),
    "context": lambda agent: (-_full(agent), agent.spawned),
    "cost": lambda agent: (-(agent.cost.amount if agent.cost else 0.0), agent.spawned),
    "branch": lambda agent: (agent.cwd, agent.spawned),
}
"""What agents can be sorted by; figures come with the greatest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentListQuery:
    """What a person wants to see of the agents."""

    by: str = "need"
    is_reversed: bool = False
    words: str = ""
    """Only those that have all of these words somewhere."""
    within: str | None = None
    """Only those in this directory or below."""
    archived: bool = False
    """Also those that are put away."""

    @property
    def narrows(self) -> bool:
        """Whether some may be left out that are there otherwise."""
        return bool(self.words) or self.within is not None


def arrange_agents(
    agents: Iterable["AgentInfo"], query: AgentListQuery, describe: Callable[["AgentInfo"], str]
) -> list[tuple["AgentInfo", int]]:
    """The agents that are wanted, each with how deep it stands below others.

    A child stands below its parent; a family stands where its first member would.
    """
    shown = [agent for agent in agents if _fits(agent, query, describe)]
    key = SORTS.get(query.by, _need)
    ids = {agent.session for agent in shown}
    children: dict[SessionId | None, list[AgentInfo]] = {}
    for agent in shown:
        above = agent.parent if agent.parent in ids and agent.parent != agent.session else None
        children.setdefault(above, []).append(agent)
    firsts = _firsts(shown, children, key)
    placed: list[tuple[AgentInfo, int]] = []

    def place(siblings: Sequence["AgentInfo"], depth: int) -> None:
        for agent in sorted(siblings, key=lambda a: firsts[a.session], reverse=query.is_reversed):
            placed.append((agent, depth))
            place(children.get(agent.session, ()), depth + 1)

    place(children.get(None, ()), 0)
    seen = {agent.session for agent, _ in placed}
    # Parents in a circle would show no one; the log cannot say that, a damaged one might.
    return placed + [(agent, 0) for agent in shown if agent.session not in seen]


def _firsts(
    shown: Sequence["AgentInfo"],
    children: dict["SessionId | None", list["AgentInfo"]],
    key: Callable[["AgentInfo"], tuple[Any, ...]],
) -> "dict[SessionId, tuple[Any, ...]]":
    """For each agent the least key in its family, so that who needs a person lifts their lead."""
    found: dict[SessionId, tuple[Any, ...]] = {agent.session: key(agent) for agent in shown}
    parents = {kid.session: above for above, kids in children.items() if above for kid in kids}
    for agent in shown:
        mine, above, steps = key(agent), parents.get(agent.session), 0
        while above is not None and steps < len(shown):
            found[above] = min(found[above], mine)
            above, steps = parents.get(above), steps + 1
    return found


def _fits(
    agent: "AgentInfo", query: AgentListQuery, describe: Callable[["AgentInfo"], str]
) -> bool:
    if agent.is_archived and not query.archived:
        return False
    if query.within is not None:
        root = query.within.rstrip("/")
        if agent.cwd != root and not agent.cwd.startswith(root + "/"):
            return False
    if not query.words:
        return True
    facts = (agent.name, agent.agent, agent.model, agent.state, agent.mode, agent.cwd, agent.title)
    text = " ".join([*(fact for fact in facts if fact), describe(agent)]).lower()
    return all(word in text for word in query.words.lower().split())


def _full(agent: "AgentInfo") -> float:
    context = agent.context
    return context.used / context.size if context and context.size else 0.0


SYMBOLS = {
    "starting": glyphs.STARTING,
    "idle": glyphs.IDLE,
    "running": glyphs.RUNNING,
    "waiting": glyphs.NEEDS_YOU,
    "interrupted": glyphs.STOPPED,
    "failed": glyphs.FAILED,
    "killed": glyphs.STOPPED,
    "done": glyphs.DONE,
}
"""A sign for each state; the word stands beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RosterTotals:
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
        """The fleet has reported its agents at least once."""
        self.query = AgentListQuery()
        """What the person wants to see."""
        self._depths: dict[SessionId, int] = {}
        self._all: Sequence[AgentInfo] = ()
        self._doing: dict[SessionId, str] = {}
        self._since: dict[SessionId, int] = {}
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call a function after each change; returns what ends that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def replace(self, agents: Iterable["AgentInfo"], status: "FleetStatus | None") -> None:
        """Take what the fleet says about its agents."""
        self._all = [
            agent for agent, _ in arrange_agents(agents, AgentListQuery(archived=True), self.doing)
        ]
        self.status = status or self.status
        self.is_known = True
        self._filter()

    def show_archived(self, shown: bool) -> None:
        """Show those that are put away, or hide them."""
        self._want(replace(self.query, archived=shown))

    @property
    def shows_archived(self) -> bool:
        """Whether those that are put away are shown."""
        return self.query.archived

    def sort(self, by: str, *, is_reversed: bool = False) -> None:
        """Sort by one of ``ordering.SORTS``."""
        self._want(replace(self.query, by=by, is_reversed=is_reversed))

    def seek(self, words: str) -> None:
        """Show only agents that have all of these words; none: every one."""
        self._want(replace(self.query, words=words))

    def narrow(self, within: str | None) -> None:
        """Show only agents that work in a directory or below; None: every one."""
        self._want(replace(self.query, within=within))

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
                    self._doing[record.session] = describe_request(title)
                case QuestionAsked(text=text):
                    self._doing[record.session] = f"question: {text}"
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
    def totals(self) -> RosterTotals:
        """All agents that are not put away, together."""
        shown = [agent for agent in self._all if not agent.is_archived]
        states: dict[str, int] = {}
        for agent in shown:
            states[agent.state] = states.get(agent.state, 0) + 1
        costs = [agent.cost for agent in self._all if agent.cost is not None]
        currency = costs[0].currency if costs else "USD"
        return RosterTotals(
            states=states,
            needs_person=sum(agent.needs_person for agent in shown),
            tokens=sum(agent.usage.total for agent in shown),
            cost=sum(cost.amount for cost in costs if cost.currency == currency),
            currency=currency,
        )

    def _want(self, query: AgentListQuery) -> None:
        if query != self.query:
            self.query = query
            self._filter()

    def _filter(self) -> None:
        arranged = arrange_agents(self._all, self.query, self.doing)
        self.agents = [agent for agent, _ in arranged]
        self._depths = {agent.session: depth for agent, depth in arranged if depth}
        for watcher in list(self._watchers):
            watcher()
