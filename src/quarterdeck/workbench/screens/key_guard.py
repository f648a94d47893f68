"""Keys that were meant for something else: who types on while a screen opens decides nothing."""

from quarterdeck.wire.clock import MonotonicClock

__all__ = ["QUIET", "KeyGuard"]

QUIET = 0.3
"""Seconds without a key after which keys count."""


class KeyGuard:
    """Closed at first; opens after a short time in which no key was pressed."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._closed_since = clock()

    @property
    def holds(self) -> bool:
        """Whether a key that comes now is ignored; it then takes longer until one counts."""
        if self._closed_since == _OPEN:
            return False
        now = self._clock()
        if now - self._closed_since >= QUIET:
            self._closed_since = _OPEN
            return False
        self._closed_since = now
        return True

    def open(self) -> None:
        """Keys count from now on."""
        self._closed_since = _OPEN

    def close(self) -> None:
        """Something else is asked now."""
        self._closed_since = self._clock()


_OPEN = float("-inf")
