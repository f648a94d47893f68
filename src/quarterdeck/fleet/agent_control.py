"""Control of a live agent: prompts, interrupts, options."""

from quarterdeck.policy.modes import parse_mode
from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.events import Origin, SessionChanged
from quarterdeck.wire.ids import MessageId, SessionId, new_message_id
from quarterdeck.wire.tasks import BackgroundTasks

from .agent_runner import AgentRunner
from .api import QueuedPrompt, SentMessage
from .errors import AgentNotReadyError
from .live_index import LiveIndex
from .log_writer import LogWriter
from .prompt_queue import PromptQueues
from .supervisor import Supervisor

__all__ = ["AgentControl"]


class AgentControl:
    """Gives agents prompts and options, by name or id; see ``Fleet`` for each method."""

    def __init__(
        self,
        current: LiveIndex,
        notes: LogWriter,
        queues: PromptQueues,
        crew: Supervisor,
        work: BackgroundTasks,
    ) -> None:
        """Args:
        current: who is in the fleet.
        notes: writes to the log.
        queues: the prompts that wait.
        crew: owns the agents that are live.
        work: what is begun here is finished there, also when the caller goes away.
        """
        self._current = current
        self._notes = notes
        self._queues = queues
        self._crew = crew
        self._work = work

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
        await self._work.finish(self._queues.add(member.id, queued))
        return message

    async def steer(
        self,
        agent: str,
        content: tuple[ContentBlock, ...],
        *,
        origin: Origin = "person",
        sender: SessionId | None = None,
    ) -> SentMessage:
        """Give an agent a message during its turn; without a turn it is a prompt."""
        member = await self._live(agent)
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

    async def _live(self, agent: str) -> AgentRunner:
        entry = await self._current.find(agent)
        member = self._crew.get(entry.session)
        if member is None or member.is_ending or not entry.is_started:
            raise AgentNotReadyError(f"{entry.name!r} is not live; resume it first")
        return member
