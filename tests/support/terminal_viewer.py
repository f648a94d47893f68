"""Somebody who looks at a terminal of a fleet, with an emulator of their own."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Self

from quarterdeck.fleet.terminals.api import FleetTerminals
from quarterdeck.terminal.emulator import Emulator, open_emulator
from quarterdeck.terminal.viewer_events import (
    TerminalDrawn,
    TerminalEnded,
    TerminalResized,
    TerminalWritten,
    ViewerEvent,
)

from .deadlines import SOON

__all__ = ["Viewer"]


class Viewer:
    """Looks until the end of its block, or until the program has left."""

    def __init__(self, fleet: FleetTerminals, terminal: str) -> None:
        self.screen: Emulator = open_emulator(1, 1)
        self.drawn = 0
        """How often it got the whole screen."""
        self.left: str | None = None
        self.may_look = asyncio.Event()
        """Cleared: it does not take what comes."""
        self.may_look.set()
        self._changed = asyncio.Event()
        self._seen = fleet.watch_terminal(terminal)

    async def __aenter__(self) -> Self:
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._looking.cancel()
        await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> None:
        try:
            async with aclosing(self._seen) as seen:
                async for one in seen:
                    self._take(one)
                    self._changed.set()
                    await self.may_look.wait()
        finally:
            self._changed.set()

    def _take(self, one: ViewerEvent) -> None:
        assert self.left is None
        match one:
            case TerminalDrawn():
                self.screen = open_emulator(one.columns, one.rows)
                self.screen.feed(one.data)
                self.drawn += 1
            case TerminalWritten():
                self.screen.feed(one.data)
            case TerminalResized():
                self.screen.resize(one.columns, one.rows)
            case TerminalEnded():
                self.left = one.reason

    @property
    def text(self) -> str:
        """The rows of the screen."""
        return "\n".join(row.text for row in self.screen.rows())

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds that depends on what is seen."""
        async with asyncio.timeout(SOON):
            while not holds():
                if self._looking.done():
                    self._looking.result()
                    raise AssertionError(self.text)
                self._changed.clear()
                await self._changed.wait()

    async def shows(self, words: str) -> None:
        """Wait for words."""
        try:
            await self.until(lambda: words in self.text)
        except TimeoutError:
            raise AssertionError(f"{words!r} does not come:\n{self.text}") from None

    async def leaves(self) -> str:
        """Wait until the program has left; how."""
        await self.until(lambda: self.left is not None)
        return self.left or ""
