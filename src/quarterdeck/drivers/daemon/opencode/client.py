"""The OpenCode server of a session, started or found running, and its client over HTTP."""

import asyncio
import base64
import re
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from quarterdeck.net.http1 import (
    BadUrlError,
    BrokenResponseError,
    HttpConnection,
    HttpError,
    HttpOrigin,
    ResponseHead,
)
from quarterdeck.net.sse import EventDecoder, EventTooLargeError
from quarterdeck.system.api import EndingDeadlines
from quarterdeck.system.errors import PathError
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.process_guard import shared_guard
from quarterdeck.wire.errors import LinkBrokenError, LinkEndedError, LinkError, QuarterdeckError

from ...agent_process import AgentProcess, AgentProcessStream, Launch
from ...driver import DriverSessionOptions
from ...errors import OpenFailedError, WrongProtocolError
from ...foreign_json import as_map, as_text
from ...link import AgentExit
from .. import check_attached, password_of

__all__ = [
    "OpencodeAnswerError",
    "OpencodeClient",
    "OpencodeServer",
    "OpencodeStatusError",
    "check_server_url",
    "path_of",
]

_ANSWER = 60.0
"""Seconds that an answer may take; a server that is just starting needs some."""
_CONNECT = 5.0
_LARGEST = 256 * 1024 * 1024
"""Bytes of an answer; a whole session's messages may be long."""
_LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class OpencodeStatusError(QuarterdeckError):
    """The server answered with a status that is no success."""

    def __init__(self, status: int, details: str) -> None:
        super().__init__(f"status {status}" + (f": {details}" if details else ""))
        self.status = status
        self.details = details


class OpencodeAnswerError(QuarterdeckError):
    """The server answered with what is no JSON: it is another server."""


def check_server_url(url: str) -> HttpOrigin:
    """The host and port to connect to for this address.

    Raises:
        BadUrlError: it is no address of HTTP, or one of another machine: passwords go there
            unhidden.
    """
    parts = urlsplit(url)
    origin = HttpOrigin.of(parts)
    if origin.is_secure or origin.host not in _LOOPBACK:
        raise BadUrlError(
            f"{url!r} must be http:// and on this machine, such as http://127.0.0.1:4096"
        )
    return origin


def path_of(*steps: str) -> str:
    """A path of these steps, each escaped."""
    return "".join(f"/{quote(step, safe='')}" for step in steps)


class OpencodeClient:
    """One server. Each request has a connection of its own, so that none waits for another.

    Args:
        url: where the server is, on this machine.
        user: for its password.
        password: the password that the server expects; empty: none.
        query: added to every address.
    """

    def __init__(self, url: str, *, user: str, password: str, query: Mapping[str, str]) -> None:
        self._origin = check_server_url(url)
        self._query = dict(query)
        self._login = ""
        if password:
            self._login = base64.b64encode(f"{user}:{password}".encode()).decode()

    async def get(self, path: str, **query: str) -> Any:
        """Ask for something. Raises as ``send``."""
        return await self.send("GET", path, None, query)

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Have something done. Raises as ``send``."""
        return await self.send("POST", path, {} if body is None else body)

    async def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request and return the JSON of its answer; None for an empty one.

        Raises:
            OpencodeStatusError: a status that is no success.
            OpencodeAnswerError: the answer is no JSON.
            HttpError: the server does not answer, or not in time, or not in HTTP.
        """
        connection = await HttpConnection.open(self._origin, _CONNECT)
        try:
            head, answer = await self._exchange(connection, method, path, body, query or {})
        finally:
            connection.abort()
        if not 200 <= head.status < 300:
            raise OpencodeStatusError(head.status, _error_text(answer))
        try:
            return _decode(answer) if answer.strip() else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise OpencodeAnswerError(
                f"the answer to {method} {path} is not JSON: {error}"
            ) from None

    async def events(self, path: str, silence: float) -> AsyncGenerator[str, None]:
        """The data of each event of a stream, until it ends; the first may wait for ``silence``.

        Raises:
            OpencodeStatusError: a status that is no success.
            HttpError: the server does not answer, or sent no byte for ``silence`` seconds.
        """
        connection = await HttpConnection.open(self._origin, _CONNECT)
        try:
            head = await connection.exchange(self._head("GET", path, b"", {}), b"", silence)
            if head.status != 200:
                raise OpencodeStatusError(head.status, "")
            decoder = EventDecoder()
            async with aclosing(connection.body(head, silence)) as pieces:
                async for piece in pieces:
                    for event in decoder.feed(piece):
                        yield event.data
        except EventTooLargeError as error:
            raise BrokenResponseError(str(error)) from None
        finally:
            connection.abort()

    async def _exchange(
        self,
        connection: HttpConnection,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str],
    ) -> tuple[ResponseHead, bytes]:
        data = b"" if body is None else _encode(body)
        head = await connection.exchange(self._head(method, path, data, query), data, _ANSWER)
        if head.status == 204:
            return head, b""
        answer = bytearray()
        async with aclosing(connection.body(head, _ANSWER)) as pieces:
            async for piece in pieces:
                answer += piece
                if len(answer) > _LARGEST:
                    raise BrokenResponseError(f"the answer to {method} {path} has too many bytes")
        return head, bytes(answer)

    def _head(self, method: str, path: str, body: bytes, query: Mapping[str, str]) -> bytes:
        asked = urlencode({**self._query, **query})
        lines = [
            f"{method} {path}?{asked} HTTP/1.1",
            f"Host: {self._origin.host_header}",
            "Accept-Encoding: identity",
            "Connection: close",
            f"Content-Length: {len(body)}",
        ]
        if body:
            lines.append("Content-Type: application/json")
        if self._login:
            lines.append(f"Authorization: Basic {self._login}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def _error_text(answer: bytes) -> str:
    """What an answer that is no success says, in a few words."""
    return answer[:500].decode("utf-8", "replace").strip()


_USER = "opencode"
_PASSWORD = "OPENCODE_SERVER_PASSWORD"
_USERNAME = "OPENCODE_SERVER_USERNAME"
_FIXED = ("arguments", "environment", "mcp_servers")
"""Options that cannot be passed to a running server."""
_LISTENING = re.compile(rb"listening on (http://\S+)")
_LONGEST = 64 * 1024
"""Bytes of output in which the address must come."""
_ENDING = EndingDeadlines(ask=0.0, terminate=2.0)
"""It does not look at its standard input."""


class OpencodeServer:
    """A server, how it is asked, and how it ends.

    One of our own has a password that only we know: it is made at the start, goes to the
    program by its environment and is never written down. It ends with the session.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._child: AgentProcess | None = None
        self._outlet: AgentProcessStream | None = None
        self._system: LocalSystem | None = None
        self.api: OpencodeClient

    @property
    def is_ours(self) -> bool:
        """Whether it was started for this session."""
        return not self._launch.url

    async def start(self, opening: DriverSessionOptions) -> str | None:
        """Start or find it; returns its version.

        Raises:
            OpenFailedError, UnsupportedError: it did not start, is not there, or refuses us.
        """
        if self.is_ours:
            password = secrets.token_urlsafe(32)
            url = await self._run(opening, password)
        else:
            check_attached(self._launch, opening, _FIXED)
            url, password = self._launch.url, password_of(self._launch, opening)
        try:
            self.api = OpencodeClient(
                url, user=_USER, password=password, query={"directory": opening.options.cwd}
            )
            health = as_map(await self.api.get("/global/health"))
        except OpencodeStatusError as error:
            raise self._refused(error) from error
        except (HttpError, OpencodeAnswerError) as error:
            raise OpenFailedError(f"{self._launch.agent}: no server at {url!r}: {error}") from error
        if "version" not in health:
            raise WrongProtocolError(
                f"the server at {url!r} is not a server of {self._launch.agent}"
            )
        return as_text(health.get("version")) or None

    async def watch(self) -> LinkError:
        """Wait until a server of our own has left, and say how; for others wait for ever."""
        if self._outlet is None:
            return await asyncio.get_running_loop().create_future()
        try:
            while await self._outlet.receive():
                pass
        except LinkError as error:
            return await self._outlet.explain(error)
        return await self._outlet.explain(LinkEndedError(f"{self._launch.agent} exited"))

    async def end(self) -> AgentExit | None:
        """End a server of our own and all that it started; leave others alone."""
        try:
            return await self._child.end(_ENDING) if self._child is not None else None
        finally:
            if self._system is not None:
                await self._system.close()

    # One of our own

    async def _run(self, opening: DriverSessionOptions, password: str) -> str:
        environment = {**opening.options.variables, _PASSWORD: password, _USERNAME: _USER}
        self._system = LocalSystem(
            [opening.options.cwd, *opening.options.roots], guard=shared_guard()
        )
        options = opening.with_options(environment=environment)
        try:
            self._child = await AgentProcess.start(self._launch, options, self._system)
        except PathError as error:
            raise OpenFailedError(f"{self._launch.agent} could not be started: {error}") from error
        self._outlet = AgentProcessStream(self._launch.agent, self._child)
        return await self._address(self._outlet)

    async def _address(self, outlet: AgentProcessStream) -> str:
        """Where it listens, which it prints; before that it answers nothing."""
        printed = b""
        while data := await outlet.receive():
            printed = (printed + data)[-_LONGEST:]
            if (found := _LISTENING.search(printed)) and b"\n" in printed[found.start() :]:
                return found[1].decode("ascii", "replace")
        raise await outlet.explain(
            LinkBrokenError(f"{self._launch.agent} did not report where it listens")
        )

    # One that runs already

    def _refused(self, error: OpencodeStatusError) -> OpenFailedError:
        url = self._launch.url or "its own server"
        if error.status not in (401, 403):
            return WrongProtocolError(f"{self._launch.agent}: {url!r} answers with {error}")
        name = self._launch.password
        hint = f"the one in {name!r} is wrong" if name else "name its variable in `password`"
        return OpenFailedError(f"{self._launch.agent}: {url!r} requires a password; {hint}.")
