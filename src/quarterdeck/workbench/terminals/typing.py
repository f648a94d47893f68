"""What is typed into a terminal, on its way to the host: in order, and bounded."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from quarterdeck.fleet.terminal_port import Terminals

__all__ = ["Typing"]

_MOST = 1 << 20
"""Bytes that may wait for a program that does not read."""


class Typing:
    """Keys and pasted texts for one terminal; what comes together goes together.

    Args:
        fleet: who has the terminal.
        terminal: its id.
        tell: shows what went wrong.
    """

    def __init__(self, fleet: "Terminals", terminal: str, tell: Callable[[str], None]) -> None:
        self._fleet = fleet
        self._terminal = terminal
        self._tell = tell
        self._waiting: deque[bytes | str] = deque()
        self._held = 0
        self._has_some = asyncio.Event()

    def type(self, data: bytes) -> None:
        """Send bytes as they are."""
        if data and self._may_hold(len(data)):
            self._waiting.append(data)
            self._has_some.set()

    def paste(self, text: str) -> None:
        """Send a text of which nothing can press a key."""
        if text and self._may_hold(len(text)):
            self._waiting.append(text)
            self._has_some.set()

    async def run(self) -> None:
        """Send what comes until cancelled."""
        while True:
            await self._has_some.wait()
            self._has_some.clear()
            try:
                while self._waiting:
                    await self._send()
            except QuarterdeckError as error:
                self._waiting.clear()
                self._tell(f"what you typed did not arrive: {error}")
            self._held = 0

    async def _send(self) -> None:
        first = self._waiting.popleft()
        if isinstance(first, str):
            await self._fleet.paste_terminal(self._terminal, first)
            return
        parts = [first]
        while self._waiting and isinstance(self._waiting[0], bytes):
            parts.append(self._waiting.popleft())  # pyright: ignore[reportArgumentType]
        await self._fleet.write_terminal(self._terminal, b"".join(parts))

    def _may_hold(self, size: int) -> bool:
        if self._held + size > _MOST:
            self._tell("the program does not read what you type; the rest is left out")
            return False
        self._held += size
        return True
