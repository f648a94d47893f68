"""Prompts of one session wait here for the turns before them."""

import asyncio
from collections import deque

from quarterdeck.wire.rpc.codes import INVALID_REQUEST

from .refusals import refused

__all__ = ["PromptQueue"]

_MOST = 100
"""Prompts that may wait."""


class PromptQueue:
    """Lets one prompt at a time run, in the order of ``enter``."""

    def __init__(self) -> None:
        self.idle = asyncio.Event()
        """Set while none runs."""
        self.idle.set()
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._cancelled: set[asyncio.Future[bool]] = set()

    async def enter(self) -> bool:
        """Wait for the prompts before this one; False: it was cancelled. ``leave`` after True.

        Returns at once, without giving way to others, where none runs.

        Raises:
            RpcError: too many wait.
        """
        if self.idle.is_set():
            self.idle.clear()
            return True
        if len(self._waiting) >= _MOST:
            told = f"{_MOST} prompts wait in this session; wait for the end of a turn or cancel it"
            raise refused(INVALID_REQUEST, told, "too_many_prompts")
        mine: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        try:
            return await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled() and mine.result():
                self.leave()  # it was its turn already
            elif mine in self._waiting:
                self._waiting.remove(mine)
            self._cancelled.discard(mine)
            raise

    def leave(self) -> None:
        """Let the next one go; those that were cancelled hear of it in their order."""
        while self._waiting:
            following = self._waiting.popleft()
            is_cancelled = following in self._cancelled
            self._cancelled.discard(following)
            if following.done():
                continue
            following.set_result(not is_cancelled)
            if not is_cancelled:
                return
        self.idle.set()

    def cancel(self) -> None:
        """Cancel every prompt that waits now."""
        self._cancelled.update(self._waiting)
