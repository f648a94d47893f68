"""A batch of landings: all are merged, checked together, and searched if the check fails."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.config.schema import LandingSettings
from quarterdeck.system.errors import OperatingSystemError
from quarterdeck.wire.ids import SessionId

from ..errors import LandingRefusedError
from ..worktrees.snapshots import note_repositories
from .api import LandingOptions, LandingResult, LandingState
from .checks import CheckTree
from .intent import ReferencesMovedError
from .lander import PreparedLanding
from .plan import LandingPlan
from .worker import LandingWorker

__all__ = ["BatchLanding", "find_first_failure"]

Report: TypeAlias = Callable[[SessionId, LandingState, LandingResult | None], Awaitable[None]]
_MOST_ROUNDS = 3
"""How often a batch begins again because the branch has moved."""


async def find_first_failure(count: int, passes: Callable[[int], Awaitable[bool]]) -> int:
    """The first length from 1 to ``count`` at which a sequence fails, in few checks.

    It is known that all of them fail together, and that none of them passes.
    """
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        if await passes(middle):
            low = middle
        else:
            high = middle
    return high


class _Link(Struct, frozen=True, kw_only=True):
    """One landing on top of those before it."""

    session: SessionId
    landing: PreparedLanding
    plan: LandingPlan
    result: LandingResult


class BatchLanding:
    """One batch.

    Args:
        worker: lands the work of one agent.
        options: how.
        settings: of the repository.
        tree: where checks run.
        report: is given every change.
    """

    def __init__(
        self,
        worker: LandingWorker,
        options: LandingOptions,
        settings: LandingSettings,
        tree: CheckTree,
        report: Report,
    ) -> None:
        self._worker = worker
        self._options = options
        self._settings = settings
        self._tree = tree
        self._report = report
        self._check = None if options.skip_check else options.check or settings.check
        self._checked: dict[str, tuple[str, str] | None] = {}
        """What checks of commits came to: the same commit is not checked twice."""

    async def run(self, sessions: Sequence[SessionId]) -> None:
        """Land all that can be landed; each gets a result."""
        for session in sessions:
            await self._report(session, "waiting", None)
            if not self._options.now:
                await self._worker.until_at_rest(session)
        left = dict.fromkeys(sessions)
        for _ in range(_MOST_ROUNDS):
            try:
                await self._land_good(left)
            except ReferencesMovedError:
                self._checked.clear()
                continue
            return
        for session in left:
            await self._refuse(session, "the branch moved while the batch was landed; try again")

    async def _land_good(self, left: dict[SessionId, None]) -> None:
        """Land what passes; who has a result is taken out of ``left``. Raises
        ReferencesMovedError.
        """
        while left:
            chain = await self._merge_all(tuple(left))
            for session in set(left) - {link.session for link in chain}:
                del left[session]  # it conflicts, is refused or has landed already
            failed = await self._search(chain) if chain else None
            for link in chain if failed is None else chain[: failed[0] - 1]:
                await self._land(link)
                del left[link.session]
            if failed is not None:
                culprit = chain[failed[0] - 1]
                del left[culprit.session]
                await self._fail(culprit, failed[1])

    async def _merge_all(self, sessions: Sequence[SessionId]) -> list[_Link]:
        """Each on top of the one before; what conflicts is given up."""
        chain: list[_Link] = []
        tip: str | None = None
        for session in sessions:
            self._worker.landed.pop(session, None)
            await self._report(session, "merging", None)
            try:
                link = await self._merge(session, tip)
            except (LandingRefusedError, OperatingSystemError) as error:
                await self._refuse(session, str(error))
                continue
            if link is not None:
                chain.append(link)
                tip = link.plan.commit
        return chain

    async def _merge(self, session: SessionId, tip: str | None) -> _Link | None:
        entry = self._worker.find_entry(session)
        landing, message, method = await self._worker.prepare(session, self._options)
        plan = await self._worker.lander.plan(landing, tip or landing.tip, method, message)
        result = LandingResult(
            session=session,
            name=entry.name,
            state="unchanged",
            into=landing.branch,
            method=method,
            before=plan.before,
            commit=plan.commit,
        )
        if plan.conflicts:
            options = self._handed(session)
            failed = await self._worker.fail_with_conflicts(result, landing, plan, options)
            await self._report(session, failed.state, failed)
            return None
        if plan.is_empty:
            note = note_repositories(landing.work.repositories)
            await self._report(session, "unchanged", replace(result, note=note))
            return None
        plan = await self._worker.commit_rest(landing, plan, message)
        if tip is None and landing.checkout is not None:
            await self._worker.expect_checkout(landing, plan, self._options)
        return _Link(session=session, landing=landing, plan=plan, result=result)

    async def _search(self, chain: Sequence[_Link]) -> tuple[int, tuple[str, str]] | None:
        """The first of the chain whose work fails, with the reason; None if all pass."""
        if self._check is None:
            return None
        for link in chain:
            await self._report(link.session, "checking", None)

        async def passes(length: int) -> bool:
            return await self._run_check(chain[:length]) is None

        if await passes(len(chain)):
            return None
        await self._expect_good_base(chain[0])
        first = await find_first_failure(len(chain), passes)
        failed = await self._run_check(chain[:first])
        assert failed is not None
        return first, failed

    async def _run_check(self, chain: Sequence[_Link]) -> tuple[str, str] | None:
        commit = chain[-1].plan.commit
        if commit not in self._checked:
            assert self._check is not None
            self._checked[commit] = await self._worker.checks.run(
                [link.session for link in chain],
                self._tree,
                commit,
                self._check,
                self._settings.check_timeout,
            )
        return self._checked[commit]

    async def _expect_good_base(self, first: _Link) -> None:
        """Blame no one for a branch that fails by itself."""
        base = first.plan.before
        if base not in self._checked:
            assert self._check is not None
            self._checked[base] = await self._worker.checks.run(
                [], self._tree, base, self._check, self._settings.check_timeout
            )
        failed = self._checked[base]
        if failed is not None:
            raise LandingRefusedError(
                f"the check fails on {first.result.into!r} without any agent's work: {failed[0]}"
            )

    async def _land(self, link: _Link) -> None:
        """Raises ReferencesMovedError."""
        try:
            result = await self._worker.finish(link.result, link.landing, link.plan, self._options)
        except ReferencesMovedError:
            raise
        except (LandingRefusedError, OperatingSystemError) as error:
            # Those after it are on top of it, so that none of them can be landed either.
            raise LandingRefusedError(f"{link.result.name}: {error}") from error
        await self._report(link.session, "landed", result)

    async def _fail(self, link: _Link, failed: tuple[str, str]) -> None:
        result = replace(link.result, state="check", reason=failed[0], output=failed[1])
        options = self._handed(link.session)
        result = await self._worker.give_up(result, link.landing, options)
        await self._report(link.session, result.state, result)

    def _handed(self, session: SessionId) -> LandingOptions:
        if self._options.hand_to is None and self._settings.on_failure == "hand-back":
            return replace(self._options, hand_to=session)
        return self._options

    async def _refuse(self, session: SessionId, reason: str) -> None:
        result = LandingResult(
            session=session,
            name=self._worker.find_entry(session).name,
            state="refused",
            into=self._options.into or "",
            method=self._options.method or self._settings.method,
            reason=reason,
        )
        await self._worker.note_failure(result)
        await self._report(session, "refused", result)
