"""How a session is to be started: one value for every way to start one.

It is in the request to spawn, in ``session_spawned``, in what a driver and our own agent open a
session from, and in a headless job. A reader that also needs something alive, such as a callback,
holds a ``SessionOptions`` besides it.

An agent that cannot honour an option that is set refuses by the option's name; see
``find_unsupported``. Values of variables and headers never reach the log: ``without_values``.
"""

from collections.abc import Iterable, Mapping

from msgspec import field
from msgspec.structs import asdict, replace

from .values import Value
from .worktrees import WorktreeOptions

__all__ = ["AgentMcpServer", "SessionLimits", "SessionOptions", "find_unsupported", "list_set"]

_Values: type[dict[str, str | None]] = dict
"""``dict`` itself, so that msgspec leaves an empty one out of the JSON form."""


class AgentMcpServer(Value, frozen=True, kw_only=True):
    """A tool server for the agent: a command, or a URL.

    With both, the URL is used where the agent can, else the command.
    """

    name: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = field(default_factory=_Values)
    """Variables of the command. None: a value that the log does not keep."""
    url: str = ""
    headers: Mapping[str, str | None] = field(default_factory=_Values)
    """Sent with each request. None: a value that the log does not keep."""
    is_ours: bool = False
    """It checks its calls itself: an agent that cannot ask may call it without."""

    def __repr__(self) -> str:
        return _show(self.without_values())

    @property
    def variables(self) -> dict[str, str]:
        """The variables whose values are known."""
        return _known(self.environment)

    @property
    def sent_headers(self) -> dict[str, str]:
        """The headers whose values are known."""
        return _known(self.headers)

    def without_values(self) -> "AgentMcpServer":
        """The same with the names alone of variables and headers, and no query in the URL."""
        return replace(
            self,
            environment=dict.fromkeys(self.environment),
            headers=dict.fromkeys(self.headers),
            url=_plain_url(self.url),
        )

    @property
    def missing_values(self) -> tuple[str, ...]:
        """What the log did not keep, for people."""
        found = [
            f"{kind} {name} of {self.name}"
            for kind, values in (("variable", self.environment), ("header", self.headers))
            for name, value in values.items()
            if value is None
        ]
        return (*found, *([f"URL of {self.name}"] if _HIDDEN in self.url else ()))


class SessionLimits(Value, frozen=True, kw_only=True):
    """Where a turn is ended; None: where the configuration says."""

    model_calls: int | None = None
    tokens: int | None = None
    """Input and output together."""
    cost: float | None = None
    """US dollars."""
    seconds: float | None = None
    """Without the time that a person was waited for."""


class SessionOptions(Value, frozen=True, kw_only=True):
    """How a session is to be started; what is not set comes from the configuration."""

    agent: str = "native"
    """A name of the catalogue."""
    cwd: str = ""
    """Absolute. Empty, for a session that is resumed: where it worked before."""
    roots: tuple[str, ...] = ()
    """Further directories that it may work in, absolute."""
    worktree: WorktreeOptions | None = None
    """Work in a git worktree of the repository around ``cwd``; a fleet makes it. In the log
    ``cwd`` is in the worktree already."""
    transport: str | None = None
    """How the agent is reached; None: the first that starts."""
    model: str | None = None
    """By the agent's own name for it."""
    effort: str | None = None
    """How much the model thinks before it answers; see ``wire.settings.Effort``."""
    mode: str | None = None
    """Our permission mode; see ``wire.settings.PermissionMode``."""
    agent_mode: str | None = None
    """A mode of the agent's own. The only way to one that skips permissions."""
    allow: tuple[str, ...] = ()
    """Rules for this session, as people write them."""
    deny: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    """Only these tools; None: all."""
    denied_tools: tuple[str, ...] = ()
    """None of these tools."""
    mcp_servers: tuple[AgentMcpServer, ...] = ()
    """Besides those of the configuration."""
    environment: Mapping[str, str | None] = field(default_factory=_Values)
    """Variables for the agent. None: a value that the log does not keep."""
    system_prompt: str | None = None
    """Added to the agent's own."""
    limits: SessionLimits = SessionLimits()
    resume: str | None = None
    """The session to resume: the agent's own id. In a headless job our id of it; empty: the latest
    of the directory."""
    fork: bool = False
    """With ``resume``: continue in a copy."""

    def __repr__(self) -> str:
        return _show(self.without_values())

    @property
    def variables(self) -> dict[str, str]:
        """The variables whose values are known."""
        return _known(self.environment)

    @property
    def missing_values(self) -> tuple[str, ...]:
        """What the log did not keep, for people: ``TOKEN``, ``header X-Key of docs``."""
        own = (name for name, value in self.environment.items() if value is None)
        servers = (name for server in self.mcp_servers for name in server.missing_values)
        return (*own, *servers)

    def without_missing(self) -> "SessionOptions":
        """The same without what cannot be set again: variables, and whole servers."""
        if not self.missing_values:
            return self
        complete = tuple(one for one in self.mcp_servers if not one.missing_values)
        return replace(self, environment={**self.variables}, mcp_servers=complete)

    def without_values(self) -> "SessionOptions":
        """The same with the names alone of variables and headers, as it may be in a log."""
        if not self.environment and not self.mcp_servers:
            return self
        return replace(
            self,
            environment=dict.fromkeys(self.environment),
            mcp_servers=tuple(server.without_values() for server in self.mcp_servers),
        )


def list_set(options: SessionOptions) -> tuple[str, ...]:
    """The names of the options that are set; limits by their own, such as ``limits.cost``."""
    found = [
        name
        for name in _NAMES
        if name != "limits" and getattr(options, name) != getattr(_UNSET, name)
    ]
    given = asdict(options.limits)
    return (*found, *(f"limits.{name}" for name, value in given.items() if value is not None))


def find_unsupported(options: SessionOptions, supported: Iterable[str]) -> tuple[str, ...]:
    """The options that are set and not among those supported, in order."""
    known = frozenset(supported)
    return tuple(name for name in list_set(options) if name not in known)


def _known(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _plain_url(url: str) -> str:
    """A URL without what may be secret: user and password, query, fragment."""
    if not any(mark in url for mark in "@?#"):
        return url
    if url.endswith(f"?{_HIDDEN}") and not any(mark in url for mark in "@#"):
        return url  # as it was written: what was hidden before stays the same
    from urllib.parse import urlsplit  # late: few sessions have such a server

    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}?{_HIDDEN}"


def _show(value: "SessionOptions | AgentMcpServer") -> str:
    """A text for people and tracebacks, without secrets and without what is not set."""
    usual = {"AgentMcpServer": _NO_SERVER}.get(type(value).__name__, _UNSET)
    fields = [
        f"{name}={part!r}" for name, part in asdict(value).items() if part != getattr(usual, name)
    ]
    return f"{type(value).__name__}({', '.join(fields)})"


_HIDDEN = "…"
_UNSET = SessionOptions()
_NO_SERVER = AgentMcpServer(name="")
_NAMES = SessionOptions.__struct_fields__
