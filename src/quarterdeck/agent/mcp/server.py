"""One server of a session, kept alive: started, listed, restarted when it dies; or tried once."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from quarterdeck.wire.errors import LinkError, RpcError
from quarterdeck.wire.events import NoticePosted
from quarterdeck.wire.tasks import race_tasks

from ..tool_servers import ServerDefinition
from .client import McpClient, connect
from .protocol import McpError, ProbeRefusedError, Transport, UnusableServerError
from .tool_list import ToolList, make_argument_headers, read_tool_list

__all__ = [
    "RestartPolicy",
    "ServerState",
    "ServerTrial",
    "SessionServer",
    "TrialTool",
    "open_server",
    "try_server",
]

_log = logging.getLogger(__name__)

ServerState: TypeAlias = Literal["starting", "ready", "restarting", "failed"]
_MOST_NOTICES = 8
_SHOWN = 300
_LAST_WORDS = 1.0
"""Seconds that a lost call waits until it is known how the server ended."""


class RestartPolicy:
    """How a server that fails is treated; times in seconds."""

    def __init__(
        self,
        *,
        restarts: int = 3,
        pause: float = 0.5,
        steady: float = 60.0,
        refresh: float = 0.5,
        rejoin: float = 5.0,
    ) -> None:
        self.restarts = restarts
        """How often it is started anew before it is given up."""
        self.pause = pause
        """Before it is started anew; doubled each time."""
        self.steady = steady
        """After so long a life its earlier deaths are forgotten."""
        self.refresh = refresh
        """Between two looks at its tools."""
        self.rejoin = rejoin
        """How long a call waits for a server that is being started anew."""


@asynccontextmanager
async def open_server(
    definition: ServerDefinition,
    *,
    roots: tuple[str, ...],
    environment: Mapping[str, str],
    may_probe: bool = True,
    complain: Callable[[str], None] | None = None,
) -> AsyncGenerator[McpClient]:
    """Reach a server and greet it; leaving ends it, with all that it started.

    Raises:
        ProbeRefusedError: it left when it was asked what it speaks; try again without.
        McpError: it cannot be used; says what is known, its last words among it.
    """
    transport = await _transport(definition, roots, environment)
    failure: Exception | None = None
    try:
        async with connect(
            transport,
            name=definition.name,
            roots=roots,
            may_probe=may_probe,
            complain=complain,
        ) as client:
            yield client
    except (LinkError, RpcError, McpError) as error:
        failure = error
    except BaseException as error:
        if known := await transport.end():
            error.add_note(known)  # a caller that timed out may want to report it
        raise
    known = await transport.end()
    if failure is None:
        return
    kind = type(failure) if isinstance(failure, McpError) else McpError
    raise kind(_describe_failure(failure, known)) from failure


async def _transport(
    definition: ServerDefinition, roots: tuple[str, ...], environment: Mapping[str, str]
) -> Transport:
    if definition.url is not None:
        from .http import HttpTransport

        return HttpTransport(definition.url, definition.headers, environment)
    from .stdio import StdioTransport

    return await StdioTransport.start(definition, roots[0])


def _describe_failure(failure: Exception, known: str) -> str:
    words = failure.message if isinstance(failure, RpcError) else str(failure)
    return words if not known or known in words else f"{words} ({known})"


class SessionServer:
    """A server and its state. ``keep`` does the work; what changes is seen between steps."""

    def __init__(
        self,
        definition: ServerDefinition,
        *,
        roots: tuple[str, ...],
        environment: Mapping[str, str],
        patience: RestartPolicy | None = None,
    ) -> None:
        self.definition = definition
        self.state: ServerState = "starting"
        self.listing = ToolList()
        self.changes = 0
        """Counts every change of the tools."""
        self.settled = asyncio.Event()
        """It is ready, or has failed for good: there is nothing to wait for."""
        self.notices: list[NoticePosted] = []
        self.reason = ""
        """Why it is not ready."""
        self._roots = roots
        self._environment = environment
        self._patience = patience or RestartPolicy()
        self._client: McpClient | None = None
        self._ready = asyncio.Event()
        self._mourned = asyncio.Event()
        """Why it is not ready any more is known."""
        self._looked = asyncio.Event()
        self._looked.set()
        self._is_tardy = False

    @property
    def name(self) -> str:
        """The server's name."""
        return self.definition.name

    @property
    def trusted(self) -> bool:
        """Whether its word that a tool only reads is believed."""
        return self.definition.trusted

    @property
    def timeout(self) -> float:
        """Seconds that a call may take without a sign of progress."""
        return self.definition.timeout

    async def client(self) -> McpClient:
        """The connection; waits a moment for one that is being made.

        Raises:
            McpError: there is none.
        """
        if self._client is None and self.state != "failed":
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience.rejoin):
                    await self._ready.wait()
        if self._client is None:
            raise McpError(self.reason or f"it is {self.state}")
        return self._client

    async def gone(self, error: LinkError) -> str:
        """Why a call was lost, for the model."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):
                await self._mourned.wait()
        again = "" if self.state == "failed" else " It is being restarted."
        return (
            f"The MCP server {self.name!r} disconnected during the call: {self.reason or error}. "
            f"The call may or may not have taken effect.{again}"
        )

    async def caught_up(self, seconds: float) -> None:
        """Wait until a change of its tools that it has announced is known here, for some seconds.

        A server that does not list its tools in time is not waited for again until it does.
        """
        client = self._client
        if client is None or self._is_tardy:
            return
        try:
            async with asyncio.timeout(seconds):
                while client is self._client and (
                    client.changed.is_set() or not self._looked.is_set()
                ):
                    if client.changed.is_set():
                        # A look that is under way may have begun before the change.
                        self._looked.clear()
                    await self._looked.wait()
        except TimeoutError:
            self._is_tardy = True

    async def keep(self) -> None:
        """Start it, and again when it dies, until it is given up; cancel to end it."""
        try:
            await self._keep()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            _log.exception("internal error while running MCP server %s", self.name)
            self._give_up(f"internal error: {error!r}")

    async def _keep(self) -> None:
        deaths, may_probe = 0, True
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._live(may_probe)
                reason = "it closed the connection"
            except ProbeRefusedError as error:
                reason = str(error)
                if may_probe:
                    may_probe = False
                    continue
            except UnusableServerError as error:
                self._give_up(str(error))
                return
            except (McpError, TimeoutError) as error:
                reason = str(error) or "it did not list its tools in time"
            deaths = 1 if loop.time() - began > self._patience.steady else deaths + 1
            if deaths > self._patience.restarts:
                self._give_up(reason)
                return
            self._restarting(reason)
            await asyncio.sleep(self._patience.pause * 2 ** (deaths - 1))

    async def _live(self, may_probe: bool) -> None:
        """One life, from its start to its end."""
        limit = self.definition.start_timeout
        bound = asyncio.timeout(limit)
        try:
            async with (
                bound,
                open_server(
                    self.definition,
                    roots=self._roots,
                    environment=self._environment,
                    may_probe=may_probe,
                    complain=self._complained,
                ) as client,
            ):
                await self._list(client)
                bound.reschedule(None)
                self._joined(client)
                try:
                    await self._watch(client)
                finally:
                    self._client = None
                    self._ready.clear()
                    self._looked.set()
        except TimeoutError as error:
            if not bound.expired():
                raise
            known = "; ".join(getattr(error.__cause__, "__notes__", ()))
            text = f"it did not list its tools within {limit:g} s"
            raise McpError(f"{text} ({known})" if known else text) from None

    async def _watch(self, client: McpClient) -> None:
        """List its tools again whenever it says so, until the connection is over."""
        while client.peer.ending is None:
            await race_tasks(client.peer.wait_closed(), client.changed.wait())
            if client.peer.ending is None:
                await self._refresh(client)
        raise await client.peer.wait_closed()

    async def _refresh(self, client: McpClient) -> None:
        self._looked.clear()
        try:
            async with asyncio.timeout(self.definition.start_timeout):
                await self._list(client)
        except (RpcError, McpError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            self._tell(f"MCP server {self.name!r} failed to list its tools again: {reason}")
        self._looked.set()
        self._is_tardy = False
        await asyncio.sleep(self._patience.refresh)  # limits the rate of a storm of changes

    async def _list(self, client: McpClient) -> None:
        client.changed.clear()
        listing = read_tool_list(self.definition, await client.tools())
        if listing == self.listing:
            return
        before = {tool.tool for tool in self.listing.tools}
        now = {tool.tool for tool in listing.tools}
        if self.settled.is_set() and before != now:
            words = [f"+{name}" for name in sorted(now - before)]
            words += [f"-{name}" for name in sorted(before - now)]
            changes = ", ".join(words)[:_SHOWN]
            self._tell(f"MCP server {self.name!r} changed its tools: {changes}", "info")
        for problem in set(listing.problems) - set(self.listing.problems):
            self._tell(f"MCP server {self.name!r}: a tool is skipped: {problem[:_SHOWN]}")
        self.listing = listing
        self.changes += 1

    # ---- changes of state

    def _joined(self, client: McpClient) -> None:
        client.mirror(self._headers_of)
        self._client = client
        self.state, self.reason = "ready", ""
        self._mourned.clear()
        self._ready.set()
        self.settled.set()

    def _headers_of(self, name: str, arguments: Mapping[str, Any]) -> dict[str, str]:
        for tool in self.listing.tools:
            if tool.tool == name and tool.mirrored:
                return make_argument_headers(tool.mirrored, arguments)
        return {}

    def _complained(self, words: str) -> None:
        self._tell(f"MCP server {self.name!r} says: {words}")

    def _restarting(self, reason: str) -> None:
        if self.state != "starting":
            self._tell(f"MCP server {self.name!r} is being restarted: {reason}")
            self.state = "restarting"
        self.reason = reason
        self._mourned.set()

    def _give_up(self, reason: str) -> None:
        self.state, self.reason = "failed", reason
        self._tell(f"MCP server {self.name!r} cannot be used: {reason}")
        if self.listing.tools:
            self.listing = ToolList()
            self.changes += 1
        for event in (self._ready, self.settled, self._looked, self._mourned):
            event.set()

    def _tell(self, title: str, severity: Literal["info", "warning"] = "warning") -> None:
        if len(self.notices) < _MOST_NOTICES:
            self.notices.append(NoticePosted(title=title, severity=severity))


if TYPE_CHECKING:
    from typing import cast

    from .tool import ToolOwner

    _lender: ToolOwner = cast("SessionServer", None)


_BYTES_OF_TOKEN = 4


class TrialTool(Struct, frozen=True, kw_only=True):
    """A tool, and what it costs to show it to a model."""

    name: str
    """As its server has it."""
    shown_as: str
    """As the model sees it."""
    tokens: int
    """About so many, in every request."""


class ServerTrial(Struct, frozen=True, kw_only=True):
    """How it went."""

    server: str
    works: bool
    reason: str | None = None
    """Why it does not work, with the last words of its program."""
    version: str | None = None
    """The version of the protocol that was agreed on."""
    program: str | None = None
    """What the server calls itself."""
    start_seconds: float | None = None
    """Until its tools were known."""
    tools: tuple[TrialTool, ...] = ()
    problems: tuple[str, ...] = ()
    """Why tools were left out."""

    @property
    def tokens(self) -> int:
        """What all of its tools cost in every request, about."""
        return sum(tool.tokens for tool in self.tools)


async def try_server(
    definition: ServerDefinition, *, roots: tuple[str, ...], environment: Mapping[str, str]
) -> ServerTrial:
    """Start a server, list its tools, end it. Never raises for what the server does."""
    began = asyncio.get_running_loop().time()
    limit = definition.start_timeout
    try:
        async with asyncio.timeout(limit):
            return await _tried(definition, roots, environment, began)
    except McpError as error:
        return ServerTrial(server=definition.name, works=False, reason=str(error))
    except TimeoutError as error:
        known = "; ".join(getattr(error.__cause__, "__notes__", ()))
        reason = f"it did not list its tools within {limit:g} s"
        return ServerTrial(
            server=definition.name, works=False, reason=f"{reason} ({known})" if known else reason
        )


async def _tried(
    definition: ServerDefinition,
    roots: tuple[str, ...],
    environment: Mapping[str, str],
    began: float,
) -> ServerTrial:
    try:
        async with open_server(definition, roots=roots, environment=environment) as client:
            return await _listed(definition, client, began)
    except ProbeRefusedError:
        async with open_server(
            definition, roots=roots, environment=environment, may_probe=False
        ) as client:
            return await _listed(definition, client, began)


async def _listed(definition: ServerDefinition, client: McpClient, began: float) -> ServerTrial:
    listing = read_tool_list(definition, await client.tools())
    return ServerTrial(
        server=definition.name,
        works=True,
        version=client.agreement.version,
        program=client.agreement.server or None,
        start_seconds=round(asyncio.get_running_loop().time() - began, 3),
        tools=_tools(listing),
        problems=listing.problems,
    )


def _tools(listing: ToolList) -> tuple[TrialTool, ...]:
    return tuple(
        TrialTool(
            name=tool.tool,
            shown_as=tool.spec.name,
            tokens=-(-len(msgspec.json.encode(tool.spec)) // _BYTES_OF_TOKEN),
        )
        for tool in listing.tools
    )
