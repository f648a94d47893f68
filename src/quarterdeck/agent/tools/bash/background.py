"""The commands of a session that run beside it."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable

from quarterdeck.system.port import Exit, Terminal, Terminals

from ..tool import ToolError
from ..workspace import Workspace
from .outputs import Outputs
from .shell import Started, start

__all__ = ["BackgroundCommand", "Commands", "commands_of"]

_MOST_RUNNING = 16
_MOST_KEPT = 64


class BackgroundCommand:
    """A command that runs on after the call that started it.

    What it prints is collected until somebody takes it; of what nobody took the last ``limit``
    characters stay.
    """

    def __init__(self, id: str, line: str, started: Started, limit: int) -> None:
        self.id = id
        self.line = line
        self.file = started.file
        self.was_exit_told = False
        self._limit = limit
        self._begun = time.monotonic()
        self._over: float | None = None
        self._exit: Exit | None = None
        self._terminal = started.terminal
        self._unread: deque[str] = deque()
        self._size = 0
        self._dropped = 0
        self._collecting = asyncio.get_running_loop().create_task(
            self._collect(started.terminal.follow())
        )

    @property
    def terminal(self) -> Terminal:
        """The terminal that it runs in."""
        return self._terminal

    @property
    def exit(self) -> Exit | None:
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


class Commands:
    """What ``bash`` keeps between calls: the output files and the commands in the background."""

    def __init__(self) -> None:
        self.outputs = Outputs()
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
        raise ToolError(f"There is no background command {id!r}; there are: {known}.")

    def check_room(self) -> None:
        """Refuse one more command when too many run.

        Raises:
            ToolError: Too many run.
        """
        running = [command.id for command in self.all if command.exit is None]
        if len(running) + self._starting >= _MOST_RUNNING:
            raise ToolError(
                f"{len(running)} background commands run already ({', '.join(running)}); "
                "kill one or wait for it before starting another."
            )

    async def start(
        self, terminals: Terminals, line: str, cwd: str, limit: int
    ) -> BackgroundCommand:
        """Start a command that runs on.

        Raises:
            ToolError: Too many run.
            SystemFault: It could not be started.
        """
        self.check_room()
        self._starting += 1
        try:
            started = await start(terminals, line, cwd, limit=limit, outputs=self.outputs)
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


def commands_of(workspace: Workspace) -> Commands:
    """The commands of a workspace; closed with it."""
    return workspace.resources.setdefault("bash", Commands())
