"""The agents as the table shows them: grouped, sorted, filtered; and what each does just now."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.event_text import describe_request
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    Prompted,
    QuestionAnswered,
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

__all__ = [
    "BUCKETS",
    "GROUPS",
    "SORTS",
    "AgentActivity",
    "AgentListQuery",
    "RosterStore",
    "RosterTotals",
    "arrange_agents",
    "name_group",
    "state_symbol",
]

GROUPS = ("state", "lead", "project", "none")
"""What agents can be grouped by."""
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


class AgentListQuery(Struct, frozen=True, kw_only=True):
    """What a person wants to see of the agents."""

    by: str = "need"
    is_reversed: bool = False
    words: str = ""
    """Only those that have all of these words somewhere."""
    within: str | None = None
    """Only those in this directory or below."""
    archived: bool = False
    """Also those that are put away."""
    group: str = "state"
    """One of ``GROUPS``."""

    @property
    def narrows(self) -> bool:
        """Whether some may be left out that are there otherwise."""
        return bool(self.words) or self.within is not None


def arrange_agents(
    agents: Iterable["AgentInfo"], query: AgentListQuery, describe: Callable[["AgentInfo"], str]
) -> list[tuple["AgentInfo", int]]:
    """The agents that are wanted, each with how deep it stands below others in its group.

    A child stands below its parent where both are in the same group; a family stands where its
    first member would.
    """
    shown = [agent for agent in agents if _fits(agent, query, describe)]
    groups: dict[tuple[int, str], list[AgentInfo]] = {}
    for agent in shown:
        groups.setdefault(_group_key(agent, query.group), []).append(agent)
    placed: list[tuple[AgentInfo, int]] = []
    for key in sorted(groups):
        placed += _arrange_group(groups[key], query)
    return placed


def _arrange_group(
    shown: Sequence["AgentInfo"], query: AgentListQuery
) -> list[tuple["AgentInfo", int]]:
    key = SORTS.get(query.by, _need)
    if query.group == "none":
        return [(agent, 0) for agent in sorted(shown, key=key, reverse=query.is_reversed)]
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


def _group_key(agent: "AgentInfo", group: str) -> tuple[int, str]:
    """Where a group stands among others, and its title; no title: there are no groups."""
    match group:
        case "state" if agent.is_archived:
            return 3, "archived"
        case "state" if agent.lost is not None:
            return 2, "host lost"
        case "state" if agent.needs_person:
            return 0, "needs you"
        case "state" if agent.state in ("running", "starting", "waiting"):
            return 1, "running"
        case "state":
            return 2, "done"
        case "project":
            return 0, (agent.worktree.repository if agent.worktree else agent.cwd) or "/"
        case _:
            return 0, ""


def name_group(agent: "AgentInfo", group: str) -> str:
    """The title of the group that an agent is in; empty: it is in none."""
    return _group_key(agent, group)[1]


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


_SYMBOLS = {
    "needs you": glyphs.NEEDS_YOU,
    "starting": glyphs.STARTING,
    "running": glyphs.RUNNING,
    "idle": glyphs.IDLE,
    "done": glyphs.DONE,
    "failed": glyphs.FAILED,
    "stopped": glyphs.STOPPED,
    "host lost": glyphs.WARNING,
}


def state_symbol(agent: "AgentInfo") -> str:
    """The sign of its state; the word stands beside it, or a group has it as its title."""
    return _SYMBOLS[agent.state_word]


BUCKETS = 6
"""Parts of the last minutes that activity is counted in."""
_BUCKET = 30_000_000
"""Microseconds of one."""
_ACTIONS = {
    "execute": "running",
    "edit": "editing",
    "delete": "deleting",
    "move": "moving",
    "read": "reading",
    "search": "searching",
    "fetch": "fetching",
}
_TITLE_VERBS = frozenset(
    ("run", "execute", "edit", "delete", "move", "read", "search", "fetch", "write", "update")
)


class AgentActivity:
    """What one agent does: in words, its plan, and how much happened in the last minutes.

    Its size does not grow, and one more event costs the same whatever was before.
    """

    __slots__ = ("_counts", "_newest", "_wanted", "doing", "plan", "since")

    def __init__(self) -> None:
        self.doing = ""
        """The last action, in words; empty: not known."""
        self.since: int | None = None
        """When the turn began, microseconds; None: not known."""
        self.plan: tuple[int, int] | None = None
        """Steps that are done, and all; None: there is no plan."""
        self._wanted = ""
        """What it asked for last, as what it does once that is allowed."""
        self._counts = [0] * BUCKETS
        self._newest = 0

    def count(self, time: int) -> None:
        """Count an event at a time, in microseconds."""
        bucket = time // _BUCKET
        if bucket > self._newest:
            for gone in range(max(self._newest + 1, bucket - BUCKETS + 1), bucket + 1):
                self._counts[gone % BUCKETS] = 0
            self._newest = bucket
        if bucket > self._newest - BUCKETS:
            self._counts[bucket % BUCKETS] += 1

    def take(self, event: Event, time: int) -> None:
        """Note what an event says."""
        match event:
            case MessageChunk(role="agent"):
                self.doing = "writing"
            case ThoughtChunk():
                self.doing = "thinking"
            case ToolCallStarted(title=title, name=name, kind=kind):
                self.doing = _describe_action(title or name or "", kind)
            case PermissionAsked(title=title, kind=kind):
                self.doing = describe_request(title, kind)
                self._wanted = _describe_action(title, kind)
            case PermissionAnswered(kind=kind) if self._wanted:
                self.doing = self._wanted if (kind or "").startswith("allow") else ""
                self._wanted = ""
            case QuestionAsked(text=text):
                self.doing = f"asks: {text}"
            case Prompted() | QuestionAnswered():
                self.doing = ""  # until it does something, its title says what it is about
            case TurnStarted():
                self.since = time
            case PlanChanged(entries=entries):
                done = sum(entry.status == "completed" for entry in entries)
                self.plan = (done, len(entries)) if entries else None
            case _:
                pass

    def sparkline(self, now: int) -> str:
        """The activity up to now, newest at the right; empty: there was none."""
        last = now // _BUCKET
        counts = [
            self._counts[at % BUCKETS] if self._newest - BUCKETS < at <= self._newest else 0
            for at in range(last - BUCKETS + 1, last + 1)
        ]
        if not any(counts):
            return ""
        # By powers of two, and the same for every agent, so that they can be compared.
        return "".join(
            glyphs.LEVELS[min(count.bit_length(), len(glyphs.LEVELS) - 1)] for count in counts
        )


def _describe_action(title: str, kind: str) -> str:
    verb, _, rest = title.partition(" ")
    if kind not in _ACTIONS:
        return title or "using a tool"
    words = rest if rest and verb.istitle() and verb.lower() in _TITLE_VERBS else title
    return f"{_ACTIONS[kind]} {words}".rstrip()


class RosterTotals(Struct, frozen=True, kw_only=True):
    """What all agents amount to."""

    words: dict[str, int]
    """How many agents have each ``state_word``; archived ones are left out."""
    cost: float
    currency: str
    is_today: bool
    """All of the cost is of agents that were started today."""


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
        self._activities: dict[SessionId, AgentActivity] = {}
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call a function after each change; returns what ends that."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def replace(self, agents: Iterable["AgentInfo"], status: "FleetStatus | None") -> None:
        """Take what the fleet says about its agents."""
        every = AgentListQuery(archived=True, group="lead")
        self._all = [agent for agent, _ in arrange_agents(agents, every, self.doing)]
        if len(self._activities) > 2 * len(self._all) + 100:  # of agents that are gone
            known = {agent.session for agent in self._all}
            self._activities = {one: of for one, of in self._activities.items() if one in known}
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
        """Sort by one of ``SORTS``."""
        self._want(replace(self.query, by=by, is_reversed=is_reversed))

    def group(self, by: str) -> None:
        """Group by one of ``GROUPS``."""
        self._want(replace(self.query, group=by))

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
            activity = self._activities.get(record.session)
            if activity is None:
                activity = self._activities[record.session] = AgentActivity()
            activity.take(record.event, record.time)
            activity.count(record.time)

    def recall(self, session: "SessionId", records: Iterable["Record"]) -> None:
        """Note what an agent did before we looked; what is known by now counts more."""
        past = AgentActivity()
        for record in records:
            past.take(record.event, record.time)
            past.count(record.time)
        now = self._activities.setdefault(session, past)
        if now is not past:
            now.doing = now.doing or past.doing
            now.since = now.since if now.since is not None else past.since
            now.plan = now.plan or past.plan

    def knows_activity(self, session: "SessionId") -> bool:
        """Whether anything was heard of what an agent does."""
        return session in self._activities

    def activity(self, session: "SessionId") -> AgentActivity:
        """What an agent does, as far as is known."""
        return self._activities.get(session) or _UNKNOWN

    @property
    def everyone(self) -> Sequence["AgentInfo"]:
        """Every agent, archived or not."""
        return self._all

    def find(self, session: "SessionId | None") -> "AgentInfo | None":
        """An agent by its session, archived or not."""
        return next((agent for agent in self._all if agent.session == session), None)

    def doing(self, agent: "AgentInfo") -> str:
        """What an agent does or did last, in its own words."""
        if agent.lost is not None:
            return agent.lost
        if agent.state in ("failed", "killed", "interrupted") and agent.reason:
            return agent.reason
        at_work = agent.state in ("running", "waiting")
        words = self.activity(agent.session).doing if at_work else ""
        return words or agent.title or ""

    def since(self, agent: "AgentInfo") -> int:
        """When the state of an agent began, as far as is known; microseconds."""
        if agent.state in ("running", "waiting"):
            since = self.activity(agent.session).since
            return agent.updated if since is None else since
        return agent.updated

    def beside(self, session: "SessionId | None", step: int) -> "SessionId | None":
        """The agent that is ``step`` rows further, going around."""
        if not self.agents:
            return None
        ids = [agent.session for agent in self.agents]
        at = ids.index(session) + step if session is not None and session in ids else 0
        return ids[at % len(ids)]

    def totals(self, now: int) -> RosterTotals:
        """All agents that are not put away, together; the cost is that of all that were changed
        today, or of every agent where some of these are older than today.
        """
        words: dict[str, int] = {}
        for agent in self._all:
            if not agent.is_archived:
                words[agent.state_word] = words.get(agent.state_word, 0) + 1
        paid = [(agent, agent.cost) for agent in self._all if agent.cost is not None]
        today = format_local_time(now, "%Y%m%d")
        recent = [one for one in paid if format_local_time(one[0].updated, "%Y%m%d") == today]
        is_today = all(format_local_time(one.spawned, "%Y%m%d") == today for one, _ in recent)
        counted = recent if is_today else paid
        currency = counted[0][1].currency if counted else "USD"
        return RosterTotals(
            words=words,
            cost=sum(cost.amount for _, cost in counted if cost.currency == currency),
            currency=currency,
            is_today=is_today,
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


_UNKNOWN = AgentActivity()
