"""The work of an agent as commits: what is on its branch and what is not committed yet.

Nothing in the agent's worktree is touched: files, index and branch stay as they are. Everything
here blocks.
"""

import hashlib
from pathlib import Path

from msgspec import Struct

from quarterdeck.agent.checkpoints.file_state import path_line
from quarterdeck.system.git.command import GitIdentity
from quarterdeck.system.git.references import BRANCHES, OWN_REFERENCES, read_reference
from quarterdeck.system.git.repository import GitRepository
from quarterdeck.system.git.tree_snapshot import TreeRecorder
from quarterdeck.system.git.worktree import open_worktree
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.worktrees import Worktree

from ..errors import LandingRefusedError
from .checkout import find_checkouts
from .commit import read_commits, read_tree, write_commit
from .tree_change import diff_trees, list_filtered

__all__ = [
    "AgentWork",
    "LandedWork",
    "is_ancestor",
    "landed_reference",
    "read_landed",
    "record_work",
    "write_rest",
]

_MOST_NAMED = 5


class AgentWork(Struct, frozen=True, kw_only=True):
    """What an agent has done by now."""

    repository: GitRepository
    """Its worktree."""
    head: str
    """The commit that is checked out there."""
    head_tree: str
    branch: str | None
    """The whole name of its branch; None: no branch is checked out."""
    tree: str
    """All its files, committed, uncommitted and untracked; its objects are in the repository."""
    start: str | None = None
    """The tree with changes of the person that were carried along, if there were some."""
    is_adopted: bool = False
    """The person made the worktree: its branch and index are not moved."""
    repositories: tuple[bytes, ...] = ()
    """Repositories within, of which ``tree`` has nothing."""

    @property
    def is_dirty(self) -> bool:
        """Whether something is not committed."""
        return self.tree != self.head_tree


def record_work(worktree: Worktree, directory: Path) -> AgentWork:
    """Write down what is in a worktree; ``directory`` is for a private index.

    Raises:
        LandingRefusedError: it is gone, has no commit, or has uncommitted files behind a filter.
        GitError: it cannot be read.
    """
    if not Path(worktree.path).is_dir():
        raise LandingRefusedError(
            f"the worktree {worktree.path!r} is missing; recreate it from its branch first"
        )
    repository = open_worktree(worktree.path, worktree.repository)
    head = read_reference(repository, "HEAD")
    if head is None:
        raise LandingRefusedError(f"{worktree.path!r} has no commit yet, so nothing can be landed")
    branch = _find_own_branch(repository)
    recorder = TreeRecorder(repository, directory, borrows=False)
    tree = recorder.take()
    work = AgentWork(
        repository=repository,
        head=head,
        head_tree=read_tree(repository, head),
        branch=branch,
        tree=tree,
        start=worktree.start,
        is_adopted=worktree.is_adopted,
        repositories=recorder.repositories,
    )
    _expect_unfiltered(work)
    return work


def _find_own_branch(repository: GitRepository) -> str | None:
    """The branch that is checked out in a worktree; it gets what is not committed.

    Git checks out a branch only once, but whoever works there can write to HEAD.

    Raises:
        LandingRefusedError: it is checked out elsewhere too, where its files would not follow.
    """
    branch = repository.head[5:] if repository.is_on_branch else None
    if branch is None or not branch.startswith(BRANCHES):
        return None
    for one in find_checkouts(repository, branch):
        if one.git_dir != repository.git_dir:
            raise LandingRefusedError(
                f"the branch {branch.removeprefix(BRANCHES)!r} of {repository.top!r} is checked "
                f"out in {one.top!r} too; check out another branch in the worktree"
            )
    return branch


def _expect_unfiltered(work: AgentWork) -> None:
    """Filters never run here, so that a file behind one would be committed as it must not be."""
    if not work.is_dirty:
        return
    changes = diff_trees(work.repository, work.head_tree, work.tree)
    paths = [one.path for one in changes if not one.is_removed]
    if found := list_filtered(work.repository, paths):
        names = ", ".join(path_line(path) for path in found[:_MOST_NAMED])
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        raise LandingRefusedError(
            f"uncommitted files are behind a git filter such as LFS, which is not run: {names}"
            f"{more}; commit them with git in {work.repository.top!r}"
        )


def write_rest(work: AgentWork, message: bytes, identity: GitIdentity) -> str:
    """The commit with all of the work: its last one, or one more on top. Raises GitError."""
    if not work.is_dirty:
        return work.head
    return write_commit(work.repository, work.tree, (work.head,), message, identity=identity)


def landed_reference(session: SessionId, into: str) -> str:
    """The reference that remembers what of a session was landed last on a branch."""
    key = hashlib.blake2b(into.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    return f"{OWN_REFERENCES}landed/{session}/{key}"


class LandedWork(Struct, frozen=True, kw_only=True):
    """What of a session was landed last."""

    tree: str
    """The agent's files then."""
    result: str
    """What the branch pointed at afterwards."""
    head: str
    """The agent's last commit then."""


def read_landed(repository: GitRepository, session: SessionId, into: str) -> LandedWork | None:
    """What was landed last on a branch, if the branch still has it. Raises GitError."""
    found = read_reference(repository, landed_reference(session, into))
    if found is None:
        return None
    (mark,) = read_commits(repository, (found,))
    if len(mark.parents) != 2 or not is_ancestor(repository, mark.parents[0], into):
        return None
    return LandedWork(tree=mark.tree, result=mark.parents[0], head=mark.parents[1])


def is_ancestor(repository: GitRepository, old: str, new: str) -> bool:
    """Whether one commit is the other, or in its history. Raises GitError."""
    words = ("merge-base", "--is-ancestor", old, new)
    return repository.ask(words, accepted=(0, 1)).code == 0
