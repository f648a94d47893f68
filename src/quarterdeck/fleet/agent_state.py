"""The state of an agent: one table that every event moves it by.

What people see is a word (``AgentStateName``), what it waits for, and whether a person is
needed. All of it follows from the events alone; the host, its clients and a rebuilt projection
compute the same.
"""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.wire.events import (
    Event,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    TurnEnded,
    TurnStarted,
)

__all__ = ["NEW_STATUS", "STATUS_EVENTS", "AgentStateName", "AgentStatus", "advance_status"]

AgentStateName: TypeAlias = Literal[
    "starting", "idle", "running", "waiting", "interrupted", "failed", "killed", "done"
]
Phase: TypeAlias = Literal["starting", "idle", "running", "interrupted", "failed", "killed", "done"]

STATUS_EVENTS = frozenset(
    {
        "session_spawned",
        "session_opened",
        "session_resumed",
        "session_changed",
        "session_ended",
        "turn_started",
        "turn_ended",
        "permission_asked",
        "permission_answered",
        "question_asked",
        "question_answered",
    }
)
"""The tags of the events that move a state."""


class AgentStatus(Struct, frozen=True, kw_only=True):
    """Where an agent stands."""

    phase: Phase = "starting"
    is_live: bool = False
    """Its process, or what stands for one, is there."""
    permissions: frozenset[str] = frozenset()
    """Open permission requests."""
    questions: frozenset[str] = frozenset()
    """Open questions to a person."""
    asks_agent: frozenset[str] = frozenset()
    """Open questions to another agent."""
    reason: str | None = None
    """Why it failed, was interrupted or killed."""
    is_archived: bool = False

    @property
    def state(self) -> AgentStateName:
        """The word for it."""
        return "waiting" if self.waits_for is not None else self.phase

    @property
    def waits_for(self) -> Literal["permission", "person", "agent"] | None:
        """What it waits for, the most pressing first."""
        if self.permissions:
            return "permission"
        if self.questions:
            return "person"
        return "agent" if self.asks_agent else None

    @property
    def needs_person(self) -> bool:
        """Whether a person must do something for it to go on."""
        return bool(self.permissions or self.questions)


NEW_STATUS = AgentStatus()

_ENDS: dict[str, Phase] = {
    "closed": "done",
    "ended": "done",
    "broken": "failed",
    "killed": "killed",
}


def advance_status(now: AgentStatus, event: Event) -> AgentStatus:
    """The standing after an event; one that says nothing about it leaves it as it is."""
    match event:
        case SessionSpawned():
            # What was asked after its end, to approve what it did, stays open.
            return replace(NEW_STATUS, is_archived=now.is_archived, permissions=now.permissions)
        case SessionOpened() | SessionResumed():
            return replace(now, phase="idle", is_live=True, reason=None)
        case SessionEnded(how=how, reason=reason):
            return AgentStatus(phase=_ENDS[how], reason=reason, is_archived=now.is_archived)
        case SessionChanged(archived=bool(archived)):
            return replace(now, is_archived=archived)
        case PermissionAsked() | PermissionAnswered() if not now.is_live:
            return _asked(now, event)  # a person is to approve what it did
        case _ if not now.is_live and now.phase != "starting":
            return now  # it is over: nothing that comes late brings it back
        case TurnStarted():
            return replace(now, phase="running", reason=None)
        case TurnEnded():
            return _turn_ended(now, event)
        case _:
            return _asked(now, event)


def _turn_ended(now: AgentStatus, event: TurnEnded) -> AgentStatus:
    match event.stop:
        case "cancelled":
            return replace(now, phase="interrupted", reason=event.reason)
        case "failed":
            return replace(now, phase="failed", reason=event.reason)
        case _:
            return replace(now, phase="idle", reason=event.reason)


def _asked(now: AgentStatus, event: Event) -> AgentStatus:
    match event:
        case PermissionAsked(request=request):
            return replace(now, permissions=now.permissions | {request})
        case PermissionAnswered(request=request) if request in now.permissions:
            return replace(now, permissions=now.permissions - {request})
        case QuestionAsked(request=request, to=None):
            return replace(now, questions=now.questions | {request})
        case QuestionAsked(request=request):
            return replace(now, asks_agent=now.asks_agent | {request})
        case QuestionAnswered(request=request):
            return replace(
                now,
                questions=now.questions - {request},
                asks_agent=now.asks_agent - {request},
            )
        case _:
            return now
