"""One client at the host's socket: its requests, subscriptions and attached workbenches."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from quarterdeck import __version__
from quarterdeck.terminal.viewer_events import ViewerEvent
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import LinkError, QuarterdeckError, RpcError
from quarterdeck.wire.record import encode_record
from quarterdeck.wire.rpc import INVALID_REQUEST, MethodNotFoundError, RequestContext, RequestPeer
from quarterdeck.wire.tasks import start_task

from ..api import Fleet, FleetStatus, WorkbenchRegistration
from ..errors import FleetLimitError, HostError, HostVersionError, WorkbenchRefusedError
from ..permissions.approvers import ClientCredentials, answer_for_client
from .methods import (
    ATTACH_SCREEN,
    DETACH_SCREEN,
    ENDED,
    FOLLOW,
    HELLO,
    PROTOCOL,
    READ,
    RECORDS,
    SCREEN_ACTIVE,
    SCREEN_CALL,
    STOP,
    TAKEN,
    UNFOLLOW,
    WATCH_TERMINAL,
    WEB_CLIENT,
    AttachScreen,
    BatchTaken,
    DetachScreen,
    FleetRequest,
    Follow,
    FollowResult,
    Hello,
    ReadParams,
    Records,
    RecordsPage,
    ScreenActive,
    ScreenCall,
    SubscriptionEnded,
    TerminalParams,
    Unfollow,
    WatchTerminalResult,
    Welcome,
    encode_error,
    find_request,
)
from .peer_credentials import PeerCredentials

__all__ = [
    "BATCH_BYTES",
    "BATCH_RECORDS",
    "MOST_PER_CLIENT",
    "MOST_SUBSCRIPTIONS",
    "PAGE_BYTES",
    "WINDOW",
    "ClientHandler",
    "ClientWorkbenches",
    "PendingChanges",
    "SharedHostState",
    "Subscription",
    "identify_user",
]

log = logging.getLogger(__name__)

T = TypeVar("T")


class PendingChanges:
    """The changes under way. A client that goes away in the middle of one ends nothing."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def carry_through(self, change: Coroutine[Any, Any, T]) -> T:
        """Run a change to its end; cancelling this stops the waiting, not the change."""
        task = start_task(change, name="change of a client")
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    async def finish(self, seconds: float) -> None:
        """Wait for what is under way; what is not done in time is cancelled."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=seconds)
        for task in late:
            log.warning(
                "a change did not finish within %.0f s and was abandoned: %r", seconds, task
            )
            task.cancel()
        if late:
            await asyncio.wait(late)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        # Looked at here, because its caller may be gone: it would be reported as lost otherwise.
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("a change was refused or failed: %s: %s", type(error).__name__, error)


WINDOW = 8
"""Batches that may be on their way, or lie unused at the client."""
BATCH_BYTES = 256 * 1024
"""A batch takes no further record beyond this; a single record may be longer."""
BATCH_RECORDS = 512


class Subscription(Generic[T]):
    """Follows something for a client, as fast as the client takes it.

    What is ready goes at once and together. A client that does not say ``fleet/taken`` gets
    ``window`` batches and then no more: it holds back its own subscription and nothing else, and
    neither side keeps more than that many. What follows waits where it comes from: in the log,
    or at the terminal, which shows a viewer that is far behind its screen anew.
    """

    def __init__(
        self,
        id_: int,
        peer: RequestPeer,
        encode: Callable[[T], bytes],
        *,
        window: int = WINDOW,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self.id = id_
        self._peer = peer
        self._encode = encode
        self._batch_bytes = batch_bytes
        self._ready: list[Raw] = []
        self._bytes = 0
        self._is_over = False
        """Nothing follows what is ready."""
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._credit = asyncio.Semaphore(window)
        self._owed = 0

    def taken(self) -> None:
        """The client has used a batch; one that it never got is not counted."""
        if self._owed:
            self._owed -= 1
            self._credit.release()

    async def run(self, items: AsyncGenerator[T]) -> None:
        """Send until cancelled; their end is reported to the client, after the last of them."""
        sending = start_task(self._send(), name=f"subscription {self.id}: send")
        gathering = start_task(self._gather(items), name=f"subscription {self.id}: gather")
        try:
            await asyncio.wait((sending, gathering), return_when=asyncio.FIRST_EXCEPTION)
            for task in (gathering, sending):
                if task.done():
                    task.result()
            await self._tell_end(HostError("it has ended; there is nothing more to follow"))
        except LinkError:
            # The client is gone, or the log was closed under us because the host stops.
            return
        except QuarterdeckError as error:
            await self._tell_end(error)
        finally:
            sending.cancel()
            gathering.cancel()
            await asyncio.gather(sending, gathering, return_exceptions=True)

    async def _gather(self, items: AsyncGenerator[T]) -> None:
        async with aclosing(items):
            async for item in items:
                data = Raw(self._encode(item))
                while self._ready and self._is_full(len(data)):
                    self._room.clear()
                    await self._room.wait()
                self._ready.append(data)
                self._bytes += len(data)
                self._filled.set()
        self._is_over = True
        self._filled.set()

    async def _send(self) -> None:
        while True:
            await self._filled.wait()
            if self._is_over and not self._ready:
                return
            await self._credit.acquire()
            self._owed += 1
            batch, self._ready, self._bytes = tuple(self._ready), [], 0
            if not self._is_over:
                self._filled.clear()
            self._room.set()
            await self._peer.notify(RECORDS, Records(subscription=self.id, records=batch))

    def _is_full(self, more: int) -> bool:
        return self._bytes + more > self._batch_bytes or len(self._ready) >= BATCH_RECORDS

    async def _tell_end(self, error: QuarterdeckError) -> None:
        answer = encode_error(error)
        ended = SubscriptionEnded(
            subscription=self.id, message=answer.message, code=answer.code, data=answer.data
        )
        try:
            await self._peer.notify(ENDED, ended)
        except LinkError:
            return


MOST_PER_CLIENT = 8


class ClientWorkbenches:
    """They are gone when the client is, or when it says so; ``close`` at the end."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._held: dict[int, tuple[WorkbenchRegistration, AsyncExitStack]] = {}
        self._is_closed = False

    async def attach(self, wanted: AttachScreen, peer: RequestPeer) -> None:
        """Take a screen; one of the same number is replaced."""
        await self.detach(DetachScreen(screen=wanted.screen))
        if len(self._held) >= MOST_PER_CLIENT:
            raise FleetLimitError(
                f"a client may attach {MOST_PER_CLIENT} workbenches at a time; detach some"
            )

        async def call(name: str, arguments: dict[str, Any], by: str) -> Any:
            asked = ScreenCall(screen=wanted.screen, name=name, arguments=arguments, by=by)
            try:
                return await peer.request(SCREEN_CALL, asked)
            except RpcError as error:
                # Whatever the client calls its error, the host imports nothing for it.
                raise WorkbenchRefusedError(error.message) from error

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

    async def active(self, active: ScreenActive) -> None:
        """A person has done something at a screen."""
        found = self._held.get(active.screen)
        if found is not None:
            await found[0].active(active.cwd)

    async def close(self) -> None:
        """Forget all."""
        self._is_closed = True
        for screen in tuple(self._held):
            await self.detach(DetachScreen(screen=screen))


MOST_SUBSCRIPTIONS = 256
"""What one client may follow at a time."""
PAGE_BYTES = 1024 * 1024
"""Records in the answer to one ``fleet/read``; a single record may be longer."""

TERMINAL_WINDOW, TERMINAL_BATCH = 4, 64 * 1024
"""Less than for records: who is behind rather gets the screen as it is."""

P = TypeVar("P", bound=Struct)


def identify_user(who: PeerCredentials) -> ClientCredentials:
    """What the operating system says about a client is what is certain about it."""
    return ClientCredentials(uid=who.uid)


class SharedHostState(Struct, kw_only=True):
    """What all connections of a host share."""

    fleet: Fleet
    work: PendingChanges
    stop: Callable[[], None]
    """Begin to end the host."""
    identify: Callable[[PeerCredentials], ClientCredentials] = identify_user
    """By which credentials a client is a person."""
    clients: int = 0


class ClientHandler:
    """Handles the requests of one client; a ``Handler`` of its peer."""

    def __init__(self, state: SharedHostState, who: PeerCredentials) -> None:
        self._state = state
        self._who = who
        self._name = ""
        self.greeted = asyncio.Event()
        """Set once the client has said hello in our version."""
        self._subscriptions: dict[int, tuple[Subscription[Any], asyncio.Task[None]]] = {}
        self._last_subscription = 0
        self._screens = ClientWorkbenches(state.fleet)

    async def on_request(self, method: str, params: Raw | None, context: RequestContext) -> Any:
        """See ``Handler``; an error of ours is carried to the client."""
        try:
            return await self._answer(method, params, context.peer)
        except RpcError:
            raise
        except (QuarterdeckError, ValueError) as error:
            if isinstance(error, msgspec.MsgspecError):
                raise
            raise encode_error(error) from error

    def on_notification(self, method: str, params: Raw | None) -> None:
        """See ``Handler``."""
        if method != TAKEN:
            raise MethodNotFoundError(method)
        found = self._subscriptions.get(_read(BatchTaken, params).subscription)
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

    async def _answer(self, name: str, params: Raw | None, peer: RequestPeer) -> Any:
        if name == HELLO.name:
            return self._hello(_read(Hello, params))
        if name == STOP.name:  # works in every version: how else would one replace an old host
            log.info("%s asks the host to stop", self._shown)
            return self._state.stop()
        if not self.greeted.is_set():
            raise RpcError(INVALID_REQUEST, f"send {HELLO.name!r} first")
        if (request := find_request(name)) is not None:
            return await self._call(request, _read(request.params, params))
        return await self._answer_client(name, params, peer)

    async def _answer_client(self, name: str, params: Raw | None, peer: RequestPeer) -> Any:
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
                raise MethodNotFoundError(name)

    def _hello(self, hello: Hello) -> Welcome:
        if hello.protocol != PROTOCOL:
            raise HostVersionError(
                f"the host is quarterdeck {__version__} (protocol {PROTOCOL}), this client "
                f"{hello.version} (protocol {hello.protocol}); "
                "restart the host with `quarterdeck host stop` when its agents may end"
            )
        self._name = hello.name
        self.greeted.set()
        log.info("%s connected", self._shown)
        return Welcome(version=__version__, protocol=PROTOCOL, pid=os.getpid())

    async def _call(self, request: FleetRequest, params: Struct) -> Any:
        with answer_for_client(self._identify(params)):
            return await self._call_fleet(request, params)

    def _identify(self, params: Struct) -> ClientCredentials:
        """Whose call this is; the browser interface names the person and the device."""
        if self._name != WEB_CLIENT:
            return self._state.identify(self._who)
        return ClientCredentials(device=getattr(params, "by", None))

    async def _call_fleet(self, request: FleetRequest, params: Struct) -> Any:
        call = request.call(self._state.fleet, params)
        if request.changes:
            return await self._state.work.carry_through(call)
        result = await call
        if isinstance(result, FleetStatus):  # the fleet does not know who is connected
            return msgspec.structs.replace(result, clients=self._state.clients)
        return result

    async def _page(self, wanted: ReadParams) -> RecordsPage:
        records = await self._state.fleet.read(
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
        return RecordsPage(records=tuple(reversed(kept) if is_backward else kept), is_cut=is_cut)

    async def _follow(self, wanted: Follow, peer: RequestPeer) -> FollowResult:
        id_ = self._new_subscription()
        fleet = self._state.fleet
        # The id, not the name: the agent may get another one while it is followed.
        session = None if wanted.agent is None else (await fleet.agent(wanted.agent)).session
        after = wanted.after
        if after is None:
            after = (await fleet.status()).last_seq
        self._begin(Subscription(id_, peer, encode_record), fleet.follow(after, agent=session))
        return FollowResult(subscription=id_, after=after, session=session)

    def _watch_terminal(self, wanted: TerminalParams, peer: RequestPeer) -> WatchTerminalResult:
        id_ = self._new_subscription()
        subscription = Subscription[ViewerEvent](
            id_, peer, msgspec.json.encode, window=TERMINAL_WINDOW, batch_bytes=TERMINAL_BATCH
        )
        self._begin(subscription, self._state.fleet.watch_terminal(wanted.terminal))
        return WatchTerminalResult(subscription=id_)

    def _new_subscription(self) -> int:
        if len(self._subscriptions) >= MOST_SUBSCRIPTIONS:
            raise FleetLimitError(
                f"a client may follow {MOST_SUBSCRIPTIONS} things at a time; follow all agents "
                "at once instead, or end some"
            )
        self._last_subscription += 1
        return self._last_subscription

    def _begin(self, subscription: Subscription[T], items: AsyncGenerator[T]) -> None:
        task = start_task(
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
    return decode_json(b"{}" if params is None else params, kind)
