"""The codex server of a session: started by us or running already, and its WebSocket stream.

Importing this module loads ``websockets``, so it is imported where a server is attached to.
"""

import asyncio
import re
import signal
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_connection
from websockets.exceptions import (
    ConnectionClosed,
    ConnectionClosedOK,
    InvalidMessage,
    InvalidStatus,
    WebSocketException,
)
from websockets.frames import CloseCode

from quarterdeck.net.http1 import BadUrlError
from quarterdeck.system.errors import PathError
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.process import LocalProcess
from quarterdeck.system.process_guard import shared_guard
from quarterdeck.system.process_tree import (
    ProcessInfo,
    ProcessTree,
    find_processes,
    list_processes,
    send_signal,
)
from quarterdeck.wire.errors import LinkBrokenError, LinkClosedError, LinkError, QuarterdeckError
from quarterdeck.wire.rpc.stream import CHUNK, ByteStream

from ...agent_process import AgentProcess, AgentProcessStream, Launch
from ...driver import DriverSessionOptions
from ...errors import OpenFailedError, WrongProtocolError
from ...link import AgentExit
from .. import check_attached, password_of

__all__ = [
    "MESSAGE_LIMIT",
    "BadHandshakeError",
    "CodexServer",
    "OrphanProcesses",
    "WebSocketStream",
    "check_address",
    "connect",
]

MESSAGE_LIMIT = 32 * 1024 * 1024
"""Bytes that one message may have."""
_LOOPBACK = frozenset(("127.0.0.1", "localhost", "::1"))
_CLOSE_SECONDS = 0.5
"""Within which the server must answer that the connection is closed."""
_LINE_BREAKS = re.compile(rb"[\r\n]")


class BadHandshakeError(QuarterdeckError):
    """The server did not agree to WebSocket; ``status`` is its answer's, 0: it sent no HTTP."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(reason)
        self.status = status


def check_address(url: str) -> tuple[str, str, int, str]:
    """The path of a Unix socket, or else host, port and path of a WebSocket, at this address.

    Raises:
        BadUrlError: it is neither, or on another machine: passwords are sent in plain text.
    """
    parts = urlsplit(url)
    hint = "such as ws://127.0.0.1:4500, or unix:///run/user/1000/codex.sock"
    if parts.scheme == "unix" and not parts.netloc and parts.path.startswith("/"):
        return unquote(parts.path), "localhost", 0, "/"
    try:
        port = parts.port
    except ValueError as error:
        raise BadUrlError(f"{url!r} is not a URL: {error}") from None
    if parts.scheme != "ws" or parts.hostname not in _LOOPBACK or not port:
        raise BadUrlError(f"{url!r} must be ws:// and on this machine, or unix://, {hint}")
    return "", parts.hostname, port, parts.path or "/"


async def connect(url: str, token: str = "", *, limit: int = MESSAGE_LIMIT) -> "WebSocketStream":
    """Connect to the server there.

    Args:
        url: see ``check_address``.
        token: the bearer token that the server requires; empty: none.
        limit: bytes that a message of the server may have.

    Raises:
        BadUrlError: that is not an address, or not of this machine.
        LinkBrokenError: no server listens there, or it closed the connection.
        BadHandshakeError: the server refuses us, or speaks another protocol.
    """
    place, host, port, path = check_address(url)
    named = f"[{host}]" if ":" in host else host
    uri = f"ws://{named}:{port}{path}" if port else f"ws://{named}{path}"
    where: dict[str, Any] = {"unix": True, "path": place} if place else {"host": host, "port": port}
    opening = _DirectConnect(
        uri,
        additional_headers={"Authorization": f"Bearer {token}"} if token else None,
        user_agent_header=None,
        compression=None,
        proxy=None,
        open_timeout=None,
        ping_interval=None,
        close_timeout=_CLOSE_SECONDS,
        max_size=limit,
        **where,
    )
    try:
        return WebSocketStream(await opening, limit=limit)
    except OSError as error:
        at = repr(place) if place else f"{host!r} port {port}"
        raise LinkBrokenError(f"cannot connect to {at}: {error}") from error
    except InvalidStatus as error:
        status = error.response.status_code
        raise BadHandshakeError(f"it answers with status {status}", status) from None
    except InvalidMessage as error:
        if isinstance(error.__cause__, EOFError):
            reason = "the server closed the connection before it answered"
            raise LinkBrokenError(reason) from None
        raise BadHandshakeError(f"it does not speak HTTP: {error}", 0) from None
    except WebSocketException as error:
        raise BadHandshakeError(str(error), 101) from None


class _DirectConnect(open_connection):
    """Follows no redirect: what the server there is sent is for no other."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class WebSocketStream:
    """A byte stream whose lines are the messages of a WebSocket; see ``ByteStream``.

    What is sent must end with a line. Pings are answered.

    Args:
        connection: an open connection; closed with this.
        limit: bytes that a message may have by that connection.
    """

    def __init__(self, connection: ClientConnection, *, limit: int = MESSAGE_LIMIT) -> None:
        self._connection = connection
        self._limit = limit
        self._ready = bytearray()
        self._is_closed = False

    async def receive(self) -> bytes:
        """See ``ByteStream``.

        The end is ``LinkBrokenError`` unless the server closes the connection in order.
        """
        while not self._ready:
            try:
                message = await self._connection.recv(decode=False)
            except ConnectionClosedOK:
                if self._is_closed:
                    raise LinkClosedError("the stream was closed") from None
                return b""
            except ConnectionClosed as error:
                raise self._explain(error) from None
            # Within JSON such a byte can only be white space.
            self._ready += _LINE_BREAKS.sub(b" ", message)
            self._ready += b"\n"
        piece = bytes(memoryview(self._ready)[:CHUNK])
        del self._ready[:CHUNK]
        return piece

    async def send(self, data: bytes) -> None:
        """See ``ByteStream``; each line goes as one message."""
        try:
            for line in data.split(b"\n"):
                if line:
                    await self._connection.send(line, text=True)
        except ConnectionClosed as error:
            raise self._explain(error) from None

    async def close(self) -> None:
        """See ``ByteStream``; waits a moment for the server to close the connection too."""
        self._is_closed = True
        await self._connection.close()

    def _explain(self, error: ConnectionClosed) -> LinkError:
        if self._is_closed:
            return LinkClosedError("the stream was closed")
        received, sent = error.rcvd, error.sent
        if received is not None:
            why = f"{received.code} {received.reason}".strip()
            return LinkBrokenError(f"the server closed the connection: {why}")
        if sent is None or sent.code == CloseCode.INTERNAL_ERROR:
            return LinkBrokenError("the connection to the server was lost")
        reason = sent.reason
        if sent.code == CloseCode.MESSAGE_TOO_BIG:
            reason = f"a message is longer than {self._limit} bytes"
        return LinkBrokenError(f"the server violated the protocol: {reason or sent.code}")


if TYPE_CHECKING:
    from typing import cast

    _stream: ByteStream = WebSocketStream(cast("ClientConnection", None))


_LOOKS = (0.0, 0.05, 0.15)
"""Seconds before each look: one that is forked just now is seen by the next."""


class OrphanProcesses:
    """Ends what an interrupted command leaves behind.

    Codex, told to stop while the sandbox of a command is starting, kills the sandbox's first
    process and forgets the others, which run on as orphans (seen with 0.166.0, one time in ten).
    Orphans that were there before are somebody's on purpose, and stay.
    """

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self._before: set[tuple[int, str]] = set()

    async def remember(self) -> None:
        """Those that are there now stay."""
        self._before = {_name(one) for one in await asyncio.to_thread(self._find)}

    async def end(self) -> int:
        """End those that have come since ``remember``; how many there were."""
        ended: set[tuple[int, str]] = set()
        for pause in _LOOKS:
            await asyncio.sleep(pause)
            ended |= await asyncio.to_thread(self._kill)
        return len(ended)

    def _find(self) -> list[ProcessInfo]:
        if sys.platform != "linux":  # no other sandbox of codex has processes of its own
            return []
        table = list_processes()
        return [
            one for one in find_processes([self._tree], table) if not self._is_below(one, table)
        ]

    def _is_below(self, one: ProcessInfo, table: dict[int, ProcessInfo]) -> bool:
        """Whether the server is among its parents, or is it."""
        seen: set[int] = set()
        pid = one.pid
        while pid in table and pid not in seen:
            if pid == self._tree.pid:
                return True
            seen.add(pid)
            pid = table[pid].parent
        return False

    def _kill(self) -> set[tuple[int, str]]:
        found = [one for one in self._find() if _name(one) not in self._before]
        for one in found:
            send_signal(one, signal.SIGKILL)
        return {_name(one) for one in found}


def _name(one: ProcessInfo) -> tuple[int, str]:
    return one.pid, one.start


_FIXED = ("arguments", "environment")
"""Options that a server which runs already cannot be told; tool servers are a thread's own."""


class CodexServer:
    """A server, the connections to it, and how it ends.

    Args:
        launch: how it is started, or where it is.
        stream: talk over this, and start no program.
    """

    def __init__(self, launch: Launch, stream: ByteStream | None = None) -> None:
        self._launch = launch
        self._stream = stream
        self._child: AgentProcess | None = None
        self._outlet: AgentProcessStream | None = None
        self._system: LocalSystem | None = None
        self._orphans: OrphanProcesses | None = None

    @property
    def is_shared(self) -> bool:
        """Whether it runs already: others use it too, and one may connect to it again."""
        return bool(self._launch.url) and self._stream is None

    async def connect(self, opening: DriverSessionOptions) -> ByteStream:
        """Start it, or connect to it; again, if it is shared.

        Raises:
            OpenFailedError, UnsupportedError: it did not start, or lets us not in.
            LinkBrokenError: nobody is there.
        """
        if self._stream is not None:
            return self._stream
        if self.is_shared:
            check_attached(self._launch, opening, _FIXED)
            return await self._attach(password_of(self._launch, opening))
        return await self._run(opening)

    async def _run(self, opening: DriverSessionOptions) -> ByteStream:
        self._system = LocalSystem(
            [opening.options.cwd, *opening.options.roots], guard=shared_guard()
        )
        try:
            self._child = await AgentProcess.start(self._launch, opening, self._system)
        except PathError as error:
            raise OpenFailedError(f"{self._launch.agent} could not be started: {error}") from error
        if isinstance(self._child.process, LocalProcess):
            self._orphans = OrphanProcesses(self._child.process.tree)
        self._outlet = AgentProcessStream(self._launch.agent, self._child)
        return self._outlet

    async def _attach(self, token: str) -> ByteStream:
        # Late: with websockets, which a server of our own does not need.

        agent, url = self._launch.agent, self._launch.url
        try:
            return await connect(url, token)
        except BadUrlError as error:
            raise OpenFailedError(f"{agent}: {error}") from error
        except LinkBrokenError as error:
            raise LinkBrokenError(f"{agent}: no server at {url!r}: {error}") from error
        except BadHandshakeError as error:
            if error.status not in (401, 403):
                raise WrongProtocolError(f"{agent}: no server at {url!r}: {error}") from error
            name = self._launch.password
            hint = f"the one in {name!r} is wrong" if name else "name its variable in `password`"
            raise OpenFailedError(f"{agent}: {url!r} requires a password; {hint}.") from error

    async def explain(self, ending: LinkError) -> LinkError:
        """What the end of a connection means; a process of ours may have more to say."""
        if self._outlet is not None:
            return await self._outlet.explain(ending)
        if isinstance(ending, LinkClosedError):
            return ending
        return LinkBrokenError(f"the server of {self._launch.agent} has ended: {ending}")

    async def remember_orphans(self) -> None:
        """Call it before a turn is interrupted."""
        if self._orphans is not None:
            await self._orphans.remember()

    async def end_orphans(self) -> int:
        """End what a server of our own has lost since then; how many there were."""
        return await self._orphans.end() if self._orphans is not None else 0

    async def end(self) -> AgentExit | None:
        """End a server of our own and all that it started; leave others alone."""
        try:
            if self._stream is not None:
                await self._stream.close()
            return await self._child.end() if self._child is not None else None
        finally:
            if self._system is not None:
                await self._system.close()
