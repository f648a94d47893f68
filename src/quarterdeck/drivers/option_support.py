"""Which options of a session an agent can honour, before it is started."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.modes import MODES, Mode
from quarterdeck.wire.session_options import SessionOptions

from .agent_description import Agent, make_launch
from .command_line import render_mode
from .driver import DriverSessionOptions
from .enforcement import explain_unenforceable, is_reading_guarded
from .errors import DriverError
from .link import ROUTED_OPTIONS, AgentLink
from .transports import make_links

__all__ = ["OptionSupport", "find_option_support"]

_AROUND = CallContext(cwd="/", roots=("/",))


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionSupport:
    """What an agent can be started with."""

    problem: str = ""
    """Why no session can be opened with it at all; empty: one can."""
    options: frozenset[str] = frozenset()
    """The names of the options that reach it, limits as ``limits.cost``."""
    modes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why it cannot be held to a mode, by the mode; those that it can are missing."""


def find_option_support(agent: Agent, path: str | None = None) -> OptionSupport:
    """What can be set for a session of this agent, over the transports that are tried.

    Only transports whose program is on ``path`` count, unless none is. Rules of a person are not
    looked at: they can make a mode impossible that is possible here. Blocks on files.
    """
    try:
        links = {mode: _choose_links(agent, path, mode) for mode in MODES}
    except DriverError as error:
        return OptionSupport(problem=str(error))
    options = frozenset[str]().union(*(link.supported_options for link in links["ask"]))
    reasons = {mode: _explain_mode(agent, links[mode], mode) for mode in MODES}
    return OptionSupport(
        options=ROUTED_OPTIONS | options,
        modes={mode: reason for mode, reason in reasons.items() if reason},
    )


def _choose_links(agent: Agent, path: str | None, mode: Mode) -> list[AgentLink]:
    """The links to look at; what they ask about depends on the mode."""
    is_guarded = is_reading_guarded(Gate(mode=mode), _AROUND)
    here = [
        name
        for name in agent.tried
        if shutil.which(make_launch(agent, name).command[0], path=path) is not None
    ]
    wanted = here or [None]
    makers = (make_links(agent, name, guards_reading=is_guarded) for name in wanted)
    return [make() for made in makers for make in made]


def _explain_mode(agent: Agent, links: Iterable[AgentLink], mode: Mode) -> str:
    """Why no link can hold the agent to a mode; empty: one can."""
    reasons = [_explain_link(agent, link, mode) for link in links]
    return "" if "" in reasons else next(iter(reasons), "")


def _explain_link(agent: Agent, link: AgentLink, mode: Mode) -> str:
    opening = DriverSessionOptions(options=SessionOptions(cwd="/", mode=mode))
    held = link.enforcement(opening)
    if not held.asks:
        try:
            render_mode(make_launch(agent, link.transport), link.transport, mode)
        except DriverError:
            return "it never asks, and has no such mode"
        return ""
    reasons = explain_unenforceable(held, opening, Gate(mode=mode), _AROUND)
    return "; ".join(reason.partition(": ")[2] or reason for reason in reasons)
