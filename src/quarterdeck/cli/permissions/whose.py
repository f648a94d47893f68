"""Whose permissions are meant: an agent of the fleet by its name, or a kind of agent."""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quarterdeck.config.places import Places
    from quarterdeck.wire.ids import SessionId

__all__ = ["Whose", "whose"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """An agent; nothing is set where all are meant."""

    agent: str | None = None
    """The kind, as the catalogue names it."""
    session: "SessionId | None" = None
    """The rest is set for an agent of the fleet."""
    cwd: str | None = None
    mode: str | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


async def whose(places: "Places", name: str | None) -> Whose:
    """Find out who is meant; an agent of the fleet before a kind of the same name.

    Raises:
        UnknownAgent: it is neither.
        JournalError: the log cannot be read.
    """
    if name is None:
        return Whose()
    from quarterdeck.drivers.catalogue import find_agent
    from quarterdeck.fleet.granted import find_member

    member = await find_member(places, name)
    if member is not None:
        wish = member.wish
        return Whose(
            agent=wish.agent,
            session=member.session,
            cwd=wish.cwd,
            mode=member.mode,
            allow=wish.allow,
            deny=wish.deny,
        )
    return Whose(agent=(await asyncio.to_thread(find_agent, name, places)).name)
