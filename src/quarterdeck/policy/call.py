"""A call as the policy sees it: what is to be decided, and nothing else.

A call is looked up before it is decided (``lookup.look_up``): where paths lead, what file
patterns match, which files programs are. Nothing here touches a disk. ``doubts``
holds what could not be read with certainty. A call with a doubt is asked about, unless a rule
covers its whole tool (``bash``, ``edit``, ``*``).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

from msgspec import Struct, field

from quarterdeck.wire.tool_calls import ToolKind

from .paths import absolute

__all__ = ["Access", "Call", "McpTool", "PathUse", "path_use"]

Access: TypeAlias = Literal["read", "write"]


def _no_links() -> Mapping[str, str]:
    return MappingProxyType({})


def _no_matches() -> Mapping[str, tuple[tuple[str, str], ...] | None]:
    return MappingProxyType({})


class PathUse(Struct, frozen=True, kw_only=True):
    """A path that a call works on; absolute and without ``..``."""

    path: str
    """As the caller gave it, made absolute."""
    resolved: str
    """Where it leads after symbolic links; equal to ``path`` when there are none."""
    access: Access


class McpTool(Struct, frozen=True, kw_only=True):
    """A tool of an MCP server."""

    server: str
    tool: str
    only_reads: bool = False
    """A server that the person trusts says that this tool changes nothing."""


class Call(Struct, frozen=True, kw_only=True, eq=False):
    """A tool call that needs a decision.

    Two are equal when the same is called; what was found on the disk for them does not count.
    """

    tool: str
    """The tool's name as its agent knows it."""
    kind: ToolKind = "other"
    command: str | None = None
    """The command line, where a shell will read it."""
    cwd: str = "/"
    """Where the command runs and relative paths begin; absolute."""
    paths: tuple[PathUse, ...] = ()
    urls: tuple[str, ...] = ()
    mcp: McpTool | None = None
    roots: tuple[str, ...] = ()
    """The workspace: absolute directories. The first is the project's root."""
    home: str = ""
    """The directory for ``~``; empty: unknown."""
    project: str | None = None
    """The project's identity; grants for a project hold for an equal one only."""
    session: str | None = None
    leads: tuple[str, ...] = ()
    """The live sessions that lead this one, itself included; grants for a tree hold below them."""
    agent: str | None = None
    doubts: tuple[str, ...] = ()
    """What could not be read with certainty."""
    is_partial: bool = False
    """What is not known of it may be anything: a rule that denies something may hold for that."""
    wider: tuple[str, ...] = ()
    """What else a permission for it would grant, such as the network or a wider sandbox. No rule
    covers that: it is asked about."""
    links: Mapping[str, str] = field(default_factory=_no_links)
    """Real paths of those that ``mentions`` named, by their text; where they differ, and for every
    text with ``..`` in it."""
    matches: Mapping[str, tuple[tuple[str, str], ...] | None] = field(default_factory=_no_matches)
    """What the file patterns that ``mentions`` named match: paths and real paths. None: too much
    to look at."""
    directories: frozenset[str] = frozenset()
    """Those of the paths that ``mentions`` named which are directories, by their text."""
    programs: Mapping[str, str] | None = None
    """The files that ``PATH`` finds for the names of programs; a name that is not here is no known
    program. None: they were not looked up, and then no program is known."""
    globs: tuple[str, ...] = ()
    """Patterns of files that it also reads below ``paths``, as a search's ``glob`` or ``include``;
    ``**`` for all. Deny and ask rules look at them."""
    holds_protected: bool = False
    """What it deletes or moves has a protected file in it, as found on the disk."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Call):
            return NotImplemented
        return self._called() == other._called()

    def __hash__(self) -> int:
        return hash(self._called())

    def _called(self) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in self.__struct_fields__ if name not in _FOUND])

    @property
    def project_root(self) -> str:
        """The directory that relative path rules begin at."""
        return self.roots[0] if self.roots else self.cwd


_FOUND = frozenset({"links", "matches", "directories", "programs"})
"""What is looked up for a call."""


def path_use(
    path: str, access: Access, *, cwd: str, home: str = "", resolved: str | None = None
) -> PathUse:
    """Make a ``PathUse`` from a path as a tool gives it: relative to ``cwd``, or with ``~/``."""
    given = absolute(path, cwd=cwd, home=home)
    real = given if resolved is None else absolute(resolved, cwd=cwd)
    return PathUse(path=given, resolved=real, access=access)
