"""The terminals that a fleet owns: programs of a person, and the terminals of live agents.

What runs here ends with the fleet, with everything that it started; nothing of it is in the log.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from quarterdeck.system.api import CommandSpec
from quarterdeck.system.errors import PathError, SpawnError
from quarterdeck.system.process_guard import shared_guard
from quarterdeck.terminal.headless_terminal import HeadlessTerminal
from quarterdeck.terminal.viewer_events import TerminalEnded, ViewerEvent
from quarterdeck.wire.errors import LinkError, QuarterdeckError
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.tasks import BackgroundTasks

from ..agent_entry import AgentEntry
from ..errors import (
    AgentNotReadyError,
    FleetLimitError,
    InvalidOptionsError,
    NoSuchAgentError,
    NoSuchFleetTerminalError,
)
from ..live_index import LiveIndex
from ..supervisor import Supervisor
from .api import TERMINAL_VARIABLE, FleetTerminalOptions, TerminalInfo

__all__ = [
    "MOST_ENDED",
    "MOST_PENDING",
    "MOST_TERMINALS",
    "MOST_TYPED",
    "AgentTerminals",
    "HostTerminals",
    "LiveAgentTerminals",
    "TerminalHandle",
]

_log = logging.getLogger(__name__)

T = TypeVar("T")

MOST_TERMINALS = 64
"""Programs that may run at one time."""
MOST_ENDED = 32
"""Terminals that are kept after their program has left; the oldest are forgotten."""
MOST_TYPED = 1 << 20
"""Bytes in one piece."""
MOST_PENDING = 16
"""Pieces that wait for a program which does not read."""
_SHELL = "/bin/sh"
_PLACES = ("QUARTERDECK_HOME",)
_LONGEST_NAME = 80
_STOPPING = "the host is stopping; start it again first"


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalHandle:
    """A terminal that can be looked at and typed into."""

    id: str
    name: str
    terminal: HeadlessTerminal
    session: SessionId | None = None
    """The agent whose screen it is."""

    @property
    def ended(self) -> str | None:
        """How its program ended, in words; None while it runs."""
        left = self.terminal.exit
        return str(left) if left is not None else None

    def info(self) -> TerminalInfo:
        """As the fleet tells it."""
        terminal = self.terminal
        columns, rows = terminal.screen.size
        return TerminalInfo(
            id=self.id,
            name=self.name,
            command=tuple(terminal.command.argv),
            cwd=str(terminal.command.cwd or "/"),
            pid=terminal.pid,
            columns=columns,
            rows=rows,
            opened=terminal.opened,
            title=terminal.screen.title,
            ended=self.ended,
            session=self.session,
        )


class AgentTerminals(Protocol):
    """Where screens of agents are found."""

    def all(self) -> list[TerminalHandle]:
        """Those that there are now."""
        ...

    async def find(self, agent: str) -> TerminalHandle:
        """That of one agent, by name or id. Raises NoSuchFleetTerminalError."""
        ...


class HostTerminals:
    """Every terminal of a fleet; see ``FleetTerminals``. ``stop`` it at the end.

    A change that was begun for a caller who goes away meanwhile is finished all the same.
    """

    def __init__(self, environment: Mapping[str, str], screens: AgentTerminals) -> None:
        """Args:
        environment: tells which shell the person has, and where our own places are.
        screens: where screens of agents are found.
        """
        self._shell = environment.get("SHELL") or _SHELL
        # The one who types our name there reaches this host, and not that of another home.
        self._own = {name: environment[name] for name in _PLACES if name in environment}
        self._screens = screens
        self._kept: dict[str, TerminalHandle] = {}
        self._opening = 0
        self._pending: Counter[str] = Counter()
        """Pieces that are being typed, by the terminal."""
        self._attending = BackgroundTasks()
        self._working = BackgroundTasks()
        self._is_stopped = False

    @property
    def running(self) -> int:
        """How many programs run that a person has started."""
        return sum(one.ended is None for one in self._kept.values())

    async def open(self, options: FleetTerminalOptions) -> TerminalInfo:
        """Start a program. Raises InvalidOptionsError, FleetLimitError, AgentNotReadyError (the
        fleet is being stopped).
        """
        if self._is_stopped:
            raise AgentNotReadyError(_STOPPING)
        if self.running + self._opening >= MOST_TERMINALS:
            raise FleetLimitError(f"{MOST_TERMINALS} terminals are open; close some first")
        return (await self._working.finish(self._open(options))).info()

    def all(self) -> list[TerminalInfo]:
        """All that run, and those that ended and are not closed yet; oldest first."""
        infos = [one.info() for one in (*self._kept.values(), *self._screens.all())]
        return sorted(infos, key=lambda info: info.opened)

    async def watch(self, terminal: str) -> AsyncGenerator[ViewerEvent]:
        """The screen, then everything that follows; ends after ``TerminalEnded``."""
        found = await self._find(terminal)
        async with aclosing(found.terminal.follow()) as shown:
            async for one in shown:
                yield one
        yield TerminalEnded(reason=found.ended or "it could not be ended")

    async def write(self, terminal: str, data: bytes) -> None:
        """Type bytes as they are. Raises NoSuchFleetTerminalError, AgentNotReadyError,
        InvalidOptionsError (too much at once).
        """
        found = await self._find(terminal)
        self._check_typing(found, len(data))
        await self._working.finish(self._type(found, found.terminal.write(data)))

    async def paste(self, terminal: str, text: str) -> None:
        """Paste text: nothing in it can press a key. Raises like ``write``."""
        found = await self._find(terminal)
        self._check_typing(found, len(text))
        await self._working.finish(self._type(found, found.terminal.paste(text)))

    async def resize(self, terminal: str, columns: int, rows: int) -> None:
        """Change the size, to between 1 and 1000 each way. Raises NoSuchFleetTerminalError,
        AgentNotReadyError.
        """
        found = await self._find(terminal)
        if found.session is not None:
            raise AgentNotReadyError(
                f"{found.name!r} is an agent that is driven through its terminal, so its size is "
                "fixed"
            )
        if found.ended is None:
            found.terminal.resize(columns, rows)

    async def close(self, terminal: str) -> None:
        """End the program with all that it started, and forget it.

        Raises:
            NoSuchFleetTerminalError: there is none.
            AgentNotReadyError: it is an agent's.
            StillRunningError: something of it could not be ended; it stays in the list.
        """
        found = await self._find(terminal)
        if found.session is not None:
            raise AgentNotReadyError(
                f"{found.name!r} is an agent; `quarterdeck close {found.name}` ends it"
            )
        await self._working.finish(self._close(found))

    async def stop(self) -> None:
        """End every program, and start none any more; what cannot be ended is logged."""
        self._is_stopped = True
        closing = [self._close(one) for one in tuple(self._kept.values())]
        for failed in await asyncio.gather(*closing, return_exceptions=True):
            if failed is not None:
                _log.warning("a terminal could not be ended: %s", failed)
        await self._attending.close()
        await self._working.wait()

    # Within

    async def _open(self, options: FleetTerminalOptions) -> TerminalHandle:
        argv = options.command or (self._shell,)
        if not PurePath(options.cwd).is_absolute() or "\0" in options.cwd:
            raise InvalidOptionsError(
                f"cwd {options.cwd!r} is not an absolute path; give the full path"
            )
        id_ = f"term-{secrets.token_hex(4)}"
        self._opening += 1
        try:
            terminal = await HeadlessTerminal.start(
                CommandSpec(argv=argv, cwd=options.cwd, env={**self._own, TERMINAL_VARIABLE: id_}),
                size=(options.columns, options.rows),
                guard=shared_guard(),
            )
        except (SpawnError, PathError) as error:
            raise InvalidOptionsError(f"the terminal cannot be opened: {error}") from error
        finally:
            self._opening -= 1
        if self._is_stopped:
            await terminal.close()
            raise AgentNotReadyError(_STOPPING)
        name = (options.name or PurePath(argv[0]).name)[:_LONGEST_NAME]
        kept = self._kept[id_] = TerminalHandle(id=id_, name=name, terminal=terminal)
        self._attending.start(self._attend(kept), name=f"exit of {id_}")
        return kept

    async def _attend(self, kept: TerminalHandle) -> None:
        """Notice the end of a program, and forget those that ended long ago."""
        left = await kept.terminal.wait()
        _log.info("terminal %s (%s) ended: %s", kept.id, kept.name, left)
        ended = [one for one in self._kept.values() if one.ended is not None]
        for one in ended[:-MOST_ENDED]:
            try:
                await self._close(one)
            except QuarterdeckError as error:
                _log.warning("could not drop terminal %s: %s", one.id, error)

    async def _close(self, kept: TerminalHandle) -> None:
        await kept.terminal.close()
        self._kept.pop(kept.id, None)

    async def _find(self, terminal: str) -> TerminalHandle:
        return self._kept.get(terminal) or await self._screens.find(terminal)

    def _check_typing(self, kept: TerminalHandle, size: int) -> None:
        if kept.ended is not None:
            raise AgentNotReadyError(
                f"the program in {kept.id!r} has ended ({kept.ended}); open another terminal"
            )
        if size > MOST_TYPED:
            raise InvalidOptionsError(
                f"{size} is too much input at once; the limit is {MOST_TYPED}"
            )
        if self._pending[kept.terminal.id] >= MOST_PENDING:
            raise AgentNotReadyError(
                f"the program in {kept.id!r} does not read its input; close it"
            )
        self._pending[kept.terminal.id] += 1

    async def _type(self, kept: TerminalHandle, typing: Coroutine[Any, Any, None]) -> None:
        try:
            await typing
        except LinkError as error:
            raise AgentNotReadyError(f"the program in {kept.id!r} has ended: {error}") from error
        finally:
            self._pending[kept.terminal.id] -= 1
            self._pending += Counter()  # drops what is zero


class LiveAgentTerminals:
    """Finds them, from the moment that an agent's process starts until it is over."""

    def __init__(self, current: LiveIndex, supervisor: Supervisor) -> None:
        self._current = current
        self._supervisor = supervisor

    def all(self) -> list[TerminalHandle]:
        """Those that there are now."""
        found = (self._screen(entry) for entry in self._current.all())
        return [kept for kept in found if kept is not None]

    async def find(self, agent: str) -> TerminalHandle:
        """That of one agent, by name or id. Raises NoSuchFleetTerminalError."""
        try:
            entry = await self._current.find(agent)
        except NoSuchAgentError:
            raise NoSuchFleetTerminalError(agent) from None
        if (kept := self._screen(entry)) is not None:
            return kept
        if self._supervisor.get(entry.session) is None:
            raise NoSuchFleetTerminalError(agent, "this agent is not live")
        raise NoSuchFleetTerminalError(
            agent, "this agent has no terminal; its transport is not 'pty'"
        )

    def _screen(self, entry: AgentEntry) -> TerminalHandle | None:
        member = self._supervisor.get(entry.session)
        terminal = member.terminal if member is not None else None
        if terminal is None:
            return None
        return TerminalHandle(
            id=entry.session, name=entry.name, terminal=terminal, session=entry.session
        )


if TYPE_CHECKING:
    from typing import cast

    _: AgentTerminals = cast("LiveAgentTerminals", None)
