"""What a person is told, and when: pure decisions over records.

An agent that needs a person, that has done what it was asked, or that has failed. What a person
did themselves (an interruption, a kill) is no news to them, and what an agent's child does is told
to the agent that started it.
"""

from collections.abc import Iterable
from datetime import time

from msgspec import Struct

from quarterdeck.config.schema import Occasion
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.events import (
    PermissionAsked,
    QuestionAsked,
    SessionEnded,
    TurnEnded,
)
from quarterdeck.wire.record import Record

from .api import AgentInfo

__all__ = [
    "NOTIFIED_EVENTS",
    "NotificationHistory",
    "PersonNotification",
    "is_old",
    "is_quiet",
    "make_notification",
]

NOTIFIED_EVENTS = (PermissionAsked, QuestionAsked, TurnEnded, SessionEnded)
"""The events that may be worth a note."""

_LONGEST = 200
_REMEMBERED = 10_000
_OLD = 600_000_000
"""Microseconds."""


class PersonNotification(Struct, frozen=True, kw_only=True):
    """Something to tell a person."""

    key: str
    """The request, the turn or the run that it is about: told once for each."""
    occasion: Occasion
    agent: str
    """The agent's name."""
    session: str
    text: str
    request: str | None = None
    """The request that waits for an answer; the note is void once it has one."""

    @property
    def title(self) -> str:
        """What it is about, in a few words."""
        match self.occasion:
            case "needed":
                return f"{self.agent} needs you"
            case "done":
                return f"{self.agent} is done"
            case "failed":
                return f"{self.agent} failed"


def make_notification(record: Record, agent: AgentInfo) -> PersonNotification | None:
    """The note that a record is worth, if any."""
    match record.event:
        case PermissionAsked(request=request, title=title, name=name):
            told = f"{name}: {title}" if name else title
            return _note(record, agent, "needed", request, told, request)
        case QuestionAsked(request=request, text=text, to=None):
            return _note(record, agent, "needed", request, text, request)
        case TurnEnded(stop=stop, reason=reason) if agent.parent is None and not agent.queue:
            key = record.turn or f"{record.session}:{record.seq}"
            if stop == "end_turn":
                return _note(record, agent, "done", key, agent.title or "")
            if stop != "cancelled":
                return _note(record, agent, "failed", key, reason or stop)
            return None
        case SessionEnded(how="broken", reason=reason) if agent.parent is None:
            key = record.turn or f"{record.session}:{record.seq}"
            return _note(record, agent, "failed", key, reason or "its process ended")
        case _:
            return None


def is_old(record: Record, now: int | None = None) -> bool:
    """Whether it happened too long ago to be news: it was taken over from another program."""
    return (now or read_wall_clock()) - record.time > _OLD


def is_quiet(hours: str | None, now: time) -> bool:
    """Whether a time of the day lies within hours such as ``22:00-07:00``."""
    if hours is None:
        return False
    begin, end = (time.fromisoformat(part) for part in hours.split("-"))
    if begin <= end:
        return begin <= now < end
    return now >= begin or now < end


class NotificationHistory:
    """What was told already; remembers the latest ten thousand."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._keys = dict.fromkeys(keys)

    def is_new(self, key: str) -> bool:
        """Whether it was not told yet; from now on it is."""
        if key in self._keys:
            return False
        self._keys[key] = None
        if len(self._keys) > _REMEMBERED:
            del self._keys[next(iter(self._keys))]
        return True


def _note(
    record: Record,
    agent: AgentInfo,
    occasion: Occasion,
    key: str,
    text: str,
    request: str | None = None,
) -> PersonNotification:
    # It goes to other programs: one line, nothing that acts on a terminal.
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return PersonNotification(
        key=key,
        occasion=occasion,
        agent=agent.name,
        session=record.session,
        text=" ".join(shown.split())[:_LONGEST],
        request=request,
    )
