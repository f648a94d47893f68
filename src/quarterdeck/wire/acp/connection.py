"""A connection between an agent and a client: a JSON-RPC peer that knows the messages of ACP.

Bytes become the types of ``schema`` and back, as lenient as the schema tells a reader to be; a
``Router`` has a typed handler for each message that one side answers.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, TypeVar, cast, overload

from msgspec import DecodeError, Raw, ValidationError
from msgspec.json import Encoder

from ..decoders import json_decoder
from ..errors import RpcError
from ..rpc.errors import INVALID_REQUEST, MethodNotFoundError
from ..rpc.handler import RpcLimits
from ..rpc.peer import Peer
from ..values import AcpValue
from .errors import MalformedAnswerError, UnstableMethodError
from .methods import Method, Notification
from .schema import INITIALIZE, SESSION_UPDATE, SessionNotification, UnknownUpdate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from msgspec.json import Decoder

    from ..errors import LinkError
    from ..rpc.handler import Observer, RequestContext
    from ..rpc.stream import ByteStream

__all__ = [
    "PROTOCOL_VERSION",
    "AcpConnection",
    "ExtensionHandler",
    "ExtensionListener",
    "Router",
    "decode",
    "decode_update",
    "encode",
    "negotiate",
]

PROTOCOL_VERSION = 1
"""The newest version of the protocol that we speak."""

T = TypeVar("T")

_decoders: dict[Any, Decoder[Any]] = {}
_encoder = Encoder()
_read_update: Callable[[bytes | Raw], SessionNotification] | None = None


class _Envelope(AcpValue, frozen=True, kw_only=True):
    """A ``session/update`` whose update is not looked into."""

    session_id: str
    update: Raw


class _Tag(AcpValue, frozen=True, kw_only=True):
    session_update: str


def negotiate(requested: int) -> int:
    """Return the version that an agent answers to a client's ``initialize``.

    It is the requested one if we speak it, else the newest of ours; the client decides whether
    it can go on. A version that we do not speak is never echoed.
    """
    return min(requested, PROTOCOL_VERSION) if requested > 0 else PROTOCOL_VERSION


def decode(type: type[T], raw: bytes | Raw | None) -> T:
    """Read parameters or a result.

    Absent parameters and null count as an empty object: peers write an empty result that way.
    A wrong value becomes its default where the schema forgives it; a wrong item of a list is
    left out where the schema lets a reader skip it.

    Raises:
        ValidationError: The value is no ``type``, however leniently one reads it.
        DecodeError: It is no JSON.
    """
    decoder = _decoders.get(type)
    if decoder is None:
        decoder = _decoders[type] = json_decoder(type)
    try:
        return decoder.decode(b"{}" if raw is None else raw)
    except ValidationError:
        from .lenient_decoder import decode_leniently  # late: only a peer with mistakes needs it

        return decode_leniently(type, b"{}" if raw is None else raw)


def decode_update(raw: bytes | Raw | None) -> SessionNotification:
    """Read a ``session/update``; an update that cannot be read comes as an ``UnknownUpdate``.

    Raises:
        ValidationError: There is no session or no update in it.
        DecodeError: It is no JSON.
    """
    # The hot path of every client: the decoder itself, without the way through ``decode``.
    global _read_update
    if _read_update is None:
        _read_update = json_decoder(SessionNotification).decode
    try:
        return _read_update(raw or b"{}")
    except ValidationError:
        pass
    try:
        return decode(SessionNotification, raw)
    except ValidationError:  # a new kind of update, or one that cannot be repaired
        envelope = decode(_Envelope, raw)
    return SessionNotification(
        session_id=envelope.session_id,
        update=UnknownUpdate(kind=_kind(envelope.update), raw=envelope.update.copy()),
        meta=envelope.meta,
    )


def encode(value: Any) -> bytes:
    """Write a value as JSON; a field that has its default value is left out."""
    return _encoder.encode(value)


def _kind(update: Raw) -> str:
    try:
        return decode(_Tag, update).session_update
    except DecodeError:
        return ""


ExtensionHandler: TypeAlias = "Callable[[str, Raw | None], Awaitable[Any]]"
"""Answers a request whose method begins with ``_``: its name and parameters to a result."""
ExtensionListener: TypeAlias = "Callable[[str, Raw | None], Awaitable[None] | None]"
"""Takes a notification whose method begins with ``_``."""


class _Route(NamedTuple):
    read: Callable[[Raw | None], Any]
    handle: Callable[[Any], Any]


class Router:
    """The handlers of one side; give it to an ``AcpConnection``, one router for each connection.

    A request without a handler is answered with -32601, a notification without one is ignored.
    So are messages that are not stable yet, unless ``unstable`` is true. On the agent's side
    every request before ``initialize`` is answered with -32600, unless ``initialize_first`` is
    false. A handler of a request may raise ``RpcError``; it becomes the answer.
    """

    def __init__(
        self,
        side: Literal["agent", "client"],
        *,
        unstable: bool = False,
        initialize_first: bool = True,
    ) -> None:
        self.side = side
        self.unstable = unstable
        self._is_waiting = initialize_first and side == "agent"
        self._requests: dict[str, _Route] = {}
        self._notifications: dict[str, _Route] = {}
        self._on_extension: ExtensionHandler | None = None
        self._on_extension_notification: ExtensionListener | None = None

    @overload
    def on(self, message: Method[P, R], handler: Callable[[P], Awaitable[R]]) -> None: ...

    @overload
    def on(
        self, message: Notification[P], handler: Callable[[P], Awaitable[None] | None]
    ) -> None: ...

    def on(
        self, message: Method[Any, Any] | Notification[Any], handler: Callable[..., Any]
    ) -> None:
        """Handle a message, in place of any handler it had.

        The handler of a request runs in a task of its own. The handler of a notification holds
        up the next message until it returns; a plain function is the fast way.

        Raises:
            ValueError: The message is not for this side.
        """
        if message.side not in (self.side, "protocol"):
            raise ValueError(
                f"{message.name!r} is for the {message.side}, this router is the {self.side}'s"
            )
        if not message.stable and not self.unstable:
            return
        read = decode_update if message is SESSION_UPDATE else partial(decode, message.params)
        table = self._requests if isinstance(message, Method) else self._notifications
        table[message.name] = _Route(read, handler)

    def on_extension(self, handler: ExtensionHandler) -> None:
        """Handle every request whose method begins with ``_``.

        Raise MethodNotFoundError to refuse.
        """
        self._on_extension = handler

    def on_extension_notification(self, handler: ExtensionListener) -> None:
        """Take every notification whose method begins with ``_``."""
        self._on_extension_notification = handler

    def on_request(
        self, method: str, params: Raw | None, context: RequestContext
    ) -> Awaitable[Any]:
        """Answer a request; what a ``Peer`` calls."""
        route = self._requests.get(method)
        if self._is_waiting and method != INITIALIZE.name:
            raise RpcError(
                INVALID_REQUEST, f"{method[:100]!r} came before 'initialize'; send that first"
            )
        if route is not None:
            value = route.read(params)
            self._is_waiting = False
            return _detailed(route.handle(value))
        if self._on_extension is not None and method.startswith("_"):
            return _detailed(self._on_extension(method, params))
        raise MethodNotFoundError(method)

    def on_notification(self, method: str, params: Raw | None) -> Awaitable[None] | None:
        """Take a notification; what a ``Peer`` calls."""
        route = self._notifications.get(method)
        if route is not None:
            read, handle = route
            return handle(read(params))
        if self._on_extension_notification is not None and method.startswith("_"):
            return self._on_extension_notification(method, params)
        raise MethodNotFoundError(method)


async def _detailed(answer: Awaitable[Any]) -> Any:
    """Answer; an error says in ``data.details`` what happened, where many clients look for it."""
    try:
        return await answer
    except RpcError as error:
        data: Any = {} if error.data is None else error.data
        if isinstance(data, dict) and "details" not in data:
            error.data = {**cast("dict[str, Any]", data), "details": error.description}
        raise


P = TypeVar("P")
R = TypeVar("R")

_LIMITS = RpcLimits()


class AcpConnection:
    """One end of an ACP link over a byte stream, which it owns; an async context manager.

    Order, cancellation and the end of the link are those of ``Peer``, which is in ``peer``.

    Args:
        stream: where the bytes come from and go to; closed with the connection.
        router: what this side answers, and which side it is.
        limits: how much the other side may make us hold.
        observers: see each raw frame in both directions.
        answer_malformed: answer what is no message with an error; off towards a program that may
            print other text on its output.
        name: what errors and logs call the other side.
    """

    def __init__(
        self,
        stream: ByteStream,
        router: Router,
        *,
        limits: RpcLimits = _LIMITS,
        observers: Iterable[Observer] = (),
        answer_malformed: bool = True,
        name: str = "peer",
    ) -> None:
        self.router = router
        self.peer = Peer(
            stream,
            router,
            limits=limits,
            observers=observers,
            answer_malformed=answer_malformed,
            name=name,
        )

    async def __aenter__(self) -> Self:
        """Start to read and write."""
        await self.peer.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.peer.close()

    async def call(self, method: Method[P, R], params: P, *, timeout: float | None = None) -> R:
        """Ask the other side and wait for its answer; ``timeout`` is in seconds.

        Every notification that arrived before the answer has been handled when this returns.

        Raises:
            RpcError: The other side answered with an error.
            MalformedAnswerError: It answered with something else than a result of this method.
            UnstableMethodError: The method is not stable and the router does not allow that.
            ValueError: The method is one that this side answers, not asks.
            TimeoutError, LinkClosedError, LinkEndedError, LinkBrokenError, LinkBusyError: As
                ``Peer.request`` says.
        """
        self._check(method)
        raw = await self.peer.request(method.name, params, timeout=timeout)
        try:
            return decode(method.result, raw)
        except DecodeError as error:
            raise MalformedAnswerError(method.name, str(error)) from error

    async def send(self, notification: Notification[P], params: P) -> None:
        """Send a notification; waits while the other side does not read.

        An ``UnknownUpdate`` is passed on as it came.

        Raises:
            UnstableMethodError, ValueError: As for ``call``.
            LinkClosedError, LinkEndedError, LinkBrokenError: The link is over.
        """
        self._check(notification)
        body: Any = params
        if isinstance(params, SessionNotification) and isinstance(params.update, UnknownUpdate):
            body = {"sessionId": params.session_id, "update": params.update.raw}
            if params.meta is not None:
                body["_meta"] = params.meta
        await self.peer.notify(notification.name, body)

    async def close(self) -> None:
        """End the link and wait until all of it is gone; may be called again."""
        await self.peer.close()

    async def wait_closed(self) -> LinkError:
        """Wait until the link is over and all of it is gone; return how it ended."""
        return await self.peer.wait_closed()

    def _check(self, message: Method[Any, Any] | Notification[Any]) -> None:
        if message.side == self.router.side:
            raise ValueError(f"{message.name!r} is sent to the {message.side}, not by it")
        if not (message.stable or self.router.unstable):
            raise UnstableMethodError(message.name)
