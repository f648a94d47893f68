"""Rules: what a person allows, wants to be asked about, or forbids.

A rule is an effect and a pattern. ``grammar`` reads and prints them, ``matching`` compares them
with a call. A repository cannot give itself permissions: until a person trusts a workspace, what
its files allow has no effect; what they deny or ask about can only narrow, and holds.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from .call import Access
from .domains import HostPattern
from .modes import SCOPES, Effect, Scope

__all__ = [
    "SCOPES",
    "AnyCall",
    "Effect",
    "FetchPattern",
    "McpPattern",
    "NamedTool",
    "Origin",
    "PathPattern",
    "Pattern",
    "Rule",
    "RuleSource",
    "Scope",
    "ShellPattern",
    "trusted_rules",
]

Origin: TypeAlias = Literal["flag", "user file", "project file", "grant", "built-in"]
"""Where a rule was written. Only ``project file`` comes with a repository."""


class AnyCall(Struct, frozen=True, kw_only=True):
    """``*``: every call."""


class ShellPattern(Struct, frozen=True, kw_only=True):
    """``bash``, ``bash(git status)``, ``bash(git log:*)``: commands of a shell.

    Without words every command line. An allow rule means exactly these words, and with
    ``open_ended`` also more after them; a deny or ask rule is always open ended.
    """

    words: tuple[str, ...] = ()
    open_ended: bool = False


class PathPattern(Struct, frozen=True, kw_only=True):
    """``read(…)`` and ``edit(…)``: files, by a pattern as in ``paths``; None is every file."""

    access: Access
    glob: str | None = None


class FetchPattern(Struct, frozen=True, kw_only=True):
    """``fetch(…)``: what is got from the network; without a host all of it."""

    host: HostPattern | None = None


class McpPattern(Struct, frozen=True, kw_only=True):
    """``mcp(server:tool)``: a tool of an MCP server, all of its tools, or all servers."""

    server: str | None = None
    tool: str | None = None


class NamedTool(Struct, frozen=True, kw_only=True):
    """``tool(TodoWrite)``: a tool of any other sort, by the name its agent gives it."""

    name: str


Pattern: TypeAlias = AnyCall | ShellPattern | PathPattern | FetchPattern | McpPattern | NamedTool


class RuleSource(Struct, frozen=True, kw_only=True):
    """Where a rule came from: a file's name, a flag, a grant's id."""

    origin: Origin = "user file"
    where: str = ""
    is_counted: bool = False
    """A grant for so many calls: each that it allows is counted."""


class Rule(Struct, frozen=True, kw_only=True, eq=False):
    """An effect on all that a pattern means, within a scope; equal wherever it was written."""

    effect: Effect
    pattern: Pattern
    scope: Scope = "user"
    source: RuleSource = RuleSource()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rule):
            return NotImplemented
        return self._meaning() == other._meaning()

    def __hash__(self) -> int:
        return hash(self._meaning())

    def _meaning(self) -> tuple[Effect, Pattern, Scope]:
        return self.effect, self.pattern, self.scope


def trusted_rules(rules: Iterable[Rule], trusted: bool) -> Iterator[Rule]:
    """Yield the rules that have an effect."""
    for rule in rules:
        if trusted or rule.effect != "allow" or rule.source.origin != "project file":
            yield rule
