"""Control of agents: spawned, resumed, prompted, interrupted, renamed, ended, deleted."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace as copy
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from quarterdeck.drivers.driver import ClosedAs
from quarterdeck.policy.modes import parse_mode
from quarterdeck.wire.budgets import BudgetLimit
from quarterdeck.wire.content import ContentBlock, text
from quarterdeck.wire.events import BudgetChanged, Event, Origin, SessionChanged, WorktreeAssigned
from quarterdeck.wire.ids import MessageId, SessionId, new_message_id, new_session_id
from quarterdeck.wire.tasks import BackgroundTasks

from .agent_entry import AgentEntry, is_own_agent
from .agent_runner import AgentRunner, AgentStart
from .api import AgentInfo, QueuedPrompt, SentMessage, SpawnOptions
from .budgets.service import BudgetService
from .budgets.stops import make_decider
from .errors import AgentNotReadyError, InvalidOptionsError
from .live_index import LiveIndex, LogWriter
from .mcp.orchestration import Orchestration
from .prompt_queue import PromptQueues
from .session_factory import SessionFactory
from .sessions.standalone import SessionAdopter
from .supervisor import Supervisor
from .worktrees.builder import MadeWorktree
from .worktrees.service import WorktreeService

__all__ = ["AgentControl", "AgentLifecycle", "BudgetReach"]


class AgentControl:
    """Gives agents prompts and options, by name or id; see ``Fleet`` for each method."""

    def __init__(
        self,
        current: LiveIndex,
        notes: LogWriter,
        queues: PromptQueues,
        supervisor: Supervisor,
        work: BackgroundTasks,
        lifecycle: "AgentLifecycle",
    ) -> None:
        """Args:
        current: who is in the fleet.
        notes: writes to the log.
        queues: the prompts that wait.
        crew: owns the agents that are live.
        work: what is begun here is finished there, also when the caller goes away.
        lifecycle: resumes agents that are given a prompt.
        """
        self._lifecycle = lifecycle
        self._current = current
        self._notes = notes
        self._queues = queues
        self._supervisor = supervisor
        self._work = work

    async def send(
        self,
        agent: str,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
        resume: bool = True,
    ) -> MessageId:
        """Give an agent a prompt, after those that wait already."""
        member = await self._reach(agent, origin, resume)
        message = new_message_id()
        queued = QueuedPrompt(message=message, content=content, origin=origin, sender=sender)
        await self._work.finish(self._queues.add(member.id, queued))
        return message

    async def steer(
        self,
        agent: str,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
        resume: bool = True,
    ) -> SentMessage:
        """Give an agent a message during its turn; without a turn it is a prompt."""
        member = await self._reach(agent, origin, resume)
        message = new_message_id()
        queued = QueuedPrompt(message=message, content=content, origin=origin, sender=sender)
        return await self._work.finish(self._steer(member, queued))

    async def _steer(self, member: AgentRunner, prompt: QueuedPrompt) -> SentMessage:
        if is_steered := await member.steer(prompt):
            await self._notes.settled()
        else:
            await self._queues.add(member.id, prompt)
        return SentMessage(message=prompt.message, steered=is_steered)

    async def edit(
        self, agent: str, message: MessageId, content: tuple[ContentBlock, ...] | None
    ) -> bool:
        """Change the words of a prompt that waits, or drop it."""
        entry = await self._current.find(agent)
        return await self._work.finish(self._queues.edit(entry.session, message, content))

    async def interrupt(self, agent: str, *, keep_queue: bool = True) -> None:
        """End the agent's running turn, and drop what waits if asked."""
        entry = await self._current.find(agent)
        await self._work.finish(self._interrupt(entry.session, keep_queue))

    async def _interrupt(self, session: SessionId, keep_queue: bool) -> None:
        if not keep_queue:
            await self._queues.drop(session, "dropped by an interrupt")
        if (member := self._supervisor.get(session)) is not None:
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

    async def _reach(self, agent: str, origin: Origin, resume: bool) -> AgentRunner:
        """An agent that takes prompts: one that has ended is resumed, if that is wanted.

        What a person has killed, no agent starts again.
        """
        if not resume:
            return await self._live(agent)
        entry = await self._lifecycle.find(agent)
        if (member := self._supervisor.get(entry.session)) is not None and member.is_ending:
            await member.over()
            entry = self._current.get(entry.session)
        if entry.is_started:
            return await self._live(entry.session)
        if origin == "agent" and entry.state == "killed":
            raise AgentNotReadyError(f"{entry.name!r} was killed; only a person can resume it")
        try:
            await self._lifecycle.resume(entry.session)
        except AgentNotReadyError:
            if not self._current.get(entry.session).is_started:
                raise  # else another one has resumed it meanwhile
        return await self._live(entry.session)

    async def _live(self, agent: str) -> AgentRunner:
        entry = await self._current.find(agent)
        member = self._supervisor.get(entry.session)
        if member is None or member.is_ending or not entry.is_started:
            raise AgentNotReadyError(f"{entry.name!r} is not live; resume it first")
        return member


class AgentLifecycle:
    """Starts and ends agents by name or id; see ``Fleet`` for each method."""

    def __init__(
        self,
        current: LiveIndex,
        starting: SessionFactory,
        supervisor: Supervisor,
        tools: Orchestration,
        worktrees: WorktreeService,
        work: BackgroundTasks,
        budgets: BudgetService,
        adopter: SessionAdopter,
    ) -> None:
        """Args:
        current: who is in the fleet.
        starting: makes an agent's start of the options.
        crew: owns the agents that are live.
        tools: what agents that lead are sent.
        worktrees: makes the worktrees in which agents work.
        work: what is begun here is finished there, also when the caller goes away.
        budgets: keeps what agents may use.
        adopter: makes agents of sessions that ran without a host.
        """
        self._adopter = adopter
        self._budgets = budgets
        self._current = current
        self._starting = starting
        self._supervisor = supervisor
        self._tools = tools
        self._worktrees = worktrees
        self._work = work

    async def spawn(self, request: SpawnOptions) -> AgentInfo:
        """Start an agent; see ``Fleet``."""
        if request.parent is not None:
            parent = await self._current.find(request.parent)
            request = replace(request, parent=parent.session)
        options = await self._starting.check(request)
        worktree = await self._worktrees.find_wanted(options)
        if worktree is not None:
            options = replace(options, worktree=worktree)
            return await self._started_as(
                self._spawn_in_worktree(replace(request, options=options))
            )
        return await self._started_as(self._spawn(request, options.cwd))

    async def _spawn(self, request: SpawnOptions, cwd: str) -> AgentEntry:
        with self._worktrees.claims.start(cwd):
            start = await self._starting.new(request, new_session_id())
            start = await self._with_budget(start, request.budget)
            first = await self._first(request, start)
            return await self._supervisor.start_new(start, request.name, first)

    async def _spawn_in_worktree(self, request: SpawnOptions) -> AgentEntry:
        """Make the worktree, then start the agent in it; a start that fails takes it along."""
        wanted = request.options.worktree
        shared = wanted.path if wanted is not None else None
        async with self._supervisor.reserve_name(request.name, request.options.agent) as name:
            with self._worktrees.claims.start(shared or request.options.cwd):
                made = await self._worktrees.make(request.options, name)
            try:
                with self._worktrees.claims.start(made.cwd):
                    return await self._start_made(request, made, name)
            except BaseException:
                await self._worktrees.undo(made)
                raise

    async def _start_made(self, request: SpawnOptions, made: MadeWorktree, name: str) -> AgentEntry:
        options = replace(request.options, cwd=made.cwd)
        start = await self._starting.new(replace(request, options=options), new_session_id())
        start = await self._with_budget(copy(start, noted=_assignment(made)), request.budget)
        first = await self._first(request, start)
        return await self._supervisor.start_new(start, name, first, is_reserved=True)

    async def _with_budget(self, start: AgentStart, limits: tuple[BudgetLimit, ...]) -> AgentStart:
        """A start that notes what the agent may use, with all that it starts."""
        if not limits:
            return start
        is_own = is_own_agent(start.spawn.options)
        has_calls = any(one.unit == "calls" for one in limits)
        if (
            has_calls
            and not is_own
            and not await self._budgets.are_calls_counted(start.opening.options)
        ):
            raise InvalidOptionsError(
                f"budget: the model calls of {start.spawn.options.agent} cannot be counted; give "
                "it a budget of money, tokens or time, or put it behind the meter"
            )
        self._budgets.want()
        parent = start.spawn.parent_session
        by = make_decider(parent if parent is not None else "person")
        events = (
            BudgetChanged(
                scope="tree", subject=start.session, unit=one.unit, amount=one.amount, by=by
            )
            for one in limits
        )
        return copy(start, noted=(*start.noted, *events))

    async def _first(self, request: SpawnOptions, start: AgentStart) -> QueuedPrompt | None:
        introduction = await self._tools.introduction(start.spawn)
        return _first(request.prompt, request.parent, introduction)

    async def find(self, agent: str, name: str | None = None) -> AgentEntry:
        """An agent by name or id; a session that ran without a host becomes one."""
        return await self._work.finish(self._adopter.find(agent, name))

    async def adopt_session(self, session: str, name: str | None = None) -> AgentInfo:
        """Take a session that ran without a host into the fleet; see ``Fleet``."""
        return self._current.info(await self.find(session, name))

    async def resume(self, agent: str) -> AgentInfo:
        """Start an agent that is not live again."""
        entry = await self.find(agent)
        if entry.is_started:
            raise AgentNotReadyError(f"{entry.name!r} is already live")
        if not entry.can_resume:
            raise AgentNotReadyError(
                f"{entry.name!r} cannot be resumed: {entry.spawn.options.agent} reported no "
                "session id"
            )
        return await self._started_as(self._resume(entry))

    async def _resume(self, entry: AgentEntry) -> AgentEntry:
        with self._worktrees.claims.start(entry.spawn.options.cwd):
            await self._worktrees.check(entry)
            start = await self._starting.again(entry)
            return await self._supervisor.start_again(start)

    async def fork(
        self, agent: str, *, name: str | None = None, prompt: str | None = None
    ) -> AgentInfo:
        """Start a copy of an agent with the same past."""
        entry = await self.find(agent)
        member = self._supervisor.get(entry.session)
        session = member.session if member is not None else None
        if entry.resume is None or (session is not None and not session.capabilities.forks):
            raise AgentNotReadyError(
                f"{entry.name!r} cannot be forked: {entry.spawn.options.agent} does not support it"
            )
        parent = entry.spawn.parent_session
        if parent is not None and self._supervisor.get(parent) is None:
            parent = None  # no one is there any more whose it could be
        if entry.worktree is not None:
            return await self._started_as(self._fork_in_worktree(entry, parent, name, prompt))
        return await self._started_as(self._fork(entry, parent, name, prompt))

    async def _fork(
        self, entry: AgentEntry, parent: SessionId | None, name: str | None, prompt: str | None
    ) -> AgentEntry:
        with self._worktrees.claims.start(entry.spawn.options.cwd):
            await self._worktrees.check(entry)
            start = await self._starting.fork(entry, new_session_id(), parent)
            start = await self._with_budget(start, self._budgets.list_limits(entry.session))
            return await self._supervisor.start_new(start, name, _first(prompt))

    async def _fork_in_worktree(
        self, entry: AgentEntry, parent: SessionId | None, name: str | None, prompt: str | None
    ) -> AgentEntry:
        """Start a copy in a worktree of its own, which is in the same state."""
        async with self._supervisor.reserve_name(name, entry.spawn.options.agent) as free:
            with self._worktrees.claims.start(entry.spawn.options.cwd):
                made = await self._worktrees.copy(entry, free)
            try:
                with self._worktrees.claims.start(made.cwd):
                    start = await self._starting.fork(entry, new_session_id(), parent, made.cwd)
                    start = copy(start, noted=_assignment(made))
                    start = await self._with_budget(start, self._budgets.list_limits(entry.session))
                    return await self._supervisor.start_new(
                        start, free, _first(prompt), is_reserved=True
                    )
            except BaseException:
                await self._worktrees.undo(made)
                raise

    async def kill(self, agent: str, *, reason: str | None = None) -> None:
        """End the agent and all its processes now; its children too."""
        await self._end(agent, "killed", reason)

    async def close(self, agent: str) -> None:
        """End the agent in good order."""
        await self._end(agent, "closed", None)

    async def _end(self, agent: str, how: ClosedAs, reason: str | None) -> None:
        entry = await self._current.find(agent)
        await self._work.finish(self._supervisor.end(entry.session, how, reason))

    async def archive(self, agent: str, *, archived: bool = True) -> None:
        """Put an agent away, ending it first, or take it out again."""
        session = (await self.find(agent)).session
        if archived:
            await self._work.finish(self._supervisor.archive(session))
        elif self._current.get(session).status.is_archived:
            await self._work.finish(self._supervisor.unarchive(session))

    async def delete(self, agent: str) -> None:
        """Delete an agent that is not live for good, with all that was said."""
        session = (await self._current.find(agent)).session
        await self._work.finish(self._supervisor.delete(session))

    async def rename(self, agent: str, name: str) -> AgentInfo:
        """Give an agent another name."""
        session = (await self.find(agent)).session
        await self._work.finish(self._supervisor.rename(session, name))
        return self._current.info(self._current.get(session))

    async def _started_as(self, work: Coroutine[Any, Any, AgentEntry]) -> AgentInfo:
        return self._current.info(await self._work.finish(work))


class BudgetReach:
    """How budgets reach agents; an ``AgentReach``."""

    def __init__(
        self,
        current: LiveIndex,
        find: Callable[[SessionId], AgentRunner | None],
        deliver: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._current = current
        self._find = find
        self._deliver = deliver

    async def steer(self, session: SessionId, content: tuple[ContentBlock, ...]) -> bool:
        """Give the running turn a message; False if none takes it."""
        member = self._find(session)
        prompt = QueuedPrompt(message=new_message_id(), content=content, origin="hook")
        return member is not None and await member.steer(prompt)

    async def interrupt(self, session: SessionId) -> None:
        """End the running turn, if there is one."""
        if (member := self._find(session)) is not None:
            await member.interrupt()

    async def prompt(self, session: SessionId, words: str) -> None:
        """Let the agent go on; with what waits for it, or with these words."""
        if not self._current.get(session).queue:
            await self._deliver(session, words)


def _assignment(made: MadeWorktree) -> tuple[Event, ...]:
    """What is noted about a worktree when its agent starts."""
    assigned = WorktreeAssigned(worktree=made.worktree, includes=made.includes)
    return (assigned, *made.notices)


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

    from .budgets.stops import AgentReach

    _reach: AgentReach = cast("BudgetReach", None)
