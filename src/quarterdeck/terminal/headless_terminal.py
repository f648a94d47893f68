"""A program in a terminal without a window: runs with and without viewers.

The screen is always up to date, because what the program draws is read at once. Viewers come and
go; each gets the screen as it is and then what follows, and one that is slow gets the screen again
instead of holding up the others.
"""

import asyncio
import logging
import os
import re
import secrets
import signal
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial

from quarterdeck.system.api import CommandSpec, EndingDeadlines, ProcessExit
from quarterdeck.system.paths import Roots
from quarterdeck.system.process import LocalProcess, start_in_thread
from quarterdeck.system.process_guard import ProcessGuard, shared_guard
from quarterdeck.system.spawn import StartedChild, set_size, start_child
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.tasks import start_task

from .emulator import Emulator, EmulatorBackend, open_emulator
from .emulator.api import TerminalModes
from .viewer_events import TerminalDrawn, TerminalOutput, TerminalResized, TerminalWritten

__all__ = [
    "KEYS",
    "HeadlessTerminal",
    "PtyProcess",
    "encode_key",
    "encode_paste",
    "neutralize_controls",
    "spawn_in_pty",
]

_PLAIN = {
    "enter": "\r",
    "tab": "\t",
    "space": " ",
    "backspace": "\x7f",
    "escape": "\x1b",
    "shift+tab": "\x1b[Z",
    "page-up": "\x1b[5~",
    "page-down": "\x1b[6~",
    "delete": "\x1b[3~",
}
_ARROWS = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
_CONTROL = re.compile(r"ctrl\+([a-z])")
KEYS = frozenset((*_PLAIN, *_ARROWS))
"""Names of keys, besides ``ctrl+a`` to ``ctrl+z`` and single characters."""

_BEGIN, _END = "\x1b[200~", "\x1b[201~"
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NEWLINES = re.compile("\r\n?")


def encode_key(key: str, modes: TerminalModes) -> bytes:
    """The bytes of one key, as the program has asked to have them.

    Raises:
        ValueError: there is no such key.
    """
    kitty = modes.kitty_keyboard & 1
    if control := _CONTROL.fullmatch(key):
        letter = control[1]
        return f"\x1b[{ord(letter)};5u".encode() if kitty else bytes([ord(letter) - 96])
    if key == "escape" and kitty:
        return b"\x1b[27u"
    if key in _ARROWS:
        return f"\x1b{'O' if modes.application_cursor else '['}{_ARROWS[key]}".encode()
    if key in _PLAIN:
        return _PLAIN[key].encode()
    if len(key) == 1 and key.isprintable():
        return key.encode()
    known = ", ".join(sorted(KEYS))
    raise ValueError(f"there is no key {key!r}; known are {known}, ctrl+a to ctrl+z, characters")


def neutralize_controls(text: str) -> str:
    """The text with each control character as its picture, so that none of them does anything.

    Line ends and tabs stay; every line end becomes a newline.
    """
    return _CONTROLS.sub(_picture, _NEWLINES.sub("\n", text))


def encode_paste(text: str, modes: TerminalModes) -> bytes:
    """The bytes of pasted text: in brackets where the program knows them, controls neutralised.

    Nothing in the text can end the paste or press a key. A program that knows no brackets gets
    its line ends as the key.
    """
    typed = neutralize_controls(text).replace("\n", "\r")
    if modes.bracketed_paste:
        typed = f"{_BEGIN}{typed}{_END}"
    return typed.encode("utf-8", "replace")


def _picture(found: "re.Match[str]") -> str:
    code = ord(found[0])
    if code == 0x7F:
        return "\u2421"
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


class PtyProcess(LocalProcess):
    """A process whose three streams are a terminal, which controls it.

    What it prints is received as it draws it, what is sent is typed. Asking it to leave hangs its
    terminal up. The stream ends when no process has the terminal open any more.
    """

    def __init__(self, started: StartedChild, guard: ProcessGuard) -> None:
        super().__init__(started, guard, ends_with_child=False)
        self._terminal = started.stdout

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of its terminal; it gets a signal. Nothing happens when it is closed."""
        if self._stdout.is_open:
            set_size(self._terminal, columns, rows)

    def close_input(self) -> None:
        """Hang up."""
        if self.exit is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGHUP)
        super().close_input()


async def spawn_in_pty(
    command: CommandSpec,
    size: tuple[int, int],
    *,
    roots: Roots | None = None,
    guard: ProcessGuard | None = None,
) -> PtyProcess:
    """Start a command on a new terminal of this size, columns and rows.

    Raises:
        SpawnError, PathError: As the port says. Nothing is left behind, also when cancelled.
    """
    guard = guard or shared_guard()
    starting = partial(start_child, command, roots, guard, size=size)
    return PtyProcess(await start_in_thread(starting, guard), guard)


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
        spec = CommandSpec(argv=command.argv, cwd=command.cwd, env=own, inherit=command.inherit)
        try:
            process = await spawn_in_pty(spec, screen.size, roots=roots, guard=guard)
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
        """Change the size; the program and all viewers are notified."""
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
                # A program that draws without end must not keep other tasks from running.
                await asyncio.sleep(0)
        except LinkError as error:
            _log.debug("%r can no longer be read: %s", self, error)
        except Exception:
            # An emulator's own fault: the screen stands still, and the log has the reason.
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
