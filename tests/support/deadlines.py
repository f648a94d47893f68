"""How long a test waits: widely, for shared machines, and far below what a failure takes."""

from collections.abc import Awaitable, Callable

__all__ = ["SOON", "quick_once"]

SOON = 25.0
"""Seconds within which something must have happened that would else take a minute or for ever."""


async def quick_once(
    measure: Callable[[], Awaitable[float]], limit: float, *, tries: int = 3
) -> None:
    """Make sure that something takes less than ``limit`` seconds, as ``measure`` tells.

    A machine that is busy for a moment gets another try; what is slow by itself fails them all.
    """
    taken: list[float] = []
    while len(taken) < tries:
        taken.append(await measure())
        if taken[-1] < limit:
            return
    raise AssertionError(f"it took {taken} seconds; {limit:g} are allowed")
