"""What one side of a connection answers: a typed handler for each message."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, cast, overload

from ..errors import RpcError
from ..rpc.errors import INVALID_REQUEST, MethodNotFoundError
from .codec import decode, decode_update
from .methods import Method, Notification
from .schema import INITIALIZE, SESSION_UPDATE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from msgspec import Raw

    from ..rpc.handler import RequestContext

__all__ = ["ExtensionHandler", "ExtensionListener", "Router"]

P = TypeVar("P")
R = TypeVar("R")

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
            error.data = {**cast("dict[str, Any]", data), "details": error.told}
        raise
