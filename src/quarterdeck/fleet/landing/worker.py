"""The parts of a landing that the fleet sees: requests, checks, records in the log, failures."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.config.schema import LandingSettings, Settings
from quarterdeck.journal import Journal
from quarterdeck.system.errors import OperatingSystemError
from quarterdeck.system.git.references import (
    OWN_REFERENCES,
    ReferenceUpdate,
    read_reference,
    update_references,
)
from quarterdeck.system.git.repository import expect_repository
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import ChangesLanded, LandingFailed, NoticePosted
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.tasks import run_to_end
from quarterdeck.wire.worktrees import ChangeCounts, LandingMethod, Worktree

from ..agent_entry import AgentEntry
from ..errors import LandingRefusedError
from ..live_index import LiveIndex, LogWriter
from ..worktrees.snapshots import describe_gone, note_repositories
from .api import (
    LandingOptions,
    LandingResult,
)
from .checks import CheckRunner, CheckTree
from .intent import ReferencesMovedError
from .lander import Lander, PreparedLanding
from .message import add_trailers, compose_hand_back, parse_trailer, propose_message
from .plan import LandingPlan
from .work import landed_reference, write_rest

__all__ = [
    "LandingContext",
    "LandingRequest",
    "LandingWorker",
    "is_at_work",
    "keep_commit",
]

_log = logging.getLogger(__name__)
_LAST_WORDS = 4_000


class LandingContext(Struct, frozen=True, kw_only=True):
    """What landing needs of a fleet."""

    journal: Journal
    current: LiveIndex
    notes: LogWriter
    directory: Path
    """Of ours, for what must survive."""
    load_settings: Callable[[str], Settings]
    """The settings that count in a directory; blocks. Raises ConfigError."""
    read_last_words: Callable[[SessionId, int], Awaitable[str]]
    deliver: Callable[[str, str], Awaitable[None]]
    """Give an agent a prompt, resuming it if need be. Raises QuarterdeckError."""
    private: tuple[str, ...]
    """Directories of ours that no check may see."""
    release: Callable[[SessionId, Worktree, str, str | None], Awaitable[str | None]]
    """Let go of a worktree whose commit has landed, and the files of another commit with it;
    returns what a person must know."""
    mark_landed: Callable[[Worktree, str, str | None], Awaitable[None]]
    """The same, but remove nothing."""


def is_at_work(entry: AgentEntry) -> bool:
    """Whether a turn of an agent runs, so that its files may be half done."""
    if not entry.is_started:
        return False
    return entry.state not in ("idle", "interrupted", "failed") or bool(entry.queue)


class LandingRequest(Struct, frozen=True, kw_only=True):
    """A landing that was asked for, with what settings and transcript add."""

    entry: AgentEntry
    worktree: Worktree
    options: LandingOptions
    settings: LandingSettings
    method: LandingMethod
    message: str
    check: str | None

    @property
    def into(self) -> str:
        """The branch, for people."""
        return self.options.into or self.worktree.base_ref or "?"


async def _do_nothing() -> None:
    pass


class LandingWorker:
    """Lands the work of one agent, for a caller or for a queue."""

    def __init__(self, context: LandingContext, lander: Lander | None = None) -> None:
        self.context = context
        self.lander = lander or Lander(context.directory)
        self.checks = CheckRunner(context.load_settings, context.notes, context.private)
        self.landed: dict[SessionId, LandingResult] = {}
        """The last landing of each session by this process."""
        self._locks: dict[str, asyncio.Lock] = {}

    def find_entry(self, session: SessionId) -> AgentEntry:
        """An agent as it is now. Raises NoSuchAgentError."""
        return self.context.current.get(session)

    async def until_at_rest(self, session: SessionId) -> None:
        """Wait until no turn runs in the worktree of an agent."""
        current = self.context.current
        await current.until(lambda: not self._find_workers(current.get(session)))

    async def land_now(
        self,
        agent: str,
        options: LandingOptions,
        tree: CheckTree | None = None,
        on_check: Callable[[], Awaitable[None]] = _do_nothing,
    ) -> LandingResult:
        """Land, to the end. Raises NoSuchAgentError.

        ``tree``: where to check. ``on_check``: called before the check.
        """
        entry = await self.context.current.find(agent)
        try:
            request = await self.request(agent, options)
            lock = self._locks.setdefault(request.worktree.repository, asyncio.Lock())
            async with lock:
                return await self._land(request, tree, on_check)
        except (LandingRefusedError, OperatingSystemError) as error:
            into = options.into or (entry.worktree.base_ref if entry.worktree else None) or "?"
            notes = "; ".join(getattr(error, "__notes__", []))
            failed = LandingResult(
                session=entry.session,
                name=entry.name,
                state="refused",
                into=into,
                method=options.method or "squash",
                reason=f"{error}" + (f" ({notes})" if notes else ""),
            )
            await self.note_failure(failed)
            return failed

    async def prepare(
        self, session: SessionId, options: LandingOptions
    ) -> "tuple[PreparedLanding, str, LandingMethod]":
        """An agent's work, the message and the method. Raises LandingRefusedError, GitError."""
        request = await self.request(session, options)
        landing = await self.lander.prepare(session, request.worktree, options)
        return landing, request.message, request.method

    async def _land(
        self,
        request: LandingRequest,
        tree: CheckTree | None,
        on_check: Callable[[], Awaitable[None]],
    ) -> LandingResult:
        problem = self.find_refusal(request)
        if problem is not None:
            raise LandingRefusedError(problem)
        for attempt in (1, 2):
            try:
                return await self._land_once(request, tree, on_check)
            except ReferencesMovedError as error:
                if attempt == 2:
                    raise LandingRefusedError(
                        f"{request.into!r} moved twice while the landing was made; try again"
                    ) from error
        raise AssertionError("the second attempt returns or raises")

    async def _land_once(
        self,
        request: LandingRequest,
        tree: CheckTree | None,
        on_check: Callable[[], Awaitable[None]],
    ) -> LandingResult:
        entry, options = request.entry, request.options
        landing = await self.lander.prepare(entry.session, request.worktree, options)
        if options.expected not in (None, landing.work.tree):
            raise LandingRefusedError(
                f"{entry.name!r} has changed files since the landing was shown; look at it again"
            )
        plan = await self.lander.plan(landing, landing.tip, request.method, request.message)
        result = LandingResult(
            session=entry.session,
            name=entry.name,
            state="unchanged",
            into=landing.branch,
            method=request.method,
            before=plan.before,
            commit=plan.commit,
        )
        if plan.conflicts:
            return await self.fail_with_conflicts(result, landing, plan, options)
        if plan.is_empty:
            return replace(result, note=note_repositories(landing.work.repositories))
        plan = await self.commit_rest(landing, plan, request.message)
        if landing.checkout is not None:
            await self.expect_checkout(landing, plan, options)
        if request.check is not None:
            await on_check()
            failed = await self._check(request, plan, tree)
            if failed is not None:
                result = replace(result, state="check", reason=failed[0], output=failed[1])
                return await self.give_up(result, landing, options)
        return await self.finish(result, landing, plan, options)

    async def commit_rest(
        self, landing: PreparedLanding, plan: LandingPlan, message: str
    ) -> LandingPlan:
        """Let the branch of an agent that has ended have all of its work, after a squash too.

        A live agent in the worktree would not know of the commit, and a worktree that the person
        made is theirs to commit in. Raises GitError.
        """
        work = landing.work
        if plan.rest is not None or not work.is_dirty or work.is_adopted:
            return plan
        entry = self.context.current.get(landing.session)
        if any(one.is_started for one in self._find_sharers(entry)):
            return plan
        data = message.encode("utf-8", "replace")
        rest = await asyncio.to_thread(write_rest, landing.work, data, landing.identity)
        return replace(plan, rest=rest)

    async def finish(
        self,
        result: LandingResult,
        landing: PreparedLanding,
        plan: LandingPlan,
        options: LandingOptions,
    ) -> LandingResult:
        """Move the branch and write it down, also when no one waits. Raises as ``Lander.execute``.

        The result is in ``landed`` too, for a caller that was cancelled.
        """
        work = self._finish(result, landing, plan, options)
        return await run_to_end(work, name=f"land {result.name}")

    async def _finish(
        self,
        result: LandingResult,
        landing: PreparedLanding,
        plan: LandingPlan,
        options: LandingOptions,
    ) -> LandingResult:
        counts, _ = await self.lander.count(landing, plan)
        await self.lander.execute(landing, plan, counts, checkout=options.checkout)
        await self.context.notes.note(
            result.session,
            ChangesLanded(
                into=landing.branch,
                method=plan.method,
                commit=plan.commit,
                before=plan.before,
                counts=counts,
            ),
        )
        notes = [note] if (note := note_repositories(landing.work.repositories)) else []
        if plan.rest is not None and landing.work.branch is not None:
            branch = landing.work.branch.removeprefix("refs/heads/")
            notes.append(f"uncommitted files were committed on {branch} as {plan.rest[:10]}")
            notice = NoticePosted(title=f"Landing: {notes[-1]}.")
            await self.context.notes.note(result.session, notice)
        if (released := await self._release(result.session, landing, plan, options)) is not None:
            notes.append(released)
        self.landed[result.session] = done = replace(
            result,
            state="landed",
            before=plan.before,
            commit=plan.commit,
            counts=counts,
            checkout=None if landing.checkout is None else landing.checkout.top,
            note="; ".join(notes),
        )
        return done

    async def _release(
        self,
        session: SessionId,
        landing: PreparedLanding,
        plan: LandingPlan,
        options: LandingOptions,
    ) -> str | None:
        """Let go of the worktree; a failure is reported and changes nothing else."""
        worktree = self.context.current.get(session).worktree
        if worktree is None or options.keep_worktree:
            return None
        try:
            name = landed_reference(session, landing.into)
            files = await asyncio.to_thread(read_reference, landing.repository, name)
            commit = plan.rest or landing.work.head
            return await self.context.release(session, worktree, commit, files)
        except QuarterdeckError as error:
            return f"the worktree was not removed: {error}"

    async def expect_checkout(
        self, landing: PreparedLanding, plan: LandingPlan, options: LandingOptions
    ) -> None:
        """Refuse early what would be refused after the check."""
        assert landing.checkout is not None
        if not options.checkout:
            await self.lander.execute(landing, plan, ChangeCounts(), checkout=False)
        if (obstacle := await self.lander.find_obstacle(landing, plan)) is not None:
            raise LandingRefusedError(obstacle)

    # Checks

    async def make_check_tree(self, session: SessionId) -> CheckTree:
        """A temporary worktree for checks; remove it. Raises LandingRefusedError, GitError."""
        worktree = _expect_worktree(self.context.current.get(session))
        top = worktree.repository
        is_there = await asyncio.to_thread(Path(top).is_dir)
        repository = await asyncio.to_thread(expect_repository, top if is_there else worktree.path)
        return CheckTree(repository, self.context.directory / "checks")

    async def _check(
        self,
        request: LandingRequest,
        plan: LandingPlan,
        tree: CheckTree | None,
    ) -> tuple[str, str] | None:
        assert request.check is not None
        used = tree or await self.make_check_tree(request.entry.session)
        try:
            return await self.checks.run(
                (request.entry.session,),
                used,
                plan.commit,
                request.check,
                request.settings.check_timeout,
            )
        finally:
            if tree is None:
                await asyncio.to_thread(used.remove)

    # Failures

    async def fail_with_conflicts(
        self,
        result: LandingResult,
        landing: PreparedLanding,
        plan: LandingPlan,
        options: LandingOptions,
    ) -> LandingResult:
        """Give up a landing that conflicts, and hand it back if that is asked for."""
        conflicts = await self.lander.describe_conflicts(landing, plan)
        number = f"{len(conflicts)} file{'s' * (len(conflicts) != 1)} conflict"
        number += "s" * (len(conflicts) == 1)
        where = f" at the commit {plan.stopped_at!r}" if plan.stopped_at else ""
        result = replace(result, state="conflict", conflicts=conflicts, reason=f"{number}{where}")
        return await self.give_up(result, landing, options)

    async def give_up(
        self, result: LandingResult, landing: PreparedLanding, options: LandingOptions
    ) -> LandingResult:
        """Write a failure to the log, and hand the work to an agent if that is asked for."""
        result = replace(result, commit=result.before)
        await self.note_failure(result)
        if options.hand_to is None:
            return result
        try:
            other = await self.context.current.find(options.hand_to)
            is_own = other.session == result.session
            commit = None if is_own else await asyncio.to_thread(_keep_work, landing, result.name)
            words = compose_hand_back(result, own=is_own, commit=commit)
            await self.context.deliver(other.session, words)
        except QuarterdeckError as error:
            return replace(result, note=f"it could not be handed to {options.hand_to}: {error}")
        return replace(result, handed_to=other.name)

    async def note_failure(self, result: LandingResult) -> None:
        """Write a failure to the log."""
        stage = result.state if result.state in ("conflict", "check") else "refused"
        event = LandingFailed(
            into=result.into,
            stage=stage,
            reason=result.reason,
            conflicts=tuple(one.path for one in result.conflicts),
        )
        await self.context.notes.note(result.session, event)

    # Requests

    async def load_settings(self, session: SessionId) -> LandingSettings:
        """The settings for the repository of an agent. Raises LandingRefusedError."""
        worktree = _expect_worktree(self.context.current.get(session))
        settings = await asyncio.to_thread(self.context.load_settings, worktree.repository)
        return settings.landing

    async def request(self, agent: str, options: LandingOptions) -> LandingRequest:
        """What was asked for, complete. Raises LandingRefusedError, NoSuchAgentError."""
        entry = await self.context.current.find(agent)
        worktree = _expect_worktree(entry)
        if not await asyncio.to_thread(os.path.isdir, worktree.path):
            raise LandingRefusedError(describe_gone(worktree.path, entry.name))
        settings = await asyncio.to_thread(self.context.load_settings, worktree.repository)
        trailers = [parse_trailer(one, entry.session) for one in options.trailers]
        message = options.message
        if message is None or not message.strip():
            words = await self.context.read_last_words(entry.session, _LAST_WORDS)
            message = propose_message(entry.name, entry.title, words)
        return LandingRequest(
            entry=entry,
            worktree=worktree,
            options=options,
            settings=settings.landing,
            method=options.method or settings.landing.method,
            message=add_trailers(message, trailers),
            check=None if options.skip_check else options.check or settings.landing.check,
        )

    def find_refusal(self, request: LandingRequest) -> str | None:
        """Why it must wait; None if it need not."""
        if request.options.now:
            return None
        workers = self._find_workers(request.entry)
        if not workers:
            return None
        return (
            f"{' and '.join(workers)} still works in {request.worktree.path!r}; wait for the end "
            "of the turn, or use --now"
        )

    def _find_workers(self, entry: AgentEntry) -> list[str]:
        """Agents whose turn runs in the same worktree."""
        return [repr(one.name) for one in self._find_sharers(entry) if is_at_work(one)]

    def _find_sharers(self, entry: AgentEntry) -> list[AgentEntry]:
        """The agents of the same worktree, this one too."""
        if entry.worktree is None:
            return []
        path = entry.worktree.path
        everyone = self.context.current.all()
        return [one for one in everyone if one.worktree is not None and one.worktree.path == path]


def _expect_worktree(entry: AgentEntry) -> Worktree:
    if entry.worktree is None:
        raise LandingRefusedError(
            f"{entry.name!r} has no worktree: its changes are in {entry.spawn.options.cwd!r} "
            "already. Start agents with --worktree to land their work"
        )
    return entry.worktree


def _keep_work(landing: PreparedLanding, name: str) -> str:
    """All of an agent's work as a commit that another agent can merge."""
    message = f"Work of {name}\n".encode("utf-8", "replace")
    commit = write_rest(landing.work, message, landing.identity)
    keep_commit(landing, f"handed/{landing.session}", commit)
    return commit


def keep_commit(landing: PreparedLanding, name: str, commit: str) -> None:
    """Let a reference of ours name a commit. Raises GitError."""
    whole = f"{OWN_REFERENCES}{name}"
    old = read_reference(landing.repository, whole)
    if old == commit:
        return
    update = ReferenceUpdate(name=whole, new=commit, old=old)
    update_references(landing.repository, [update], reason="quarterdeck", identity=landing.identity)
