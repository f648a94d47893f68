"""The landings of a fleet in memory: what would be done is noted, and the result is told before."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from quarterdeck.fleet.api import AgentInfo
from quarterdeck.fleet.landing.api import (
    LandingOptions,
    LandingPreview,
    LandingQueueInfo,
    LandingResult,
    LandingState,
    LandingTarget,
    PullRequestDraft,
)
from quarterdeck.fleet.worktrees.api import WorktreeInfo
from quarterdeck.wire.worktrees import ChangeCounts

if TYPE_CHECKING:
    from quarterdeck.fleet.errors import FleetError

__all__ = ["MemoryLandings"]


class MemoryLandings:
    """A part of a fleet: only what screens need."""

    agent: Callable[[str], Awaitable[AgentInfo]]

    def __init__(self) -> None:
        super().__init__()
        self.landed: list[LandingOptions] = []
        self.landing_state: LandingState = "landed"
        self.landing_reason = ""
        self.refuses_landing: FleetError | None = None
        self.made_worktrees: list[WorktreeInfo] = []

    async def worktrees(
        self, *, repository: str | None = None, measure: bool = False
    ) -> list[WorktreeInfo]:
        del repository, measure
        return self.made_worktrees

    async def preview_landing(self, agent: str, options: LandingOptions) -> LandingPreview:
        info = await self.agent(agent)
        if self.refuses_landing is not None:
            raise self.refuses_landing
        return LandingPreview(
            session=info.session,
            name=info.name,
            method=options.method or "merge",
            target=LandingTarget(branch=options.into or "main", commit="1a2b3c4"),
            tree="5678",
            message=f"Read time zones\n\nWork of {info.name}.",
            counts=ChangeCounts(files=2, added=41, removed=12),
            uncommitted=1,
            check=options.check or "make test",
        )

    async def land(self, agent: str, options: LandingOptions) -> LandingResult:
        info = await self.agent(agent)
        self.landed.append(options)
        return LandingResult(
            session=info.session,
            name=info.name,
            state=self.landing_state,
            into=options.into or "main",
            method=options.method or "merge",
            commit="9f8e7d6c5b4a3210",
            reason=self.landing_reason,
        )

    async def queue_landings(
        self, agents: Sequence[str], options: LandingOptions
    ) -> LandingQueueInfo:
        raise NotImplementedError

    async def landings(self) -> list[LandingQueueInfo]:
        return []

    async def wait_landing(
        self, queue: str, *, seen: int = 0, timeout: float | None = None
    ) -> LandingQueueInfo:
        raise NotImplementedError

    async def cancel_landing(self, queue: str) -> LandingQueueInfo:
        raise NotImplementedError

    async def draft_pull_request(self, agent: str, options: LandingOptions) -> PullRequestDraft:
        raise NotImplementedError
