"""How an agent leaves: what the end of its output means, and what its process has to say."""

import asyncio
from typing import TYPE_CHECKING

from quarterdeck.wire.errors import Broken, Closed, Ended, LinkError

from ..child import Child

if TYPE_CHECKING:
    from ..link import Departure

__all__ = ["Outlet"]

_LEAVING = 1.0
"""Seconds that an agent whose output has ended may take to leave, before we call it stuck."""


class Outlet:
    """The byte stream of an agent's process, which says how the process left.

    The end of its output is held back until the process has left or has had its time: afterwards
    nobody could tell an agent that left from one that we made leave.
    """

    def __init__(self, agent: str, child: Child) -> None:
        self._agent = agent
        self._child = child
        self._left: Departure | None = None
        self.send = child.process.send
        self.close = child.process.close

    async def receive(self) -> bytes:
        """See ``ByteStream``."""
        data = await self._child.process.receive()
        if not data:
            await self._wait()
        return data

    async def explain(self, ending: LinkError) -> LinkError:
        """What the end of the connection means.

        ``Ended`` is an agent that left with exit code 0; ``Broken`` everything that we did not do.
        """
        if isinstance(ending, Closed):
            return ending
        if not isinstance(ending, Ended):
            await self._wait()
        left = self._left
        if left is None:
            stuck = f"{self._agent} closed its output and runs on"
            why = stuck if isinstance(ending, Ended) else str(ending)
            return Broken(why, stderr=self._child.stderr())
        if left.exit_code == 0 and isinstance(ending, Ended):
            return Ended(f"{self._agent} left")
        how = f"signal {left.signal}" if left.signal else f"exit code {left.exit_code}"
        why = f"{self._agent} left with {how}" if isinstance(ending, Ended) else f"{ending} ({how})"
        return Broken(why, exit_code=left.exit_code, signal=left.signal, stderr=left.stderr)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(_LEAVING):
                self._left = await self._child.left()
        except TimeoutError:
            return
