"""One landing: prepared from an agent's worktree, computed, and carried out.

All git is run in threads; ``Lander`` itself keeps no state.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from quarterdeck.agent.checkpoints.file_state import path_text
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.command import GitIdentity
from quarterdeck.system.git.references import (
    BRANCHES,
    ReferenceUpdate,
    is_branch_name,
    read_reference,
)
from quarterdeck.system.git.repository import (
    GitRepository,
    expect_repository,
    find_identity,
    find_repository,
)
from quarterdeck.wire.ids import SessionId, new_request_id
from quarterdeck.wire.worktrees import ChangeCounts, LandingMethod, Worktree

from ..errors import LandingRefusedError
from .api import LandingConflict, LandingFile, LandingOptions
from .checkout import BranchCheckout, find_checkouts, find_obstacle
from .commit import write_commit
from .intent import LandingIntent, LandingStepName, carry_out
from .plan import LandingPlan, plan_landing
from .tree_change import count_changes, diff_trees
from .work import AgentWork, LandedWork, landed_reference, read_landed, record_work

__all__ = ["Lander", "PreparedLanding"]

_MOST_FILES = 500
_MOST_HUNKS = 8_000
_MOST_FILE = 2_000_000


class PreparedLanding(Struct, frozen=True, kw_only=True):
    """An agent's work, and the branch that it goes to."""

    session: SessionId
    repository: GitRepository
    """The checkout that has the branch, or the agent's worktree."""
    into: str
    """The whole name of the branch."""
    tip: str
    is_new: bool
    """The branch does not exist yet; it begins at ``tip``."""
    work: AgentWork
    identity: GitIdentity
    landed: LandedWork | None
    checkout: BranchCheckout | None
    keeps_worktree: bool = False

    @property
    def branch(self) -> str:
        """The name of the branch for people."""
        return self.into.removeprefix(BRANCHES)

    @property
    def uncommitted(self) -> int:
        """How many files the agent has not committed; reads the repository."""
        if not self.work.is_dirty:
            return 0
        return len(diff_trees(self.repository, self.work.head_tree, self.work.tree))


class Lander:
    """Lands work; what it needs on disk is below ``directory``.

    ``on_step`` is called after each step of a landing, in a thread.
    """

    def __init__(
        self, directory: Path, on_step: Callable[[LandingStepName], None] = lambda _: None
    ) -> None:
        self.intents = directory / "intents"
        self._indexes = directory / "indexes"
        self._on_step = on_step

    async def prepare(
        self, session: SessionId, worktree: Worktree, options: LandingOptions
    ) -> PreparedLanding:
        """Write down the work and find the branch.

        Raises:
            LandingRefusedError: there is no such work or branch.
            GitError: something cannot be read.
        """
        return await asyncio.to_thread(self._prepare, session, worktree, options)

    def _prepare(
        self, session: SessionId, worktree: Worktree, options: LandingOptions
    ) -> PreparedLanding:
        work = record_work(worktree, self._indexes / session)
        repository = _find_target_repository(worktree, work)
        into = _find_branch(repository, worktree, options)
        if into == work.branch:
            raise LandingRefusedError(
                f"{options.into or worktree.base_ref!r} is the agent's own branch; name another"
            )
        tip = read_reference(repository, into)
        checkouts = find_checkouts(repository, into)
        if len(checkouts) > 1:
            places = " and ".join(repr(one.top) for one in checkouts)
            raise LandingRefusedError(f"the branch is checked out in {places}; check out another")
        checkout = checkouts[0] if checkouts else None
        if checkout is not None:
            repository = checkout.open()
        start = tip or read_reference(repository, f"{BRANCHES}{worktree.base_ref}")
        return PreparedLanding(
            session=session,
            repository=repository,
            into=into,
            tip=start or worktree.base,
            is_new=tip is None,
            work=work,
            identity=find_identity(repository),
            landed=read_landed(repository, session, into) if tip is not None else None,
            checkout=checkout,
            keeps_worktree=options.keep_worktree,
        )

    async def plan(
        self, landing: PreparedLanding, tip: str, method: LandingMethod, message: str
    ) -> LandingPlan:
        """Compute it on a commit, by default the branch's. Raises LandingRefusedError, GitError."""
        return await asyncio.to_thread(
            plan_landing,
            landing.work,
            tip,
            method,
            message.encode("utf-8", "replace"),
            repository=landing.repository,
            identity=landing.identity,
            landed=landing.landed,
        )

    async def execute(
        self, landing: PreparedLanding, plan: LandingPlan, counts: ChangeCounts, *, checkout: bool
    ) -> None:
        """Move the branch. Raises as ``intent.carry_out``; LandingRefusedError if its checkout
        may not be touched.
        """
        if landing.checkout is not None and not checkout:
            raise LandingRefusedError(
                f"{landing.branch!r} is checked out in {landing.checkout.top!r}; use --checkout to "
                "update the files there, or --into to land on another branch"
            )
        await asyncio.to_thread(self._execute, landing, plan, counts)

    def _execute(self, landing: PreparedLanding, plan: LandingPlan, counts: ChangeCounts) -> None:
        work = landing.work
        worktree = BranchCheckout(top=work.repository.top, git_dir=work.repository.git_dir)
        moves_branch = plan.rest is not None and work.branch is not None
        intent = LandingIntent(
            id=new_request_id(),
            session=landing.session,
            repository=landing.repository.top,
            into=landing.into,
            old=plan.before,
            new=plan.commit,
            is_new=landing.is_new and plan.before == landing.tip,
            method=plan.method,
            counts=counts,
            checkout=landing.checkout,
            worktree=worktree if moves_branch else None,
            branch=work.branch if moves_branch else None,
            head=work.head if moves_branch else None,
            rest=plan.rest if moves_branch else None,
            keeps_worktree=landing.keeps_worktree,
        )
        carry_out(
            intent,
            self.intents,
            identity=landing.identity,
            more=(_mark_landed(landing, plan),),
            on_step=self._on_step,
        )

    async def find_obstacle(self, landing: PreparedLanding, plan: LandingPlan) -> str | None:
        """Why the files of the branch's checkout cannot follow; None if they can. Raises
        GitError.
        """
        if landing.checkout is None:
            return None
        return await asyncio.to_thread(find_obstacle, landing.checkout, plan.before, plan.commit)

    async def count(
        self, landing: PreparedLanding, plan: LandingPlan
    ) -> tuple[ChangeCounts, tuple[LandingFile, ...]]:
        """What the branch gains. Raises GitError."""
        return await asyncio.to_thread(_count, landing.repository, plan.before, plan.commit)

    async def describe_conflicts(
        self, landing: PreparedLanding, plan: LandingPlan
    ) -> tuple[LandingConflict, ...]:
        """The files that cannot be merged, with both sides. Raises GitError."""
        return await asyncio.to_thread(_describe_conflicts, landing.repository, plan)


def _find_target_repository(worktree: Worktree, work: AgentWork) -> GitRepository:
    """The checkout that the worktree was made from, if it is still one of the same repository."""
    try:
        found = find_repository(worktree.repository) if Path(worktree.repository).is_dir() else None
    except GitError:
        found = None
    if found is not None and found.common_dir == work.repository.common_dir:
        return found
    return expect_repository(work.repository.top)


def _find_branch(repository: GitRepository, worktree: Worktree, options: LandingOptions) -> str:
    name = (options.into or worktree.base_ref or "").removeprefix(BRANCHES)
    if not name:
        raise LandingRefusedError(
            "the agent started from a commit without a branch; name a branch to land on (--into)"
        )
    if not is_branch_name(repository, name):
        raise LandingRefusedError(f"{name!r} is not a valid name for a branch")
    if options.into is None and read_reference(repository, f"{BRANCHES}{name}") is None:
        raise LandingRefusedError(
            f"the branch {name!r} that the agent started from is gone; name another (--into)"
        )
    return f"{BRANCHES}{name}"


def _mark_landed(landing: PreparedLanding, plan: LandingPlan) -> ReferenceUpdate:
    """Remember what was landed, so that the next landing does not repeat it."""
    mark = write_commit(
        landing.repository,
        landing.work.tree,
        (plan.commit, plan.rest or landing.work.head),
        b"landed\n",
        identity=landing.identity,
    )
    name = landed_reference(landing.session, landing.into)
    return ReferenceUpdate(name=name, new=mark, old=read_reference(landing.repository, name))


def _count(
    repository: GitRepository, old: str, new: str
) -> tuple[ChangeCounts, tuple[LandingFile, ...]]:
    found = count_changes(repository, old, new)
    counts = ChangeCounts(
        files=len(found),
        added=sum(one.added or 0 for one in found),
        removed=sum(one.removed or 0 for one in found),
    )
    files = tuple(
        LandingFile(
            path=path_text(one.path),
            added=one.added,
            removed=one.removed,
            old_path=None if one.old_path is None else path_text(one.old_path),
        )
        for one in found[:_MOST_FILES]
    )
    return counts, files


def _describe_conflicts(
    repository: GitRepository, plan: LandingPlan
) -> tuple[LandingConflict, ...]:
    room = _MOST_HUNKS
    found: list[LandingConflict] = []
    for one in plan.conflicts:
        hunks = _read_hunks(repository, plan.conflict_tree, one.path)[: max(room, 0)]
        room -= len(hunks)
        found.append(LandingConflict(path=path_text(one.path), kind=one.kind, hunks=hunks))
    return tuple(found)


def _read_hunks(repository: GitRepository, tree: str, path: bytes) -> str:
    """The lines between conflict markers, with the markers."""
    words = ("ls-tree", "-z", tree, "--", os.fsdecode(path))
    entry = repository.ask(words, literal=True).data.split(b"\0")[0]
    facts = entry.partition(b"\t")[0].split(b" ")
    if len(facts) != 3 or facts[1] != b"blob":
        return ""
    data = repository.ask(("cat-file", "blob", facts[2].decode()), most=_MOST_FILE).data
    kept: list[str] = []
    inside = False
    for line in data.decode("utf-8", "replace").splitlines():
        inside = inside or line.startswith("<<<<<<< ")
        if inside:
            kept.append(line)
        inside = inside and not line.startswith(">>>>>>> ")
    return "\n".join(kept)
