"""A session as the log knows it; apart from the list, for those who only receive it."""

from msgspec import Struct

from quarterdeck.wire.events import EndOfSession
from quarterdeck.wire.ids import SessionId

__all__ = ["SessionSummary"]


class SessionSummary(Struct, frozen=True, kw_only=True):
    """A session as the log knows it."""

    id: SessionId
    agent: str
    cwd: str
    title: str | None
    model: str | None
    parent: SessionId | None
    """The session whose agent spawned this one."""
    forked_from: SessionId | None
    transport: str | None
    agent_session: str | None
    """The agent's own id of the session; what resuming needs."""
    opened: int
    """Microseconds since the epoch, as all times."""
    updated: int
    """When its last event happened."""
    last_seq: int
    ended: EndOfSession | None
    """How its last run ended; None while it runs, or when its host died."""
    reason: str | None
    damage: str | None = None
    """What is known to be wrong with it, in words; None if nothing is."""
