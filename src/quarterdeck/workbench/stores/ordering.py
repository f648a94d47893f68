"""Which agents are shown, in which order, and who stands below whom."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quarterdeck.fleet.port import AgentInfo
    from quarterdeck.wire.ids import SessionId

__all__ = ["SORTS", "Wish", "arrange"]

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
class Wish:
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


def arrange(
    agents: Iterable["AgentInfo"], wish: Wish, told: Callable[["AgentInfo"], str]
) -> list[tuple["AgentInfo", int]]:
    """The agents that are wanted, each with how deep it stands below others.

    A child stands below its parent; a family stands where its first member would.
    """
    shown = [agent for agent in agents if _fits(agent, wish, told)]
    key = SORTS.get(wish.by, _need)
    ids = {agent.session for agent in shown}
    children: dict[SessionId | None, list[AgentInfo]] = {}
    for agent in shown:
        above = agent.parent if agent.parent in ids and agent.parent != agent.session else None
        children.setdefault(above, []).append(agent)
    firsts = _firsts(shown, children, key)
    placed: list[tuple[AgentInfo, int]] = []

    def place(siblings: Sequence["AgentInfo"], depth: int) -> None:
        for agent in sorted(siblings, key=lambda a: firsts[a.session], reverse=wish.is_reversed):
            placed.append((agent, depth))
            place(children.get(agent.session, ()), depth + 1)

    place(children.get(None, ()), 0)
    seen = {agent.session for agent, _ in placed}
    # Parents in a circle would show nobody; the log cannot say that, a damaged one might.
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


def _fits(agent: "AgentInfo", wish: Wish, told: Callable[["AgentInfo"], str]) -> bool:
    if agent.is_archived and not wish.archived:
        return False
    if wish.within is not None:
        root = wish.within.rstrip("/")
        if agent.cwd != root and not agent.cwd.startswith(root + "/"):
            return False
    if not wish.words:
        return True
    facts = (agent.name, agent.agent, agent.model, agent.state, agent.mode, agent.cwd, agent.title)
    text = " ".join([*(fact for fact in facts if fact), told(agent)]).lower()
    return all(word in text for word in wish.words.lower().split())


def _full(agent: "AgentInfo") -> float:
    context = agent.context
    return context.used / context.size if context and context.size else 0.0
