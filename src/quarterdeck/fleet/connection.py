"""A client's connection to a host: requests, subscriptions, reconnection, attached workbenches."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from time import monotonic
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar, cast

from msgspec import Raw, Struct

from quarterdeck import __version__
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import (
    LinkBrokenError,
    LinkClosedError,
    LinkError,
    QuarterdeckError,
    RpcError,
)
from quarterdeck.wire.rpc import (
    METHOD_NOT_FOUND,
    ByteStream,
    MethodNotFoundError,
    Peer,
    RequestContext,
)
from quarterdeck.wire.tasks import start_task

from .api import WorkbenchHandler
from .errors import HostError, HostVersionError, NoHostError, WorkbenchGoneError
from .host import methods
from .host.methods import (
    ENDED,
    HELLO,
    LIMITS,
    PROTOCOL,
    RECORDS,
    SCREEN_CALL,
    TAKEN,
    UNFOLLOW,
    BatchTaken,
    Hello,
    HostMethod,
    Records,
    ScreenCall,
    SubscriptionEnded,
    Unfollow,
    Welcome,
    decode_error,
    encode_error,
)

__all__ = [
    "HELLO_SECONDS",
    "ClientWorkbench",
    "Dial",
    "HostConnection",
    "ReconnectingConnection",
    "SubscriptionStream",
]

HELLO_SECONDS = 15.0
"""How long a host may take to say hello; one that hangs takes connections all the same."""


T = TypeVar("T")


class SubscriptionResult(Protocol):
    """The answer to the request for a subscription."""

    @property
    def subscription(self) -> int:
        """Its id."""
        ...


S = TypeVar("S", bound=SubscriptionResult)


class SubscriptionStream(Generic[T]):
    """What comes in one subscription, in order."""

    def __init__(
        self, link: "HostConnection", subscription: int, decode: Callable[[bytes], T]
    ) -> None:
        self.subscription = subscription
        self._link = link
        self._decode = decode
        self._batches: deque[tuple[Raw, ...]] = deque()
        self._current: deque[Raw] = deque()
        self._changed = asyncio.Event()
        self._end: Exception | None = None

    async def take(self) -> T:
        """What is next.

        Raises:
            QuarterdeckError: there will be no more; a link error if the host is gone.
        """
        while not self._current:
            if self._batches:
                self._current.extend(self._batches.popleft())
                # Only now: the host sends no more than we have room for.
                with suppress(LinkError):
                    await self._link.peer.notify(TAKEN, BatchTaken(subscription=self.subscription))
            elif self._end is not None:
                raise self._end
            else:
                self._changed.clear()
                await self._changed.wait()
        return self._decode(bytes(self._current.popleft()))

    def put(self, batch: tuple[Raw, ...]) -> None:
        """Take in what the host sent; it sends few batches before we take them."""
        self._batches.append(batch)
        self._changed.set()

    def end(self, error: Exception) -> None:
        """Say that nothing follows, and why."""
        self._end = self._end or error
        self._changed.set()


class HostConnection:
    """One connection to a host, greeted; an async context manager. A ``Handler`` of its peer."""

    def __init__(
        self, stream: ByteStream, name: str, *, hello_seconds: float = HELLO_SECONDS
    ) -> None:
        self.peer = Peer(stream, self, limits=LIMITS, name="the host")
        self._name = name
        self._hello_seconds = hello_seconds
        self.screens: dict[int, WorkbenchHandler] = {}
        """Those of ours that the host knows, or is being notified of, by our own numbers."""
        self._feeds: dict[int, SubscriptionStream[Any]] = {}
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Say hello.

        Raises:
            HostVersionError: the host is of another version.
            HostError: it does not answer.
            LinkError: it went away.
        """
        await self.peer.__aenter__()
        try:
            await self._greet()
        except BaseException:
            await self.peer.close()
            raise
        self._watching = start_task(self._watch(), name="link to the host: watch")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Close the link; who follows gets ``LinkClosedError``."""
        await self.peer.close()
        if self._watching is not None:
            await self._watching

    @property
    def is_over(self) -> bool:
        """Whether it cannot be used any more."""
        return self.peer.ending is not None

    async def follow(
        self, method: HostMethod[S], wanted: Struct, decode: Callable[[bytes], T]
    ) -> tuple[S, SubscriptionStream[T]]:
        """Ask for what ``method`` tells of.

        Raises:
            RpcError: the host refuses; see ``decode_error``.
            LinkError: it went away.
        """
        raw = await self.peer.request(method.name, wanted)
        # No wait from here on: the first batch is the next that is read.
        followed = cast("S", decode_json(raw, method.result))
        feed = self._feeds[followed.subscription] = SubscriptionStream(
            self, followed.subscription, decode
        )
        if self.peer.ending is not None:
            feed.end(self.peer.ending)
        return followed, feed

    async def unfollow(self, feed: SubscriptionStream[Any]) -> None:
        """End a subscription; nothing happens if the link is over."""
        self._feeds.pop(feed.subscription, None)
        with suppress(LinkError, RpcError):
            await self.peer.request(UNFOLLOW.name, Unfollow(subscription=feed.subscription))

    async def on_request(self, method: str, params: Raw | None, context: RequestContext) -> Any:
        """The host asks screens of ours."""
        if method != SCREEN_CALL:
            raise MethodNotFoundError(method)
        call = decode_json(b"{}" if params is None else params, ScreenCall)
        handler = self.screens.get(call.screen)
        try:
            if handler is None:
                raise WorkbenchGoneError(call.name)
            return await handler(call.name, call.arguments, call.by)
        except (QuarterdeckError, ValueError) as error:
            raise encode_error(error) from error

    def on_notification(self, method: str, params: Raw | None) -> None:
        """Hand what arrives to its receiver."""
        data = b"{}" if params is None else params
        if method == RECORDS:
            sent = decode_json(data, Records)
            if (feed := self._feeds.get(sent.subscription)) is not None:
                # A Raw is a view of the bytes that came with it.
                feed.put(tuple(record.copy() for record in sent.records))
        elif method == ENDED:
            ended = decode_json(data, SubscriptionEnded)
            if (feed := self._feeds.get(ended.subscription)) is not None:
                feed.end(decode_error(RpcError(ended.code, ended.message, ended.data)))
        else:
            raise MethodNotFoundError(method)

    async def _greet(self) -> None:
        hello = Hello(version=__version__, protocol=PROTOCOL, name=self._name)
        try:
            raw = await self.peer.request(HELLO.name, hello, timeout=self._hello_seconds)
        except RpcError as error:
            raise decode_error(error) from None
        except TimeoutError:
            raise HostError(
                f"the host did not answer within {self._hello_seconds:.0f} s; if this persists, "
                "`quarterdeck host stop --force` kills it and its agents"
            ) from None
        welcome = decode_json(raw, Welcome)
        if welcome.protocol != PROTOCOL:
            raise HostVersionError(
                f"the host is quarterdeck {welcome.version} (protocol {welcome.protocol}), this "
                f"program {__version__} (protocol {PROTOCOL}); "
                "restart the host with `quarterdeck host stop` when its agents may end"
            )

    async def _watch(self) -> None:
        ending = await self.peer.wait_closed()
        for feed in self._feeds.values():
            feed.end(ending)


log = logging.getLogger(__name__)

R = TypeVar("R")
Dial: TypeAlias = Callable[[], Awaitable[ByteStream]]
"""Connects to a host; raises NoHostError where there is none."""

_TRIES = 5
_PAUSE = 0.1
_LONGEST_PAUSE = 1.0


class ReconnectingConnection:
    """A connection to a host that is made anew when it is needed, with every workbench of ours."""

    def __init__(self, dial: Dial, name: str = "") -> None:
        """Args:
        dial: connects to the host; raises NoHostError.
        name: what we are, for the host's log.
        """
        self._dial = dial
        self._name = name
        self._link: HostConnection | None = None
        self._linking = asyncio.Lock()
        self._is_closed = False
        self._screens: dict[int, ClientWorkbench] = {}
        self._numbers = count(1)

    async def disconnect(self) -> None:
        """Leave the host, which goes on; may be called again."""
        self._is_closed = True
        async with self._linking:
            if self._link is not None:
                await self._link.__aexit__()
                self._link = None

    @asynccontextmanager
    async def attach_screen(
        self, handler: WorkbenchHandler, *, cwd: str, idle: float = 0.0
    ) -> AsyncGenerator["ClientWorkbench"]:
        """See ``Fleet``. When the host goes away, the next one gets it with the next connection.

        Raises:
            NoHostError: none is running.
            HostError: the host is older than screens.
        """
        screen = ClientWorkbench(self, next(self._numbers), handler, cwd, monotonic() - idle)
        link = await self.connected()
        self._screens[screen.id] = screen
        try:
            await self.guard(screen.attach_to(link), methods.ATTACH_SCREEN)
            yield screen
        finally:
            del self._screens[screen.id]
            await self._detach(screen)

    async def tell_active(self, active: methods.ScreenActive) -> None:
        """Say that someone sits before a screen; does not connect for it."""
        if self._link is not None and not self._link.is_over:
            await self._link.peer.request(methods.SCREEN_ACTIVE.name, active)

    async def _detach(self, screen: "ClientWorkbench") -> None:
        link = self._link
        if link is None or link.screens.pop(screen.id, None) is None:
            return
        with suppress(LinkError, RpcError):
            gone = methods.DetachScreen(screen=screen.id)
            await link.peer.request(methods.DETACH_SCREEN.name, gone)

    async def ask(self, method: HostMethod[R], params: Struct) -> R:
        """Ask the host, and read its answer.

        Raises:
            NoHostError: there is none.
            HostError: it is older than the method.
            LinkBrokenError: it went away before it answered.
            QuarterdeckError, ValueError: what the host raised.
        """
        link = await self.connected()
        raw = await self.guard(link.peer.request(method.name, params), method)
        return cast("R", decode_json(raw, method.result))

    async def guard(self, asking: Awaitable[R], method: HostMethod[Any]) -> R:
        """Wait for an answer of the host; what goes wrong is raised as ``ask`` does."""
        try:
            return await asking
        except RpcError as error:
            if error.code == METHOD_NOT_FOUND:
                raise HostError(
                    f"the host is older than this program and does not support {method.name!r}; "
                    "restart it with `quarterdeck host stop` when its agents may end"
                ) from None
            raise decode_error(error) from None
        except LinkClosedError:
            raise
        except LinkError as error:
            raise LinkBrokenError(
                f"the host disconnected before it answered {method.name!r}, which may or may not "
                f"be done ({error}); check with `quarterdeck ps`"
            ) from error

    async def connected(self, dial: Dial | None = None) -> HostConnection:
        """The connection, made anew if need be; ``dial`` is another way to a host, this time.

        Raises:
            NoHostError: there is none.
            HostVersionError, HostError: it is of another version, or does not answer.
            LinkClosedError: we have left the host.
        """
        if self._link is not None and not self._link.is_over:
            return self._link
        async with self._linking:
            if self._is_closed:
                raise LinkClosedError("this client is disconnected from the host; connect again")
            if self._link is None or self._link.is_over:
                self._link = await self._open(dial or self._dial)
            return self._link

    async def _open(self, dial: Dial) -> HostConnection:
        if self._link is not None:
            await self._link.__aexit__()
            self._link = None
        for left in reversed(range(_TRIES)):
            try:
                link = await HostConnection(await dial(), self._name).__aenter__()
                await self._attach_all(link)
                return link
            except LinkError as error:
                # A host that ends takes connections until its last moment.
                if not left:
                    raise NoHostError(f"the host disconnected while connecting: {error}") from error
                await asyncio.sleep(_PAUSE)
        raise AssertionError

    async def _attach_all(self, link: HostConnection) -> None:
        for screen in tuple(self._screens.values()):
            try:
                await screen.attach_to(link)
            except RpcError as error:
                log.warning("the host does not accept this workbench: %s", error)

    async def wait_for_host(self, patience: float) -> bool:
        """Wait for a host, at most ``patience`` seconds; False if none came in time."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + patience, _PAUSE
        while loop.time() < deadline:
            try:
                await self.connected()
            except NoHostError:
                await asyncio.sleep(min(pause, max(0.0, deadline - loop.time())))
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                return True
        return False


class ClientWorkbench:
    """A screen of ours, with any host."""

    def __init__(
        self,
        owner: ReconnectingConnection,
        id_: int,
        handler: WorkbenchHandler,
        cwd: str,
        used: float,
    ) -> None:
        self.id = id_
        self._owner = owner
        self._handler = handler
        self._cwd = cwd
        self._used = used

    async def attach_to(self, link: HostConnection) -> None:
        """Tell a host. Raises RpcError, LinkError."""
        if self.id in link.screens:
            return
        link.screens[self.id] = self._handler
        idle = monotonic() - self._used
        screen = methods.AttachScreen(screen=self.id, cwd=self._cwd, idle=idle)
        await link.peer.request(methods.ATTACH_SCREEN.name, screen)

    async def active(self, cwd: str | None = None) -> None:
        """See ``WorkbenchRegistration``; a host that is not there now is notified when it is."""
        self._used = monotonic()
        self._cwd = cwd if cwd is not None else self._cwd
        with suppress(QuarterdeckError):
            await self._owner.tell_active(methods.ScreenActive(screen=self.id, cwd=cwd))
