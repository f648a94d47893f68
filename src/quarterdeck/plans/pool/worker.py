"""A worker of a pool: takes tasks, executes them with the host of its machine, ships what happens.

Its lease of a task is renewed with every heartbeat. If that is not possible in time, or another
worker has the task, it ends the task's agents and writes nothing more about it.
"""

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.config.places import Places, make_private
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import FleetError, NoHostError
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.errors import LinkError, QuarterdeckError
from quarterdeck.wire.filelock import open_lock, release_lock, try_lock
from quarterdeck.wire.ids import RequestId, new_request_id
from quarterdeck.wire.private_files import write_private
from quarterdeck.wire.tasks import BackgroundTasks, race_tasks

from ..progress import ProgressEntry
from .address import PoolAddress
from .adoption import HeldLease
from .cleanup import PoolCleanUp
from .database import PoolDatabase
from .errors import LeaseLostError, PoolError, PoolUnreachableError, PoolVersionError
from .event_shipment import EventShipment
from .pool_fleet import PoolFleet
from .store import MOST_FAILURES, Lease, PendingAnswer, PoolStore, WorkerInfo
from .submission import PoolRun, read_definition
from .task_execution import TaskExecution
from .transport import PoolTransport

__all__ = ["WorkerOptions", "run_worker"]

_log = logging.getLogger(__name__)
_POLL = 0.5
_CLEAN_SECONDS = 600.0
_PAUSE = 5.0
"""Seconds before a task that this worker could not go on with is offered again."""


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """How a worker works."""

    slots: int = 4
    """Tasks at a time."""
    labels: tuple[str, ...] = ()
    lease_seconds: float = 90.0
    """After so long without a heartbeat a worker counts as dead."""
    drain_seconds: float = 3_600.0
    """How long tasks may go on after the signal to end."""
    name: str = ""


async def run_worker(
    address: PoolAddress,
    places: Places,
    options: WorkerOptions,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Work until a signal comes and all tasks are over.

    A second signal, or the end of the time to drain, gives the tasks back at once.

    Raises:
        PoolError: the pool cannot be used, or a worker of this state directory runs already.
        HostError: there is no host, and none can be started.
    """
    async with (
        _hold_identity(places, options) as info,
        PoolDatabase.open(address, f"quarterdeck worker {info.name}") as database,
        PoolDatabase.open(address, f"quarterdeck worker {info.name} heartbeat") as heartbeat,
        HostClient.connect(places, start=True, name="worker") as fleet,
    ):
        worker = _Worker(info, options, places, fleet, (database, heartbeat), say)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.drain)
        try:
            await worker.run()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


@asynccontextmanager
async def _hold_identity(places: Places, options: WorkerOptions) -> AsyncGenerator[WorkerInfo]:
    """The worker of this state directory: the same whenever it starts, and one at a time."""
    directory = await asyncio.to_thread(make_private, places.state / "pool")
    handle = await asyncio.to_thread(open_lock, directory / "worker.lock")
    try:
        if not try_lock(handle):
            raise PoolError(f"a worker runs already with {str(directory)!r}; one is enough")
        id_ = await asyncio.to_thread(_find_id, directory / "worker")
        name = options.name or socket.gethostname()
        yield WorkerInfo(id=id_, name=name, labels=options.labels, slots=options.slots)
    finally:
        await asyncio.to_thread(release_lock, handle)


def _find_id(path: Path) -> str:
    try:
        return path.read_text().strip() or _make_id(path)
    except FileNotFoundError:
        return _make_id(path)


def _make_id(path: Path) -> str:
    made = f"worker_{new_request_id()[4:]}"
    write_private(path, made)
    return made


class _Worker:
    """One worker: its leases, and what it does for all of them."""

    def __init__(
        self,
        info: WorkerInfo,
        options: WorkerOptions,
        places: Places,
        fleet: HostClient,
        databases: tuple[PoolDatabase, PoolDatabase],
        say: Callable[[str], None],
    ) -> None:
        self._info = info
        self._options = options
        self._places = places
        self._fleet = fleet
        self._store = PoolStore(databases[0])
        self._beats = PoolStore(databases[1])
        """On a connection of its own: no long batch delays a heartbeat."""
        self._pool = PoolFleet.create(databases[0])
        self._shipping = EventShipment(fleet, self._store)
        self._held: dict[str, HeldLease] = {}
        self._work = BackgroundTasks()
        self._is_draining = asyncio.Event()
        self._failure: PoolVersionError | None = None
        self._must_release = asyncio.Event()
        self._changed = asyncio.Event()
        self._may_clean = asyncio.Event()
        self._may_clean.set()
        self._cleanup = PoolCleanUp(databases[0], places)
        self._say = say

    def drain(self) -> None:
        """Take no more tasks; the second time, give back those that are under way."""
        if self._is_draining.is_set():
            self._must_release.set()
        else:
            self._say("draining: no more tasks are taken; once more gives back those under way")
        self._is_draining.set()
        self._changed.set()

    async def run(self) -> None:
        """Until it is drained.

        Raises:
            NoHostError, LinkError: the host is gone.
            PoolVersionError: the pool was updated.
        """
        await self._beats.register(self._info)
        await self._end_strays()
        self._say(f"{self._info.name} is a worker with {self._options.slots} slots")
        try:
            await race_tasks(
                *(self._take_tasks(), self._beat(), self._take_answers()),
                *(self._shipping.run(), self._clean_up()),
            )
        finally:
            await self._shipping.close()
            await self._work.close()
        if self._failure is not None:
            raise self._failure

    async def _end_strays(self) -> None:
        """Agents of tasks that this worker had and has no more, such as after a kill."""
        for session in await self._store.list_strays(self._info.id):
            await self._kill(session, "the worker lost its lease")

    async def _kill(self, session: str, reason: str) -> None:
        try:
            if (await self._fleet.agent(session)).is_live:
                await self._fleet.kill(session, reason=reason)
        except FleetError as error:
            _log.info("%s is not ended: %s", session, error)

    async def _take_tasks(self) -> None:
        deadline = 0.0
        loop = asyncio.get_running_loop()
        while not (self._is_draining.is_set() and not self._held):
            self._changed.clear()
            if not self._is_draining.is_set():
                await self._claim()
            else:
                deadline = deadline or loop.time() + self._options.drain_seconds
                if loop.time() > deadline or self._must_release.is_set():
                    for held in self._held.values():
                        held.lose(_DRAINED)
            try:
                async with asyncio.timeout(_POLL):
                    await self._changed.wait()
            except TimeoutError:
                continue
        try:
            await self._beats.register(replace(self._info, state="gone"))
        except PoolUnreachableError as error:
            _log.warning("the pool does not know that this worker ended: %s", error)

    async def _claim(self) -> None:
        """Take as many tasks as there are slots."""
        loop = asyncio.get_running_loop()
        while len(self._held) < self._options.slots:
            deadline = loop.time() + self._options.lease_seconds
            leases = [held.lease for held in self._held.values()]
            try:
                lease = await self._store.claim(self._info, leases, self._options.lease_seconds)
            except PoolUnreachableError as error:
                _log.warning("%s", error)
                return
            if lease is None:
                return
            held = self._held[lease.path] = HeldLease(lease, deadline)
            self._work.start(self._execute(held), name=f"pool: {lease.path}")

    async def _execute(self, held: HeldLease) -> None:
        lease = held.lease
        self._say(f"{lease.path} taken, lease {lease.token}")
        try:
            outcome = await self._run_task(held)
            entry = ProgressEntry(time=read_wall_clock(), kind="run_ended", key="run-end")
            await held.insist(partial(self._store.finish, lease, outcome, entry))
            self._say(f"{lease.path} {outcome}")
            self._may_clean.set()
        except LeaseLostError as error:
            await self._give_up(held, str(error))
        except QuarterdeckError as error:
            self._say(f"{lease.path} cannot go on here: {error}")
            await self._give_up(held, str(error), failed=True)
        finally:
            await self._shipping.forget(lease)
            self._held.pop(lease.path, None)
            self._changed.set()

    async def _run_task(self, held: HeldLease) -> str:
        definition = read_definition(held.lease.definition)
        run_id = definition.info.id
        transport = PoolTransport(
            self._places, run_id, definition.remote, definition.base, definition.included
        )
        run = PoolRun(definition, transport.checkout)
        execution = TaskExecution(
            *(held, run, self._fleet, self._store, self._pool),
            *(transport, self._shipping, self._places),
        )
        return await execution.execute()

    async def _give_up(self, held: HeldLease, reason: str, *, failed: bool = False) -> None:
        """End the agents of a task; give it back, if it is still this worker's."""
        lease = held.lease
        sessions = self._shipping.list_sessions(lease)
        await self._shipping.forget(lease)
        for session in sessions:
            await self._kill(session, reason)
        self._say(f"{lease.path} given up: {reason}")
        if not failed and held.reason != _DRAINED:
            return
        try:
            if failed and lease.failures + 1 >= MOST_FAILURES:
                await self._fail(lease, reason)
            else:
                pause = _PAUSE if failed else 0.0
                await self._store.release(lease, failed=failed, pause=pause)
        except PoolError as error:
            _log.info("%s is not given back: %s", lease.path, error)

    async def _fail(self, lease: Lease, reason: str) -> None:
        """Workers tried often enough."""
        now = read_wall_clock()
        text = f"workers could not do it: {reason}"
        ended = ProgressEntry(
            time=now, kind="task_ended", key=f"{lease.key}/end", task=lease.key, state="failed",
            text=text,
        )  # fmt: skip
        await self._store.note(lease, ended)
        last = ProgressEntry(time=now, kind="run_ended", key="run-end")
        await self._store.finish(lease, "failed", last)

    async def _beat(self) -> None:
        """Renew the leases; lose those that another has, or that ran out."""
        loop = asyncio.get_running_loop()
        while True:
            state = "draining" if self._is_draining.is_set() else "active"
            helds = list(self._held.values())
            begun = loop.time()
            try:
                kept = await self._beats.renew(
                    replace(self._info, state=state),
                    [held.lease for held in helds],
                    self._options.lease_seconds,
                )
            except PoolVersionError as error:
                self._leave(error)
            except PoolUnreachableError as error:
                _log.warning("%s", error)
                for held in helds:
                    if loop.time() > held.deadline:
                        held.lose("the pool could not be reached in time")
            else:
                for held in helds:
                    lease = held.lease
                    if (lease.run, lease.key, lease.token) in kept:
                        held.deadline = begun + self._options.lease_seconds
                    elif self._held.get(lease.path) is held:
                        held.lose("another worker has it, or the run was stopped")
            await asyncio.sleep(self._options.lease_seconds / 6)

    def _leave(self, error: PoolVersionError) -> None:
        """Nothing may be written any more: end the agents, and then this worker."""
        self._failure = error
        for held in self._held.values():
            held.lose(str(error))
        self._is_draining.set()
        self._changed.set()

    async def _clean_up(self) -> None:
        """Remove what runs have left, now and then, and when one may have ended."""
        while True:
            try:
                async with asyncio.timeout(_CLEAN_SECONDS):
                    await self._may_clean.wait()
            except TimeoutError:
                pass
            self._may_clean.clear()
            try:
                for one in await self._cleanup.clean_due():
                    self._say(f"{one.name} cleaned up: {one.references} references removed")
            except PoolUnreachableError as error:
                _log.info("%s", error)

    async def _take_answers(self) -> None:
        """Give answers of people to the agents that they are for."""
        while True:
            try:
                for answer in await self._store.list_answers(self._info.id):
                    await self._take_answer(answer)
            except PoolUnreachableError as error:
                _log.info("%s", error)
            await asyncio.sleep(_POLL)

    async def _take_answer(self, answer: PendingAnswer) -> None:
        request, given = RequestId(answer.request), answer.answer
        refused = ""
        try:
            if "choice" in given:
                choice, feedback = given["choice"], given.get("feedback")
                await self._fleet.answer(request, choice, by=answer.by, feedback=feedback)
            else:
                action, content = given["action"], given.get("content")
                await self._fleet.reply(request, action, by=answer.by, content=content)
        except (LinkError, NoHostError):
            raise
        except (QuarterdeckError, ValueError) as error:
            refused = str(error) or type(error).__name__
        await self._store.take_answer(answer.request, refused)


_DRAINED = "the worker is drained"
