"""The server of one connection: what needs no session, and the way to what does.

``initialize`` is answered before anything of the agent is imported; the first request about a
session imports it, in a thread.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection, Router
from quarterdeck.wire.acp.errors import AUTH_REQUIRED
from quarterdeck.wire.acp.extensions import SESSION_STEERING
from quarterdeck.wire.errors import QuarterdeckError, RpcError
from quarterdeck.wire.rpc.errors import INVALID_PARAMS
from quarterdeck.wire.rpc.handler import RpcLimits

from .handshake import CHECK_MODEL, EditorClient, make_initialize_response, read_client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from quarterdeck.config.places import Places
    from quarterdeck.wire.rpc.handler import Observer
    from quarterdeck.wire.rpc.stream import ByteStream

    from .sessions import ConnectionSessions

__all__ = ["AcpServer", "serve"]

P = TypeVar("P")
R = TypeVar("R")

_log = logging.getLogger(__name__)
_LIMITS = RpcLimits()
_LOGGED_OUT = "you logged out; authenticate first"


class AcpServer:
    """Answers one client. Give its ``router`` to a connection and set ``connection``.

    Args:
        places: where configuration and sessions are.
        environment: variables for the configuration and the vendors' keys.
    """

    def __init__(self, places: Places, environment: Mapping[str, str]) -> None:
        self.connection: AcpConnection | None = None
        self.router = Router("agent", unstable=True)
        self._places = places
        self._environment = environment
        self._client = EditorClient()
        self._sessions: ConnectionSessions | None = None
        self._importing = asyncio.Lock()
        self._is_logged_out = False
        self._route()

    def hang_up(self) -> None:
        """Cancel every turn; for a client that is gone."""
        if self._sessions is not None:
            self._sessions.cancel_all()

    async def close(self) -> None:
        """Close every session; nothing of them is left running."""
        if self._sessions is not None:
            await self._sessions.close()

    def _route(self) -> None:
        on = self.router.on
        on(acp.INITIALIZE, self._initialize)
        on(acp.AUTHENTICATE, self._authenticate)
        on(acp.LOGOUT, self._logout)
        on(acp.SESSION_CANCEL, self._cancel)
        on(
            acp.SESSION_PROMPT,
            self._to_sessions(lambda sessions, request: sessions.prompt(request)),
        )
        on(SESSION_STEERING, self._to_sessions(lambda sessions, request: sessions.steer(request)))
        on(acp.SESSION_NEW, self._to_sessions(lambda sessions, request: sessions.new(request)))
        on(acp.SESSION_LOAD, self._to_sessions(lambda sessions, request: sessions.load(request)))
        on(
            acp.SESSION_RESUME,
            self._to_sessions(lambda sessions, request: sessions.resume(request)),
        )
        on(acp.SESSION_FORK, self._to_sessions(lambda sessions, request: sessions.fork(request)))
        on(acp.SESSION_LIST, self._to_sessions(lambda sessions, request: sessions.list(request)))
        on(
            acp.SESSION_CLOSE,
            self._to_sessions(lambda sessions, request: sessions.close_session(request)),
        )
        on(
            acp.SESSION_DELETE,
            self._to_sessions(lambda sessions, request: sessions.delete(request)),
        )
        on(
            acp.SESSION_SET_MODE,
            self._to_sessions(lambda sessions, request: sessions.set_mode(request)),
        )
        on(
            acp.SESSION_SET_CONFIG_OPTION,
            self._to_sessions(lambda sessions, request: sessions.set_option(request)),
        )
        on(
            acp.SESSION_SET_TITLE,
            self._to_sessions(lambda sessions, request: sessions.set_title(request)),
        )

    async def _initialize(self, request: acp.InitializeRequest) -> acp.InitializeResponse:
        self._client = read_client(request)
        return make_initialize_response(request, self._client)

    async def _authenticate(self, request: acp.AuthenticateRequest) -> acp.Empty:
        if request.method_id != CHECK_MODEL:
            raise RpcError(
                INVALID_PARAMS,
                f"unknown authentication method {request.method_id!r}; use {CHECK_MODEL!r}",
                {"kind": "unknown_auth_method"},
            )
        self._is_logged_out = False
        sessions = await self._open_sessions()
        return await _answered(sessions, sessions.check_model())

    async def _logout(self, _: acp.Empty) -> acp.Empty:
        self._is_logged_out = True
        if self._sessions is not None:
            await self._sessions.close_all()
        return acp.Empty()

    def _cancel(self, note: acp.CancelNotification) -> None:
        if self._sessions is not None:
            self._sessions.cancel(note.session_id)

    def _to_sessions(
        self, handle: Callable[[ConnectionSessions, P], Awaitable[R]]
    ) -> Callable[[P], Awaitable[R]]:
        async def handler(request: P) -> R:
            if self._is_logged_out:
                raise RpcError(AUTH_REQUIRED, _LOGGED_OUT, {"kind": "logged_out"})
            # Nothing is awaited once the sessions are open: a notification that cancels a prompt
            # must find its turn begun.
            sessions = self._sessions or await self._open_sessions()
            return await _answered(sessions, handle(sessions, request))

        return handler

    async def _open_sessions(self) -> ConnectionSessions:
        async with self._importing:
            if self._sessions is None:
                assert self.connection is not None, "requests come over a connection"
                module: Any = await asyncio.to_thread(
                    importlib.import_module, f"{__package__}.sessions"
                )
                made: ConnectionSessions = module.ConnectionSessions(
                    self.connection, self._client, self._places, self._environment
                )
                self._sessions = made
            return self._sessions


async def _answered(sessions: ConnectionSessions, answer: Awaitable[R]) -> R:
    try:
        return await answer
    except QuarterdeckError as error:
        raise sessions.refusal_of(error) from error


class _Ears:
    """A stream that says when its other end has nothing more to say."""

    def __init__(self, stream: ByteStream, on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._on_end = on_end
        self.send = stream.send
        self.close = stream.close

    async def receive(self) -> bytes:
        """See ``ByteStream``."""
        try:
            chunk = await self._stream.receive()
        except QuarterdeckError:
            self._on_end()
            raise
        if not chunk:
            self._on_end()
        return chunk


async def serve(
    stream: ByteStream,
    places: Places,
    environment: Mapping[str, str],
    *,
    observers: Iterable[Observer] = (),
    limits: RpcLimits = _LIMITS,
) -> None:
    """Serve one client over a stream until it ends; then everything of it is closed."""
    server = AcpServer(places, environment)
    connection = AcpConnection(
        _Ears(stream, server.hang_up),
        server.router,
        observers=observers,
        limits=limits,
        name="the client",
    )
    server.connection = connection
    try:
        async with connection:
            ending = await connection.wait_closed()
            _log.info("the connection is over: %s", ending)
    finally:
        await server.close()
