"""One client at the socket: what it asks, and what it follows."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from quarterdeck import __version__
from quarterdeck.drivers.pty.seen import Seen
from quarterdeck.wire.errors import QuarterdeckError, RpcError
from quarterdeck.wire.record import encode_record
from quarterdeck.wire.rpc import INVALID_REQUEST, MethodNotFound, Peer, RequestContext

from ..errors import HostTooNew, TooMany
from ..port import Fleet, FleetStatus
from .credentials import Credentials
from .faults import carry
from .methods import (
    ATTACH_SCREEN,
    DETACH_SCREEN,
    FOLLOW,
    HELLO,
    METHODS,
    PROTOCOL,
    READ,
    SCREEN_ACTIVE,
    STATUS,
    STOP,
    TAKEN,
    UNFOLLOW,
    AttachScreen,
    DetachScreen,
    Follow,
    Followed,
    Hello,
    Method,
    Page,
    ReadParams,
    ScreenActive,
    Taken,
    Unfollow,
    Welcome,
)
from .screens import ClientScreens
from .subscription import Subscription
from .terminal_methods import TERMINAL_METHODS, WATCH_TERMINAL, TerminalParams, Watched
from .work import Work

__all__ = ["MOST_SUBSCRIPTIONS", "PAGE_BYTES", "Connection", "Desk"]

log = logging.getLogger(__name__)

MOST_SUBSCRIPTIONS = 256
"""What one client may follow at a time."""
PAGE_BYTES = 1024 * 1024
"""Records in the answer to one ``fleet/read``; a single record may be longer."""

TERMINAL_WINDOW, TERMINAL_BATCH = 4, 64 * 1024
"""Less than for records: who is behind rather gets the screen as it is."""

P = TypeVar("P", bound=Struct)
T = TypeVar("T")
_METHODS = {**METHODS, **TERMINAL_METHODS}


class Desk(Struct, kw_only=True):
    """What all connections of a host share."""

    fleet: Fleet
    work: Work
    stop: Callable[[], None]
    """Begin to end the host."""
    clients: int = 0


class Connection:
    """Handles the requests of one client; a ``Handler`` of its peer."""

    def __init__(self, desk: Desk, who: Credentials) -> None:
        self._desk = desk
        self._who = who
        self._name = ""
        self.greeted = asyncio.Event()
        """Set once the client has said hello in our version."""
        self._subscriptions: dict[int, tuple[Subscription[Any], asyncio.Task[None]]] = {}
        self._last_subscription = 0
        self._screens = ClientScreens(desk.fleet)

    async def on_request(self, method: str, params: Raw | None, context: RequestContext) -> Any:
        """See ``Handler``; an error of ours is carried to the client."""
        try:
            return await self._answer(method, params, context.peer)
        except RpcError:
            raise
        except (QuarterdeckError, ValueError) as error:
            if isinstance(error, msgspec.MsgspecError):
                raise
            raise carry(error) from error

    def on_notification(self, method: str, params: Raw | None) -> None:
        """See ``Handler``."""
        if method != TAKEN:
            raise MethodNotFound(method)
        found = self._subscriptions.get(_read(Taken, params).subscription)
        if found is not None:
            found[0].taken()

    async def close(self) -> None:
        """End what the client follows, and forget its screens."""
        await self._screens.close()
        tasks = [task for _, task in self._subscriptions.values()]
        self._subscriptions.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, name: str, params: Raw | None, peer: Peer) -> Any:
        if name == HELLO.name:
            return self._hello(_read(Hello, params))
        if name == STOP.name:  # works in every version: how else would one replace an old host
            log.info("%s asks the host to stop", self._shown)
            return self._desk.stop()
        if not self.greeted.is_set():
            raise RpcError(INVALID_REQUEST, f"say {HELLO.name!r} first")
        method = _METHODS.get(name)
        if method is not None:
            return await self._call(method, _read(method.params, params))
        return await self._answer_client(name, params, peer)

    async def _answer_client(self, name: str, params: Raw | None, peer: Peer) -> Any:
        """Answer what is about this connection, and not of the fleet alone."""
        match name:
            case FOLLOW.name:
                return await self._follow(_read(Follow, params), peer)
            case WATCH_TERMINAL.name:
                return self._watch_terminal(_read(TerminalParams, params), peer)
            case UNFOLLOW.name:
                return await self._unfollow(_read(Unfollow, params))
            case READ.name:
                return await self._page(_read(ReadParams, params))
            case ATTACH_SCREEN.name:
                return await self._screens.attach(_read(AttachScreen, params), peer)
            case DETACH_SCREEN.name:
                return await self._screens.detach(_read(DetachScreen, params))
            case SCREEN_ACTIVE.name:
                return await self._screens.active(_read(ScreenActive, params))
            case _:
                raise MethodNotFound(name)

    def _hello(self, hello: Hello) -> Welcome:
        if hello.protocol != PROTOCOL:
            raise HostTooNew(
                f"the host is quarterdeck {__version__} (protocol {PROTOCOL}), this client "
                f"{hello.version} (protocol {hello.protocol}); "
                "restart the host with `quarterdeck host stop` when its agents may end"
            )
        self._name = hello.name
        self.greeted.set()
        log.info("%s connected", self._shown)
        return Welcome(version=__version__, protocol=PROTOCOL, pid=os.getpid())

    async def _call(self, method: Method[Any], params: Struct) -> Any:
        if method.changes:
            return await self._desk.work.carry_through(method.call(self._desk.fleet, params))
        result = await method.call(self._desk.fleet, params)
        if method is STATUS:
            assert isinstance(result, FleetStatus)
            return msgspec.structs.replace(result, clients=self._desk.clients)
        return result

    async def _page(self, wanted: ReadParams) -> Page:
        records = await self._desk.fleet.read(
            wanted.agent, after=wanted.after, before=wanted.before, limit=wanted.limit
        )
        is_backward = wanted.before is not None
        kept: list[Raw] = []
        size = 0
        for record in reversed(records) if is_backward else records:
            data = Raw(encode_record(record))
            size += len(data)
            if kept and size > PAGE_BYTES:
                break
            kept.append(data)
        is_cut = len(kept) < len(records)
        return Page(records=tuple(reversed(kept) if is_backward else kept), is_cut=is_cut)

    async def _follow(self, wanted: Follow, peer: Peer) -> Followed:
        id_ = self._new_subscription()
        fleet = self._desk.fleet
        # The id, not the name: the agent may get another one while it is followed.
        session = None if wanted.agent is None else (await fleet.agent(wanted.agent)).session
        after = wanted.after
        if after is None:
            after = (await fleet.status()).last_seq
        self._begin(Subscription(id_, peer, encode_record), fleet.follow(after, agent=session))
        return Followed(subscription=id_, after=after, session=session)

    def _watch_terminal(self, wanted: TerminalParams, peer: Peer) -> Watched:
        id_ = self._new_subscription()
        subscription = Subscription[Seen](
            id_, peer, msgspec.json.encode, window=TERMINAL_WINDOW, batch_bytes=TERMINAL_BATCH
        )
        self._begin(subscription, self._desk.fleet.watch_terminal(wanted.terminal))
        return Watched(subscription=id_)

    def _new_subscription(self) -> int:
        if len(self._subscriptions) >= MOST_SUBSCRIPTIONS:
            raise TooMany(
                f"a client may follow {MOST_SUBSCRIPTIONS} things at a time; follow all agents "
                "at once instead, or end some"
            )
        self._last_subscription += 1
        return self._last_subscription

    def _begin(self, subscription: Subscription[T], items: AsyncGenerator[T]) -> None:
        task = asyncio.create_task(
            self._run(subscription, items), name=f"{self._shown}: subscription {subscription.id}"
        )
        self._subscriptions[subscription.id] = subscription, task

    async def _run(self, subscription: Subscription[T], items: AsyncGenerator[T]) -> None:
        try:
            await subscription.run(items)
        except Exception:
            log.exception("%s: subscription %d failed", self._shown, subscription.id)
        finally:
            self._subscriptions.pop(subscription.id, None)

    async def _unfollow(self, wanted: Unfollow) -> None:
        found = self._subscriptions.pop(wanted.subscription, None)
        if found is not None:
            found[1].cancel()
            await asyncio.wait([found[1]])

    @property
    def _shown(self) -> str:
        name = "".join(letter for letter in self._name if letter.isprintable())[:40]
        return f"client {name or 'without a name'} (process {self._who.pid or 'unknown'})"


def _read(kind: type[P], params: Raw | None) -> P:
    return msgspec.json.decode(b"{}" if params is None else params, type=kind)
