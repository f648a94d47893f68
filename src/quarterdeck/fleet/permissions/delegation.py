"""What an agent may do to others: act on its own children, and give them no more than it has.

Pure checks over values; ``ExceedsParentError`` and ``FleetLimitError`` say what would be possible.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.policy.grammar import parse_pattern
from quarterdeck.policy.modes import MODES, is_wider, parse_mode
from quarterdeck.wire.events import SessionSpawned
from quarterdeck.wire.ids import SessionId

from ..api import AgentInfo, SpawnOptions
from ..errors import ExceedsParentError, FleetLimitError, NotAChildError
from ..names import normalize_name

__all__ = [
    "DelegationLimits",
    "check_agent_limits",
    "check_path_inside",
    "find_child",
    "find_descendants",
    "is_wider",
    "narrow_options",
]


class DelegationLimits(Struct, frozen=True, kw_only=True):
    """How far agents may go that lead others."""

    depth: int = 3
    """Generations below the first one that leads."""
    live: int = 16
    """Agents that may run at one time below the first one that leads."""
    descendants: bool = False
    """Whether one may act on children of its children too."""
    peers: bool = False
    """Whether children of one agent may write to each other."""


def find_descendants(agents: Iterable[AgentInfo], session: SessionId) -> list[AgentInfo]:
    """Everyone below a session, children before their own children."""
    known = list(agents)
    found: list[AgentInfo] = []
    generation = {session}
    while generation:
        children = [one for one in known if one.parent in generation]
        found += children
        generation = {one.session for one in children}
    return found


def find_child(
    agents: Sequence[AgentInfo], session: SessionId, name: str, reach: DelegationLimits
) -> AgentInfo:
    """The child of a session that is called so, or has this id.

    Raises:
        NotAChildError: there is none; the same whether or not someone else's is called so.
    """
    if reach.descendants:
        mine = find_descendants(agents, session)
    else:
        mine = [one for one in agents if one.parent == session]
    key = normalize_name(name)
    fitting = [one for one in mine if one.session == name or normalize_name(one.name) == key]
    # A name may be used again once its holder is archived.
    fitting.sort(key=lambda one: (one.session != name, one.is_archived, -one.last_seq))
    if not fitting:
        raise NotAChildError(name)
    return fitting[0]


def check_agent_limits(
    agents: Sequence[AgentInfo], session: SessionId, reach: DelegationLimits
) -> None:
    """Make sure that a session may start one more agent. Raises FleetLimitError."""
    parents = {one.session: one.parent for one in agents}
    depth, top = 1, session
    while (above := parents.get(top)) is not None:
        depth, top = depth + 1, above
    if depth > reach.depth:
        raise FleetLimitError(
            f"agents may be nested at most {reach.depth} levels deep; do this part yourself"
        )
    live = sum(one.is_live or one.state == "starting" for one in find_descendants(agents, top))
    if live >= reach.live:
        raise FleetLimitError(
            f"{reach.live} agents are already live; wait for some and end them with kill_agent or "
            "archive_agent"
        )


def narrow_options(request: SpawnOptions, parent: SessionSpawned, mode: str | None) -> SpawnOptions:
    """The options of an agent for a child, with what it takes over from its parent.

    ``parent`` is how the asking agent was started, ``mode`` its permission mode now. Looks at the
    disk, where links lead.

    Raises:
        ExceedsParentError: the child would be able to do what its parent may not.
        RuleError, UnknownModeError: a rule or the mode cannot be read.
    """
    own = parse_mode(mode) if mode is not None else "ask"
    given, held = request.options, parent.options
    wanted = own if given.mode is None else parse_mode(given.mode)
    if is_wider(wanted, own):
        able = ", ".join(one for one in MODES if not is_wider(one, own))
        raise ExceedsParentError(
            f"mode {wanted!r} is wider than your own, {own!r}; choose one of {able}"
        )
    _check_rules(given.allow, held.allow)
    is_own = (given.agent, given.agent_mode) == (held.agent, held.agent_mode)
    if given.agent_mode is not None and not is_own:
        raise ExceedsParentError(
            f"agent_mode {given.agent_mode!r} may skip permissions; only a person can set it"
        )
    for field, path in (("cwd", given.cwd), *(("roots", root) for root in given.roots)):
        check_path_inside(field, path, (held.cwd, *held.roots))
    options = replace(
        given,
        mode=wanted,
        tools=_tools(given.tools, held.tools),
        denied_tools=tuple(dict.fromkeys((*held.denied_tools, *given.denied_tools))),
        deny=tuple(dict.fromkeys((*held.deny, *given.deny))),
    )
    return replace(request, options=options)


def _check_rules(wanted: Iterable[str], own: Iterable[str]) -> None:
    mine = [parse_pattern(text) for text in own]
    for text in wanted:
        if parse_pattern(text) not in mine:
            held = ", ".join(repr(one) for one in own) or "none"
            raise ExceedsParentError(f"you have no rule {text!r} to pass on; yours are: {held}")


def check_path_inside(field: str, path: str, roots: Iterable[str]) -> None:
    """Make sure that a path is in one of these directories. Looks at the disk. Raises
    ExceedsParentError.
    """
    real = Path(os.path.realpath(path))
    if not any(real.is_relative_to(os.path.realpath(root)) for root in roots):
        raise ExceedsParentError(f"{field}: {path!r} is outside your directories")


def _tools(wanted: tuple[str, ...] | None, own: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if own is None:
        return wanted
    if wanted is None:
        return own
    if beyond := sorted(set(wanted) - set(own)):
        raise ExceedsParentError(
            f"you cannot use {', '.join(beyond)} yourself; your tools are {own}"
        )
    return wanted
