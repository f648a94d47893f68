"""A fleet's screens under the names of its port."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from .current import Current
from .names import looks_like_id
from .port import AttachedScreen, ScreenHandler
from .screens import Screens

__all__ = ["ScreenCalls"]


class ScreenCalls:
    """The part of a fleet that is about screens; see ``port.Fleet``."""

    _current: Current
    _screens: Screens

    def attach_screen(
        self, handler: ScreenHandler, *, cwd: str, idle: float = 0.0
    ) -> AbstractAsyncContextManager[AttachedScreen]:
        """Offer a screen to agents, until the end of the block."""
        return self._screens.attach(handler, cwd=cwd, idle=idle)

    async def call_screen(self, name: str, arguments: dict[str, Any], *, by: str = "person") -> Any:
        """Let one screen do something, and return what it answers."""
        cwd = (await self._current.find(by)).wish.cwd if looks_like_id(by) else None
        return await self._screens.call(name, arguments, by=by, cwd=cwd)
