"""A connection between an agent and a client: a JSON-RPC peer that knows ACP's messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import DecodeError

from ..rpc.handler import RpcLimits
from ..rpc.peer import Peer
from .codec import decode
from .errors import MalformedAnswerError, UnstableMethodError
from .schema import SessionNotification, UnknownUpdate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..errors import LinkError
    from ..rpc.handler import Observer
    from ..rpc.stream import ByteStream
    from .methods import Method, Notification
    from .router import Router

__all__ = ["AcpConnection"]

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
            TimeoutError, LinkClosedError, Ended, LinkBrokenError, Busy: As ``Peer.request`` says.
        """
        self._check(method)
        raw = await self.peer.request(method.name, params, timeout=timeout)
        try:
            return decode(method.result, raw)
        except DecodeError as error:
            raise MalformedAnswerError(method.name, str(error)) from error

    async def send(self, notification: Notification[P], params: P) -> None:
        """Tell the other side something; waits while it does not read.

        An ``UnknownUpdate`` is passed on as it came.

        Raises:
            UnstableMethodError, ValueError: As for ``call``.
            LinkClosedError, Ended, LinkBrokenError: The link is over.
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
