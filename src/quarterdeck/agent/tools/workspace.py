"""What the tools of one session share: the system, the files they have seen, their options."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from msgspec import Struct, field

from quarterdeck.config.schema import ToolSettings
from quarterdeck.policy.call import Access, Call, PathUse, path_use
from quarterdeck.policy.modes import Containment
from quarterdeck.system.api import FileIdentity, System, Terminals
from quarterdeck.system.errors import OperatingSystemError
from quarterdeck.wire.tool_calls import ToolKind

if TYPE_CHECKING:
    from .live_call import ChildAgents

__all__ = ["SeenFiles", "ToolOptions", "ToolWorkspace"]

_DEFAULTS = ToolSettings()
_Kept = TypeVar("_Kept")


class ToolOptions(Struct, frozen=True, kw_only=True):
    """The limits of the tools; from the configuration."""

    bash_timeout: float = _DEFAULTS.bash.timeout
    """Seconds a command may run when the model names no time."""
    bash_max_timeout: float = 600.0
    """The longest time that the model may name."""
    output_bytes: int = _DEFAULTS.output_bytes
    """Bytes of one command's output that are sent to the model: head and tail together."""
    fetch_timeout: float = _DEFAULTS.fetch.timeout
    fetch_bytes: int = 5_000_000
    fetch_allow_private: bool = _DEFAULTS.fetch.allow_private
    """Let ``fetch`` reach loopback and private addresses."""


class SeenFiles:
    """Which content of which file the model has seen, and one lock for each file.

    A file may be changed only as it was seen; calls of one step that change the same file take
    turns.
    """

    def __init__(self) -> None:
        self._seen: dict[str, FileIdentity] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def unseen(self) -> "SeenFiles":
        """The same locks for another model, which has seen nothing yet."""
        other = SeenFiles()
        other._locks = self._locks
        return other

    def note(self, real_path: str, identity: FileIdentity) -> None:
        """Remember what was read or written."""
        self._seen[real_path] = identity

    def get(self, real_path: str) -> FileIdentity | None:
        """What was seen last, or None."""
        return self._seen.get(real_path)

    def lock(self, real_path: str) -> asyncio.Lock:
        """The lock of a file."""
        return self._locks[real_path]


class ToolWorkspace(Struct, kw_only=True, eq=False):
    """Where a session's tools work."""

    system: System
    contain: Callable[[Containment], Terminals] | None = None
    """Gives the terminals of a containment; None: the system knows of none."""
    home: str = ""
    """The directory for ``~``."""
    project: str | None = None
    session: str = ""
    options: ToolOptions = field(default_factory=ToolOptions)
    seen: SeenFiles = field(default_factory=SeenFiles)
    may_read: Callable[[str], bool] = lambda _: True
    """Whether a file below a searched directory may be looked into; asked in any thread."""
    make_children: "Callable[[], ChildAgents] | None" = None
    """Makes what starts agents for this session; None: it may start none."""
    children: "ChildAgents | None" = None
    """The agents that this session has started; None: none yet. Closed with the session."""
    _kept: dict[type[object], object] = field(default_factory=dict[type[object], object])

    @property
    def cwd(self) -> str:
        """The working directory."""
        return self.system.roots[0]

    def terminals(self, containment: Containment) -> Terminals:
        """Where a command runs that was permitted so.

        Raises:
            OperatingSystemError: It has to be contained, and there is nothing to do it with.
        """
        if self.contain is not None:
            return self.contain(containment)
        if containment != "none":
            raise OperatingSystemError(
                "The command must run in a sandbox, and none is available here."
            )
        return self.system.terminals

    def get_children(self) -> "ChildAgents | None":
        """What starts agents for this session, made when first asked for; None: it may not."""
        if self.children is None and self.make_children is not None:
            self.children = self.make_children()
        return self.children

    def keep(self, resource: object) -> None:
        """Keep what a tool needs between calls; closed with the session if it has ``close``."""
        self._kept[type(resource)] = resource

    def find_kept(self, kind: type[_Kept]) -> _Kept | None:
        """What is kept of that class, or None."""
        return cast("_Kept | None", self._kept.get(kind))

    def get_kept(self, kind: type[_Kept]) -> _Kept:
        """What is kept of that class; made when first asked for."""
        if (found := self.find_kept(kind)) is None:
            found = kind()
            self.keep(found)
        return found

    def call(
        self,
        tool: str,
        kind: ToolKind,
        *,
        paths: tuple[PathUse, ...] = (),
        command: str | None = None,
        cwd: str | None = None,
        urls: tuple[str, ...] = (),
    ) -> Call:
        """Describe a call to the policy, with this workspace's facts."""
        return Call(
            tool=tool,
            kind=kind,
            paths=paths,
            command=command,
            cwd=cwd or self.cwd,
            urls=urls,
            roots=self.system.roots,
            home=self.home,
            project=self.project,
            session=self.session,
            agent="native",
        )

    def path(self, path: str, access: Access, resolved: str | None = None) -> PathUse:
        """Describe a path to the policy; ``resolved`` is where symlinks lead."""
        return path_use(path, access, cwd=self.cwd, home=self.home, resolved=resolved)

    async def close(self) -> None:
        """Free what tools keep."""
        children, self.children = self.children, None
        for resource in (children, *self._kept.values()):
            if (close := getattr(resource, "close", None)) is not None:
                await close()
        self._kept.clear()
