"""A landing computed as commits: merge, squash or rebase, without a checkout and without changing
a reference. Everything here blocks.
"""

from msgspec import Struct

from quarterdeck.system.git.command import GitIdentity
from quarterdeck.system.git.repository import GitRepository
from quarterdeck.wire.worktrees import LandingMethod

from ..errors import LandingRefusedError
from .commit import CommitFields, read_commits, read_tree, write_commit
from .index_merge import MergeConflict, MergedTree
from .merge import empty_tree, merge_commits, merge_with_base
from .work import AgentWork, LandedWork, is_ancestor, write_rest

__all__ = ["LandingPlan", "plan_landing"]


class LandingPlan(Struct, frozen=True, kw_only=True):
    """What a landing would make of a branch."""

    method: LandingMethod
    before: str
    """What the branch points at."""
    commit: str
    """What it would point at; the same: there is nothing to land."""
    tree: str
    rest: str | None = None
    """The commit with what the agent has not committed; it goes on the agent's branch too. None in
    a worktree that the person made."""
    conflicts: tuple[MergeConflict, ...] = ()
    """Files that cannot be merged; the branch would then stay as it is."""
    conflict_tree: str = ""
    """The merge with conflict markers in its files."""
    stopped_at: str = ""
    """The subject of the commit that could not be moved, in a rebase."""

    @property
    def is_empty(self) -> bool:
        """Whether the branch has all of the work already."""
        return self.commit == self.before and not self.conflicts


def plan_landing(
    work: AgentWork,
    tip: str,
    method: LandingMethod,
    message: bytes,
    *,
    repository: GitRepository,
    identity: GitIdentity,
    landed: LandedWork | None = None,
) -> LandingPlan:
    """Compute the landing of an agent's work on a commit.

    Args:
        work: what the agent has done.
        tip: the commit to land on.
        method: how.
        message: of the commit that is made: the squashed one, the merge, and what the agent has
            not committed.
        repository: the checkout whose attributes say how files are merged.
        identity: who commits.
        landed: what was landed there before; that is not landed again.

    Raises:
        LandingRefusedError: the method does not fit the work.
        GitError: it cannot be computed.
    """
    planner = _Planner(repository, work, tip, message, identity, landed)
    if method == "squash":
        return planner.squash()
    if work.start is not None:
        raise LandingRefusedError(
            f"{method} would also land uncommitted changes that were carried into "
            f"{work.repository.top!r}; use the method squash, which lands the agent's changes only"
        )
    return planner.merge() if method == "merge" else planner.rebase()


class _Planner:
    """One landing."""

    def __init__(
        self,
        repository: GitRepository,
        work: AgentWork,
        tip: str,
        message: bytes,
        identity: GitIdentity,
        landed: LandedWork | None,
    ) -> None:
        self._repository = repository
        self._work = work
        self._tip = tip
        self._message = message
        self._identity = identity
        self._landed = landed
        self._tip_tree = read_tree(repository, tip)

    def squash(self) -> LandingPlan:
        """One commit with all changes."""
        start = self._landed.tree if self._landed is not None else self._work.start
        if start is not None:
            merged = merge_with_base(self._repository, start, self._tip_tree, self._work.tree)
        else:
            merged = merge_commits(self._repository, self._tip, self._rest())
        if merged.conflicts:
            return self._conflict("squash", merged)
        if merged.tree == self._tip_tree:
            return self._nothing("squash")
        commit = self._commit(merged.tree, self._tip)
        return LandingPlan(method="squash", before=self._tip, commit=commit, tree=merged.tree)

    def merge(self) -> LandingPlan:
        """A merge commit, also where the branch could be moved forward."""
        if self._is_landed:
            return self._nothing("merge")
        theirs = self._rest()
        if is_ancestor(self._repository, theirs, self._tip):
            return self._nothing("merge")
        merged = self._merge_with_tip(theirs)
        if merged.conflicts:
            return self._conflict("merge", merged)
        commit = self._commit(merged.tree, self._tip, theirs)
        return LandingPlan(
            method="merge",
            before=self._tip,
            commit=commit,
            tree=merged.tree,
            rest=theirs if self._commits_rest else None,
        )

    def rebase(self) -> LandingPlan:
        """Each commit once more on top of the branch, with its author and message."""
        if self._is_landed:
            return self._nothing("rebase")
        tip_of_work = self._rest()
        commit, tree = self._tip, self._tip_tree
        for one in self._list_commits(tip_of_work):
            if one.parents == (commit,):
                commit, tree = one.id, one.tree  # it is where it should be already
                continue
            base = self._parent_tree(one)
            merged = merge_with_base(self._repository, base, tree, one.tree)
            if merged.conflicts:
                return self._conflict("rebase", merged, one.subject)
            if merged.tree == tree and one.tree != base:
                continue  # the branch has this change
            commit = self._copy(one, merged.tree, commit)
            tree = merged.tree
        rest = tip_of_work if self._commits_rest and commit != self._tip else None
        return LandingPlan(method="rebase", before=self._tip, commit=commit, tree=tree, rest=rest)

    @property
    def _commits_rest(self) -> bool:
        """Whether the agent's branch gets what is not committed."""
        return self._work.is_dirty and not self._work.is_adopted

    @property
    def _is_landed(self) -> bool:
        """Whether nothing has changed since the last landing, though it is not committed."""
        landed, work = self._landed, self._work
        return landed is not None and (landed.head, landed.tree) == (work.head, work.tree)

    def _merge_with_tip(self, theirs: str) -> MergedTree:
        """What was squashed before is in no commit of both, and must not conflict with itself."""
        landed = self._landed
        if landed is None or self._has_commit_of(landed):
            return merge_commits(self._repository, self._tip, theirs)
        return merge_with_base(self._repository, landed.tree, self._tip_tree, self._work.tree)

    def _has_commit_of(self, landed: LandedWork) -> bool:
        return read_tree(self._repository, landed.head) == landed.tree and is_ancestor(
            self._repository, landed.head, self._tip
        )

    def _list_commits(self, last: str) -> list[CommitFields]:
        """What the branch does not have, oldest first, without merges."""
        words = ["rev-list", "--reverse", "--topo-order", "--no-merges"]
        if self._landed is not None and is_ancestor(self._repository, self._landed.head, last):
            words += [last, f"^{self._landed.head}", f"^{self._tip}"]
        else:
            words += ["--cherry-pick", "--right-only", f"{self._tip}...{last}"]
        ids = self._repository.ask(words, seconds=60.0).data.decode().split()
        return read_commits(self._repository, ids)

    def _parent_tree(self, commit: CommitFields) -> str:
        if not commit.parents:
            return empty_tree(self._repository)
        if self._landed is not None and commit.parents[0] == self._landed.head:
            return self._landed.tree  # with what was not committed then
        return read_tree(self._repository, commit.parents[0])

    def _rest(self) -> str:
        return write_rest(self._work, self._message, self._identity)

    def _commit(self, tree: str, *parents: str) -> str:
        return write_commit(self._repository, tree, parents, self._message, identity=self._identity)

    def _copy(self, one: CommitFields, tree: str, parent: str) -> str:
        return write_commit(
            self._repository,
            tree,
            (parent,),
            one.message,
            identity=self._identity,
            author=one.author,
            encoding=one.encoding,
        )

    def _nothing(self, method: LandingMethod) -> LandingPlan:
        return LandingPlan(method=method, before=self._tip, commit=self._tip, tree=self._tip_tree)

    def _conflict(
        self, method: LandingMethod, merged: MergedTree, stopped_at: str = ""
    ) -> LandingPlan:
        return LandingPlan(
            method=method,
            before=self._tip,
            commit=self._tip,
            tree=self._tip_tree,
            conflicts=merged.conflicts,
            conflict_tree=merged.tree,
            stopped_at=stopped_at,
        )
