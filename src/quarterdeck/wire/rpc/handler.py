"""What a program gives to a peer: a handler, limits, observers; and what the peer counts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    import msgspec

__all__ = [
    "Direction",
    "Handler",
    "Observer",
    "Observers",
    "RequestContext",
    "RequestId",
    "RequestPeer",
    "RpcCounters",
    "RpcLimits",
]

log = logging.getLogger(__name__)

RequestId: TypeAlias = int | float | str | None
"""What a peer calls its request by."""

Direction: TypeAlias = Literal["in", "out"]
"""``in``: read from the peer; ``out``: issued by us."""

Observer: TypeAlias = "Callable[[Direction, bytes], None]"
"""Sees each raw frame without its newline, in order, also malformed ones. Must be quick."""


class RpcLimits(Struct, frozen=True, kw_only=True):
    """How much a peer may make us hold."""

    max_frame_bytes: int = 32 * 1024 * 1024
    """Longest frame in either direction. A longer one from the peer breaks the link."""

    max_in_flight: int = 256
    """Requests of the peer that may run at once; further ones are answered with an error."""

    max_pending: int = 4096
    """Requests of ours that may wait for an answer at once; a further one raises
    ``LinkBusyError``."""

    high_water_bytes: int = 64 * 1024
    """Unsent bytes above which ``notify`` and answers wait for the peer to read."""

    max_unsent_bytes: int = 64 * 1024 * 1024
    """Unsent bytes above which the reader, which may not wait, calls the link broken."""

    grace_seconds: float = 2.0
    """Deadline of each step of the end: handlers finish, handlers obey, the last bytes leave."""


class RpcCounters(Struct, kw_only=True):
    """What arrived and could not be used, since the peer started."""

    malformed: int = 0
    """Frames that are no message: bad JSON, bad UTF-8, arrays, wrong types."""

    unasked: int = 0
    """Responses to nothing that we asked, with ``id`` null among them."""

    late: int = 0
    """Responses to requests that we had given up."""

    ignored: int = 0
    """Notifications that the handler does not know."""

    failed: int = 0
    """Notifications whose handler raised."""


class RequestPeer(Protocol):
    """The peer that sent a request, as far as the handler of the request uses it; see ``Peer``."""

    async def request(
        self, method: str, params: Any = None, *, timeout: float | None = None
    ) -> msgspec.Raw:
        """Ask it something and wait for its result."""
        ...

    async def notify(self, method: str, params: Any = None) -> None:
        """Send it a notification."""
        ...

    async def close(self) -> None:
        """End the connection to it."""
        ...


class RequestContext(Struct, frozen=True, kw_only=True):
    """The request being handled, and the peer that sent it."""

    id: RequestId
    method: str
    peer: RequestPeer


class Handler(Protocol):
    """Answers what the peer sends.

    ``params`` is None when the message has none (or null). A ``Raw`` is a view of the bytes that
    arrived with it: decode it now, or keep ``Raw.copy()``.
    """

    def on_request(
        self, method: str, params: msgspec.Raw | None, context: RequestContext
    ) -> Awaitable[Any]:
        """Return the result, any value msgspec can encode.

        Runs in a task of its own, which has run up to its first wait before the next message is
        looked at. Cancelled when the peer cancels the request or the link ends.

        Raises:
            RpcError: becomes the answer; ``MethodNotFoundError`` for a method that is not known.
            msgspec.DecodeError: the params were wrong (-32602).
            Exception: anything else is logged and answered with -32603.
        """
        ...

    def on_notification(self, method: str, params: msgspec.Raw | None) -> Awaitable[None] | None:
        """Take a notification; the next message waits until this one is done.

        A plain function is the fast way. An awaitable is awaited before anything else is read:
        that is the back-pressure, and the reason why it may not await an answer of the same peer.

        Raises:
            MethodNotFoundError: the notification is counted and ignored.
            Exception: anything else is counted and logged; the link goes on.
        """
        ...


class Observers:
    """The observers of one peer; one that raises is logged once and dropped."""

    __slots__ = ("_observers",)

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._observers = list(observers)

    def __bool__(self) -> bool:
        """Whether anyone looks."""
        return bool(self._observers)

    def saw(self, direction: Direction, frame: bytes) -> None:
        """Show a frame to each."""
        for observer in tuple(self._observers):
            try:
                observer(direction, frame)
            except Exception:
                log.exception("observer %r failed and sees no more frames", observer)
                self._observers.remove(observer)
