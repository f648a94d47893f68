"""A terminal view's connection to the host: what it watches, the size it asks for, and what is
typed.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Literal, TypeAlias

from quarterdeck.terminal.viewer_events import TerminalEnded, ViewerEvent
from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from quarterdeck.fleet.terminals.api import FleetTerminals

__all__ = ["Cells", "TerminalFollower", "TerminalInput", "TerminalSizer", "TerminalViewState"]

TerminalViewState: TypeAlias = Literal["coming", "live", "ended", "gone", "lost"]
"""Not seen yet, running, left by its program, unknown to the host, or out of reach."""


class TerminalFollower:
    """Watches one terminal until its program has left or no one knows it any more.

    Args:
        fleet: who has it.
        terminal: its id, or the name of an agent.
        take: gets what is seen, in order; may wait until there is room.
        changed: called when ``state`` is another.
        reached: waits until the host is there.
    """

    def __init__(
        self,
        fleet: "FleetTerminals",
        terminal: str,
        take: Callable[[ViewerEvent], Awaitable[None]],
        changed: Callable[[], None],
        reached: Callable[[], Awaitable[None]],
    ) -> None:
        self._fleet = fleet
        self.terminal = terminal
        self._take = take
        self._changed = changed
        self._reached = reached
        self.state: TerminalViewState = "coming"
        self.reason = ""
        """Why it stands so, in words of others; may be empty."""

    async def run(self) -> None:
        """Watch; ends when there is nothing to be seen any more."""
        from quarterdeck.fleet.errors import (
            AgentNotReadyError,
            NoSuchAgentError,
            NoSuchFleetTerminalError,
        )

        while self.state not in ("ended", "gone"):
            await self._reached()
            try:
                await self._watch()
            except (NoSuchFleetTerminalError, NoSuchAgentError, AgentNotReadyError) as error:
                self._set_state("gone", str(error))
            except QuarterdeckError as error:  # the host went away; it may come back
                self._set_state("lost", str(error))

    async def _watch(self) -> None:
        async with aclosing(self._fleet.watch_terminal(self.terminal)) as watched:
            async for seen in watched:
                await self._take(seen)
                if isinstance(seen, TerminalEnded):
                    self._set_state("ended", seen.reason)
                    return
                self._set_state("live")
        if self.state != "ended":
            self._set_state("gone")

    def _set_state(self, state: TerminalViewState, reason: str = "") -> None:
        if (state, reason) != (self.state, self.reason):
            self.state, self.reason = state, reason
            self._changed()


Cells: TypeAlias = tuple[int, int]
"""Columns and rows."""


class TerminalSizer:
    """Asks for a size once: someone else may have asked for another since, and is right then.

    Args:
        fleet: who has the terminal.
        terminal: its id.
    """

    def __init__(self, fleet: "FleetTerminals", terminal: str) -> None:
        self._fleet = fleet
        self._terminal = terminal
        self._asked: Cells | None = None

    def wants(self, size: Cells, now: Cells, *, insists: bool) -> bool:
        """Whether to ask; ``insists``: also for what was asked before, as someone is at work."""
        return min(size) >= 1 and size != now and (insists or size != self._asked)

    async def ask(self, size: Cells) -> None:
        """Ask for a size; that a terminal has left or is out of reach is reported elsewhere."""
        self._asked = size
        try:
            await self._fleet.resize_terminal(self._terminal, *size)
        except QuarterdeckError:
            self._asked = None


_MOST = 1 << 20
"""Bytes that may wait for a program that does not read."""


class TerminalInput:
    """Keys and pasted texts for one terminal; what comes together goes together.

    Args:
        fleet: who has the terminal.
        terminal: its id.
        show_message: shows what went wrong.
    """

    def __init__(
        self, fleet: "FleetTerminals", terminal: str, show_message: Callable[[str], None]
    ) -> None:
        self._fleet = fleet
        self._terminal = terminal
        self._show_message = show_message
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
                self._show_message(f"your input was not delivered: {error}")
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
            self._show_message("the program does not read its input; the rest was dropped")
            return False
        self._held += size
        return True
