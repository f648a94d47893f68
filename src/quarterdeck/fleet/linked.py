"""The way of a client to a host: connects, asks, connects again; has its screens there."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from time import monotonic
from typing import Any, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Struct

from quarterdeck.wire.errors import Broken, Closed, LinkError, QuarterdeckError, RpcError
from quarterdeck.wire.rpc import METHOD_NOT_FOUND, ByteStream

from .errors import HostError, NoHost
from .host import methods
from .host.faults import restore
from .host.methods import Method
from .link import Link
from .port import ScreenHandler

__all__ = ["Dial", "Linked"]

log = logging.getLogger(__name__)

R = TypeVar("R")
Dial: TypeAlias = Callable[[], Awaitable[ByteStream]]
"""Connects to a host; raises NoHost where there is none."""

_TRIES = 5
_PAUSE = 0.1
_LONGEST_PAUSE = 1.0


class Linked:
    """A link to a host that is made anew when it is needed, with every screen that we have."""

    def __init__(self, dial: Dial, name: str = "") -> None:
        """Args:
        dial: connects to the host; raises NoHost.
        name: what we are, for the host's log.
        """
        self._dial = dial
        self._name = name
        self._link: Link | None = None
        self._linking = asyncio.Lock()
        self._is_closed = False
        self._screens: dict[int, _Screen] = {}
        self._numbers = count(1)

    async def reach(self, dial: Dial | None = None) -> None:
        """Make sure that the host is there; ``dial`` is another way to get to one, this time.

        Raises:
            NoHost, HostTooNew, HostError: like ``connect``.
        """
        await self._linked(dial)

    async def disconnect(self) -> None:
        """Leave the host, which goes on; may be called again."""
        self._is_closed = True
        async with self._linking:
            if self._link is not None:
                await self._link.__aexit__()
                self._link = None

    @asynccontextmanager
    async def attach_screen(
        self, handler: ScreenHandler, *, cwd: str, idle: float = 0.0
    ) -> AsyncGenerator["_Screen"]:
        """See ``Fleet``. When the host goes away, the next one gets it with the next connection.

        Raises:
            NoHost: none is running.
            HostError: the host is older than screens.
        """
        screen = _Screen(self, next(self._numbers), handler, cwd, monotonic() - idle)
        link = await self._linked()
        self._screens[screen.id] = screen
        try:
            await self._reached(screen.attach_to(link), methods.ATTACH_SCREEN)
            yield screen
        finally:
            del self._screens[screen.id]
            await self._detach(screen)

    async def tell_active(self, told: methods.ScreenActive) -> None:
        """Say that somebody sits before a screen; does not connect for it."""
        if self._link is not None and not self._link.is_over:
            await self._link.peer.request(methods.SCREEN_ACTIVE.name, told)

    async def _detach(self, screen: "_Screen") -> None:
        link = self._link
        if link is None or link.screens.pop(screen.id, None) is None:
            return
        with suppress(LinkError, RpcError):
            gone = methods.DetachScreen(screen=screen.id)
            await link.peer.request(methods.DETACH_SCREEN.name, gone)

    async def _ask(self, method: Method[R], params: Struct) -> R:
        link = await self._linked()
        raw = await self._reached(link.peer.request(method.name, params), method)
        return cast("R", msgspec.json.decode(raw, type=method.result))

    async def _reached(self, asking: Awaitable[R], method: Method[Any]) -> R:
        try:
            return await asking
        except RpcError as error:
            if error.code == METHOD_NOT_FOUND:
                raise HostError(
                    f"the host is older than this program and knows no {method.name!r}; restart "
                    "it with `quarterdeck host stop` when its agents may end"
                ) from None
            raise restore(error) from None
        except Closed:
            raise
        except LinkError as error:
            raise Broken(
                f"the host went away before it answered {method.name!r}, which may be done or not "
                f"({error}); `quarterdeck ps` tells how things stand"
            ) from error

    async def _linked(self, dial: Dial | None = None) -> Link:
        if self._link is not None and not self._link.is_over:
            return self._link
        async with self._linking:
            if self._is_closed:
                raise Closed("this client has left the host; connect again")
            if self._link is None or self._link.is_over:
                self._link = await self._open(dial or self._dial)
            return self._link

    async def _open(self, dial: Dial) -> Link:
        if self._link is not None:
            await self._link.__aexit__()
            self._link = None
        for left in reversed(range(_TRIES)):
            try:
                link = await Link(await dial(), self._name).__aenter__()
                await self._attach_all(link)
                return link
            except LinkError as error:
                # A host that ends takes connections until its last moment.
                if not left:
                    raise NoHost(f"the host went away while we connected: {error}") from error
                await asyncio.sleep(_PAUSE)
        raise AssertionError

    async def _attach_all(self, link: Link) -> None:
        for screen in tuple(self._screens.values()):
            try:
                await screen.attach_to(link)
            except RpcError as error:
                log.warning("the host does not take our screen: %s", error)

    async def _comes_back(self, patience: float) -> bool:
        """Wait for a host; False if none came in time."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + patience, _PAUSE
        while loop.time() < deadline:
            try:
                await self._linked()
            except NoHost:
                await asyncio.sleep(min(pause, max(0.0, deadline - loop.time())))
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                return True
        return False


class _Screen:
    """A screen of ours, with any host."""

    def __init__(
        self, owner: Linked, id_: int, handler: ScreenHandler, cwd: str, used: float
    ) -> None:
        self.id = id_
        self._owner = owner
        self._handler = handler
        self._cwd = cwd
        self._used = used

    async def attach_to(self, link: Link) -> None:
        """Tell a host. Raises RpcError, LinkError."""
        if self.id in link.screens:
            return
        link.screens[self.id] = self._handler
        idle = monotonic() - self._used
        told = methods.AttachScreen(screen=self.id, cwd=self._cwd, idle=idle)
        await link.peer.request(methods.ATTACH_SCREEN.name, told)

    async def active(self, cwd: str | None = None) -> None:
        """See ``AttachedScreen``; a host that is not there now is told when it is."""
        self._used = monotonic()
        self._cwd = cwd if cwd is not None else self._cwd
        with suppress(QuarterdeckError):
            await self._owner.tell_active(methods.ScreenActive(screen=self.id, cwd=cwd))
