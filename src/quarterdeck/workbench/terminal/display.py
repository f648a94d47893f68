"""What one viewer sees of a terminal: an emulator of its own, fed a bounded piece at a time.

A program can write faster than anybody can look. What waits is bounded: who feeds it waits for
room, falls behind, and gets the whole screen anew, which takes the place of all that waits.
"""

import time
from collections import deque
from collections.abc import Callable
from itertools import islice

from quarterdeck.terminal.emulator import Emulator, GridRow, open_emulator
from quarterdeck.terminal.emulator.api import BLANK
from quarterdeck.terminal.viewer_events import (
    TerminalDrawn,
    TerminalEnded,
    TerminalResized,
    TerminalWritten,
    ViewerEvent,
)
from quarterdeck.wire.clock import MonotonicClock

__all__ = ["SCROLLBACK", "TerminalDisplay", "load_emulator"]

SCROLLBACK = 5_000
"""Rows that a viewer keeps above the screen."""
_ROOM = 64 * 1024
"""Bytes that may wait."""
_PIECE = 4 * 1024
"""Bytes between two looks at the clock."""


def load_emulator() -> None:
    """Have the emulator's library loaded, which takes a third of a second once. Blocks."""
    open_emulator(1, 1, scrollback=0).close()


def _empty(columns: int, rows: int) -> Emulator:
    return open_emulator(columns, rows, scrollback=SCROLLBACK)


class TerminalDisplay:
    """A terminal as it is seen here, with what is above its screen.

    Args:
        make: makes an empty screen of a size.
        clock: seconds, for the bound on how long it is fed at once.
    """

    def __init__(
        self,
        make: Callable[[int, int], Emulator] | None = None,
        clock: MonotonicClock = time.perf_counter,
    ) -> None:
        self._make = make or _empty
        self._clock = clock
        self._waiting: deque[ViewerEvent] = deque()
        self._bytes = 0
        self.screen: Emulator | None = None
        """None until something was seen."""
        self.left: str | None = None
        """How the program ended, in words; None while it runs."""
        self.drawn = 0
        """How often the whole screen came; rows have other places after that."""

    @property
    def has_room(self) -> bool:
        """Whether more may be given now."""
        return self._bytes < _ROOM

    @property
    def is_due(self) -> bool:
        """Whether something waits to be fed."""
        return bool(self._waiting)

    def give(self, seen: ViewerEvent) -> None:
        """Take what was seen next; it is on the screen after ``feed``."""
        if isinstance(seen, TerminalDrawn):
            self._waiting.clear()
            self._bytes = 0
        self._waiting.append(seen)
        self._bytes += len(seen.data) if isinstance(seen, TerminalDrawn | TerminalWritten) else 0

    def feed(self, seconds: float) -> bool:
        """Put what waits on the screen, for about so long; whether there was anything."""
        until = self._clock() + seconds
        is_new = False
        while self._waiting:
            is_new = True
            self._take(self._waiting.popleft())
            if self._clock() >= until:
                break
        return is_new

    def close(self) -> None:
        """Free the emulator."""
        self._waiting.clear()
        self._bytes = 0
        if self.screen is not None:
            self.screen.close()
            self.screen = None

    def _take(self, seen: ViewerEvent) -> None:
        match seen:
            case TerminalDrawn():
                if self.screen is not None:
                    self.screen.close()
                self.screen = self._make(seen.columns, seen.rows)
                self.drawn += 1
                self.left = None
                self._bytes -= len(seen.data)
                self.screen.feed(seen.data)
            case TerminalWritten():
                if self.screen is not None:
                    # The host answers what programs ask; what this one would say is left out.
                    self.screen.feed(seen.data[:_PIECE])
                self._bytes -= len(seen.data[:_PIECE])
                if rest := seen.data[_PIECE:]:
                    self._waiting.appendleft(TerminalWritten(rest))
            case TerminalResized():
                if self.screen is not None:
                    self.screen.resize(seen.columns, seen.rows)
                    self.drawn += 1
            case TerminalEnded():
                self.left = seen.reason

    # Rows, from the oldest that is kept to the last of the screen

    @property
    def height(self) -> int:
        """Rows of the screen."""
        return self.screen.size[1] if self.screen is not None else 0

    @property
    def above(self) -> int:
        """Rows that are kept above the screen."""
        return self.screen.scrolled if self.screen is not None else 0

    def rows(self, first: int, count: int) -> list[GridRow]:
        """Rows by their place; blank ones where there are none."""
        if self.screen is None:
            return [BLANK] * count
        above = self.above
        found: list[GridRow] = [BLANK] * min(max(-first, 0), count)
        if first < above:
            found += self.screen.above(
                max(first, 0), min(count - len(found), above - max(first, 0))
            )
        if len(found) < count:
            start = max(first - above, 0)
            found += islice(self.screen.rows(), start, start + count - len(found))
        return found + [BLANK] * (count - len(found))

    def wraps(self, first: int, count: int) -> tuple[int, ...]:
        """Of rows by their place: the columns of one that goes on in the next; 0: a line ends."""
        return self.screen.wraps(first, count) if self.screen is not None else ()
