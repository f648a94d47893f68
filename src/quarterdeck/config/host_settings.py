"""Settings of hosts: of the one on this machine, and of those on others."""

from quarterdeck.wire.values import Value

from .setting_types import Days, Gigabytes, HostUrl, Minutes

__all__ = ["HostSettings", "RemoteHostSettings"]


class HostSettings(Value, frozen=True, kw_only=True):
    """The process that owns the agents. It reads these when it starts, from your own file alone."""

    idle_minutes: Minutes = 15.0
    """A host without clients, agents and terminals exits after this time; 0: never."""
    resume_agents: bool = False
    """Whether agents that ran when the host was killed are resumed automatically."""
    resume_plans: bool = False
    """Whether runs of plans whose process ended early go on when the host starts."""
    session_days: Days | None = None
    """Sessions unused for so many days are deleted, not pinned or open ones. Unset or 0: never."""
    session_size: Gigabytes | None = None
    """If all sessions are larger, the longest unused of them are deleted. Unset: no limit."""


class RemoteHostSettings(Value, frozen=True, kw_only=True):
    """A host on another machine, for ``--host``; your own file alone counts."""

    url: HostUrl | None = None
    """Where it is: ``ssh://[user@]host[:port][/directory]``. What ssh knows of that host counts."""
    directory: str | None = None
    """The directory there in which relative paths begin. Unset: that of the URL, or else the home
    directory."""
    program: str = "quarterdeck"
    """The program there: a name on its PATH, or a path, which may begin with ``~/``."""
