"""Watching an agent's screen: what it shows now, and waiting for what it shows next."""

import asyncio
import time
from collections.abc import Callable

from quarterdeck.wire.errors import Broken, Ended, LinkError

from .reading import Reader, Reading
from .terminal import Terminal

__all__ = ["Watch"]

_PAUSE = 0.03
"""Seconds between two looks: a screen that is being drawn is not read for each piece."""
_LONGEST_DRAWING = 0.5
"""Seconds after which a screen is read although its program has not said that it is drawn."""


class Watch:
    """Reads one terminal's screen, at most some thirty times a second."""

    def __init__(self, terminal: Terminal, reader: Reader) -> None:
        self.terminal = terminal
        self._reader = reader
        self._revision = 0
        self._since = time.monotonic()
        self._sign: tuple[str, bool, int] = "", False, 0
        """What tells states apart besides rows: title, whether it takes pastes, cursor."""
        self._whole_at = 0.0
        self.changes = 0
        """How often the screen was seen to change."""
        self._reading = Reading(state="unknown")

    @property
    def now(self) -> Reading:
        """What the screen shows."""
        self._look()
        return self._reading

    @property
    def calm(self) -> float:
        """Seconds since the screen changed last."""
        self._look()
        return time.monotonic() - self._since

    @property
    def is_drawing(self) -> bool:
        """It is in the middle of drawing, and has said so, for not too long."""
        if not self.terminal.screen.modes.synchronized:
            self._whole_at = time.monotonic()
            return False
        return time.monotonic() - self._whole_at < _LONGEST_DRAWING

    def gone(self) -> LinkError:
        """How the program left, as an error; only once it has."""
        left = self.terminal.exit
        if left is not None and left.code == 0:
            return Ended("the agent has left")
        told = f"the agent has left: {left}" if left is not None else "the agent has left"
        rows = [row.text for row in self.terminal.screen.rows() if row.text]
        return Broken(
            told,
            exit_code=left.code if left else None,
            signal=left.signal if left else None,
            stderr="\n".join(rows[-10:]),
        )

    async def until(self, wanted: Callable[[Reading], bool], within: float) -> Reading | None:
        """Wait for a reading; None if it did not come in time.

        Raises:
            Broken, Ended: the program has left.
        """
        deadline = time.monotonic() + within
        while True:
            if wanted(self.now):
                return self.now
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            await self.step(min(left, 0.25))

    async def settled(self, calm: float, within: float) -> bool:
        """Wait until the screen did not change for a while. Raises as ``until``."""
        deadline = time.monotonic() + within
        while (still := self.calm) < calm:
            if time.monotonic() > deadline:
                return False
            await self.step(calm - still)
        return True

    async def step(self, longest: float) -> None:
        """Wait for a change, or so many seconds. Raises as ``until``."""
        if self.terminal.is_over:
            raise self.gone()
        try:
            async with asyncio.timeout(max(longest, _PAUSE)):
                await self.terminal.change()
        except TimeoutError:
            return
        await asyncio.sleep(_PAUSE)

    def _look(self) -> None:
        screen = self.terminal.screen
        if self.is_drawing:
            self._since = time.monotonic()  # what is seen now is the half of it
            return
        change = screen.changes(self._revision)
        sign = screen.title, screen.modes.bracketed_paste, screen.cursor.row
        if not change.rows and sign == self._sign:
            self._revision = change.revision
            return
        self._revision, self._sign = change.revision, sign
        self._since = time.monotonic()
        self.changes += 1
        self._reading = self._reader.read(screen)
