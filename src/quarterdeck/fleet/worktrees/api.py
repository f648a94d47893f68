"""The part of the fleet's API that is about worktrees."""

from typing import Protocol

from msgspec import Struct

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.worktrees import Worktree

from ..method import fleet_method

__all__ = ["FleetWorktrees", "TrashedWorktree", "WorktreeInfo", "WorktreeOutcome"]


class WorktreeInfo(Struct, frozen=True, kw_only=True):
    """A worktree as the fleet knows it."""

    name: str
    worktree: Worktree
    agents: tuple[str, ...] = ()
    """The names of the agents that work in it, archived ones too."""
    sessions: tuple[SessionId, ...] = ()
    """Theirs, in the same order."""
    is_live: bool = False
    """One of them is live."""
    branch: str | None = None
    """What is checked out now."""
    ahead: int = 0
    behind: int = 0
    is_dirty: bool = False
    is_landed: bool = False
    """All of it has landed as it is now, also what is not committed."""
    repositories: tuple[str, ...] = ()
    """Repositories within that are not covered: their files are neither shown nor landed."""
    size: int | None = None
    """Bytes on disk; None: not measured."""
    last_active: int = 0
    """Microseconds since the epoch."""
    problem: str | None = None
    """Why it cannot be used, such as that it is gone; None: it can."""


class TrashedWorktree(Struct, frozen=True, kw_only=True):
    """A worktree that was discarded and can be restored."""

    id: str
    name: str
    worktree: Worktree
    reference: str
    commit: str
    agents: tuple[str, ...] = ()
    discarded: int = 0
    """Microseconds since the epoch, as all times."""
    expires: int = 0


class WorktreeOutcome(Struct, frozen=True, kw_only=True):
    """What was done with a worktree."""

    name: str
    worktree: Worktree
    branch: str | None = None
    """The branch, if there is one still."""
    trash: str | None = None
    """The id in the trash, if it was discarded."""


class FleetWorktrees(Protocol):
    """Worktrees, by name, by path, or by the name or id of an agent that works there."""

    @fleet_method()
    async def worktrees(
        self, *, repository: str | None = None, measure: bool = False
    ) -> list[WorktreeInfo]:
        """The worktrees of agents, the latest used first.

        ``repository``: a directory; only those of the repository around it. ``measure``: also how
        much space each takes, which may take a while.
        """
        ...

    @fleet_method(changes=True)
    async def remove_worktree(self, worktree: str, *, keep_branch: bool = False) -> WorktreeOutcome:
        """Remove a worktree in which nothing would be lost.

        Its branch stays if it has commits that are on no other, or with ``keep_branch``.

        Raises:
            NoSuchWorktreeError: there is none.
            AgentNotReadyError: an agent is live in it.
            WorktreeError: something is not committed, or it was adopted.
        """
        ...

    @fleet_method(changes=True)
    async def discard_worktree(self, worktree: str) -> WorktreeOutcome:
        """Put everything in a worktree into the trash, and remove it with its branch.

        Raises as ``remove_worktree``.
        """
        ...

    @fleet_method()
    async def trash(self) -> list[TrashedWorktree]:
        """What was discarded and can be restored, newest first."""
        ...

    @fleet_method(changes=True)
    async def restore_worktree(self, trashed: str) -> WorktreeOutcome:
        """Make a discarded worktree again, by its id in the trash, its name or its agent's.

        Raises:
            NoSuchWorktreeError: there is none in the trash.
            WorktreeError: its place is taken.
        """
        ...

    @fleet_method(changes=True)
    async def recreate_worktree(self, agent: str) -> WorktreeOutcome:
        """Make the worktree of an agent again that is gone, from its branch.

        Raises:
            AgentNotReadyError: it is there, was discarded, or the agent never had one.
        """
        ...

    @fleet_method(changes=True)
    async def prune_worktrees(self, *, dry_run: bool = False) -> list[WorktreeOutcome]:
        """Remove the worktrees that the settings no longer keep, and empty the trash of old ones.

        ``dry_run``: only say which.
        """
        ...
