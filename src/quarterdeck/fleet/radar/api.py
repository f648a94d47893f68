"""The radar's part of the fleet's API: which agents change what others change too."""

from typing import Protocol

from msgspec import Struct

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.worktrees import ChangeCounts, ConflictFile

from ..method import fleet_method

__all__ = [
    "BaseConflict",
    "ConflictPair",
    "ConflictReport",
    "FleetRadar",
    "LandingProposal",
    "RadarAgent",
    "RepositoryConflicts",
]


class RadarAgent(Struct, frozen=True, kw_only=True):
    """An agent whose work is compared with that of others."""

    session: SessionId
    name: str
    directory: str
    """The top of its worktree, or the directory that it shares."""
    branch: str | None = None
    base: str | None = None
    """The branch that it started from."""
    changes: ChangeCounts | None = None
    """None: it shares its directory, so that its changes are not counted by themselves."""
    is_landed: bool = False
    """The base has all of its changes; they are compared with nothing any more."""


class ConflictPair(Struct, frozen=True, kw_only=True):
    """What two agents both change."""

    one: SessionId
    one_name: str
    other: SessionId
    other_name: str
    files: tuple[ConflictFile, ...]
    """Those that cannot be merged first; at most 200."""
    is_shared: bool = False
    """Both work in one directory: each has the other's changes already."""


class BaseConflict(Struct, frozen=True, kw_only=True):
    """What an agent and the branch that it started from both change."""

    session: SessionId
    name: str
    base: str
    files: tuple[ConflictFile, ...]


class LandingProposal(Struct, frozen=True, kw_only=True):
    """An agent's place in the order in which landing meets the fewest conflicts."""

    session: SessionId
    name: str
    conflicts: int
    """Files that git cannot merge, with other agents and the base together."""
    shared: int = 0
    """Further files that others change too."""


class RepositoryConflicts(Struct, frozen=True, kw_only=True):
    """The agents of one repository, or of one directory outside of any."""

    repository: str
    agents: tuple[RadarAgent, ...]
    pairs: tuple[ConflictPair, ...] = ()
    """Only those that share something."""
    against_base: tuple[BaseConflict, ...] = ()
    landing_order: tuple[LandingProposal, ...] = ()
    """Agents with changes of their own that have not landed, fewest conflicts first."""


class ConflictReport(Struct, frozen=True, kw_only=True):
    """All conflicts, as they are now."""

    repositories: tuple[RepositoryConflicts, ...] = ()
    problems: tuple[str, ...] = ()
    """What could not be compared and why, in sentences."""


class FleetRadar(Protocol):
    """Conflicts between agents, seen while they work."""

    @fleet_method()
    async def conflicts(self, cwd: str | None = None) -> ConflictReport:
        """What agents change that others change too, as the files are at this moment.

        ``cwd``: only the repository around this directory; None: all.
        """
        ...
