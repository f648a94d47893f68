"""Tasks: the only module that starts one outside of an ``asyncio.TaskGroup``.

Which one to use:

- several things that end together: ``asyncio.TaskGroup``
- several things until the first ends: ``race_tasks``
- something while a block of code runs: ``run_beside``
- something that must not stop half-way when its caller is cancelled: ``run_to_end``, or
  ``BackgroundTasks.finish`` where the caller need not wait for it
- things that an object does in the background until it is closed: ``BackgroundTasks``
- a task that its caller keeps, and awaits or cancels by itself: ``start_task``
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any, TypeVar

__all__ = [
    "BackgroundTasks",
    "cancel_tasks",
    "log_failure",
    "race_tasks",
    "run_beside",
    "run_to_end",
    "start_task",
]

_log = logging.getLogger(__name__)

T = TypeVar("T")


def start_task(
    work: Coroutine[Any, Any, T], *, name: str, context: Context | None = None
) -> "asyncio.Task[T]":
    """Start a task that the caller keeps, and awaits or cancels.

    What it raises is raised where it is awaited; the event loop logs what is never retrieved.
    """
    return asyncio.create_task(work, name=name, context=context)


def log_failure(task: "asyncio.Task[Any]") -> None:
    """Log what a task raised, with its name; for ``add_done_callback``."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("the task %r failed", task.get_name(), exc_info=error)


async def cancel_tasks(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    """Cancel tasks and wait until they are over; what they raise meanwhile is not raised here."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


class BackgroundTasks:
    """What an object does in the background; it is closed with the object.

    A task that fails is logged with its name, and the others go on.
    """

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        """How many run."""
        return len(self._tasks)

    def __iter__(self) -> "Iterator[asyncio.Task[Any]]":
        """Those that run."""
        return iter(tuple(self._tasks))

    def start(self, work: Coroutine[Any, Any, T], *, name: str) -> "asyncio.Task[T]":
        """Start one."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    async def finish(self, work: Coroutine[Any, Any, T], *, name: str = "change") -> T:
        """Do something to its end: cancelling this stops the waiting, not the work.

        Raises:
            Exception: whatever the work raises; logged if there is no waiter any more.
        """
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                task.add_done_callback(log_failure)
            raise

    async def wait(self, timeout: float | None = None) -> None:
        """Wait until all that run now are over, or ``timeout`` seconds have passed."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=timeout)

    async def close(self, grace: float = 0.0) -> None:
        """Cancel all and wait for them, after ``grace`` seconds in which they may end."""
        if grace:
            await self.wait(grace)
        me = asyncio.current_task()
        await cancel_tasks(task for task in tuple(self._tasks) if task is not me)

    def _end(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        log_failure(task)


@asynccontextmanager
async def run_beside(
    work: Coroutine[Any, Any, object], *, name: str
) -> "AsyncGenerator[asyncio.Task[Any]]":
    """Do something while a block runs; it is cancelled, and waited for, when the block ends.

    When it fails, that is logged and the block goes on.
    """
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(log_failure)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def run_to_end(work: Coroutine[Any, Any, T], *, name: str) -> T:
    """Do something to its end, also when the caller is cancelled meanwhile.

    The cancellation is raised when the work is over. A second one cancels the work.

    Raises:
        Exception: whatever the work raises.
    """
    task = asyncio.create_task(work, name=name)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await task
        raise


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
