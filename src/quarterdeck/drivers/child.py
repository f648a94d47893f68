"""Starting an agent's program, and what can be said of it when it is gone."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from quarterdeck.system.environment import child_environment
from quarterdeck.system.errors import CommandNotFound, SpawnFault
from quarterdeck.system.port import Command, Ending, Exit, Process, System
from quarterdeck.wire.masking import mask

from .driver import Opening
from .errors import AgentMissing, OpenFailed
from .link import Departure

__all__ = ["Child", "Deed", "Launch"]

Deed: TypeAlias = Literal["read", "edit", "run"]
"""What an agent may ask about before it does it."""

_STDERR = 4000
"""Characters of standard error that are worth keeping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How one agent is reached over one transport, as its file says it."""

    agent: str
    command: tuple[str, ...]
    dialect: str = ""
    """Which language it speaks over a pipe or as a server."""
    url: str = ""
    """Where its server runs already; empty: it is started."""
    password: str = ""
    """The variable that holds the password of that server; empty: it has none."""
    install: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Always set for it."""
    inherit: tuple[str, ...] = ()
    """Variables of ours that it may see: its keys, its places."""
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The words of the command line for an option, such as ``model``; ``{}`` is the value."""
    modes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The words for a mode of ours, where the agent does not ask."""
    agent_modes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The words for a mode of its own."""
    quirks: frozenset[str] = frozenset()
    """What it does differently from what it should, by the names that links know."""
    events: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """For the generic pipe dialect: how to read what it prints."""
    asks: frozenset[Deed] = frozenset(("edit", "run"))
    """What it asks about before it does it, where its transport has a way to ask."""
    sealed: frozenset[Deed] = frozenset()
    """What it does unasked where it can change nothing: in a sandbox of its own."""
    asking_modes: tuple[str, ...] = ()
    """Modes of its own in which it asks; the first is chosen when a session begins."""
    always_asks: bool = False
    """What a rule denies it does not do, in any mode of its own."""


class Child:
    """A process of an agent, with its tree. Made by ``start``; ``end`` it."""

    def __init__(self, process: Process, environment: Mapping[str, str]) -> None:
        self.process = process
        self._environment = environment

    @classmethod
    async def start(
        cls, launch: Launch, opening: Opening, system: System, words: tuple[str, ...] = ()
    ) -> "Child":
        """Start the agent's command with further words.

        Raises:
            AgentMissing: there is no such program; says where it was looked for.
            OpenFailed: it is there and could not be started.
        """
        own = {**launch.environment, **opening.environment}
        argv = (*launch.command, *words, *opening.arguments)
        command = Command(argv=argv, cwd=opening.cwd, env=own, inherit=launch.inherit)
        try:
            process = await system.processes.spawn(command)
        except CommandNotFound as error:
            searched = own.get("PATH", os.environ.get("PATH", ""))
            raise AgentMissing(launch.agent, argv[0], searched, launch.install) from error
        except SpawnFault as error:
            raise OpenFailed(f"{launch.agent} could not be started: {error}") from error
        return cls(process, child_environment(own, launch.inherit))

    def stderr(self) -> str:
        """The last lines that it wrote to standard error, secrets masked."""
        return mask(self.process.stderr()[-_STDERR:], self._environment).strip()

    async def end(self, ending: Ending | None = None) -> Departure:
        """End it and everything it started."""
        return self._departure(await self.process.end(ending))

    async def left(self) -> Departure:
        """Wait until it has left by itself."""
        return self._departure(await self.process.wait())

    def _departure(self, exit_: Exit) -> Departure:
        return Departure(exit_code=exit_.code, signal=exit_.signal, stderr=self.stderr())
