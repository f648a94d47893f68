"""Events about a session's worktree: its life, what was changed in it, review and landing.

Part of ``events``, and imported from there. A fleet writes them, between turns or within them.
"""

from typing import TypeAlias

from .ids import SessionId
from .values import Value
from .worktrees import (
    ChangeCounts,
    CommandPurpose,
    ConflictFile,
    LandingMethod,
    LandingStage,
    ReleaseKind,
    ReviewComment,
    ReviewMark,
    Worktree,
)

__all__ = [
    "ChangesCounted",
    "ChangesLanded",
    "CommandRan",
    "ConflictChanged",
    "LandingFailed",
    "ReviewCommented",
    "ReviewMarked",
    "WorktreeAssigned",
    "WorktreeEvent",
    "WorktreeReleased",
]


class WorktreeAssigned(Value, frozen=True, kw_only=True, tag_field="type", tag="worktree_assigned"):
    """The session works in a worktree; after ``SessionSpawned``, again when it was recreated."""

    worktree: Worktree
    includes: tuple[str, ...] = ()
    """Ignored files that were copied into it, for people; the first of many."""


class WorktreeReleased(Value, frozen=True, kw_only=True, tag_field="type", tag="worktree_released"):
    """The session's worktree is gone; once after each ``WorktreeAssigned``, or never."""

    path: str
    how: ReleaseKind
    branch: str | None = None
    """The branch, if it was kept."""
    trash: str | None = None
    """The reference under which everything is kept."""


class CommandRan(Value, frozen=True, kw_only=True, tag_field="type", tag="command_ran"):
    """A command of the project's settings ran for the session; when it has ended."""

    purpose: CommandPurpose
    command: str
    exit_code: int | None = None
    """None: it was ended, by a signal or because it took too long."""
    output: str = ""
    """Its last lines, both streams."""
    seconds: float = 0.0


class ChangesCounted(Value, frozen=True, kw_only=True, tag_field="type", tag="changes_counted"):
    """How much the session has changed by now; at any time, replaces the one before."""

    counts: ChangeCounts


class ChangesLanded(Value, frozen=True, kw_only=True, tag_field="type", tag="changes_landed"):
    """The session's work is on another branch; at any time, once for each landing."""

    into: str
    """The branch."""
    method: LandingMethod
    commit: str
    """What the branch points at now."""
    before: str
    """What it pointed at before."""
    counts: ChangeCounts = ChangeCounts()


class LandingFailed(Value, frozen=True, kw_only=True, tag_field="type", tag="landing_failed"):
    """A landing was given up, and nothing was changed by it."""

    into: str
    stage: LandingStage
    reason: str
    conflicts: tuple[str, ...] = ()
    """Files that git cannot merge, for people."""


class ConflictChanged(Value, frozen=True, kw_only=True, tag_field="type", tag="conflict_changed"):
    """What the session and another one both change; replaces the earlier event about that one."""

    other: SessionId
    files: tuple[ConflictFile, ...] = ()
    """Empty: no conflict any more."""
    new_paths: tuple[str, ...] = ()
    """Those of the files that the two never shared before, which a person is notified of; in the
    session whose change brought them about, and in no later event of the two."""


class ReviewCommented(Value, frozen=True, kw_only=True, tag_field="type", tag="review_commented"):
    """A remark about the session's changes; the same id again replaces it."""

    comment: ReviewComment


class ReviewMarked(Value, frozen=True, kw_only=True, tag_field="type", tag="review_marked"):
    """A reviewer has marked a file; replaces the same mark of it, and ``none`` all of them."""

    path: str
    mark: ReviewMark
    content: str = ""
    """Names the file and what it was then, or what of it is accepted; another content is unseen."""


WorktreeEvent: TypeAlias = (
    WorktreeAssigned
    | WorktreeReleased
    | CommandRan
    | ChangesCounted
    | ChangesLanded
    | LandingFailed
    | ConflictChanged
    | ReviewCommented
    | ReviewMarked
)
"""What a fleet records about a session's files; none of it comes from the agent."""
