"""What agents say to each other: delivered once, and never as a person's words."""

from collections.abc import Collection
from dataclasses import dataclass

from quarterdeck.wire.content import text
from quarterdeck.wire.ids import MessageId, SessionId

from .agent_text import NOT_A_PERSON, AgentMessageKind, extract_prompt_text, frame_agent_message
from .tool_context import FleetToolContext

__all__ = ["DeliveredMessage", "collect_messages", "deliver_message"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredMessage:
    """Words of an agent that waited for another."""

    sender: SessionId
    words: str
    """Wrapped."""


async def deliver_message(
    seat: FleetToolContext,
    to: SessionId,
    kind: AgentMessageKind,
    words: str,
    *,
    request: str | None = None,
    hint: str = "",
) -> MessageId:
    """Give another agent a prompt that shows who wrote it.

    Raises:
        AgentNotReadyError: it is not live.
    """
    framed = frame_agent_message(seat.entry.name, kind, words, request=request)
    told = "\n\n".join(filter(None, (NOT_A_PERSON, framed, hint)))
    return await seat.fleet.send(to, (text(told),), origin="agent", sender=seat.session)


async def collect_messages(
    seat: FleetToolContext, senders: Collection[SessionId]
) -> list[DeliveredMessage]:
    """Take what waits for this agent from these; what is taken here is not prompted later."""
    info = await seat.fleet.agent(seat.session)
    letters: list[DeliveredMessage] = []
    for queued in info.queue:
        if queued.origin != "agent" or queued.sender not in senders or queued.sender is None:
            continue
        if await seat.fleet.edit(seat.session, queued.message, None):
            letters.append(
                DeliveredMessage(sender=queued.sender, words=extract_prompt_text(queued.content))
            )
    return letters
