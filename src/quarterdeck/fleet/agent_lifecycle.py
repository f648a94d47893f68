"""The life of an agent: spawned, resumed, forked, renamed, ended, archived, deleted."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from quarterdeck.drivers.driver import ClosedAs
from quarterdeck.wire.content import text
from quarterdeck.wire.ids import SessionId, new_message_id, new_session_id
from quarterdeck.wire.tasks import BackgroundTasks

from .agent_entry import AgentEntry
from .api import AgentInfo, QueuedPrompt, SpawnOptions
from .errors import AgentNotReadyError
from .live_index import LiveIndex
from .mcp.orchestration import Orchestration
from .session_factory import SessionFactory
from .supervisor import Supervisor

if TYPE_CHECKING:
    from quarterdeck.wire.events import Origin

__all__ = ["AgentLifecycle"]


class AgentLifecycle:
    """Starts and ends agents by name or id; see ``Fleet`` for each method."""

    def __init__(
        self,
        current: LiveIndex,
        starting: SessionFactory,
        crew: Supervisor,
        tools: Orchestration,
        work: BackgroundTasks,
    ) -> None:
        """Args:
        current: who is in the fleet.
        starting: makes an agent's start of the options.
        crew: owns the agents that are live.
        tools: what agents that lead are told.
        work: what is begun here is finished there, also when the caller goes away.
        """
        self._current = current
        self._starting = starting
        self._crew = crew
        self._tools = tools
        self._work = work

    async def spawn(self, wish: SpawnOptions) -> AgentInfo:
        """Start an agent; see ``Fleet``."""
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
                f"{entry.name!r} cannot be resumed: {entry.wish.options.agent} reported no "
                "session id"
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
                f"{entry.name!r} cannot be forked: {entry.wish.options.agent} does not support it"
            )
        parent = entry.wish.parent_session
        if parent is not None and self._crew.get(parent) is None:
            parent = None  # nobody is there any more whose it could be
        start = await self._starting.fork(entry, new_session_id(), parent)
        return await self._started_as(self._crew.start_new(start, name, _first(prompt)))

    async def kill(self, agent: str, *, reason: str | None = None) -> None:
        """End the agent and all its processes now; its children too."""
        await self._end(agent, "killed", reason)

    async def close(self, agent: str) -> None:
        """End the agent in good order."""
        await self._end(agent, "closed", None)

    async def _end(self, agent: str, how: ClosedAs, reason: str | None) -> None:
        entry = await self._current.find(agent)
        await self._work.finish(self._crew.end(entry.session, how, reason))

    async def archive(self, agent: str, *, archived: bool = True) -> None:
        """Put an agent away, ending it first, or take it out again."""
        session = (await self._current.find(agent)).session
        if archived:
            await self._work.finish(self._crew.archive(session))
        elif self._current.get(session).standing.is_archived:
            await self._work.finish(self._crew.unarchive(session))

    async def delete(self, agent: str) -> None:
        """Delete an agent that is not live for good, with all that was said."""
        session = (await self._current.find(agent)).session
        await self._work.finish(self._crew.delete(session))

    async def rename(self, agent: str, name: str) -> AgentInfo:
        """Give an agent another name."""
        session = (await self._current.find(agent)).session
        await self._work.finish(self._crew.rename(session, name))
        return self._current.info(self._current.get(session))

    async def _started_as(self, work: Coroutine[Any, Any, AgentEntry]) -> AgentInfo:
        return self._current.info(await self._work.finish(work))


def _first(
    prompt: str | None, sender: SessionId | None = None, introduction: str | None = None
) -> QueuedPrompt | None:
    if prompt is None:
        return None
    words = tuple(text(one) for one in (introduction, prompt) if one is not None)
    origin: Origin = "person" if sender is None else "agent"
    return QueuedPrompt(message=new_message_id(), content=words, origin=origin, sender=sender)
