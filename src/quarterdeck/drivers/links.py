"""Which link speaks to an agent over which transport; each is imported when it is made."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from .acp.quirks import LEAVES_AT_START
from .child import Launch
from .description import Agent, launch_of
from .errors import Unsupported
from .link import Link

if TYPE_CHECKING:
    from .pipe.dialect import Dialect

__all__ = ["LINKED", "SecondStart", "links_of"]

_TURNS = {
    "codex": "CODEX",
    "cursor": "CURSOR",
    "gemini": "GEMINI",
    "opencode": "OPENCODE",
    "pi": "PI",
}
"""The dialects of agents that run once for each turn: the module's name in ``pipe``, and its."""
LINKED = frozenset(("acp", "pipe", "daemon", "pty"))
"""Transports that a session can be opened over."""


@dataclass(frozen=True, slots=True)
class SecondStart:
    """Makes the link before it once more, for an agent that may leave while it starts."""

    make: Callable[[], Link]

    def __call__(self) -> Link:
        """Make the link."""
        return self.make()


def links_of(
    agent: Agent, transport: str | None = None, *, guards_reading: bool = False
) -> list[Callable[[], Link]]:
    """The links to try one after another: over this transport, or over all that its file lists.

    A ``SecondStart`` is for an agent that has left while it was starting. ``guards_reading``: a
    rule is about reading, so that it must be asked about.

    Raises:
        Unsupported: its file has no such transport, or none that can be used.
    """
    wanted = (transport,) if transport is not None else agent.tried
    makers: list[Callable[[], Link]] = []
    for name in wanted:
        launch = launch_of(agent, name, guards_reading=guards_reading)
        if name not in LINKED:
            raise Unsupported(agent.name, name, "be used for a session yet", _others(agent))
        makers.append(partial(_make, name, launch))
        if LEAVES_AT_START in launch.quirks:
            makers.append(SecondStart(makers[-1]))
    if not makers:
        raise Unsupported(
            agent.name, "any protocol", "be used", "It can be used in a terminal only."
        )
    return makers


def _make(transport: str, launch: Launch) -> Link:
    if transport == "acp":
        from .acp.link import AcpLink

        return AcpLink(launch)
    if transport == "daemon":
        return _daemon(launch)
    if transport == "pty":
        from .pty.link import PtyLink

        return PtyLink(launch)
    if launch.dialect in ("claude", "qwen"):
        from .pipe.claude import ClaudeLink

        return ClaudeLink(launch)
    from .pipe.turns import TurnsLink

    return TurnsLink(launch, _dialect(launch))


def _daemon(launch: Launch) -> Link:
    if launch.dialect == "codex":
        from .daemon.codex import CodexLink

        return CodexLink(launch)
    from .daemon.opencode import OpencodeLink

    return OpencodeLink(launch)


def _dialect(launch: Launch) -> "Dialect":
    if launch.dialect == "generic":
        from .pipe.generic import generic

        return generic(launch)
    module = import_module(f".pipe.{launch.dialect}", __package__)
    return getattr(module, _TURNS[launch.dialect])


def _others(agent: Agent) -> str:
    usable = [name for name in agent.transports if name in LINKED]
    return f"Use {' or '.join(usable)}." if usable else ""
