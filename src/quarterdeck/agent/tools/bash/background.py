"""Commands that run in the background, and the tool ``commands`` that lists, reads, awaits and
ends them.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from quarterdeck.system.api import ProcessExit, Terminal, Terminals
from quarterdeck.wire.events import TerminalExited, TerminalOutput
from quarterdeck.wire.ids import TerminalId
from quarterdeck.wire.tasks import start_task
from quarterdeck.wire.tool_calls import ToolKind

from ..tool import (
    Arguments,
    LiveCall,
    PreparedCall,
    Tool,
    ToolError,
    ToolOutcome,
    read_description,
    text_outcome,
)
from ..workspace import ToolWorkspace
from .shell import OutputFiles, StartedCommand, ended, start_command, title_of

__all__ = [
    "BackgroundCommand",
    "BackgroundCommands",
    "CommandsArguments",
    "CommandsTool",
    "commands_of",
]

_MOST_RUNNING = 16
_MOST_KEPT = 64


class BackgroundCommand:
    """A command that runs on after the call that started it.

    Its output is collected until it is taken; of output that is not taken the last ``limit``
    characters stay.
    """

    def __init__(self, id: str, line: str, started: StartedCommand, limit: int) -> None:
        self.id = id
        self.line = line
        self.file = started.file
        self.was_exit_reported = False
        self._limit = limit
        self._begun = time.monotonic()
        self._over: float | None = None
        self._exit: ProcessExit | None = None
        self._terminal = started.terminal
        self._unread: deque[str] = deque()
        self._size = 0
        self._dropped = 0
        self._collecting = start_task(
            self._collect(started.terminal.follow()), name=f"output of {started.terminal.id}"
        )

    @property
    def terminal(self) -> Terminal:
        """The terminal that it runs in."""
        return self._terminal

    @property
    def exit(self) -> ProcessExit | None:
        """How it ended; None while it runs."""
        return self._exit

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return (self._over or time.monotonic()) - self._begun

    def take(self) -> tuple[int, str]:
        """What was printed since the last time, and how many characters are missing before it."""
        dropped, text = self._dropped, "".join(self._unread)
        self._unread.clear()
        self._size = self._dropped = 0
        return dropped, text

    async def wait(self, seconds: float) -> None:
        """Wait until it has ended, at most ``seconds``."""
        await asyncio.wait([self._collecting], timeout=seconds)

    async def kill(self) -> None:
        """End it with everything that it started."""
        await self._terminal.kill()
        await asyncio.wait([self._collecting])

    async def release(self) -> None:
        """End it and free what it holds."""
        try:
            await self._terminal.release()
        finally:
            self._collecting.cancel()
            await asyncio.gather(self._collecting, return_exceptions=True)

    async def _collect(self, pieces: AsyncIterator[str]) -> None:
        async for text in pieces:
            self._unread.append(text)
            self._size += len(text)
            while self._size > self._limit:
                self._trim()
        self._exit = await self._terminal.wait()
        self._over = time.monotonic()

    def _trim(self) -> None:
        first = self._unread.popleft()
        kept = first[self._size - self._limit :]
        lost = len(first) - len(kept)
        self._size -= lost
        self._dropped += lost
        if kept:
            self._unread.appendleft(kept)


class BackgroundCommands:
    """What ``bash`` keeps between calls: the output files and the commands in the background."""

    def __init__(self) -> None:
        self.outputs = OutputFiles()
        self._all: dict[str, BackgroundCommand] = {}
        self._count = 0
        self._starting = 0

    @property
    def all(self) -> tuple[BackgroundCommand, ...]:
        """Every command that is still known, oldest first."""
        return tuple(self._all.values())

    def find(self, id: str) -> BackgroundCommand:
        """The command of that id.

        Raises:
            ToolError: There is none; the text names those there are.
        """
        if (found := self._all.get(id)) is not None:
            return found
        known = ", ".join(self._all) or "none"
        raise ToolError(f"There is no background command {id!r}; available: {known}.")

    def check_room(self) -> None:
        """Refuse one more command when too many run.

        Raises:
            ToolError: Too many run.
        """
        running = [command.id for command in self.all if command.exit is None]
        if len(running) + self._starting >= _MOST_RUNNING:
            raise ToolError(
                f"{len(running)} background commands are already running ({', '.join(running)}); "
                "kill one or wait for it before starting another."
            )

    async def start(
        self, terminals: Terminals, line: str, cwd: str, limit: int
    ) -> BackgroundCommand:
        """Start a command that runs on.

        Raises:
            ToolError: Too many run.
            OperatingSystemError: It could not be started.
        """
        self.check_room()
        self._starting += 1
        try:
            started = await start_command(terminals, line, cwd, limit=limit, outputs=self.outputs)
        finally:
            self._starting -= 1
        self._count += 1
        command = BackgroundCommand(f"cmd-{self._count}", line, started, limit)
        self._all[command.id] = command
        await self._forget(lambda: len(self._all) > _MOST_KEPT)
        return command

    async def close(self) -> None:
        """End every command and remove the output files; may be called again."""
        async with asyncio.TaskGroup() as group:
            for command in self._all.values():
                group.create_task(command.release())
        self._all.clear()
        await self.outputs.close()

    async def _forget(self, is_due: Callable[[], bool]) -> None:
        """Forget commands that have ended, oldest first, as long as it is due."""
        for command in [each for each in self.all if each.exit is not None]:
            if not is_due():
                return
            del self._all[command.id]
            await command.release()


def commands_of(workspace: ToolWorkspace) -> BackgroundCommands:
    """The commands of a workspace; closed with it."""
    return workspace.get_kept(BackgroundCommands)


_WAIT = 30.0


class CommandsArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``commands``."""

    action: Literal["list", "read", "wait", "kill"]
    id: Annotated[str | None, Meta(description="Command id; required except for `list`.")] = None
    seconds: Annotated[
        float | None, Meta(description="With `wait`: maximum seconds; default: 30.")
    ] = None


class CommandsTool:
    """Lists, reads, awaits and ends background commands.

    To the policy this is not a call of its own: the command was permitted when it started, and
    only the session's own commands can be reached.
    """

    name = "commands"
    kind: ToolKind = "execute"
    arguments = CommandsArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__package__, "commands")

    async def prepare(self, arguments: CommandsArguments, workspace: ToolWorkspace) -> PreparedCall:
        """Find the command; nothing is done to it."""
        commands = commands_of(workspace)
        call = workspace.call(self.name, "think")
        if arguments.action == "list":
            return PreparedCall(
                title="Background commands", call=call, run=partial(_list, commands)
            )
        if arguments.id is None:
            raise ToolError(f"{arguments.action!r} needs the id of a command.")
        command = commands.find(arguments.id)
        seconds = _WAIT if arguments.seconds is None else max(arguments.seconds, 0.0)
        run = {
            "read": partial(_read, command),
            "wait": partial(_wait, command, min(seconds, workspace.options.bash_max_timeout)),
            "kill": partial(_kill, command),
        }[arguments.action]
        title = f"{arguments.action.capitalize()} {command.id}: {title_of(command.line)}"
        return PreparedCall(title=title, call=call, run=run)


async def _list(commands: BackgroundCommands, live: LiveCall) -> ToolOutcome:
    lines = [
        f"{command.id} {ended(command.exit, command.seconds)} {title_of(command.line)}"
        for command in commands.all
    ]
    return text_outcome("\n".join(lines) or "There are no background commands.")


async def _wait(command: BackgroundCommand, seconds: float, live: LiveCall) -> ToolOutcome:
    await command.wait(seconds)
    return await _read(command, live)


async def _kill(command: BackgroundCommand, live: LiveCall) -> ToolOutcome:
    await command.kill()
    return await _read(command, live)


async def _read(command: BackgroundCommand, live: LiveCall) -> ToolOutcome:
    """Return what is new, and show it in the command's terminal."""
    dropped, text = command.take()
    await _show(command, text, live)
    if dropped:
        text = (
            f"[… {dropped} characters are not shown; the full output is in {command.file} …]\n"
            f"{text}"
        )
    status = ended(command.exit, command.seconds)
    return text_outcome(f"{text.rstrip() or '(nothing new)'}\n{status}")


async def _show(command: BackgroundCommand, text: str, live: LiveCall) -> None:
    terminal = TerminalId(command.terminal.id)
    if text:
        await live.emit(TerminalOutput(terminal=terminal, data=text))
    if (left := command.exit) is not None and not command.was_exit_reported:
        command.was_exit_reported = True
        await live.emit(TerminalExited(terminal=terminal, exit_code=left.code, signal=left.signal))


if TYPE_CHECKING:
    _tool: Tool = CommandsTool()
