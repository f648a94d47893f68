"""Servers that lend tools to a session: what the session knows of them.

The servers themselves are in ``mcp``, which is imported when one is configured.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from quarterdeck.wire.events import Event, NoticePosted

if TYPE_CHECKING:
    from .environment import SessionEnvironment
    from .tools.toolbox import Toolbox

__all__ = ["MCP_FILE", "NO_SERVERS", "ServerDefinition", "ToolServers", "find_servers"]

MCP_FILE = ".mcp.json"
"""The file in which a project names its servers to agents of every make."""
_PREFIX = "mcp__"


class ServerDefinition(Struct, frozen=True, kw_only=True):
    """A server, and how it is reached: by a command, or at a URL."""

    name: str
    """As rules and tool names have it: letters, digits, ``-`` and ``_``, no two ``_`` together."""
    command: tuple[str, ...] = ()
    """The program and its arguments; empty: it is at ``url``."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Set for the program, on top of the few variables that every child gets."""
    cwd: str | None = None
    """Where the program runs; None: the session's directory."""
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Sent along with every request."""
    timeout: float = 120.0
    """Seconds that a call may take without a sign of progress."""
    start_timeout: float = 30.0
    """Seconds that it may take until it has told its tools."""
    trusted: bool = False
    """Whether its word that a tool only reads is believed."""
    tools: tuple[str, ...] | None = None
    """Only these tools, with ``*`` for anything; None: all."""
    without: tuple[str, ...] = ()
    """None of these tools."""
    source: str = ""
    """Where it was found, for people."""


class ToolServers(Protocol):
    """The servers of one session."""

    def start(self) -> None:
        """Begin to reach them, in the background."""
        ...

    async def settle(self, toolbox: "Toolbox", emit: Callable[[Event], Awaitable[None]]) -> None:
        """Between two steps: let tools join or leave, and tell what is worth it.

        Waits for servers that are being started, once and for a bounded time. Never raises for
        what a server does.
        """
        ...

    async def close(self) -> None:
        """End them; may be called again."""
        ...


class _NoServers:
    """No server at all."""

    def start(self) -> None:
        pass

    async def settle(self, toolbox: "Toolbox", emit: Callable[[Event], Awaitable[None]]) -> None:
        pass

    async def close(self) -> None:
        pass


NO_SERVERS: ToolServers = _NoServers()


async def find_servers(
    ground: "SessionEnvironment",
    environment: Mapping[str, str],
    roots: tuple[str, ...],
    *,
    given: tuple[ServerDefinition, ...] = (),
    wanted: tuple[str, ...] | None = None,
) -> tuple[ToolServers, tuple[NoticePosted, ...]]:
    """The servers of a session, not started, and what a person should know of those left out.

    ``given`` come from whoever opens the session and win over those of the same name in files.
    ``wanted`` are the only tools that the session may have; None: all.
    """
    if not (given or ground.settings.mcp_servers or ground.has_mcp_file):
        return NO_SERVERS, ()
    if wanted is not None and not any(name.startswith(_PREFIX) for name in wanted):
        return NO_SERVERS, ()
    from .mcp.servers import session_servers

    return await session_servers(ground, environment, roots, given=given, wanted=wanted)
