"""Servers that lend tools to a session: how one is defined.

The servers themselves are in ``mcp``, which is imported when one is configured.
"""

from collections.abc import Mapping

from msgspec import Struct, field

__all__ = ["MCP_FILE", "ServerDefinition"]

MCP_FILE = ".mcp.json"
"""The file in which a project names its servers to agents of every make."""


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
    """Seconds that it may take until it has listed its tools."""
    trusted: bool = False
    """Whether its word that a tool only reads is believed."""
    tools: tuple[str, ...] | None = None
    """Only these tools, with ``*`` for anything; None: all."""
    without: tuple[str, ...] = ()
    """None of these tools."""
    source: str = ""
    """Where it was found, for people."""
