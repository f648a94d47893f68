"""A program in a terminal without a window: runs whether somebody looks or not.

The screen is always up to date, because what the program draws is read at once. Viewers come and
go; each gets the screen as it is and then what follows, and one that is slow gets the screen again
instead of holding anybody up.
"""

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress

from quarterdeck.system.api import CommandSpec, EndingDeadlines, ProcessExit
from quarterdeck.system.paths import Roots
from quarterdeck.system.process_guard import ProcessGuard
from quarterdeck.terminal.pty_process import PtyProcess, spawn_in_pty
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.tasks import start_task

from .emulator import Emulator, EmulatorBackend, open_emulator
from .keys import encode_key, encode_paste
from .viewer_events import TerminalDrawn, TerminalOutput, TerminalResized, TerminalWritten

__all__ = ["HeadlessTerminal"]

_log = logging.getLogger(__name__)

_SCROLLBACK = 20_000
_MOST_HELD = 1 << 18
"""Bytes that wait for one viewer; one that is slower than that gets the screen anew.

More would be what a person waits for after they have stopped a program that floods.
"""
_REDRAWN = 0.25
"""Seconds between two whole screens for one viewer: each takes tens of milliseconds."""
_MOST_ANSWERS = 1 << 16
"""Bytes of answers to queries that wait for a program which does not read."""
_LAST_WORDS = 0.3
"""Seconds that output may come after the program has left, while others hold its terminal."""
_ENDING = EndingDeadlines(ask=0.5, terminate=1.0, kill=5.0)


class HeadlessTerminal:
    """A program on a pseudo-terminal with its screen. Made by ``start``; ``close`` it."""

    def __init__(self, process: PtyProcess, screen: Emulator, command: CommandSpec) -> None:
        self.id = f"pty-{secrets.token_hex(8)}"
        self.command = command
        """What was started."""
        self.opened = read_wall_clock()
        """Microseconds since the epoch."""
        self.screen = screen
        self.written = 0
        """Bytes that the program has written so far."""
        self._process = process
        self._viewers: set[_Viewer] = set()
        self._changed = asyncio.Event()
        self._typing = asyncio.Lock()
        self._answers = bytearray()
        self._has_answers = asyncio.Event()
        self._is_over = False
        self._pump = start_task(self._read(), name="terminal: read")
        self._answering = start_task(self._answer(), name="terminal: answer")
        self._leaving = start_task(self._leave(), name="terminal: exit")

    @classmethod
    async def start(
        cls,
        command: CommandSpec,
        *,
        size: tuple[int, int] = (120, 40),
        roots: Roots | None = None,
        guard: ProcessGuard | None = None,
        scrollback: int = _SCROLLBACK,
        backend: EmulatorBackend | None = None,
    ) -> "HeadlessTerminal":
        """Start a command on a terminal of this size, columns and rows.

        Raises:
            SpawnError, PathError: it could not be started.
        """
        # Loading the emulator takes a quarter of a second, once.
        screen = await asyncio.to_thread(
            open_emulator, *size, scrollback=scrollback, backend=backend
        )
        own = {"TERM": "xterm-256color", "COLORTERM": "truecolor", **command.env}
        told = CommandSpec(argv=command.argv, cwd=command.cwd, env=own, inherit=command.inherit)
        try:
            process = await spawn_in_pty(told, screen.size, roots=roots, guard=guard)
        except BaseException:
            screen.close()
            raise
        return cls(process, screen, command)

    def __repr__(self) -> str:
        return f"<Terminal {self.id} {self._process!r}>"

    @property
    def pid(self) -> int:
        """The process id of the program, which is also its group and session."""
        return self._process.pid

    @property
    def exit(self) -> ProcessExit | None:
        """How the program ended; None while it runs."""
        return self._process.exit

    @property
    def is_over(self) -> bool:
        """The program has left and all that it wrote is on the screen."""
        return self._is_over

    # What is typed

    async def write(self, data: bytes) -> None:
        """Type bytes as they are; waits while the program does not read.

        Raises:
            LinkClosedError, LinkBrokenError: the terminal is closed, or the program is gone.
        """
        async with self._typing:
            await self._process.send(data)

    async def press(self, *keys: str) -> None:
        """Press keys by their names, see ``keys.press_of``. Raises as ``write``."""
        modes = self.screen.modes
        for key in keys:
            await self.write(encode_key(key, modes))

    async def paste(self, text: str) -> None:
        """Paste text: nothing in it can press a key or end the paste. Raises as ``write``."""
        await self.write(encode_paste(text, self.screen.modes))

    def resize(self, columns: int, rows: int) -> None:
        """Change the size; the program and all viewers are told."""
        self.screen.resize(columns, rows)
        self._process.resize(*self.screen.size)
        self._tell(TerminalResized(*self.screen.size))

    # What is seen

    def snapshot(self) -> TerminalDrawn:
        """The screen as it is now."""
        return TerminalDrawn(*self.screen.size, self.screen.snapshot())

    async def follow(self) -> AsyncGenerator[TerminalOutput]:
        """The screen as it is, then everything that follows, until the program has left."""
        viewer = _Viewer()
        self._viewers.add(viewer)
        try:
            while True:
                ready = viewer.ready
                if viewer.is_behind:
                    if rest := viewer.rest:
                        await asyncio.sleep(rest)
                    viewer.catch_up()
                    yield self.snapshot()
                while viewer.waiting and not viewer.is_behind:
                    yield viewer.take()
                if viewer.is_behind:
                    continue
                if self._is_over:
                    return
                await ready.wait()
        finally:
            self._viewers.discard(viewer)

    async def change(self) -> None:
        """Wait until the screen may have changed, or the program has left."""
        if not self._is_over:
            await self._changed.wait()

    async def wait(self) -> ProcessExit:
        """Wait until the program has left and what it wrote is on the screen."""
        left = await self._process.wait()
        await asyncio.wait([self._leaving])
        return left

    async def close(self, ending: EndingDeadlines | None = None) -> ProcessExit:
        """End the program and everything it started; the screen stays as it was last.

        Raises:
            StillRunningError: something of its tree could not be ended.
        """
        try:
            left = await self._process.end(ending or _ENDING)
        finally:
            tasks = (self._pump, self._answering, self._leaving)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            self._finish()
        return left

    # What the program does

    async def _read(self) -> None:
        try:
            while data := await self._process.receive():
                self.written += len(data)
                answer = self.screen.feed(data)
                if answer and len(self._answers) + len(answer) <= _MOST_ANSWERS:
                    self._answers += answer
                    self._has_answers.set()
                self._tell(TerminalWritten(data))
                # A program that draws without end must not keep everybody else from running.
                await asyncio.sleep(0)
        except LinkError as error:
            _log.debug("%r can no longer be read: %s", self, error)
        except Exception:
            # An emulator's own fault: the screen stands still, and whoever looks for why finds it.
            _log.exception("%r: its emulator failed", self)

    async def _leave(self) -> None:
        """Notice that the program has left, and give what it wrote last a moment to come."""
        await self._process.wait()
        await asyncio.wait([self._pump], timeout=_LAST_WORDS)
        self._finish()

    async def _answer(self) -> None:
        """Write the answers to queries; a program that does not read them holds nothing else up."""
        with suppress(LinkError):
            while True:
                await self._has_answers.wait()
                data = bytes(self._answers)
                self._answers.clear()
                self._has_answers.clear()
                await self.write(data)

    def _tell(self, seen: TerminalOutput) -> None:
        for viewer in self._viewers:
            viewer.give(seen)
        self._announce()

    def _finish(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._announce()

    def _announce(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for viewer in self._viewers:
            viewer.wake()


class _Viewer:
    """What waits for one viewer."""

    def __init__(self) -> None:
        self.waiting: deque[TerminalOutput] = deque()
        self.is_behind = True
        self.ready = asyncio.Event()
        self._held = 0
        self._drawn = float("-inf")

    def give(self, seen: TerminalOutput) -> None:
        if self.is_behind:
            return  # the screen that it gets next shows this
        self._held += len(seen.data) if isinstance(seen, TerminalWritten) else 0
        if self._held > _MOST_HELD:
            self.waiting.clear()
            self.is_behind = True
        else:
            self.waiting.append(seen)

    def take(self) -> TerminalOutput:
        seen = self.waiting.popleft()
        self._held -= len(seen.data) if isinstance(seen, TerminalWritten) else 0
        return seen

    @property
    def rest(self) -> float:
        """Seconds until it may have the whole screen again."""
        return max(0.0, self._drawn + _REDRAWN - time.monotonic())

    def catch_up(self) -> None:
        self._drawn = time.monotonic()
        self.is_behind = False
        self._held = 0

    def wake(self) -> None:
        ready, self.ready = self.ready, asyncio.Event()
        ready.set()
