"""How long people were waited for, which counts towards no limit."""

import time
from collections.abc import Callable

__all__ = ["Pauses"]


class Pauses:
    """The time in which a session waited for a person; waits that overlap count once.

    A context manager, entered for the time of each wait.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waits = 0
        self._since = 0.0
        self._past = 0.0

    @property
    def seconds(self) -> float:
        """All of it so far."""
        return self._past + (self._clock() - self._since if self._waits else 0.0)

    def __enter__(self) -> None:
        if not self._waits:
            self._since = self._clock()
        self._waits += 1

    def __exit__(self, *exc: object) -> None:
        self._waits -= 1
        if not self._waits:
            self._past += self._clock() - self._since
