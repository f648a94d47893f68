"""The fleet in this process: many agents over one log."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from quarterdeck import __version__
from quarterdeck.config.places import Places
from quarterdeck.drivers.driver import ClosedAs
from quarterdeck.journal import Journal, JournalClosedError, SearchHit
from quarterdeck.policy.grants import Grant
from quarterdeck.policy.modes import parse_mode
from quarterdeck.terminal.viewer_events import ViewerEvent
from quarterdeck.wire.content import ContentBlock, text
from quarterdeck.wire.events import Origin, SessionChanged
from quarterdeck.wire.ids import MessageId, RequestId, SessionId, new_message_id, new_session_id
from quarterdeck.wire.permissions import QuestionAction
from quarterdeck.wire.record import Record

from .agent_entry import AgentEntry
from .agent_runner import AgentRunner, SessionOpener
from .api import (
    AgentInfo,
    FleetStatus,
    FleetTerminalOptions,
    ImportedSession,
    InboxItem,
    QueuedPrompt,
    SpawnOptions,
    TerminalInfo,
    WaitFor,
    WorkbenchHandler,
    WorkbenchRegistration,
)
from .attached_workbenches import AttachedWorkbenches
from .errors import AgentNotReadyError
from .inbox import Inbox
from .live_index import LiveIndex
from .log_writer import LogWriter
from .mcp.orchestration import Orchestration
from .names import looks_like_id
from .permissions.grants import FleetGrants, GrantsProjection
from .permissions.session_gate import open_grants
from .projections import InboxProjection, RosterProjection
from .prompt_queue import PromptQueues
from .recovery import recover_agents
from .session_factory import AgentOpener, SessionFactory
from .sessions.importer import SessionImporter
from .supervisor import FleetLimits, Supervisor
from .terminals import HostTerminals, LiveAgentTerminals

__all__ = ["LocalFleet", "ReadableFleet", "TerminalCalls", "WorkbenchCalls"]


class ReadableFleet:
    """What can be done with a fleet without changing it; see ``port.Fleet``."""

    def __init__(self, journal: Journal, current: LiveIndex) -> None:
        self.journal = journal
        """The log; its records may be read and followed by anybody."""
        self._current = current
        self._started = time.time_ns() // 1_000

    async def agents(
        self, *, archived: bool = False, parent: SessionId | None = None
    ) -> list[AgentInfo]:
        """The agents: who needs a person first, then the latest to change."""
        entries = [one for one in self._current.all() if not one.standing.is_archived]
        if archived:
            entries += await self._current.archived()
        if parent is not None:
            entries = [one for one in entries if one.wish.parent_session == parent]
        entries.sort(key=_order)
        return [self._current.info(one) for one in entries]

    async def agent(self, agent: str) -> AgentInfo:
        """One agent, by name or id."""
        return self._current.info(await self._current.find(agent))

    async def read(
        self, agent: str | None, *, after: int = 0, before: int | None = None, limit: int = 200
    ) -> list[Record]:
        """Records of an agent, or of all, in order."""
        session = (await self._current.find(agent)).session if agent is not None else None
        if before is not None:
            return await self.journal.tail(session, before, limit)
        return await self.journal.read(after, session, limit)

    def follow(
        self, after: int | None = None, *, agent: str | None = None
    ) -> AsyncGenerator[Record]:
        """Every record after a sequence number (None: from now on), for ever."""
        return self._follow(self.journal.last if after is None else after, agent)

    async def _follow(self, after: int, agent: str | None) -> AsyncGenerator[Record]:
        session = (await self._current.find(agent)).session if agent is not None else None
        async with aclosing(self.journal.follow(after, session)) as records:
            async for record in records:
                try:
                    # Whoever has seen a record sees it in every list too.
                    await self._current.reached(record.seq)
                except JournalClosedError:
                    return
                yield record

    async def wait(
        self, agents: Sequence[str], *, until: WaitFor = "all", timeout: float | None = None
    ) -> list[AgentInfo]:
        """Wait until any or all of these are at rest; those that are."""
        ids = list(dict.fromkeys([(await self._current.find(one)).session for one in agents]))
        current, enough = self._current, any if until == "any" else all
        try:
            async with asyncio.timeout(timeout):
                await current.until(lambda: not ids or enough(current.get(i).at_rest for i in ids))
        except TimeoutError:
            pass  # what is at rest by now is the answer
        entries = [current.get(id_) for id_ in ids]
        return [current.info(entry) for entry in entries if entry.at_rest]

    async def search(self, words: str, *, limit: int = 50) -> list[SearchHit]:
        """Where these words were said, by any agent, newest first."""
        return await self.journal.search(words, limit=limit)

    async def status(self) -> FleetStatus:
        """The fleet as a whole."""
        entries = [one for one in self._current.all() if not one.standing.is_archived]
        agents: dict[str, int] = {}
        for one in entries:
            agents[one.state] = agents.get(one.state, 0) + 1
        stalled = self.journal.stalled
        return FleetStatus(
            version=__version__,
            pid=os.getpid(),
            started=self._started,
            log=str(self.journal.path),
            last_seq=self.journal.last,
            agents=agents,
            needs_person=sum(one.standing.needs_person for one in entries),
            problem=str(stalled) if stalled is not None else None,
        )


def _order(entry: AgentEntry) -> tuple[bool, int]:
    return not entry.standing.needs_person, -entry.last_seq


class WorkbenchCalls:
    """The part of a fleet that is about screens; see ``port.Fleet``."""

    _current: LiveIndex
    _screens: AttachedWorkbenches

    def attach_screen(
        self, handler: WorkbenchHandler, *, cwd: str, idle: float = 0.0
    ) -> AbstractAsyncContextManager[WorkbenchRegistration]:
        """Offer a screen to agents, until the end of the block."""
        return self._screens.attach(handler, cwd=cwd, idle=idle)

    async def call_screen(self, name: str, arguments: dict[str, Any], *, by: str = "person") -> Any:
        """Let one screen do something, and return what it answers."""
        cwd = (await self._current.find(by)).wish.cwd if looks_like_id(by) else None
        return await self._screens.call(name, arguments, by=by, cwd=cwd)


class TerminalCalls:
    """The part of a fleet that is about terminals; see ``terminal_port.Terminals``."""

    _terminals: HostTerminals

    async def open_terminal(self, wish: FleetTerminalOptions) -> TerminalInfo:
        """Start a program in a terminal."""
        return await self._terminals.open(wish)

    async def terminals(self) -> list[TerminalInfo]:
        """All that run, and those that ended and are not closed yet; oldest first."""
        return self._terminals.all()

    def watch_terminal(self, terminal: str) -> AsyncGenerator[ViewerEvent]:
        """The screen with what is above it, then everything that follows."""
        return self._terminals.watch(terminal)

    async def write_terminal(self, terminal: str, data: bytes) -> None:
        """Type bytes as they are."""
        await self._terminals.write(terminal, data)

    async def paste_terminal(self, terminal: str, text: str) -> None:
        """Paste text: nothing in it can press a key."""
        await self._terminals.paste(terminal, text)

    async def resize_terminal(self, terminal: str, columns: int, rows: int) -> None:
        """Change the size for everybody who looks."""
        await self._terminals.resize(terminal, columns, rows)

    async def close_terminal(self, terminal: str) -> None:
        """End the program with all that it started, and forget the terminal."""
        await self._terminals.close(terminal)


if TYPE_CHECKING:
    from typing import cast

    from .api import FleetTerminals

    _terminals: FleetTerminals = cast("TerminalCalls", None)


T = TypeVar("T")
_STOPPED = "the host was stopped"
_DEFAULTS = FleetLimits()


class LocalFleet(ReadableFleet, WorkbenchCalls, TerminalCalls):
    """A fleet whose agents this process owns; see ``port.Fleet``. Made by ``open``.

    What was begun for a caller that goes away meanwhile is finished all the same.
    """

    def __init__(
        self,
        journal: Journal,
        current: LiveIndex,
        starting: SessionFactory,
        opener: SessionOpener,
        bounds: FleetLimits,
    ) -> None:
        super().__init__(journal, current)
        self._starting = starting
        self._notes = LogWriter(journal, current)
        self._queues = PromptQueues(current, self._notes, most=bounds.queue)
        self._tools = Orchestration(
            self,
            current,
            self._notes,
            lambda one: self._crew.gate(one),
            starting.find,
            bounds.reach,
        )
        opener = self._tools.wrap_opener(opener)
        self._crew = Supervisor(journal, current, self._notes, self._queues, opener, bounds)
        self._importing = SessionImporter(journal, current, self._notes, self._crew)
        current.takes_images = self._crew.takes_images
        self._inbox = Inbox(journal, current, self._crew.gate)
        self._granted = FleetGrants(journal, self._notes, starting.grants, self._crew.gate)
        self._screens = AttachedWorkbenches()
        self._terminals = HostTerminals(
            starting.environment, LiveAgentTerminals(current, self._crew)
        )
        self._working: set[asyncio.Task[Any]] = set()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        places: Places,
        environment: Mapping[str, str],
        *,
        log: Path | None = None,
        open_session: SessionOpener | None = None,
        bounds: FleetLimits = _DEFAULTS,
        resume_running: bool = False,
        clock: Callable[[], int] | None = None,
    ) -> AsyncGenerator["LocalFleet"]:
        """Open the fleet of a log, by default the user's; leaving ends every agent.

        Agents that ran when an earlier host was killed are shown as failed, and can be resumed;
        with ``resume_running`` they are. ``open_session``: what starts agents; None: any of the
        catalogue. ``clock`` tells microseconds since the epoch.

        Raises:
            JournalLockedError: another process owns this fleet.
            JournalError, GrantsError: the log or the file of grants cannot be used.
        """
        keeping: dict[str, Any] = {"clock": clock} if clock is not None else {}
        projections = (RosterProjection(), InboxProjection(), GrantsProjection())
        grants = await open_grants(places)
        path = log or places.journal_file
        async with Journal.open(path, projections=projections, **keeping) as journal:
            recovered = await recover_agents(journal)
            current = LiveIndex(journal)
            await current.load()
            starting = SessionFactory(places, environment, journal, grants)
            opener = open_session or AgentOpener(places, environment, journal)
            fleet = cls(journal, current, starting, opener, bounds)
            async with fleet._running():
                if resume_running:
                    await fleet._resume_all(recovered)
                yield fleet

    @asynccontextmanager
    async def _running(self) -> AsyncGenerator[None]:
        following = asyncio.create_task(self._current.follow())
        try:
            yield
        finally:
            stopping = asyncio.ensure_future(self._stop())
            try:
                await asyncio.shield(stopping)
            except asyncio.CancelledError:
                # Cancelled while stopping: no process of an agent may be left all the same.
                await stopping
                raise
            finally:
                following.cancel()
                await asyncio.wait([following])

    async def _stop(self) -> None:
        closing = asyncio.ensure_future(self._terminals.stop())
        try:
            await self._crew.stop(_STOPPED)
        finally:
            await closing
        if self._working:
            await asyncio.wait(self._working)
        await self._tools.close()

    async def _resume_all(self, sessions: Sequence[SessionId]) -> None:
        for session in sessions:
            if self._current.get(session).can_resume:
                await self.resume(session)

    async def status(self) -> FleetStatus:
        """The fleet as a whole."""
        return replace(await super().status(), terminals=self._terminals.running)

    # Beginning and ending

    async def spawn(self, wish: SpawnOptions) -> AgentInfo:
        """Start an agent; see ``port.Fleet``."""
        if wish.parent is not None:
            parent = await self._current.find(wish.parent)
            wish = replace(wish, parent=parent.session)
        start = await self._starting.new(wish, new_session_id())
        introduction = await self._tools.introduction(start.wish)
        first = _first(wish.prompt, wish.parent, introduction)
        return await self._started_as(self._crew.start_new(start, wish.name, first))

    async def resume(self, agent: str) -> AgentInfo:
        """Start an agent that is not live again."""
        entry = await self._current.find(agent)
        if entry.is_started:
            raise AgentNotReadyError(f"{entry.name!r} is already live")
        if not entry.can_resume:
            raise AgentNotReadyError(
                f"{entry.name!r} cannot be resumed: {entry.wish.agent} reported no session id"
            )
        start = await self._starting.again(entry)
        return await self._started_as(self._crew.start_again(start))

    async def fork(
        self, agent: str, *, name: str | None = None, prompt: str | None = None
    ) -> AgentInfo:
        """Start a copy of an agent with the same past."""
        entry = await self._current.find(agent)
        member = self._crew.get(entry.session)
        session = member.session if member is not None else None
        if entry.resume is None or (session is not None and not session.capabilities.forks):
            raise AgentNotReadyError(
                f"{entry.name!r} cannot be forked: {entry.wish.agent} does not support it"
            )
        parent = entry.wish.parent_session
        if parent is not None and self._crew.get(parent) is None:
            parent = None  # nobody is there any more whose it could be
        start = await self._starting.fork(entry, new_session_id(), parent)
        return await self._started_as(self._crew.start_new(start, name, _first(prompt)))

    async def import_session(
        self,
        agent: str,
        id: str,
        homes: dict[str, str],
        name: str | None = None,
        cwd: str | None = None,
    ) -> ImportedSession:
        """Take a session that an agent keeps on disk into the log."""
        return await self._finish(self._importing.bring(agent, id, homes, name=name, cwd=cwd))

    async def kill(self, agent: str, *, reason: str | None = None) -> None:
        """End the agent and all its processes now; its children too."""
        await self._end(agent, "killed", reason)

    async def close(self, agent: str) -> None:
        """End the agent in good order."""
        await self._end(agent, "closed", None)

    async def _end(self, agent: str, how: ClosedAs, reason: str | None) -> None:
        entry = await self._current.find(agent)
        await self._finish(self._crew.end(entry.session, how, reason))

    async def archive(self, agent: str, *, archived: bool = True) -> None:
        """Put an agent away, ending it first, or take it out again."""
        session = (await self._current.find(agent)).session
        if archived:
            await self._finish(self._crew.archive(session))
        elif self._current.get(session).standing.is_archived:
            await self._finish(self._crew.unarchive(session))

    async def delete(self, agent: str) -> None:
        """Delete an agent that is not live for good, with all that was said."""
        session = (await self._current.find(agent)).session
        await self._finish(self._crew.delete(session))

    async def rename(self, agent: str, name: str) -> AgentInfo:
        """Give an agent another name."""
        session = (await self._current.find(agent)).session
        await self._finish(self._crew.rename(session, name))
        return self._current.info(self._current.get(session))

    # Talking

    async def send(
        self,
        agent: str,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
    ) -> MessageId:
        """Give an agent a prompt, after those that wait already."""
        member = await self._live(agent)
        message = new_message_id()
        queued = QueuedPrompt(message=message, content=content, origin=origin, sender=sender)
        await self._finish(self._queues.add(member.id, queued))
        return message

    async def edit(
        self, agent: str, message: MessageId, content: tuple[ContentBlock, ...] | None
    ) -> bool:
        """Change the words of a prompt that waits, or drop it."""
        entry = await self._current.find(agent)
        return await self._finish(self._queues.edit(entry.session, message, content))

    async def interrupt(self, agent: str, *, keep_queue: bool = True) -> None:
        """End the agent's running turn, and drop what waits if asked."""
        entry = await self._current.find(agent)
        await self._finish(self._interrupt(entry.session, keep_queue))

    async def _interrupt(self, session: SessionId, keep_queue: bool) -> None:
        if not keep_queue:
            await self._queues.drop(session, "dropped by an interrupt")
        if (member := self._crew.get(session)) is not None:
            await member.interrupt()
        await self._notes.settled()

    async def set_option(self, agent: str, option: str, value: str | bool) -> None:
        """Change a setting: ``mode`` (ours), ``agent_mode``, ``model``, or one that it offers."""
        member = await self._live(agent)
        session = member.session
        if session is None:
            raise AgentNotReadyError(f"{agent!r} is still starting; wait for it")
        match option:
            case "mode":
                mode = parse_mode(str(value))
                if self._current.get(member.id).is_native:
                    await session.set_mode(mode)
                else:
                    from quarterdeck.drivers.enforcement import change_mode

                    change_mode(session, mode)
                await self._notes.note(member.id, SessionChanged(mode=mode))
            case "agent_mode":
                await session.set_mode(str(value))
            case "model":
                await session.set_model(str(value))
                if self._current.get(member.id).model != value:
                    await self._notes.note(member.id, SessionChanged(model=str(value)))
            case _:
                await session.set_option(option, value)
        await self._notes.settled()

    # The inbox

    async def inbox(self) -> list[InboxItem]:
        """What waits for a person, oldest first."""
        return self._inbox.items()

    async def answer(
        self, request: RequestId, choice: str, *, by: str = "person", feedback: str | None = None
    ) -> bool:
        """Answer a permission request by an option's id or kind."""
        return await self._inbox.answer(request, choice, by, feedback)

    async def reply(
        self,
        request: RequestId,
        action: QuestionAction,
        *,
        by: str = "person",
        content: dict[str, Any] | None = None,
    ) -> bool:
        """Answer a question."""
        return await self._inbox.reply(request, action, by, content)

    async def grants(self) -> list[Grant]:
        """Every standing answer: lasting ones, then those for one session."""
        return await self._granted.all()

    async def revoke(self, grant: str, *, by: str = "person") -> bool:
        """Take a standing answer back."""
        return await self._finish(self._granted.revoke(grant, by))

    # Within

    async def _live(self, agent: str) -> AgentRunner:
        entry = await self._current.find(agent)
        member = self._crew.get(entry.session)
        if member is None or member.is_ending or not entry.is_started:
            raise AgentNotReadyError(f"{entry.name!r} is not live; resume it first")
        return member

    async def _started_as(self, work: Coroutine[Any, Any, AgentEntry]) -> AgentInfo:
        return self._current.info(await self._finish(work))

    async def _finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something to its end, also when the caller goes away."""
        task = asyncio.create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return await asyncio.shield(task)


def _first(
    prompt: str | None, sender: SessionId | None = None, introduction: str | None = None
) -> QueuedPrompt | None:
    if prompt is None:
        return None
    words = tuple(text(one) for one in (introduction, prompt) if one is not None)
    origin: Origin = "person" if sender is None else "agent"
    return QueuedPrompt(message=new_message_id(), content=words, origin=origin, sender=sender)


if TYPE_CHECKING:
    from typing import cast

    from .api import Fleet

    _: Fleet = cast("LocalFleet", None)
