"""The agents that this process runs: starts them, ends them, keeps names and bounds."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace as copy

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.drivers.driver import ClosedAs
from quarterdeck.journal import Journal, JournalError
from quarterdeck.policy.gate import Gate
from quarterdeck.wire.events import (
    Event,
    NoticePosted,
    SessionChanged,
    SessionEnded,
    SessionSpawned,
)
from quarterdeck.wire.ids import SessionId

from .agent_entry import AgentEntry
from .agent_runner import AgentRunner, AgentStart, SessionOpener
from .api import QueuedPrompt
from .budgets.service import BudgetService
from .checkpoints.service import CheckpointService
from .errors import AgentNotReadyError, FleetLimitError, NameTakenError
from .live_index import LiveIndex, LogWriter
from .names import check_name, choose_free_name, normalize_name
from .permissions.delegation import DelegationLimits
from .prompt_queue import PromptQueues, make_queued_event
from .sessions.sub_agents import delete_with_sub_agents

__all__ = ["FleetLimits", "Supervisor"]


class FleetLimits(Struct, frozen=True, kw_only=True):
    """How much a fleet takes on."""

    live: int = 200
    """Agents that run at one time."""
    depth: int = 8
    """Generations of agents that start agents."""
    queue: int = 1_000
    """Prompts that wait for one agent."""
    reach: DelegationLimits = DelegationLimits()
    """How far agents may go that lead others."""


class Supervisor:
    """Every live agent of this process."""

    def __init__(
        self,
        journal: Journal,
        current: LiveIndex,
        notes: LogWriter,
        queues: PromptQueues,
        opener: SessionOpener,
        bounds: FleetLimits,
        checkpoints: CheckpointService,
        budgets: BudgetService,
    ) -> None:
        self._budgets = budgets
        self._checkpoints = checkpoints
        self._journal = journal
        self._current = current
        self._notes = notes
        self._queues = queues
        self._opener = opener
        self._bounds = bounds
        self._members: dict[SessionId, AgentRunner] = {}
        self._naming = asyncio.Lock()
        """Held from looking for a name until it is noted."""
        self._reserved: set[str] = set()
        """Keys of names whose agents are being prepared."""
        self._leaving: set[SessionId] = set()
        """Those that are being deleted; no one starts them any more."""
        self._is_stopping = False

    def get(self, session: SessionId) -> AgentRunner | None:
        """The live agent of a session; None if it is not live."""
        return self._members.get(session)

    def takes_images(self, session: SessionId) -> bool | None:
        """Whether a live agent takes images; None if it is not live, or not yet."""
        member = self._members.get(session)
        opened = member.session if member is not None else None
        return opened.capabilities.images if opened is not None else None

    def gate(self, session: SessionId) -> Gate | None:
        """The gate of a live agent."""
        member = self._members.get(session)
        return member.gate if member is not None else None

    # Starting

    @asynccontextmanager
    async def reserve_name(self, name: str | None, agent: str) -> AsyncGenerator[str]:
        """Hold a free name while an agent is prepared; ``start_new`` takes it in the block.

        Raises:
            InvalidAgentNameError, NameTakenError: the wanted one cannot be had.
        """
        async with self._naming:
            free = choose_free_name(name, agent, self._current.names() | self._reserved)
            key = normalize_name(free)
            self._reserved.add(key)
        try:
            yield free
        finally:
            self._reserved.discard(key)

    async def start_new(
        self,
        start: AgentStart,
        name: str | None,
        first: QueuedPrompt | None,
        *,
        is_reserved: bool = False,
    ) -> AgentEntry:
        """Note a new agent under a free name and start it.

        ``is_reserved``: the name is one that ``reserve_name`` holds for it.

        Raises:
            InvalidAgentNameError, NameTakenError, FleetLimitError, NoSuchAgentError,
                AgentNotReadyError, JournalError: nothing runs.
        """
        async with self._naming:
            await self._check_parent(start.spawn.parent_session)
            taken = self._current.names()
            if not is_reserved:
                taken |= self._reserved
            start = _named(start, choose_free_name(name, start.spawn.options.agent, taken))
            events = (start.spawn, *start.noted, *_missing(start), *_queueing(first))
            return await self._start(start, events)

    async def start_again(self, start: AgentStart) -> AgentEntry:
        """Note that an agent runs again and start it. Raises AgentNotReadyError, FleetLimitError,
        JournalError.
        """
        async with self._naming:
            entry = self._current.get(start.session)
            if entry.is_started:
                raise AgentNotReadyError(f"{entry.name!r} is already live")
            if start.session in self._leaving:
                raise AgentNotReadyError(f"{entry.name!r} is being deleted")
            if entry.status.is_archived:
                raise AgentNotReadyError(f"{entry.name!r} is archived; unarchive it first")
            if (last := self._members.get(start.session)) is not None:
                await last.over()  # its end is written, and it is about to go
            start = _named(start, entry.name)
            return await self._start(start, (start.spawn, *_missing(start)))

    async def adopt(
        self, session: SessionId, spawn: SessionSpawned, name: str | None, time: int
    ) -> None:
        """Note an agent that ran elsewhere, under a free name; nothing is started.

        Raises:
            InvalidAgentNameError, NameTakenError, AgentNotReadyError, JournalError: nothing is
                noted.
        """
        async with self._naming:
            if self._is_stopping:
                raise AgentNotReadyError("the host is stopping; start it again first")
            taken = self._current.names() | self._reserved
            free = choose_free_name(name, spawn.options.agent, taken)
            await self._notes.note(session, replace(spawn, name=free), time=time)

    async def _start(self, start: AgentStart, events: tuple[Event, ...]) -> AgentEntry:
        if self._is_stopping:
            raise AgentNotReadyError("the host is stopping; start it again first")
        if len(self._members) >= self._bounds.live:
            raise FleetLimitError(f"{self._bounds.live} agents are live; end some first")
        await self._budgets.check_agents(start.spawn.parent_session, start.spawn.options.cwd)
        member = AgentRunner(
            start,
            self._opener,
            current=self._current,
            notes=self._notes,
            queues=self._queues,
            checkpoints=self._checkpoints,
            budgets=self._budgets,
        )
        self._members[member.id] = member
        try:
            await self._notes.note(member.id, *events)
        except JournalError as error:
            del self._members[member.id]
            # What was taken on may still be written: then so is this, and no one sees a ghost.
            with suppress(JournalError):
                await self._journal.append(
                    member.id,
                    SessionEnded(how="broken", reason=(f"the log cannot be written: {error}")),
                )
            raise
        entry = self._current.get(member.id)
        member.begin(lambda: self._members.pop(member.id, None))
        return entry

    async def _check_parent(self, parent: SessionId | None) -> None:
        depth = 0
        while parent is not None:
            entry = await self._current.find(parent)
            member = self._members.get(entry.session)
            if depth == 0 and (member is None or member.is_ending):
                raise AgentNotReadyError(f"{entry.name!r} is not live, so it can start no agents")
            depth += 1
            if depth >= self._bounds.depth:
                raise FleetLimitError(
                    f"agents may be nested at most {self._bounds.depth} levels deep"
                )
            parent = entry.spawn.parent_session

    # Ending

    async def end(self, session: SessionId, how: ClosedAs, reason: str | None) -> None:
        """End an agent, if it is live; one that is killed takes its children along."""
        if how == "killed":
            await self._kill(session, reason)
        elif (member := self._members.get(session)) is not None:
            member.end(how, reason)
            await member.over()

    async def _kill(self, session: SessionId, reason: str | None) -> None:
        why = f"{self._current.get(session).name!r}, which started it, was killed"
        killed: dict[SessionId, AgentRunner] = {}
        found = [session]
        while found:
            for one in found:
                if (member := self._members.get(one)) is not None:
                    member.end("killed", reason if one == session else why)
                    killed[one] = member
            async with self._naming:
                pass  # a child that was being started meanwhile is known now; no other can be
            offspring = self._offspring(session)
            found = [one for one in offspring if one in self._members and one not in killed]
        for member in killed.values():
            await member.over()
            await self._queues.drop(member.id, "the agent was killed")

    async def delete(self, session: SessionId) -> None:
        """Delete an agent that is not live, with everything in the log.

        Raises AgentNotReadyError.
        """
        async with self._naming:
            entry = self._current.get(session)
            if entry.is_started or session in self._leaving:
                how = "is being deleted" if session in self._leaving else "is live; end it first"
                raise AgentNotReadyError(f"{entry.name!r} {how}")
            self._leaving.add(session)
        # Not under the lock: a long session takes its time, and others want to start.
        try:
            if (last := self._members.get(session)) is not None:
                await last.over()
            await delete_with_sub_agents(self._journal, session)
            self._current.forget(session)
            await self._checkpoints.delete(session)
        finally:
            self._leaving.discard(session)

    async def stop(self, reason: str) -> None:
        """End everybody in good order and start no one any more."""
        self._is_stopping = True
        async with self._naming:
            pass  # what is being started is a member now
        members = tuple(self._members.values())
        for member in members:
            member.end("closed", reason)
        for member in members:
            await member.over()

    def _offspring(self, session: SessionId) -> Iterator[SessionId]:
        for entry in tuple(self._current.all()):
            if self._current.find_parent(entry) == session:
                yield entry.session
                yield from self._offspring(entry.session)

    # Names

    async def rename(self, session: SessionId, name: str) -> None:
        """Give an agent another name. Raises InvalidAgentNameError, NameTakenError."""
        name = check_name(name)
        async with self._naming:
            self._check_free(session, name)
            await self._notes.note(session, SessionChanged(name=name))

    async def archive(self, session: SessionId) -> None:
        """End an agent and put it away."""
        while True:
            await self.end(session, "closed", None)
            async with self._naming:
                status = self._current.get(session).status
                if self._current.get(session).is_started:
                    continue  # someone has resumed it in between
                if not status.is_archived:
                    await self._notes.note(session, SessionChanged(archived=True))
                return

    async def unarchive(self, session: SessionId) -> None:
        """Take an agent out again. Raises NameTakenError."""
        async with self._naming:
            self._check_free(session, self._current.get(session).name)
            await self._notes.note(session, SessionChanged(archived=False))

    def _check_free(self, session: SessionId, name: str) -> None:
        key = normalize_name(name)
        if self._current.holder(key) not in (None, session) or key in self._reserved:
            raise NameTakenError(name)


def _missing(start: AgentStart) -> tuple[Event, ...]:
    """A notice of what cannot be set again, since the log does not keep it."""
    if not start.missing:
        return ()
    title = f"not set again, because values are not stored: {', '.join(start.missing)}"
    return (NoticePosted(title=title, severity="warning"),)


def _named(start: AgentStart, name: str) -> AgentStart:
    return copy(start, spawn=replace(start.spawn, name=name))


def _queueing(first: QueuedPrompt | None) -> tuple[Event, ...]:
    return (make_queued_event(first),) if first is not None else ()
