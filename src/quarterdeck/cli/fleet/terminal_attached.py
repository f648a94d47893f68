"""A terminal of the host in the terminal that a person sits before."""

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING

from quarterdeck.drivers.pty.seen import Drawn, Left, Resized, Written
from quarterdeck.drivers.screen import Screen, open_screen
from quarterdeck.fleet.errors import NotNow
from quarterdeck.fleet.racing import first_of

from .raw_keys import RawKeys
from .terminal_drawing import ENTER, Drawing

if TYPE_CHECKING:
    from quarterdeck.fleet.terminal_port import TerminalInfo, Terminals

__all__ = ["Attached"]

_PAUSE = 1 / 60
"""Seconds between two frames."""
_HALF_DRAWN = 0.2
"""Seconds for which a screen is not shown that its program is drawing."""


class Attached:
    """Shows one terminal and sends what is typed, until one of the two leaves."""

    def __init__(self, fleet: "Terminals", info: "TerminalInfo") -> None:
        self._fleet = fleet
        self._info = info
        self._screen: Screen | None = None
        self._changed = asyncio.Event()
        self._resized = asyncio.Event()
        self._ending: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._drawing = Drawing(info.name)
        self.left: str | None = None
        """How the program left, if it did."""

    async def run(self) -> int:
        """Be attached; 0, or the code for the signal that ended it.

        Raises:
            NoSuchTerminal, LinkError: there is no such terminal, or the host went away.
        """
        with self._signals(), RawKeys(0).listening() as keys:
            await _write(ENTER)
            work = (self._watch(), self._draw(), self._type(keys), self._fit())
            try:
                await first_of(*work, asyncio.shield(self._ending))
            finally:
                with suppress(OSError):
                    await _write(self._drawing.leave())
        return self._ending.result() if self._ending.done() else 0

    async def _watch(self) -> None:
        async with aclosing(self._fleet.watch_terminal(self._info.id)) as seen:
            async for one in seen:
                match one:
                    case Drawn():
                        screen = await asyncio.to_thread(open_screen, one.columns, one.rows)
                        screen.feed(one.data)
                        self._screen = screen
                    case Written() if self._screen is not None:
                        self._screen.feed(one.data)  # the host answers its queries
                    case Resized() if self._screen is not None:
                        self._screen.resize(one.columns, one.rows)
                    case Left():
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

    async def _type(self, keys: RawKeys) -> None:
        while data := await keys.next():
            try:
                await self._fleet.write_terminal(self._info.id, data)
            except NotNow:
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
        """Leave in good order: whoever just dies leaves the terminal as it was drawn."""
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
