"""A client's link to a host, and what is followed over it."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from quarterdeck import __version__
from quarterdeck.wire.errors import LinkError, QuarterdeckError, RpcError
from quarterdeck.wire.rpc import ByteStream, MethodNotFound, Peer, RequestContext

from .errors import HostError, HostTooNew, ScreenGone
from .host.faults import carry, restore
from .host.methods import (
    ENDED,
    HELLO,
    PROTOCOL,
    RECORDS,
    SCREEN_CALL,
    TAKEN,
    UNFOLLOW,
    Ended,
    Hello,
    Method,
    Records,
    ScreenCall,
    Taken,
    Unfollow,
    Welcome,
)
from .host.server import LIMITS

if TYPE_CHECKING:
    from .port import ScreenHandler

__all__ = ["HELLO_SECONDS", "Feed", "Link"]

HELLO_SECONDS = 15.0
"""How long a host may take to say hello; one that hangs takes connections all the same."""


T = TypeVar("T")


class Subscribed(Protocol):
    """The answer to the wish for a subscription."""

    @property
    def subscription(self) -> int:
        """Its id."""
        ...


S = TypeVar("S", bound=Subscribed)


class Feed(Generic[T]):
    """What comes in one subscription, in order."""

    def __init__(self, link: "Link", subscription: int, decode: Callable[[bytes], T]) -> None:
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
                    await self._link.peer.notify(TAKEN, Taken(subscription=self.subscription))
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


class Link:
    """One connection to a host, greeted; an async context manager. A ``Handler`` of its peer."""

    def __init__(
        self, stream: ByteStream, name: str, *, hello_seconds: float = HELLO_SECONDS
    ) -> None:
        self.peer = Peer(stream, self, limits=LIMITS, name="the host")
        self._name = name
        self._hello_seconds = hello_seconds
        self.screens: dict[int, ScreenHandler] = {}
        """Those of ours that the host knows, or is being told of, by our own numbers."""
        self._feeds: dict[int, Feed[Any]] = {}
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Say hello.

        Raises:
            HostTooNew: the host is of another version.
            HostError: it does not answer.
            LinkError: it went away.
        """
        await self.peer.__aenter__()
        try:
            await self._greet()
        except BaseException:
            await self.peer.close()
            raise
        self._watching = asyncio.create_task(self._watch(), name="link to the host: watch")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Close the link; who follows gets ``Closed``."""
        await self.peer.close()
        if self._watching is not None:
            await self._watching

    @property
    def is_over(self) -> bool:
        """Whether it cannot be used any more."""
        return self.peer.ending is not None

    async def follow(
        self, method: Method[S], wanted: Struct, decode: Callable[[bytes], T]
    ) -> tuple[S, Feed[T]]:
        """Ask for what ``method`` tells of.

        Raises:
            RpcError: the host refuses; see ``restore``.
            LinkError: it went away.
        """
        raw = await self.peer.request(method.name, wanted)
        # No wait from here on: the first batch is the next that is read.
        followed = cast("S", msgspec.json.decode(raw, type=method.result))
        feed = self._feeds[followed.subscription] = Feed(self, followed.subscription, decode)
        if self.peer.ending is not None:
            feed.end(self.peer.ending)
        return followed, feed

    async def unfollow(self, feed: Feed[Any]) -> None:
        """End a subscription; nothing happens if the link is over."""
        self._feeds.pop(feed.subscription, None)
        with suppress(LinkError, RpcError):
            await self.peer.request(UNFOLLOW.name, Unfollow(subscription=feed.subscription))

    async def on_request(self, method: str, params: Raw | None, context: RequestContext) -> Any:
        """The host asks screens of ours."""
        if method != SCREEN_CALL:
            raise MethodNotFound(method)
        call = msgspec.json.decode(b"{}" if params is None else params, type=ScreenCall)
        handler = self.screens.get(call.screen)
        try:
            if handler is None:
                raise ScreenGone(call.name)
            return await handler(call.name, call.arguments, call.by)
        except (QuarterdeckError, ValueError) as error:
            raise carry(error) from error

    def on_notification(self, method: str, params: Raw | None) -> None:
        """Hand what comes to whom it belongs."""
        data = b"{}" if params is None else params
        if method == RECORDS:
            sent = msgspec.json.decode(data, type=Records)
            if (feed := self._feeds.get(sent.subscription)) is not None:
                # A Raw is a view of the bytes that came with it.
                feed.put(tuple(record.copy() for record in sent.records))
        elif method == ENDED:
            told = msgspec.json.decode(data, type=Ended)
            if (feed := self._feeds.get(told.subscription)) is not None:
                feed.end(restore(RpcError(told.code, told.message, told.data)))
        else:
            raise MethodNotFound(method)

    async def _greet(self) -> None:
        hello = Hello(version=__version__, protocol=PROTOCOL, name=self._name)
        try:
            raw = await self.peer.request(HELLO.name, hello, timeout=self._hello_seconds)
        except RpcError as error:
            raise restore(error) from None
        except TimeoutError:
            raise HostError(
                f"the host does not answer within {self._hello_seconds:.0f} s; if that does not "
                "change, `quarterdeck host stop --force` ends it and its agents"
            ) from None
        welcome = msgspec.json.decode(raw, type=Welcome)
        if welcome.protocol != PROTOCOL:
            raise HostTooNew(
                f"the host is quarterdeck {welcome.version} (protocol {welcome.protocol}), this "
                f"program {__version__} (protocol {PROTOCOL}); "
                "restart the host with `quarterdeck host stop` when its agents may end"
            )

    async def _watch(self) -> None:
        ending = await self.peer.wait_closed()
        for feed in self._feeds.values():
            feed.end(ending)
