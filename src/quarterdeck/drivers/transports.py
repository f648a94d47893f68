"""Which link speaks to an agent over which transport; each is imported when it is made."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from .acp.quirks import LEAVES_AT_START
from .agent_description import Agent, make_launch
from .agent_process import Launch
from .errors import UnsupportedError
from .link import AgentLink

if TYPE_CHECKING:
    from .pipe.dialect import PipeDialect

__all__ = ["SESSION_TRANSPORTS", "RepeatedStart", "make_links"]

_TURNS = {
    "codex": "CODEX",
    "cursor": "CURSOR",
    "gemini": "GEMINI",
    "opencode": "OPENCODE",
    "pi": "PI",
}
"""The dialects of agents that run once for each turn: the module's name in ``pipe``, and its."""
SESSION_TRANSPORTS = frozenset(("acp", "pipe", "daemon", "pty"))
"""Transports that a session can be opened over."""


@dataclass(frozen=True, slots=True)
class RepeatedStart:
    """Makes the link before it once more, for an agent that may leave while it starts."""

    make: Callable[[], AgentLink]

    def __call__(self) -> AgentLink:
        """Make the link."""
        return self.make()


def make_links(
    agent: Agent, transport: str | None = None, *, guards_reading: bool = False
) -> list[Callable[[], AgentLink]]:
    """The links to try one after another: over this transport, or over all that its file lists.

    A ``RepeatedStart`` is for an agent that has left while it was starting. ``guards_reading``: a
    rule is about reading, so that it must be asked about.

    Raises:
        UnsupportedError: its file has no such transport, or none that can be used.
    """
    wanted = (transport,) if transport is not None else agent.tried
    makers: list[Callable[[], AgentLink]] = []
    for name in wanted:
        launch = make_launch(agent, name, guards_reading=guards_reading)
        if name not in SESSION_TRANSPORTS:
            raise UnsupportedError(agent.name, name, "be used for a session yet", _others(agent))
        makers.append(partial(_make, name, launch))
        if LEAVES_AT_START in launch.quirks:
            makers.append(RepeatedStart(makers[-1]))
    if not makers:
        raise UnsupportedError(agent.name, "any protocol", "be used", "Use it in a terminal.")
    return makers


def _make(transport: str, launch: Launch) -> AgentLink:
    if transport == "acp":
        from .acp.link import AcpLink

        return AcpLink(launch)
    if transport == "daemon":
        return _daemon(launch)
    if transport == "pty":
        from .pty.link import PtyLink

        return PtyLink(launch)
    if launch.dialect in ("claude", "qwen"):
        from .pipe.claude.link import ClaudeLink

        return ClaudeLink(launch)
    from .pipe.oneshot_link import OneshotLink

    return OneshotLink(launch, _dialect(launch))


def _daemon(launch: Launch) -> AgentLink:
    if launch.dialect == "codex":
        from .daemon.codex.link import CodexLink

        return CodexLink(launch)
    from .daemon.opencode.link import OpencodeLink

    return OpencodeLink(launch)


def _dialect(launch: Launch) -> "PipeDialect":
    if launch.dialect == "generic":
        from .pipe.generic import generic

        return generic(launch)
    module = import_module(f".pipe.{launch.dialect}", __package__)
    return getattr(module, _TURNS[launch.dialect])


def _others(agent: Agent) -> str:
    usable = [name for name in agent.transports if name in SESSION_TRANSPORTS]
    return f"Use {' or '.join(usable)}." if usable else ""
