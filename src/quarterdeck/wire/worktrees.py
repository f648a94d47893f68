"""Worktrees of agents, what agents changed in them, and remarks about it, as values."""

from typing import Literal, TypeAlias

from .ids import MessageId, SessionId
from .values import Value

__all__ = [
    "ChangeCounts",
    "CommandPurpose",
    "ConflictFile",
    "ConflictKind",
    "LandingMethod",
    "LandingStage",
    "ReleaseKind",
    "ReviewComment",
    "ReviewCommentState",
    "ReviewMark",
    "Worktree",
    "WorktreeOptions",
]

ReleaseKind: TypeAlias = Literal["removed", "discarded", "missing"]
"""Removed with nothing in it that is not on the branch; discarded with all of it in the trash;
or found to be gone."""
CommandPurpose: TypeAlias = Literal["setup", "teardown", "check"]
ConflictKind: TypeAlias = Literal["text", "symbol", "file"]
"""Git cannot merge it; both change the same top-level symbol; both change the same file."""
LandingMethod: TypeAlias = Literal["merge", "squash", "rebase"]
LandingStage: TypeAlias = Literal["refused", "conflict", "check"]
"""Where a landing failed: before anything was tried, at the merge, or at the check command."""
ReviewCommentState: TypeAlias = Literal["open", "sent", "resolved", "dropped"]
ReviewMark: TypeAlias = Literal["viewed", "accepted", "rejected", "none"]


class WorktreeOptions(Value, frozen=True, kw_only=True):
    """A git worktree for a session: a new one, or one that exists."""

    name: str | None = None
    """Of its directory and branch; None: the agent's. The name of one that exists: that one."""
    base: str | None = None
    """A branch, tag or commit to start from; None: what is checked out in ``cwd``."""
    path: str | None = None
    """An existing worktree to work in, absolute, or by its name or an agent in it; nothing is
    created then."""
    carry: bool = False
    """Take along what is not committed in ``cwd``."""
    is_off: bool = False
    """Work in ``cwd`` itself, whatever the settings say."""


class Worktree(Value, frozen=True, kw_only=True):
    """A git worktree in which a session works."""

    path: str
    """Its top directory, absolute and real."""
    repository: str
    """The top of the checkout that it was made from; where landing goes."""
    base: str
    """The commit that it started from."""
    base_ref: str | None = None
    """The branch that the base was the tip of; None: a commit without one."""
    branch: str | None = None
    """The branch that is checked out in it, such as ``quarterdeck/docs``; None: none is."""
    start: str | None = None
    """The tree from which the agent's changes count, where that is not the base's: with what was
    carried along."""
    is_adopted: bool = False
    """It existed before; it is never removed by a policy."""


class ChangeCounts(Value, frozen=True, kw_only=True):
    """How much an agent has changed since its base."""

    files: int = 0
    added: int = 0
    """Lines; those of binary files do not count."""
    removed: int = 0
    ahead: int = 0
    """Commits on its branch that the base has not."""
    behind: int = 0
    """Commits that the base's branch has gained since."""
    is_dirty: bool = False
    """Something is not committed."""


class ConflictFile(Value, frozen=True, kw_only=True):
    """A file that two agents change."""

    path: str
    """For people: bytes that are no text are escaped."""
    kind: ConflictKind
    symbols: tuple[str, ...] = ()
    """Functions and classes at the top level that both change."""


class ReviewComment(Value, frozen=True, kw_only=True):
    """A remark about lines that an agent wrote."""

    id: str
    path: str
    line: int
    """Counted from 1 in the new file, or in the old one with ``is_old``."""
    end_line: int | None = None
    """The last line of a range; None: the one line."""
    text: str
    quote: str = ""
    """The lines as they were when the remark was made."""
    is_old: bool = False
    """It is about removed lines."""
    state: ReviewCommentState = "open"
    author: SessionId | None = None
    """The agent that made it; None: a person."""
    message: MessageId | None = None
    """The prompt that it was sent with."""
    content: str = ""
    """Names the file's content that the lines are counted in."""
