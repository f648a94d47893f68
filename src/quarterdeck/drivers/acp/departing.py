"""What the end of a connection means: the process behind it has more to say."""

import asyncio

from quarterdeck.wire.errors import Broken, Closed, Ended, LinkError

from ..child import Child

__all__ = ["explain"]

_LEAVING = 1.0
"""Seconds that an agent whose output has ended may take to leave, before we call it stuck."""


async def explain(agent: str, child: Child | None, ending: LinkError) -> LinkError:
    """How the agent left, once its connection is over: with its exit code and last words.

    ``Ended`` is an agent that left with exit code 0; ``Broken`` everything that we did not do.
    """
    if child is None or isinstance(ending, Closed):
        return ending
    try:
        async with asyncio.timeout(_LEAVING):
            left = await child.left()
    except TimeoutError:
        is_silent = isinstance(ending, Ended)
        why = f"{agent} closed its output and runs on" if is_silent else str(ending)
        return Broken(why, stderr=child.stderr())
    if left.exit_code == 0 and isinstance(ending, Ended):
        return Ended(f"{agent} left")
    how = f"signal {left.signal}" if left.signal else f"exit code {left.exit_code}"
    why = f"{agent} left with {how}" if isinstance(ending, Ended) else f"{ending} ({how})"
    return Broken(why, exit_code=left.exit_code, signal=left.signal, stderr=left.stderr)
