"""Helpers for asyncio tasks."""

import asyncio
from collections.abc import Awaitable

__all__ = ["race_tasks"]


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
