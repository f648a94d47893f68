"""The landings of a fleet in memory: what would be done is noted, and the result is told before."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from quarterdeck.fleet.api import AgentInfo
from quarterdeck.fleet.landing.api import (
    LandingConflict,
    LandingEntry,
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
        self.landing_conflicts: tuple[LandingConflict, ...] = ()
        self.landing_target: LandingTarget | None = None
        self.landing_queue: LandingQueueInfo | None = None
        self.landing_goes_on = asyncio.Event()
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
            target=self.landing_target
            or LandingTarget(branch=options.into or "main", commit="1a2b3c4"),
            conflicts=self.landing_conflicts,
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
            handed_to=options.hand_to,
        )

    async def queue_landings(
        self, agents: Sequence[str], options: LandingOptions
    ) -> LandingQueueInfo:
        """The first lands; the others fare as ``landing_state`` says, when ``landing_goes_on``."""
        self.landed.append(options)
        infos = [await self.agent(agent) for agent in agents]
        entries = tuple(LandingEntry(session=one.session, name=one.name) for one in infos)
        first = replace(entries[0], state="merging")
        self.landing_queue = LandingQueueInfo(
            id="q1", into=options.into or "main", entries=(first, *entries[1:]), revision=1
        )
        return self.landing_queue

    async def landings(self) -> list[LandingQueueInfo]:
        return [self.landing_queue] if self.landing_queue is not None else []

    async def wait_landing(
        self, queue: str, *, seen: int = 0, timeout: float | None = None
    ) -> LandingQueueInfo:
        assert self.landing_queue is not None and queue == self.landing_queue.id
        await self.landing_goes_on.wait()
        found = self.landing_queue
        if found.is_done:
            return found
        entries = [await self._ended(one, "landed" if not at else self.landing_state)
                   for at, one in enumerate(found.entries)]  # fmt: skip
        self.landing_queue = replace(found, entries=tuple(entries), is_done=True, revision=seen + 1)
        return self.landing_queue

    async def _ended(self, entry: LandingEntry, state: LandingState) -> LandingEntry:
        is_bad = state not in ("landed", "unchanged")
        result = LandingResult(
            session=entry.session,
            name=entry.name,
            state=state,
            into="main",
            method="squash",
            commit="9f8e7d6c5b4a3210",
            reason=self.landing_reason if is_bad else "",
            conflicts=self.landing_conflicts if state == "conflict" else (),
            handed_to=entry.name if state in ("conflict", "check") else None,
        )
        return replace(entry, state=state, result=result)

    async def cancel_landing(self, queue: str) -> LandingQueueInfo:
        assert self.landing_queue is not None
        entries = [await self._ended(one, "cancelled") for one in self.landing_queue.entries]
        self.landing_queue = replace(self.landing_queue, entries=tuple(entries), is_done=True)
        self.landing_goes_on.set()
        return self.landing_queue

    async def draft_pull_request(self, agent: str, options: LandingOptions) -> PullRequestDraft:
        raise NotImplementedError
