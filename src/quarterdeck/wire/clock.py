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
    "WallClock",
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
