"""Commands that a person runs in the directory of an agent, with ``!`` in the input.

They are the person's own act, with the person's rights: no gate decides about them, and the agent
does not see them unless it is given them. Each is in the log of the agent's session: its line, what
it prints, up to a bound, and how it ended.
"""

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from quarterdeck.system.api import CommandSpec
from quarterdeck.system.errors import OperatingSystemError
from quarterdeck.system.local_terminals import LocalTerminal, LocalTerminals
from quarterdeck.system.process_guard import shared_guard
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import CommandStarted, Event, TerminalExited, TerminalOutput
from quarterdeck.wire.ids import SessionId, TerminalId
from quarterdeck.wire.record import Record
from quarterdeck.wire.tasks import BackgroundTasks

from .errors import AgentNotReadyError, FleetLimitError, InvalidOptionsError

if TYPE_CHECKING:
    from quarterdeck.journal import Journal, Projection

__all__ = [
    "LONGEST_LINE",
    "MOST_LOGGED",
    "MOST_RUNNING",
    "PersonCommands",
    "RunningCommandsProjection",
    "close_commands",
]

_log = logging.getLogger(__name__)

LONGEST_LINE = 10_000
"""Characters of a command."""
MOST_RUNNING = 16
"""Commands that may run at one time."""
MOST_LOGGED = 200_000
"""Characters of the output that are in the log from its beginning; of the rest only the end."""
_END = 20_000
_RING = 1_048_576
"""Bytes that are kept of what is printed between two pieces."""
_EVERY = 0.1
"""Seconds between two pieces of output."""
_SHELL = "/bin/sh"
_PLACES = ("QUARTERDECK_HOME",)

FindDirectory = Callable[[str], Awaitable[tuple[SessionId, str]]]
"""The session and the directory of an agent, by name or id."""
WriteEvent = Callable[[SessionId, Event], Awaitable[object]]


class PersonCommands:
    """Runs them; ``stop`` it at the end.

    Args:
        environment: tells which shell the person has, and where our own places are.
        find: finds the directory of an agent.
        write: puts an event into the log.
    """

    def __init__(
        self, environment: Mapping[str, str], find: FindDirectory, write: WriteEvent
    ) -> None:
        self._shell = environment.get("SHELL") or _SHELL
        self._own = {name: environment[name] for name in _PLACES if name in environment}
        self._find = find
        self._write = write
        self._terminals = LocalTerminals(guard=shared_guard())
        self._running: dict[str, LocalTerminal] = {}
        self._following = BackgroundTasks()
        self._is_stopped = False

    @property
    def running(self) -> int:
        """How many run."""
        return len(self._running)

    async def run(self, agent: str, command: str) -> str:
        """Start a line of the person's shell; returns its id once it runs and is in the log.

        Raises:
            NoSuchAgentError: there is no such agent.
            InvalidOptionsError: it is no line, or its directory is gone.
            FleetLimitError: too many run already.
            AgentNotReadyError: the fleet is being stopped.
        """
        line = command.strip()
        if not line or "\n" in line or "\0" in line or len(line) > LONGEST_LINE:
            raise InvalidOptionsError(
                f"a command is one line of at most {LONGEST_LINE:,} characters"
            )
        session, cwd = await self._find(agent)
        if self._is_stopped:
            raise AgentNotReadyError("the host is stopping; start it again first")
        if len(self._running) >= MOST_RUNNING:
            raise FleetLimitError(f"{MOST_RUNNING} commands are running; end one first")
        return await self._following.finish(self._start(session, cwd, line))

    async def end(self, command: str) -> bool:
        """End a command with all that it started; False: it does not run any more."""
        terminal = self._running.get(command)
        if terminal is None:
            return False
        await self._following.finish(terminal.kill())
        return True

    async def stop(self) -> None:
        """End all of them, and start none any more."""
        self._is_stopped = True
        await self._terminals.close()
        await self._following.wait()

    async def _start(self, session: SessionId, cwd: str, line: str) -> str:
        spec = CommandSpec(argv=(self._shell, "-c", line), cwd=cwd, env=dict(self._own))
        if not await asyncio.to_thread(os.path.isdir, cwd):
            raise InvalidOptionsError(f"the directory {cwd!r} does not exist")
        try:
            terminal = await self._terminals.create(spec, tail=_RING)
        except OperatingSystemError as error:
            raise InvalidOptionsError(f"the command cannot be started: {error}") from error
        pieces = terminal.follow()  # from here on: nothing was read yet
        id_ = TerminalId(terminal.id)
        self._running[id_] = terminal
        try:
            await self._write(session, CommandStarted(terminal=id_, command=line, cwd=cwd))
        except BaseException:
            self._running.pop(id_, None)
            await terminal.release()
            raise
        self._following.start(self._follow(session, terminal, pieces), name=f"command {id_}")
        return id_

    async def _follow(
        self, session: SessionId, terminal: LocalTerminal, pieces: AsyncIterator[str]
    ) -> None:
        id_ = TerminalId(terminal.id)
        try:
            await self._log_output(session, terminal, pieces)
        except QuarterdeckError as error:  # a log that takes nothing: the end is what counts
            _log.warning("output of %s was not recorded: %s", id_, error)
        left = await terminal.wait()
        self._running.pop(id_, None)
        exited = TerminalExited(terminal=id_, exit_code=left.code, signal=left.signal)
        await self._write(session, exited)
        await terminal.release()

    async def _log_output(
        self, session: SessionId, terminal: LocalTerminal, pieces: AsyncIterator[str]
    ) -> None:
        """Write what is printed, in pieces: its beginning as it comes, then the end of the rest."""
        id_ = TerminalId(terminal.id)
        left, hidden = MOST_LOGGED, 0
        async for piece in pieces:
            kept = piece[:left]
            left -= len(kept)
            hidden += len(piece) - len(kept)
            if kept:
                await self._write(session, TerminalOutput(terminal=id_, data=kept))
                await asyncio.sleep(_EVERY)
        if hidden:
            end = (await terminal.output()).text[-min(hidden, _END) :]
            note = f"\n[… {hidden - len(end):,} characters …]\n" if hidden > len(end) else ""
            await self._write(session, TerminalOutput(terminal=id_, data=note + end))


class RunningCommandsProjection:
    """Which commands have begun and not ended, so that a host that was killed can close them."""

    name = "commands"
    version = 1
    types = frozenset({"command_started", "terminal_exited"})
    schema = (
        "CREATE TABLE running_commands (terminal TEXT PRIMARY KEY, session TEXT NOT NULL)"
        " WITHOUT ROWID",
    )

    def apply(self, connection: sqlite3.Connection, records: Sequence[Record]) -> None:
        """Take in what began and ended."""
        for record in records:
            event = record.event
            if isinstance(event, CommandStarted):
                row = (event.terminal, record.session)
                connection.execute("INSERT OR REPLACE INTO running_commands VALUES (?, ?)", row)
            elif isinstance(event, TerminalExited):
                connection.execute(
                    "DELETE FROM running_commands WHERE terminal = ?", (event.terminal,)
                )

    def forget(self, connection: sqlite3.Connection, session: SessionId) -> None:
        """Drop what a session ran."""
        connection.execute("DELETE FROM running_commands WHERE session = ?", (session,))


async def close_commands(journal: "Journal") -> int:
    """Write the end of every command that ran when a host was killed; how many they were."""

    def load(connection: sqlite3.Connection) -> list[tuple[str, str]]:
        return connection.execute("SELECT session, terminal FROM running_commands").fetchall()

    left = await journal.query(load)
    for session, terminal in left:
        exited = TerminalExited(terminal=TerminalId(terminal))
        record = await journal.append(SessionId(session), exited)
        await journal.durable(record.seq)
    return len(left)


if TYPE_CHECKING:
    _commands: Projection = RunningCommandsProjection()
