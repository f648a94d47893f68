"""Helpers for asyncio tasks."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

__all__ = ["PendingWork", "race_tasks"]

T = TypeVar("T")


class PendingWork:
    """Work that is done to its end, also when the caller is cancelled meanwhile."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it; cancelling this stops the waiting, not the work."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def wait(self) -> None:
        """Wait for all that is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)


async def race_tasks(*works: Awaitable[object]) -> None:
    """Do all until the first has ended; the others are cancelled, and waited for.

    Raises:
        Exception: whatever the first raised.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
