"""What travels between us and an MCP server, the transport that carries it, and the errors.

*Modern* (2026-07-28 and later): every request says which version it speaks and what we can do; a
server that needs something of us says so in its result. *Legacy* (2025-11-25 and earlier): one
``initialize`` for the connection; a server asks us by requests of its own.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field

from quarterdeck import __version__
from quarterdeck.wire.errors import QuarterdeckError

__all__ = [
    "CANCELLED",
    "CAPABILITIES",
    "INITIALIZED",
    "LEGACY",
    "MODERN",
    "MODERN_ERRORS",
    "UNSUPPORTED_VERSION",
    "CallResult",
    "DiscoverAnswer",
    "InitializeAnswer",
    "ListedTool",
    "McpError",
    "Mirror",
    "ProbeRefusedError",
    "Progress",
    "SupportedVersions",
    "ToolPage",
    "Transport",
    "UnusableServerError",
    "initialize_params",
    "modern_meta",
]


class McpError(QuarterdeckError):
    """A server cannot be used; the text names it and says why."""


class UnusableServerError(McpError):
    """A server cannot be used, and trying again would not help."""


class ProbeRefusedError(McpError):
    """A server left when it was asked what it speaks; it may know the older greeting alone."""


MODERN: Final = "2026-07-28"
LEGACY: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The newest first."""
CANCELLED: Final = "notifications/cancelled"
INITIALIZED: Final = "notifications/initialized"
"""Ends the legacy greeting."""
UNSUPPORTED_VERSION: Final = -32022
MODERN_ERRORS: Final = frozenset((-32020, -32021, UNSUPPORTED_VERSION))
"""Errors by which a server shows that it is a modern one."""
CAPABILITIES: Final[dict[str, Any]] = {"elicitation": {"form": {}}, "roots": {}}
"""What we can do for a server: ask the person by a form, and name the workspace's directories."""
_META = "io.modelcontextprotocol/"
_CLIENT = {"name": "quarterdeck", "title": "Quarterdeck", "version": __version__}


def modern_meta() -> dict[str, Any]:
    """What every modern request carries in ``_meta``."""
    return {
        f"{_META}protocolVersion": MODERN,
        f"{_META}clientInfo": _CLIENT,
        f"{_META}clientCapabilities": CAPABILITIES,
    }


def initialize_params() -> dict[str, Any]:
    """The legacy greeting."""
    return {"protocolVersion": LEGACY[0], "capabilities": CAPABILITIES, "clientInfo": _CLIENT}


class InitializeAnswer(Struct, rename="camel"):
    """The answer to the legacy greeting."""

    protocol_version: str
    capabilities: dict[str, Any] = field(default_factory=dict[str, Any])
    server_info: Any = None


class DiscoverAnswer(Struct, rename="camel"):
    """What a modern server says of itself."""

    supported_versions: list[str]
    capabilities: dict[str, Any] = field(default_factory=dict[str, Any])
    server_info: Any = None
    """Some say it here, others in ``meta``."""
    meta: dict[str, Any] = field(name="_meta", default_factory=dict[str, Any])

    @property
    def info(self) -> Any:
        """What the server calls itself."""
        return self.server_info or self.meta.get(f"{_META}serverInfo")


class SupportedVersions(Struct):
    """With the error for a version that is not spoken: those that are."""

    supported: list[str]


class ToolPage(Struct, rename="camel"):
    """One page of a list of tools."""

    tools: list[Any]
    next_cursor: str | None = None


class ListedTool(Struct, rename="camel"):
    """A tool as its server describes it."""

    name: str
    title: str | None = None
    description: str | None = None
    input_schema: Any = None
    annotations: dict[str, Any] | None = None


class CallResult(Struct, rename="camel"):
    """The result of a call, or what the server needs before it can be made."""

    content: list[Any] = field(default_factory=list[Any])
    is_error: bool = False
    structured_content: Any | UnsetType = UNSET
    result_type: str = "complete"
    input_requests: dict[str, Any] | None = None
    request_state: str | None = None


class Progress(Struct, rename="camel"):
    """How far a call has come."""

    progress_token: str | int
    progress: float = 0.0
    total: float | None = None
    message: str | None = None


Mirror: TypeAlias = Callable[[str, Mapping[str, Any]], Mapping[str, str]]
"""The headers that a tool's server wants for a call: from its name and its arguments."""


class Transport(Protocol):
    """A stream of lines, each a JSON-RPC message, and what else a connection to a server is."""

    async def receive(self) -> bytes:
        """See ``ByteStream``."""
        ...

    async def send(self, data: bytes) -> None:
        """See ``ByteStream``."""
        ...

    async def close(self) -> None:
        """Take no more messages; what is behind it is ended by ``end``."""
        ...

    def agreed(self, version: str, *, is_modern: bool) -> None:
        """Take note of the version that both sides speak."""
        ...

    def mirror(self, headers_of: Mirror) -> None:
        """Take note of which arguments are shown outside of the message as well."""
        ...

    async def end(self) -> str:
        """End what is behind it; return what is known of how it ended, for people."""
        ...
