"""The connection to a server of codex: its requests and answers; made again when it is cut."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from quarterdeck.version import __version__
from quarterdeck.wire.errors import LinkBrokenError, LinkClosedError, LinkError, RpcError
from quarterdeck.wire.rpc.handler import Handler, RpcLimits
from quarterdeck.wire.rpc.peer import Peer
from quarterdeck.wire.tasks import start_task

from ...driver import DriverSessionOptions
from ...errors import LoginMethod, LoginNeededError, OpenFailedError, WrongProtocolError
from ...foreign_json import as_map, as_text
from .server import CodexServer

__all__ = ["CodexConnection", "CodexConnectionCutError", "CodexRequester"]

_LIMITS = RpcLimits(grace_seconds=0.5)
_TRY = 10.0
"""Seconds that one try to connect again may take."""
_LOGIN = LoginMethod(id="terminal", name="log in in a terminal", command=("codex", "login"))

_decode = msgspec.json.Decoder().decode


class CodexConnectionCutError(LinkBrokenError):
    """The connection was cut before the answer came; whether the request took effect is unknown."""


class CodexRequester:
    """Asks over one connection; made by ``CodexConnection``."""

    def __init__(self, agent: str, peer: Peer) -> None:
        self._agent = agent
        self._peer = peer

    async def __call__(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the server and return its answer.

        Raises:
            RpcError: it refuses.
            LinkError: the connection is over, or was before the answer came.
            WrongProtocolError: it answers with what is no JSON.
        """
        try:
            return as_map(_decode(await self._peer.request(method, params)))
        except msgspec.DecodeError as error:
            text = f"{self._agent} sent an answer to {method!r} that is not JSON: {error}"
            raise WrongProtocolError(text) from error


class CodexConnection:
    """Talks with a server, over one connection after another if it is shared.

    Args:
        handler: takes requests and notifications of the server, over every connection.
        again: called with each further connection, before its first use by others.
        lost: called when the connection is lost for good.
        away: seconds for which a shared server may be away.
        pause: seconds until a connection is tried again.
    """

    def __init__(
        self,
        agent: str,
        server: CodexServer,
        handler: Handler,
        again: Callable[[CodexRequester], Awaitable[None]],
        lost: Callable[[LinkError], None],
        *,
        away: float,
        pause: float,
    ) -> None:
        self._agent = agent
        self._server = server
        self._handler = handler
        self._again = again
        self._lost = lost
        self._away = away
        self._pause = pause
        self._peer: Peer | None = None
        self._watching: asyncio.Task[None] | None = None
        self._may_return = False
        self._ready = asyncio.Event()
        """Whether the connection may be used, or is over for good."""
        self._over: asyncio.Future[LinkError] | None = None
        self._malformed = 0

    _opening: DriverSessionOptions

    async def open(self, opening: DriverSessionOptions) -> str | None:
        """Connect for the first time; returns the server's version.

        Raises:
            OpenFailedError, UnsupportedError, LinkError: there is no server, or none that we can
                use.
        """
        self._opening = opening
        self._over = asyncio.get_running_loop().create_future()
        try:
            stream = await self._server.connect(opening)
        except LinkBrokenError as error:
            raise OpenFailedError(str(error)) from error
        self._peer = self._new_peer(stream)
        await self._peer.__aenter__()
        self._watching = start_task(self._watch(self._peer), name="codex: connection")
        self._ready.set()
        return await self._greet(self.ask)

    def _new_peer(self, stream: Any) -> Peer:
        return Peer(stream, self._handler, limits=_LIMITS, answer_malformed=False, name=self._agent)

    async def _greet(self, ask: Callable[..., Awaitable[Mapping[str, Any]]]) -> str | None:
        client = {
            "name": "quarterdeck",
            "title": "Quarterdeck",
            "version": __version__,
        }
        data = {"clientInfo": client, "capabilities": {"experimentalApi": True}}
        hello = await ask("initialize", data)
        agent = as_text(hello.get("userAgent"))
        if not agent:
            raise WrongProtocolError(f"{self._agent} does not answer like `codex app-server`")
        assert self._peer is not None
        await self._peer.notify("initialized")
        with suppress(RpcError):  # an older one cannot say
            account = await ask("account/read", {"refreshToken": False})
            if account.get("requiresOpenaiAuth") is True and not account.get("account"):
                raise LoginNeededError(f"{self._agent} is not logged in.", [_LOGIN])
        return agent.partition("/")[2].partition(" ")[0] or None

    def keep(self) -> None:
        """From now on a connection to a shared server is made again when it is cut."""
        self._may_return = self._server.is_shared

    async def ready(self) -> None:
        """Wait until there is a connection, or it is over for good."""
        await self._ready.wait()

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Ask the server, as soon as there is a connection, and return its answer.

        Raises:
            RpcError: it refuses.
            CodexConnectionCutError: the connection was cut, and is being made again.
            LinkError: it is over for good.
        """
        await self._ready.wait()
        assert self._peer is not None and self._over is not None
        if self._over.done():
            raise self._over.result()
        peer = self._peer
        try:
            return await CodexRequester(self._agent, peer)(method, params)
        except LinkError as error:
            if peer.ending is None:
                raise
            if not self._may_return or self._over.done():
                raise await asyncio.shield(self._over) from None
            if peer is self._peer:  # who asks again has to wait for the next
                self._ready.clear()
            raise CodexConnectionCutError(
                f"the connection to {self._agent} broke during {method!r}: {error}"
            ) from error

    def take_malformed(self) -> int:
        """How many lines were no messages since this was last asked."""
        seen = self._peer.counters.malformed if self._peer is not None else 0
        count, self._malformed = seen - self._malformed, seen
        return max(count, 0)

    async def close(self) -> None:
        """Hang up; may be called again."""
        self._may_return = False
        if self._watching is None or self._peer is None:
            return
        if not self._ready.is_set():  # it is being made again
            self._watching.cancel()
        await self._peer.close()
        await asyncio.wait([self._watching])
        self._finish(LinkClosedError(f"the connection to {self._agent!r} was closed"))

    # The end of connections

    async def _watch(self, peer: Peer) -> None:
        """Wait for the end of each connection, and see what can be done."""
        ending = await peer.wait_closed()
        while self._may_return:
            self._ready.clear()
            try:
                peer = await self._return(ending)
            except LinkError as error:
                ending = error
                break
            self._ready.set()
            ending = await peer.wait_closed()
        self._finish(await self._server.explain(ending))

    def _finish(self, verdict: LinkError) -> None:
        assert self._over is not None
        self._ready.set()
        if not self._over.done():
            self._over.set_result(verdict)
            self._lost(verdict)

    async def _return(self, ending: LinkError) -> Peer:
        """Connect again, as often as it takes.

        Raises:
            LinkBrokenError: not within the time that the server may be away.
        """
        loop = asyncio.get_running_loop()
        since = loop.time()
        problem: Exception = ending
        while loop.time() - since <= self._away:
            try:
                async with asyncio.timeout(_TRY):
                    return await self._connect_again()
            except (LinkError, OpenFailedError, TimeoutError) as error:
                problem = error
            except RpcError as error:
                text = f"the server of {self._agent} no longer knows the thread: {error}"
                raise LinkBrokenError(text) from error
            await asyncio.sleep(self._pause)
        raise LinkBrokenError(f"the server of {self._agent} is not reachable: {problem}")

    async def _connect_again(self) -> Peer:
        peer = self._new_peer(await self._server.connect(self._opening))
        self._peer, self._malformed = peer, 0
        await peer.__aenter__()
        try:
            ask = CodexRequester(self._agent, peer)
            await self._greet(ask)
            await self._again(ask)
        except BaseException:
            await peer.close()
            raise
        return peer
