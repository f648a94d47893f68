"""The screens that one client has attached."""

from contextlib import AsyncExitStack
from typing import Any

from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.rpc import Peer

from ..errors import ScreenRefused, TooMany
from ..port import AttachedScreen, Fleet
from .methods import SCREEN_CALL, AttachScreen, DetachScreen, ScreenActive, ScreenCall

__all__ = ["MOST_PER_CLIENT", "ClientScreens"]

MOST_PER_CLIENT = 8


class ClientScreens:
    """They are gone when the client is, or when it says so; ``close`` at the end."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._held: dict[int, tuple[AttachedScreen, AsyncExitStack]] = {}
        self._is_closed = False

    async def attach(self, wanted: AttachScreen, peer: Peer) -> None:
        """Take a screen; one of the same number is replaced."""
        await self.detach(DetachScreen(screen=wanted.screen))
        if len(self._held) >= MOST_PER_CLIENT:
            raise TooMany(f"a client may have {MOST_PER_CLIENT} screens at a time; detach some")

        async def call(name: str, arguments: dict[str, Any], by: str) -> Any:
            asked = ScreenCall(screen=wanted.screen, name=name, arguments=arguments, by=by)
            try:
                return await peer.request(SCREEN_CALL, asked)
            except RpcError as error:
                # Whatever the client calls its error, the host imports nothing for it.
                raise ScreenRefused(error.message) from error

        async with AsyncExitStack() as stack:
            attaching = self._fleet.attach_screen(call, cwd=wanted.cwd, idle=wanted.idle)
            screen = await stack.enter_async_context(attaching)
            if not self._is_closed:  # the client may be gone by now
                self._held[wanted.screen] = screen, stack.pop_all()

    async def detach(self, wanted: DetachScreen) -> None:
        """Forget a screen; nothing happens if there is none."""
        found = self._held.pop(wanted.screen, None)
        if found is not None:
            await found[1].aclose()

    async def active(self, told: ScreenActive) -> None:
        """A person has done something at a screen."""
        found = self._held.get(told.screen)
        if found is not None:
            await found[0].active(told.cwd)

    async def close(self) -> None:
        """Forget all."""
        self._is_closed = True
        for screen in tuple(self._held):
            await self.detach(DetachScreen(screen=screen))
