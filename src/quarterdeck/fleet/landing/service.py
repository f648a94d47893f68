"""Landing for the fleet: previews, landings, queues, pull requests, and what a crash left."""

import asyncio
import logging
import os
from collections.abc import Sequence

from msgspec.structs import replace

from quarterdeck.agent.checkpoints.file_state import path_line
from quarterdeck.system.git.references import read_reference
from quarterdeck.system.git.repository import expect_repository
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import ChangesLanded, Event, LandingFailed
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.tasks import BackgroundTasks
from quarterdeck.wire.worktrees import Worktree

from ..errors import AgentNotReadyError, LandingRefusedError
from ..worktrees.management import WorktreeManagement
from ..worktrees.snapshots import note_repositories
from .api import (
    LandingOptions,
    LandingPreview,
    LandingQueueInfo,
    LandingResult,
    LandingTarget,
    PullRequestDraft,
)
from .checks import remove_check_trees
from .intent import LandingIntent, RecoveredLanding, recover_landings
from .lander import Lander, PreparedLanding
from .merge import git_version, has_merge_tree
from .queue import LandingQueues
from .work import landed_reference, read_landed, write_rest
from .worker import LandingContext, LandingWorker, keep_commit

__all__ = ["LandingService", "WorktreeRelease"]

_log = logging.getLogger(__name__)

_BRANCHES = "refs/heads/"
_MOST_LISTED = 100


class LandingService:
    """Lands the work of agents; see ``FleetLandings`` for each method."""

    def __init__(
        self, context: LandingContext, work: BackgroundTasks, lander: Lander | None = None
    ) -> None:
        self._context = context
        self._work = work
        self._worker = LandingWorker(context, lander)
        self._lander = self._worker.lander
        self._queues = LandingQueues(self._worker, context.directory / "queues", work)
        self.landings = self._queues.all
        self.wait_landing = self._queues.wait
        self.cancel_landing = self._queues.cancel

    async def close(self) -> None:
        """End the queues that run; what has landed stays."""
        await self._queues.close()

    async def recover(self) -> None:
        """Complete or undo what a killed host left, and write it to the log."""
        directory = self._context.directory
        await asyncio.to_thread(remove_check_trees, directory / "checks")
        for found in await asyncio.to_thread(recover_landings, self._lander.intents):
            await self._note_recovered(found)
        await self._queues.load()

    async def _note_recovered(self, found: RecoveredLanding) -> None:
        intent, session = found.intent, SessionId(found.intent.session)
        _log.warning(
            "a landing of %s on %s was interrupted; it was %s. %s",
            session,
            intent.into,
            "completed" if found.has_landed else "undone",
            found.note,
        )
        records = self._context.journal.history(0, session)
        events = [one.event async for one in records]
        landed = {one.commit for one in events if isinstance(one, ChangesLanded)}
        into = intent.into.removeprefix(_BRANCHES)
        event: Event = LandingFailed(
            into=into, stage="refused", reason="the host was killed; nothing was changed"
        )
        if found.has_landed:
            await self._mark_recovered(intent)
            if intent.new in landed:
                return
            event = ChangesLanded(
                into=into,
                method=intent.method,
                commit=intent.new,
                before=intent.old,
                counts=intent.counts,
            )
        await self._context.notes.note(session, event)

    async def _mark_recovered(self, intent: LandingIntent) -> None:
        """Mark the worktree of a landing; it is not removed, for its agent may be resumed."""
        session = SessionId(intent.session)
        try:
            worktree = self._context.current.get(session).worktree
            if worktree is None or intent.keeps_worktree:
                return
            repository = await asyncio.to_thread(expect_repository, intent.repository)
            work = await asyncio.to_thread(read_landed, repository, session, intent.into)
            name = landed_reference(session, intent.into)
            files = await asyncio.to_thread(read_reference, repository, name)
            if work is not None:
                await self._context.mark_landed(worktree, work.head, files)
        except QuarterdeckError as error:
            _log.warning("the worktree of %s is not marked as landed: %s", session, error)

    async def preview_landing(self, agent: str, options: LandingOptions) -> LandingPreview:
        """What a landing would do."""
        request = await self._worker.request(agent, options)
        problem = self._worker.find_refusal(request)
        landing = await self._lander.prepare(request.entry.session, request.worktree, options)
        plan = await self._lander.plan(landing, landing.tip, request.method, request.message)
        counts, files = await self._lander.count(landing, plan)
        obstacle = await self._lander.find_obstacle(landing, plan)
        target = LandingTarget(
            branch=landing.branch,
            commit=landing.tip,
            checkout=None if landing.checkout is None else landing.checkout.top,
            problem=obstacle,
        )
        return LandingPreview(
            session=request.entry.session,
            name=request.entry.name,
            method=request.method,
            target=target,
            message=request.message,
            tree=landing.work.tree,
            counts=counts,
            files=files,
            conflicts=await self._lander.describe_conflicts(landing, plan),
            is_empty=plan.is_empty,
            uncommitted=await asyncio.to_thread(lambda: landing.uncommitted),
            check=request.check,
            problem=problem,
            note=await asyncio.to_thread(_note, landing),
        )

    async def land(self, agent: str, options: LandingOptions) -> LandingResult:
        """Land the work of an agent."""
        return await self._work.finish(self._worker.land_now(agent, options))

    async def queue_landings(
        self, agents: Sequence[str], options: LandingOptions
    ) -> LandingQueueInfo:
        """Land agents one after the other."""
        if not agents:
            raise LandingRefusedError("name at least one agent to land")
        requests = [await self._worker.request(agent, options) for agent in agents]
        targets = {(one.worktree.repository, one.into) for one in requests}
        if len(targets) > 1:
            named = "; ".join(sorted(f"{into} in {where}" for where, into in targets))
            raise LandingRefusedError(f"a queue lands on one branch, and these differ: {named}")
        entries = {one.entry.session: one.entry.name for one in requests}
        settings = requests[0].settings
        options = replace(options, batch=options.batch or settings.batch)
        return await self._queues.start(entries, requests[0].into, options)

    async def draft_pull_request(self, agent: str, options: LandingOptions) -> PullRequestDraft:
        """Prepare the work of an agent for a pull request."""
        return await self._work.finish(self._draft(agent, options))

    async def _draft(self, agent: str, options: LandingOptions) -> PullRequestDraft:
        request = await self._worker.request(agent, options)
        if (problem := self._worker.find_refusal(request)) is not None:
            raise LandingRefusedError(problem)
        landing = await self._lander.prepare(request.entry.session, request.worktree, options)
        plan = await self._lander.plan(landing, landing.tip, request.method, request.message)
        if plan.conflicts:
            files = ", ".join(path_line(one.path) for one in plan.conflicts[:5])
            raise LandingRefusedError(f"it conflicts with {landing.branch!r}: {files}")
        if plan.is_empty:
            raise LandingRefusedError(f"{landing.branch!r} has all of the work already")
        counts, files = await self._lander.count(landing, plan)
        commit = plan.commit
        if request.method == "merge":
            commit = await asyncio.to_thread(
                write_rest, landing.work, request.message.encode(), landing.identity
            )
        # Not what HEAD says: an agent could name a branch there that is somebody else's.
        branch = request.worktree.branch or f"quarterdeck/{request.entry.name}"
        if branch == landing.branch:
            raise LandingRefusedError(
                f"{branch!r} is the agent's own branch; name another (--into)"
            )
        title, _, body = request.message.partition("\n")
        lines = [
            f"- `{path_line(one.path)}` +{one.added or 0} −{one.removed or 0}"
            for one in files[:_MOST_LISTED]
        ]
        table = f"{counts.files} files, +{counts.added} −{counts.removed}\n\n" + "\n".join(lines)
        await asyncio.to_thread(
            keep_commit, landing, f"pull-request/{request.entry.session}", commit
        )
        return PullRequestDraft(
            repository=_find_main_checkout(landing),
            branch=branch,
            commit=commit,
            base=landing.branch,
            title=title,
            body=f"{body.strip()}\n\n{table}\n".lstrip(),
        )


def _find_main_checkout(landing: PreparedLanding) -> str:
    """Where the person's own git runs: not in a worktree, whose settings an agent can write."""
    top, name = os.path.split(landing.repository.common_dir)
    return top if name == ".git" else landing.repository.top


def _note(landing: PreparedLanding) -> str:
    """What a person must know before."""
    notes = [note_repositories(landing.work.repositories)]
    if not has_merge_tree(landing.repository):
        version = ".".join(map(str, git_version(landing.repository)))
        notes.append(f"git {version} is older than 2.38: renamed files are not followed")
    return "; ".join(filter(None, notes))


class WorktreeRelease:
    """Marks worktrees as landed; one that need not be kept a day is removed at once."""

    def __init__(self, worktrees: WorktreeManagement) -> None:
        self._worktrees = worktrees

    async def __call__(
        self, session: SessionId, worktree: Worktree, commit: str, files: str | None
    ) -> str | None:
        """Note that everything up to a commit is on another branch; what was done beyond that.

        ``files``: a commit with what was not committed then, too.

        Raises:
            WorktreeError, GitError, ConfigError: it could not be removed.
        """
        await self._worktrees.mark_landed(worktree, commit, files)
        settings = await self._worktrees.settings(worktree.repository)
        if worktree.is_adopted or "merge" not in settings.remove_after or settings.keep_days > 0:
            return None
        try:
            outcome = await self._worktrees.remove_worktree(worktree.path)
        except AgentNotReadyError:
            return None  # it goes when its agent has ended
        branch = f"; the branch {outcome.branch} is kept" if outcome.branch else ""
        return f"the worktree was removed{branch}"
