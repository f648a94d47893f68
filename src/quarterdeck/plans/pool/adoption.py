"""Agents of other workers, brought to this machine: their files, and their sessions if that can be.

Where the pool has the files in which the vendor keeps the session, the agent here resumes it: it
remembers what it did. Else a new agent starts with a summary of what was said.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import AgentInfo, SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import NoHostError, NoSuchAgentError
from quarterdeck.fleet.worktrees.service import predict_directory
from quarterdeck.wire.errors import LinkError, QuarterdeckError

from ..conduct import TaskBrief, make_agent_name, make_spawn
from ..plan import Contender
from .errors import LeaseLostError, PoolUnreachableError
from .event_shipment import EventShipment
from .pool_fleet import PoolFleet, describe_past
from .session_files import CarriedSession, VendorSessionFiles
from .store import Lease, PoolStore, PushedTree
from .transport import PoolTransport, name_reference

__all__ = ["AdoptedAgent", "Adoption", "HeldLease"]

_log = logging.getLogger(__name__)
_RETRY_SECONDS = 0.5
_START_SECONDS = 120.0


class HeldLease:
    """A lease and when it ends, by this machine's monotonic clock, if it is not renewed.

    The clock begins before the database's does, so that it is over here first.
    """

    def __init__(self, lease: Lease, deadline: float) -> None:
        self.lease = lease
        self.deadline = deadline
        self.lost = asyncio.Event()
        self.reason = ""

    def lose(self, reason: str) -> None:
        """Nothing that is written from now on counts."""
        self.reason = self.reason or reason
        self.lost.set()

    async def insist(self, write: Callable[[], Any]) -> Any:
        """Do something at the pool, again and again while the database is gone.

        Raises:
            LeaseLostError: another worker has the task, or may have it.
        """
        while True:
            if self.lost.is_set():
                raise LeaseLostError(self.lease.run, self.lease.key, self.reason)
            try:
                return await write()
            except PoolUnreachableError as error:
                if asyncio.get_running_loop().time() > self.deadline:
                    self.lose(str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            except LeaseLostError as error:
                self.lose(str(error))
                raise


class AdoptedAgent(Struct, frozen=True, kw_only=True):
    """An agent of this machine that goes on with the work of one elsewhere."""

    info: AgentInfo
    is_resumed: bool
    """It has the session of the other one, up to its last whole turn."""


class Adoption:
    """Brings the agents of one task to this machine, and their files to the pool.

    Args:
        held: the task.
        fleet: of this machine.
        store: of the pool.
        pool: what the pool knows of other workers' sessions.
        transport: of the run.
        shipping: of this worker.
        places: of this program.
        carries_ignored: ignored files travel too.
    """

    def __init__(
        self,
        held: HeldLease,
        fleet: HostClient,
        store: PoolStore,
        pool: PoolFleet,
        transport: PoolTransport,
        shipping: EventShipment,
        places: Places,
        *,
        carries_ignored: bool = False,
    ) -> None:
        self.held = held
        self.fleet = fleet
        self.store = store
        self.transport = transport
        self.shipping = shipping
        self._pool = pool
        self._places = places
        self._carries_ignored = carries_ignored
        self._files = VendorSessionFiles(store.database)
        self._locks: dict[str, asyncio.Lock] = {}

    async def is_here(self, session: str) -> bool:
        """Whether an agent is of this machine; then the pool gets what it says."""
        try:
            await self.fleet.agent(session)
        except NoSuchAgentError:
            return False
        await self.shipping.watch(self.held.lease, session)
        return True

    async def adopt(self, run: str, brief: TaskBrief, contender: Contender) -> AdoptedAgent:
        """An agent here with the files of one elsewhere; it has been sent nothing yet."""
        lease = self.held.lease
        name = f"{make_agent_name(run, lease.key, contender.name)}-{lease.token}"
        async with self._locks.setdefault(name, asyncio.Lock()):
            found = await self._find(name) or await self._start(name, run, brief, contender)
        await self.shipping.watch(lease, found.info.session)
        return found

    async def _find(self, name: str) -> AdoptedAgent | None:
        """One that was started before; a resumed one that died at once does not count."""
        for own, is_resumed in ((f"{name}s", False), (name, True)):
            try:
                info = await self.fleet.agent(own)
            except NoSuchAgentError:
                continue
            if info.is_live or not is_resumed:
                return AdoptedAgent(info=info, is_resumed=is_resumed)
        return None

    async def _start(
        self, name: str, run: str, brief: TaskBrief, contender: Contender
    ) -> AdoptedAgent:
        lease, insist = self.held.lease, self.held.insist
        request = replace(make_spawn(run, brief, contender), prompt=None)
        tree = await insist(lambda: self.store.find_tree(lease, contender.name))
        worktree = request.options.worktree
        if tree is not None and worktree is not None and not worktree.is_off:
            await self.transport.fetch_tree(tree.reference)
            options = replace(request.options, worktree=replace(worktree, base=tree.commit))
            request = replace(request, options=options)
        carried = await insist(lambda: self._files.find(lease, contender.name))
        info = None
        if carried is not None and carried.agent == request.options.agent:
            info = await self._resume(replace(request, name=name), contender, carried)
        is_resumed = info is not None
        if info is None:
            info = await self.fleet.spawn(replace(request, name=f"{name}s"))
        if tree is not None and tree.included and info.worktree is not None:
            reference = f"{tree.reference}-included"
            await self.transport.fetch_included(reference, tree.included, info.worktree.path)
        return AdoptedAgent(info=info, is_resumed=is_resumed)

    async def _resume(
        self, request: SpawnOptions, contender: Contender, carried: CarriedSession
    ) -> AgentInfo | None:
        """Start an agent with the session of another machine; None: that cannot be."""
        lease = self.held.lease
        try:
            cwd = await self._predict(request)
            await self.held.insist(
                lambda: self._files.place(lease, contender.name, carried, cwd),
            )
            options = replace(request.options, resume=carried.agent_session)
            info = await self.fleet.spawn(replace(request, options=options))
            await self.fleet.wait([info.session], timeout=_START_SECONDS)
            info = await self.fleet.agent(info.session)
        except (LinkError, NoHostError, LeaseLostError):
            raise
        except QuarterdeckError as error:
            _log.info("%s is not resumed here: %s", carried.agent_session, error)
            return None
        if not info.is_live:
            _log.info("%s is not resumed here: %s", carried.agent_session, info.reason)
            return None
        return info

    async def _predict(self, request: SpawnOptions) -> str:
        """Where the agent will work: some vendors keep sessions by that."""
        options = request.options
        assert request.name is not None
        if options.worktree is None or options.worktree.is_off:
            return options.cwd
        return await predict_directory(self._places, os.environ, options, request.name)

    async def make_prompt(self, adopted: AdoptedAgent, session: str, words: str) -> str:
        """A prompt for an adopted agent: with what it must know of what was before."""
        if adopted.is_resumed:
            return (
                "Your session goes on at another machine, since yours is gone. You work in "
                f"{adopted.info.cwd} now. Files and conversation are as they were after your last "
                f"whole turn; what you did after it is lost.\n\n{words}"
            )
        past = await self.held.insist(lambda: describe_past(self._pool, session))
        return f"{past}\n\n{words}" if past else words

    async def store_turn(self, contender: str, session: str) -> None:
        """Let the pool have files and session of an agent as they are now.

        Raises:
            TransportError, LeaseLostError: they cannot be pushed, or may not.
        """
        info, lease = await self.fleet.agent(session), self.held.lease
        if info.worktree is not None:
            path = info.worktree.path
            reference = name_reference(
                *(lease.run, "tasks", lease.key, contender, str(lease.token))
            )
            commit = await self.transport.push_tree(path, session, reference)
            included = ""
            if self._carries_ignored:
                beside = f"{reference}-included"
                included = await self.transport.push_included(path, session, beside)
            tree = PushedTree(
                contender=contender, token=lease.token, reference=reference, commit=commit,
                session=session, included=included,
            )  # fmt: skip
            await self.held.insist(lambda: self.store.add_tree(lease, tree))
        await self.held.insist(lambda: self._files.store(lease, contender, info))
