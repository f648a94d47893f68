"""The process of an agent: how it is started, its byte stream, and how it ended."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from quarterdeck.system.api import CommandSpec, EndingDeadlines, Process, ProcessExit, System
from quarterdeck.system.environment import child_environment
from quarterdeck.system.errors import CommandNotFoundError, SpawnError
from quarterdeck.wire.errors import LinkBrokenError, LinkClosedError, LinkEndedError, LinkError
from quarterdeck.wire.redaction import mask_secrets

from .driver import DriverSessionOptions
from .errors import AgentMissingError, OpenFailedError

__all__ = ["AgentExit", "AgentProcess", "AgentProcessStream", "GuardedAction", "Launch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExit:
    """How the agent's process left."""

    exit_code: int | None = None
    signal: str | None = None
    stderr: str = ""
    """The last lines, secrets masked."""


GuardedAction: TypeAlias = Literal["read", "edit", "run"]
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
    asks: frozenset[GuardedAction] = frozenset(("edit", "run"))
    """What it asks about before it does it, where its transport has a way to ask."""
    sealed: frozenset[GuardedAction] = frozenset()
    """What it does unasked where it can change nothing: in a sandbox of its own."""
    asking_modes: tuple[str, ...] = ()
    """Modes of its own in which it asks; the first is chosen when a session begins."""
    always_asks: bool = False
    """What a rule denies it does not do, in any mode of its own."""


class AgentProcess:
    """A process of an agent, with its tree. Made by ``start``; ``end`` it."""

    def __init__(self, process: Process, environment: Mapping[str, str]) -> None:
        self.process = process
        self._environment = environment

    @classmethod
    async def start(
        cls,
        launch: Launch,
        opening: DriverSessionOptions,
        system: System,
        words: tuple[str, ...] = (),
    ) -> "AgentProcess":
        """Start the agent's command with further words.

        Raises:
            AgentMissingError: there is no such program; says where it was looked for.
            OpenFailedError: it is there and could not be started.
        """
        own = {**launch.environment, **opening.options.variables}
        argv = (*launch.command, *words, *opening.arguments)
        command = CommandSpec(argv=argv, cwd=opening.options.cwd, env=own, inherit=launch.inherit)
        try:
            process = await system.processes.spawn(command)
        except CommandNotFoundError as error:
            searched = own.get("PATH", os.environ.get("PATH", ""))
            raise AgentMissingError(launch.agent, argv[0], searched, launch.install) from error
        except SpawnError as error:
            raise OpenFailedError(f"{launch.agent} could not be started: {error}") from error
        return cls(process, child_environment(own, launch.inherit))

    def stderr(self) -> str:
        """The last lines that it wrote to standard error, secrets masked."""
        return mask_secrets(self.process.stderr()[-_STDERR:], self._environment).strip()

    async def end(self, ending: EndingDeadlines | None = None) -> AgentExit:
        """End it and everything it started."""
        return self._departure(await self.process.end(ending))

    async def left(self) -> AgentExit:
        """Wait until it has left by itself."""
        return self._departure(await self.process.wait())

    def _departure(self, exit_: ProcessExit) -> AgentExit:
        return AgentExit(exit_code=exit_.code, signal=exit_.signal, stderr=self.stderr())


_LEAVING = 1.0
"""Seconds that an agent whose output has ended may take to leave, before we call it stuck."""


class AgentProcessStream:
    """The byte stream of an agent's process, which says how the process left.

    The end of its output is held back until the process has left or has had its time: afterwards
    an agent that left by itself and one that we ended look the same.
    """

    def __init__(self, agent: str, child: AgentProcess) -> None:
        self._agent = agent
        self._child = child
        self._left: AgentExit | None = None
        self.send = child.process.send
        self.close = child.process.close

    async def receive(self) -> bytes:
        """See ``ByteStream``."""
        data = await self._child.process.receive()
        if not data:
            await self._wait()
        return data

    async def explain(self, ending: LinkError) -> LinkError:
        """What the end of the connection means.

        ``LinkEndedError`` is an agent that left with exit code 0; ``LinkBrokenError`` everything
        that we did not do.
        """
        if isinstance(ending, LinkClosedError):
            return ending
        if not isinstance(ending, LinkEndedError):
            await self._wait()
        left = self._left
        if left is None:
            stuck = f"{self._agent} closed its output and is still running"
            why = stuck if isinstance(ending, LinkEndedError) else str(ending)
            return LinkBrokenError(why, stderr=self._child.stderr())
        if left.exit_code == 0 and isinstance(ending, LinkEndedError):
            return LinkEndedError(f"{self._agent} left")
        how = f"signal {left.signal}" if left.signal else f"exit code {left.exit_code}"
        why = (
            f"{self._agent} exited with {how}"
            if isinstance(ending, LinkEndedError)
            else f"{ending} ({how})"
        )
        return LinkBrokenError(
            why, exit_code=left.exit_code, signal=left.signal, stderr=left.stderr
        )

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(_LEAVING):
                self._left = await self._child.left()
        except TimeoutError:
            return
