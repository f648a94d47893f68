"""What agents say to each other: delivered once, and never as a person's words."""

from collections.abc import Collection
from dataclasses import dataclass

from quarterdeck.wire.content import text
from quarterdeck.wire.ids import MessageId, SessionId

from .seat import Seat
from .words import NOT_A_PERSON, Kind, from_agent, text_of

__all__ = ["Letter", "collect", "deliver"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """Words of an agent that waited for another."""

    sender: SessionId
    words: str
    """Wrapped."""


async def deliver(
    seat: Seat, to: SessionId, kind: Kind, words: str, *, request: str | None = None, hint: str = ""
) -> MessageId:
    """Give another agent a prompt that shows who wrote it.

    Raises:
        NotNow: it is not live.
    """
    framed = from_agent(seat.entry.name, kind, words, request=request)
    told = "\n\n".join(filter(None, (NOT_A_PERSON, framed, hint)))
    return await seat.fleet.send(to, (text(told),), origin="agent", sender=seat.session)


async def collect(seat: Seat, senders: Collection[SessionId]) -> list[Letter]:
    """Take what waits for this agent from these; what is taken here is not prompted later."""
    info = await seat.fleet.agent(seat.session)
    letters: list[Letter] = []
    for queued in info.queue:
        if queued.origin != "agent" or queued.sender not in senders or queued.sender is None:
            continue
        if await seat.fleet.edit(seat.session, queued.message, None):
            letters.append(Letter(sender=queued.sender, words=text_of(queued.content)))
    return letters
