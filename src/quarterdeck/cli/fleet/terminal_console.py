"""A terminal of the host inside the user's own terminal: keys in, screen out."""

import asyncio
import os
import re
import signal
import termios
import tty
from collections.abc import Generator, Iterable
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING

from quarterdeck.fleet.errors import AgentNotReadyError
from quarterdeck.terminal.emulator import (
    Color,
    Emulator,
    GridRow,
    Style,
    TerminalModes,
    open_emulator,
)
from quarterdeck.terminal.viewer_events import (
    TerminalDrawn,
    TerminalEnded,
    TerminalResized,
    TerminalWritten,
)
from quarterdeck.wire.tasks import race_tasks

from ..output import count_columns, escape_to_line

if TYPE_CHECKING:
    from quarterdeck.fleet.terminals.api import FleetTerminals, TerminalInfo

__all__ = ["ENTER", "LEAVE", "LeaveKey", "RawKeyInput", "TerminalConsole", "TerminalPainter"]

_LEAVE = re.compile(rb"\x1c|\x1b\[92;5(?::1)?u")
"""Ctrl and a backslash, also as the keyboard protocol of kitty sends it."""
_BEGIN, _END = b"\x1b[200~", b"\x1b[201~"
_CHUNK = 65_536


class LeaveKey:
    """Looks for the key that leaves, outside of what is pasted."""

    def __init__(self) -> None:
        self._tail: bytes | None = None
        """Within a paste: its last bytes, which may be the first of its end."""

    def take(self, data: bytes) -> tuple[bytes, bool]:
        """What came before the key, and whether it came."""
        place = 0
        while True:
            if self._tail is not None:
                seen = self._tail + data[place:]
                end = seen.find(_END)
                if end < 0:
                    self._tail = seen[-len(_END) + 1 :]
                    return data, False
                place += end + len(_END) - len(self._tail)
                self._tail = None
            found = _LEAVE.search(data, place)
            begin = data.find(_BEGIN, place)
            if found is not None and not 0 <= begin < found.start():
                return data[: found.start()], True
            if begin < 0:
                return data, False
            place, self._tail = begin + len(_BEGIN), b""


class RawKeyInput:
    """A terminal's keys. What is not fetched waits in the terminal itself."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._leave = LeaveKey()
        self._data = b""
        self._came = asyncio.Event()
        self.has_left = False
        """The key that leaves was pressed, or the input has ended."""

    @contextmanager
    def listening(self) -> Generator["RawKeyInput"]:
        """Have the terminal in raw mode; it is set back at the end, whatever happens."""
        loop = asyncio.get_running_loop()
        before = termios.tcgetattr(self._fd)
        try:
            tty.setraw(self._fd, termios.TCSANOW)
            loop.add_reader(self._fd, self._read)
            yield self
        finally:
            loop.remove_reader(self._fd)
            with suppress(termios.error):  # it is gone
                termios.tcsetattr(self._fd, termios.TCSANOW, before)

    async def next(self) -> bytes:
        """What was pressed since the last time; empty when ``has_left``."""
        while not self._data and not self.has_left:
            self._came.clear()
            await self._came.wait()
        data, self._data = self._data, b""
        if not self.has_left:
            asyncio.get_running_loop().add_reader(self._fd, self._read)
        return data

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _CHUNK)
        except OSError:
            data = b""
        kept, is_leaving = self._leave.take(data)
        self._data += kept
        self.has_left = is_leaving or not data
        if self.has_left or len(self._data) >= _CHUNK:
            asyncio.get_running_loop().remove_reader(self._fd)
        self._came.set()


ENTER = b"\x1b[?1049h\x1b[22;2t\x1b[?7l\x1b[2J"
"""Another screen, the window's title kept for later, nothing wrapped, all blank."""
LEAVE = b"\x1b[0m\x1b[0 q\x1b[?25h\x1b[?7h\x1b[23;2t\x1b[?1049l"
_MOUSE = {"press": 1000, "drag": 1002, "any": 1003}
_SHAPES = {"block": 2, "underline": 4, "bar": 6}
_FLAGS = {
    "bold": 1,
    "faint": 2,
    "italic": 3,
    "underline": 4,
    "blink": 5,
    "inverse": 7,
    "invisible": 8,
    "strikethrough": 9,
}


class TerminalPainter:
    """What is on the person's terminal; each frame is what has to be written to make it right.

    Only what is seen gets there: no query of the program, which would be answered twice.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._title = ""
        self._screen: Emulator | None = None
        self._revision = 0
        self._size = (0, 0)
        self._top = 0
        self._modes: frozenset[int] = frozenset()
        self._keyboard: int | None = None
        """The flags of the keyboard protocol; None: never asked for."""

    def frame(self, screen: Emulator, size: tuple[int, int]) -> bytes:
        """Show as much of the screen as fits, and always its cursor."""
        wide, high = size
        change = screen.changes(self._revision if screen is self._screen else 0)
        cursor = change.cursor
        top = _top(self._top, cursor.row, screen.size[1], high)
        is_whole = change.is_whole or (screen, size, top) != (self._screen, self._size, self._top)
        self._screen, self._size, self._top = screen, size, top
        self._revision = change.revision
        rows = dict(enumerate(screen.rows())) if is_whole else change.rows
        parts = ["\x1b[?2026h\x1b[?25l", "\x1b[0m\x1b[2J" if is_whole else ""]
        parts += (
            f"\x1b[{number - top + 1};1H\x1b[0m\x1b[2K{_drawn(row, wide)}"
            for number, row in rows.items()
            if top <= number < top + high
        )
        parts.append(f"\x1b[0m\x1b[{cursor.row - top + 1};{min(cursor.column + 1, wide)}H")
        parts.append(f"\x1b[{_SHAPES[cursor.shape]} q")
        parts.append("\x1b[?25h" if cursor.is_visible else "")
        parts += self._follow(screen.modes, is_shifted=top > 0)
        parts += self._entitle(screen.title)
        return "".join((*parts, "\x1b[?2026l")).encode("utf-8", "replace")

    def leave(self) -> bytes:
        """What sets the person's terminal back to how it was."""
        parts = [f"\x1b[?{number}l" for number in sorted(self._modes)]
        if self._keyboard is not None:
            parts.append("\x1b[<u")
        return "".join(parts).encode() + LEAVE

    def _follow(self, modes: TerminalModes, *, is_shifted: bool) -> Iterable[str]:
        """Have keys, pastes and the mouse come as the program wants them."""
        wanted = {
            1: modes.application_cursor,
            1004: modes.focus,
            2004: modes.bracketed_paste,
        }
        if modes.mouse and not is_shifted:  # where it is shifted the places would be wrong
            wanted |= {_MOUSE[modes.mouse]: True, 1006: modes.mouse_sgr}
        now = frozenset(number for number, is_on in wanted.items() if is_on)
        before, self._modes = self._modes, now
        yield from (f"\x1b[?{number}l" for number in sorted(before - now))
        yield from (f"\x1b[?{number}h" for number in sorted(now - before))
        flags = modes.kitty_keyboard
        if flags != (self._keyboard or 0):
            yield f"\x1b[>{flags}u" if self._keyboard is None else f"\x1b[={flags}u"
            self._keyboard = flags

    def _entitle(self, title: str) -> Iterable[str]:
        shown = f"{escape_to_line(title) or self._name} · ctrl+\\ detaches"
        if shown != self._title:
            self._title = shown
            yield f"\x1b]2;{shown}\x07"


def _top(before: int, cursor: int, rows: int, high: int) -> int:
    """The first row that is shown: the same as before where the cursor is seen then."""
    top = min(max(before, cursor - high + 1), cursor)
    return min(top, max(0, rows - high))


def _drawn(row: GridRow, wide: int) -> str:
    parts: list[str] = []
    for span in row.spans:
        text = _within(span.text, wide)
        wide -= count_columns(text)
        parts.append(f"\x1b[0{_look(span.style)}m{text}")
        if len(text) < len(span.text):
            break
    return "".join(parts)


def _within(text: str, wide: int) -> str:
    if count_columns(text) <= wide:
        return text
    for place, character in enumerate(text):
        wide -= count_columns(character)
        if wide < 0:
            return text[:place]
    return text


def _look(style: Style) -> str:
    flags = "".join(f";{number}" for name, number in _FLAGS.items() if getattr(style, name))
    return f"{flags}{_colour(38, style.foreground)}{_colour(48, style.background)}"


def _colour(which: int, colour: Color) -> str:
    match colour:
        case None:
            return ""
        case int():
            return f";{which};5;{colour}"
        case red, green, blue:
            return f";{which};2;{red};{green};{blue}"


_PAUSE = 1 / 60
"""Seconds between two frames."""
_HALF_DRAWN = 0.2
"""Seconds for which a screen is not shown that its program is drawing."""


class TerminalConsole:
    """Shows one terminal and sends what is typed, until one of the two leaves."""

    def __init__(self, fleet: "FleetTerminals", info: "TerminalInfo") -> None:
        self._fleet = fleet
        self._info = info
        self._screen: Emulator | None = None
        self._changed = asyncio.Event()
        self._resized = asyncio.Event()
        self._ending: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._drawing = TerminalPainter(info.name)
        self.left: str | None = None
        """How the program left, if it did."""

    async def run(self) -> int:
        """Be attached; 0, or the code for the signal that ended it.

        Raises:
            NoSuchFleetTerminalError, LinkError: there is no such terminal, or the host went away.
        """
        with self._signals(), RawKeyInput(0).listening() as keys:
            await _write(ENTER)
            work = (self._watch(), self._draw(), self._type(keys), self._fit())
            try:
                await race_tasks(*work, asyncio.shield(self._ending))
            finally:
                with suppress(OSError):
                    await _write(self._drawing.leave())
        return self._ending.result() if self._ending.done() else 0

    async def _watch(self) -> None:
        async with aclosing(self._fleet.watch_terminal(self._info.id)) as seen:
            async for one in seen:
                match one:
                    case TerminalDrawn():
                        screen = await asyncio.to_thread(open_emulator, one.columns, one.rows)
                        screen.feed(one.data)
                        self._screen = screen
                    case TerminalWritten() if self._screen is not None:
                        self._screen.feed(one.data)  # the host answers its queries
                    case TerminalResized() if self._screen is not None:
                        self._screen.resize(one.columns, one.rows)
                    case TerminalEnded():
                        self.left = one.reason
                    case _:
                        continue
                self._changed.set()

    async def _draw(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._screen is None:
                continue
            if self._screen.modes.synchronized:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_HALF_DRAWN):
                        while self._screen.modes.synchronized:
                            await self._changed.wait()
                            self._changed.clear()
            await _write(self._drawing.frame(self._screen, _size()))
            await asyncio.sleep(_PAUSE)

    async def _type(self, keys: RawKeyInput) -> None:
        while data := await keys.next():
            try:
                await self._fleet.write_terminal(self._info.id, data)
            except AgentNotReadyError:
                await _write(b"\a")

    async def _fit(self) -> None:
        """Have the program's terminal as large as ours, where it may be; never returns."""
        self._resized.set()
        while True:
            await self._resized.wait()
            self._resized.clear()
            if self._info.session is None:
                await self._fleet.resize_terminal(self._info.id, *_size())
            self._changed.set()

    @contextmanager
    def _signals(self) -> Generator[None]:
        """Leave in good order: a process that just dies leaves the terminal as it was drawn."""
        loop = asyncio.get_running_loop()
        ends = (signal.SIGTERM, signal.SIGHUP)
        for number in ends:
            loop.add_signal_handler(number, self._end, 128 + number)
        loop.add_signal_handler(signal.SIGWINCH, self._resized.set)
        try:
            yield
        finally:
            for number in (*ends, signal.SIGWINCH):
                loop.remove_signal_handler(number)

    def _end(self, code: int) -> None:
        if not self._ending.done():
            self._ending.set_result(code)


def _size() -> tuple[int, int]:
    try:
        size = os.get_terminal_size(1)
    except OSError:  # it is gone
        return 80, 24
    return max(1, size.columns), max(1, size.lines)


async def _write(data: bytes) -> None:
    """In a thread: a terminal that takes nothing must not keep us from leaving."""
    await asyncio.to_thread(_write_all, data)


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
