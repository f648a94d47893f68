"""Changes that are carried through, whether or not who asked for them is still there."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["Work"]

log = logging.getLogger(__name__)

T = TypeVar("T")


class Work:
    """The changes under way. A client that goes away in the middle of one ends nothing."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def carry_through(self, change: Coroutine[Any, Any, T]) -> T:
        """Run a change to its end; cancelling this stops the waiting, not the change."""
        task = asyncio.create_task(change)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    async def finish(self, seconds: float) -> None:
        """Wait for what is under way; what is not done in time is cancelled."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=seconds)
        for task in late:
            log.warning("a change is not done after %.0f s and is given up: %r", seconds, task)
            task.cancel()
        if late:
            await asyncio.wait(late)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        # Looked at here, because its caller may be gone: it would be reported as lost otherwise.
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("a change was refused or failed: %s: %s", type(error).__name__, error)
