"""The landing queue: agents are landed one after the other, each after its check, or in a batch
that is searched for the agent whose work fails.

A queue is on disk from its start. Each landing in it is whole or not at all; a queue whose host was
killed is shown as interrupted, with what had landed by then.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import ChangesLanded
from quarterdeck.wire.ids import SessionId, new_request_id
from quarterdeck.wire.private_files import write_private
from quarterdeck.wire.tasks import BackgroundTasks, cancel_tasks, run_to_end

from ..errors import NoSuchLandingError
from .api import (
    LandingEntry,
    LandingOptions,
    LandingQueueInfo,
    LandingResult,
    LandingState,
)
from .batch import BatchLanding
from .checks import CheckTree
from .worker import LandingWorker

__all__ = ["LandingQueues"]

_log = logging.getLogger(__name__)
_KEPT = 20
"""Queues that ended and are still shown."""
_SHORTEST = 4
"""Characters at the end of an id that name a queue, at the least."""
_UNDER_WAY: tuple[LandingState, ...] = ("waiting", "merging", "checking")


class LandingQueues:
    """All queues of a fleet; ``directory`` has a file for each."""

    def __init__(self, worker: LandingWorker, directory: Path, work: BackgroundTasks) -> None:
        self._worker = worker
        self._directory = directory
        self._work = work
        self._known: dict[str, _QueueRun] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    async def load(self) -> None:
        """Read the queues of earlier hosts; those that had not ended are over."""
        for info in await asyncio.to_thread(_read_all, self._directory):
            run = _QueueRun(self._worker, info, LandingOptions(), self._directory)
            self._known[info.id] = run
            if not info.is_done:
                await self._find_landed(info)
                await run.end("interrupted", "the host ended before it was landed")

    async def _find_landed(self, info: LandingQueueInfo) -> None:
        """What landed in the moment in which the host was killed is in the log by now."""
        for entry in info.entries:
            if entry.state not in _UNDER_WAY:
                continue
            async for record in self._worker.context.journal.history(0, entry.session):
                event = record.event
                if not isinstance(event, ChangesLanded) or record.time < info.created:
                    continue
                self._worker.landed[entry.session] = LandingResult(
                    session=entry.session,
                    name=entry.name,
                    state="landed",
                    into=event.into,
                    method=event.method,
                    before=event.before,
                    commit=event.commit,
                    counts=event.counts,
                )

    async def start(
        self, agents: Mapping[SessionId, str], into: str, options: LandingOptions
    ) -> LandingQueueInfo:
        """Start one."""
        entries = tuple(LandingEntry(session=id_, name=name) for id_, name in agents.items())
        info = LandingQueueInfo(
            id=new_request_id(), into=into, entries=entries, created=read_wall_clock()
        )
        run = _QueueRun(self._worker, info, options, self._directory)
        await run.save()
        self._known[info.id] = run
        task = self._work.start(run.run(), name=f"landing queue {info.id}")
        self._running[info.id] = task
        task.add_done_callback(lambda _: self._running.pop(info.id, None))
        await self._forget_old()
        return run.info

    async def all(self) -> list[LandingQueueInfo]:
        """Every queue that is known, oldest first."""
        return sorted((one.info for one in self._known.values()), key=lambda one: one.created)

    async def wait(
        self, queue: str, *, seen: int = 0, timeout: float | None = None
    ) -> LandingQueueInfo:
        """A queue once it has changed. Raises NoSuchLandingError."""
        run = self._find(queue)
        try:
            async with asyncio.timeout(timeout):
                while run.info.revision <= seen and not run.info.is_done:
                    await run.changed.wait()
        except TimeoutError:
            pass  # as it is
        return run.info

    async def cancel(self, queue: str) -> LandingQueueInfo:
        """End a queue. Raises NoSuchLandingError."""
        run = self._find(queue)
        if (task := self._running.get(run.info.id)) is not None:
            await cancel_tasks([task])
        if not run.info.is_done:
            await run.end("cancelled", "it was cancelled")
        return run.info

    async def close(self) -> None:
        """End all that run."""
        await cancel_tasks(self._running.values())
        for run in self._known.values():
            if not run.info.is_done:
                await run.end("interrupted", "the host ended before it was landed")

    def _find(self, queue: str) -> "_QueueRun":
        is_end = len(queue) >= _SHORTEST
        found = [run for id_, run in self._known.items() if is_end and id_.endswith(queue)]
        if len(found) != 1:
            raise NoSuchLandingError(queue)
        return found[0]

    async def _forget_old(self) -> None:
        ended = [one.info for one in self._known.values() if one.info.is_done]
        for info in sorted(ended, key=lambda one: one.created)[:-_KEPT]:
            del self._known[info.id]
            path = self._directory / f"{info.id}.json"
            await asyncio.to_thread(path.unlink, missing_ok=True)


def _read_all(directory: Path) -> list[LandingQueueInfo]:
    found: list[LandingQueueInfo] = []
    for path in sorted(directory.glob("*.json")):
        try:
            found.append(decode_json(path.read_bytes(), LandingQueueInfo))
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("the landing queue %s cannot be read: %s", path, error)
    return found


class _QueueRun:
    """One queue."""

    def __init__(
        self,
        worker: LandingWorker,
        info: LandingQueueInfo,
        options: LandingOptions,
        directory: Path,
    ) -> None:
        self.info = info
        self.changed = asyncio.Event()
        self._worker = worker
        self._options = options
        self._path = directory / f"{info.id}.json"

    async def run(self) -> None:
        """Land all of them; what fails does not hold up the others."""
        try:
            tree = await self._worker.make_check_tree(self.info.entries[0].session)
            try:
                await self._run(tree)
            finally:
                await run_to_end(asyncio.to_thread(tree.remove), name="remove a check's worktree")
        except QuarterdeckError as error:
            await self.end("refused", str(error))
        except Exception as error:
            _log.exception("the landing queue %s failed", self.info.id)
            await self.end("refused", f"unexpected error: {error}")

    async def _run(self, tree: CheckTree) -> None:
        settings = await self._worker.load_settings(self.info.entries[0].session)
        if self._options.batch:
            batch = BatchLanding(self._worker, self._options, settings, tree, self.report)
            await batch.run([one.session for one in self.info.entries])
        else:
            for entry in self.info.entries:
                await self._land(entry.session, tree, settings.on_failure == "hand-back")
        await self._update(is_done=True, doing="")

    async def _land(self, session: SessionId, tree: CheckTree, is_handed: bool) -> None:
        await self.report(session, "waiting", None)
        if not self._options.now:
            await self._worker.until_at_rest(session)
        self._worker.landed.pop(session, None)
        await self.report(session, "merging", None)
        options = self._options
        if options.hand_to is None and is_handed:
            options = replace(options, hand_to=session)
        result = await self._worker.land_now(
            session, options, tree, lambda: self.report(session, "checking", None)
        )
        await self.report(session, result.state, result)

    async def report(
        self, session: SessionId, state: LandingState, result: LandingResult | None
    ) -> None:
        """Note where an agent stands."""
        entries = tuple(
            replace(one, state=state, result=result) if one.session == session else one
            for one in self.info.entries
        )
        name = next(one.name for one in entries if one.session == session)
        doing = f"{name}: {state}" if state in _UNDER_WAY else self.info.doing
        await self._update(entries=entries, doing=doing)

    async def end(self, state: LandingState, reason: str) -> None:
        """What has not ended ends now."""
        entries = tuple(
            self._ended(one, state, reason) if one.state in _UNDER_WAY else one
            for one in self.info.entries
        )
        await self._update(entries=entries, is_done=True, doing="")

    def _ended(self, entry: LandingEntry, state: LandingState, reason: str) -> LandingEntry:
        if (landed := self._landed_meanwhile(entry)) is not None:
            return replace(entry, state="landed", result=landed)
        result = LandingResult(
            session=entry.session,
            name=entry.name,
            state=state,
            into=self.info.into,
            method=self._options.method or "squash",
            reason=reason,
        )
        return replace(entry, state=state, result=result)

    def _landed_meanwhile(self, entry: LandingEntry) -> LandingResult | None:
        """A landing that was carried through although its queue was cancelled."""
        return self._worker.landed.get(entry.session) if entry.state != "waiting" else None

    async def _update(self, **changes: object) -> None:
        self.info = replace(self.info, revision=self.info.revision + 1, **changes)
        self.changed.set()
        self.changed = asyncio.Event()
        await self.save()

    async def save(self) -> None:
        """Write it to disk; a queue that cannot be written goes on."""
        data = msgspec.json.encode(self.info).decode()
        try:
            await asyncio.to_thread(write_private, self._path, data)
        except OSError as error:
            _log.warning("the landing queue %s cannot be written: %s", self._path, error)
