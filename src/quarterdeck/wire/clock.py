"""Time: wall time in microseconds since the epoch, as records have it, and how it is written.

Durations are measured with ``time.monotonic``; what waits takes a ``MonotonicClock``, and what
stamps takes a ``WallClock``, so that tests can bring their own.
"""

import datetime
import time
from collections.abc import Callable
from typing import TypeAlias

__all__ = [
    "MonotonicClock",
    "WaitTimer",
    "WallClock",
    "format_day",
    "format_iso_time",
    "format_local_time",
    "format_utc_time",
    "read_time_of_day",
    "read_wall_clock",
    "read_wall_seconds",
]

WallClock: TypeAlias = Callable[[], int]
"""Returns microseconds since the epoch, UTC; may go backwards."""

MonotonicClock: TypeAlias = Callable[[], float]
"""Returns seconds since any moment; only grows."""

_SECOND = 1_000_000


def read_wall_clock() -> int:
    """Microseconds since the epoch, UTC; the ``WallClock`` of the product."""
    return time.time_ns() // 1_000


def read_wall_seconds() -> float:
    """Seconds since the epoch, UTC: for files, headers and vendors that count in seconds."""
    return time.time()


def read_time_of_day() -> datetime.time:
    """The time of the day where the user is."""
    return datetime.datetime.now().astimezone().time()


def format_day(day: str) -> str:
    """A day of the calendar, ``2026-11-07``, as in ``7 Nov``; empty where it is none."""
    try:
        return datetime.date.fromisoformat(day).strftime("%d %b").lstrip("0")
    except ValueError:
        return ""


def format_local_time(moment: int, form: str = "%Y-%m-%d %H:%M") -> str:
    """A moment in microseconds, where the user is; empty where no calendar has it."""
    try:
        return datetime.datetime.fromtimestamp(moment / _SECOND).astimezone().strftime(form)
    except (OverflowError, OSError, ValueError):
        return ""


def format_utc_time(moment: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """A moment in microseconds, in UTC; empty where no calendar has it."""
    try:
        return datetime.datetime.fromtimestamp(moment / _SECOND, tz=datetime.UTC).strftime(form)
    except (OverflowError, OSError, ValueError):
        return ""


def format_iso_time(moment: int) -> str:
    """A moment in microseconds as ISO 8601 in UTC, with a ``Z``."""
    written = datetime.datetime.fromtimestamp(moment / _SECOND, tz=datetime.UTC).isoformat()
    return written.replace("+00:00", "Z")


class WaitTimer:
    """The time in which a session waited for a person; waits that overlap count once.

    A context manager, entered for the time of each wait.
    """

    def __init__(self, clock: MonotonicClock = time.monotonic) -> None:
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
