"""Time and chance as a session sees them, so that tests and simulations can bring their own."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random

from msgspec import Struct, field

from quarterdeck.wire.clock import MonotonicClock

__all__ = ["SessionClock"]


class SessionClock(Struct, frozen=True, kw_only=True):
    """How time passes."""

    clock: MonotonicClock = time.monotonic
    """Seconds that only grow."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits before a failed model call is made again."""
    random: Random = field(default_factory=Random)
    """Moves those waits a little."""
