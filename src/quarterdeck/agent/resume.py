"""What a session's log says of its past: enough to go on from where it stopped."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from quarterdeck.models.model import Effort
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    BudgetEvent,
    Checkpointed,
    Event,
    GoalSet,
    GrantRevoked,
    GrantUsed,
    ModeChanged,
    NoticePosted,
    OptionsChanged,
    PermissionAnswered,
    PermissionAsked,
    PromptDropped,
    PromptQueued,
    Rewound,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    TurnEnded,
    UnknownEvent,
    UsageReported,
    WorktreeEvent,
)
from quarterdeck.wire.ids import RequestId, TurnId
from quarterdeck.wire.record import Record

from .config_options import effort_in
from .conversation import Conversation

if TYPE_CHECKING:
    from quarterdeck.policy.grants import Grant

    from .goals.state import GoalState
    from .recovery import InterruptionReason

__all__ = [
    "DamagedSessionError",
    "ResumeState",
    "allow_for_damage",
    "grants_in",
    "read_resume_state",
    "shared_events",
]


class ResumeState(Struct, eq=False):
    """The state of a session according to its log."""

    conversation: Conversation = field(default_factory=Conversation)
    agent: str = "native"
    cwd: str = ""
    roots: tuple[str, ...] = ()
    title: str | None = None
    model: str | None = None
    mode: str | None = None
    effort: Effort | None = None
    began: int | None = None
    """When the session was opened, in microseconds since the epoch."""
    grants: "tuple[Grant, ...]" = ()
    """What people allowed or refused for the session it was then."""
    goal: "GoalState | None" = None
    """The goal that was set last."""
    closing: tuple[tuple[TurnId | None, Event], ...] = ()
    """What must be appended first, because the process that ran it died."""

    def apply(self, event: Event) -> None:
        """Take one event."""
        self.conversation.apply(event)
        match event:
            case SessionOpened():
                self.agent = event.agent
                self.cwd, self.roots, self.title = event.cwd, event.roots, event.title
                self.model, self.mode = event.model, event.mode
            case SessionChanged(title=title, model=model):
                self.title = self.title if title is UNSET else title
                self.model = self.model if model is UNSET else model
            case ModeChanged(mode=mode):
                self.mode = mode
            case OptionsChanged(options=options):
                self.effort = effort_in(options) or self.effort
            case _:
                pass


def read_resume_state(
    records: Iterable[Record], cut: "InterruptionReason | None" = None
) -> ResumeState:
    """Read a session's records, oldest first.

    ``cut`` says why they may end in the middle; None: the process died.
    """
    from .recovery import DIED, closing_events  # late: a new session has no past

    kept = list(records)
    past = ResumeState(began=kept[0].time if kept else None)
    for record in kept:
        past.apply(record.event)
    if any(isinstance(record.event, Rewound) for record in kept):
        from .checkpoints.turn_history import rebuild_conversation

        past.conversation = rebuild_conversation(kept)
    past.grants = grants_in(kept)
    if any(isinstance(record.event, GoalSet) for record in kept):
        from .goals.state import goal_in

        past.goal = goal_in(kept)
    past.closing = closing_events(kept, cut or DIED)
    for _, event in past.closing:
        past.apply(event)
    return past


class DamagedSessionError(QuarterdeckError):
    """Too much of a session's log is damaged to go on with it."""


def allow_for_damage(id_: str, records: Iterable[Record], past: ResumeState) -> None:
    """Go on with what is whole of a damaged session, and say so in its log.

    What people allowed in it is asked for again: a record that is lost may have taken it back.

    Raises:
        DamagedSessionError: the directory in which it works is not known any more.
    """
    lost = [record for record in records if isinstance(record.event, UnknownEvent)]
    if not lost:
        return
    from quarterdeck.journal.damage import count_damaged

    if not (count := count_damaged(lost)):
        return
    if not past.cwd:
        raise DamagedSessionError(
            f"session {id_!r} is damaged: the record of its directory cannot be read; pass its "
            f"directory, or export what is left: quarterdeck journal export --session {id_}"
        )
    past.grants = ()
    event = NoticePosted(
        title=f"{count} record{'s' * (count != 1)} of this session cannot be read",
        severity="warning",
        description=(
            "The session continues without them. Permissions granted in it are requested again. "
            "See: quarterdeck journal check"
        ),
    )
    past.closing = ((None, event), *past.closing)


def grants_in(records: Iterable[Record]) -> "tuple[Grant, ...]":
    """The session's grants in the log, without those that were taken back.

    Those that a fork took over name another session.
    """
    # Imported here: it brings all of the policy with it, and a new session has no past.
    from quarterdeck.policy.permission_options import session_grants

    asked: dict[RequestId, PermissionAsked] = {}
    found: list[Grant] = []
    for record in records:
        match record.event:
            case PermissionAsked() as question:
                asked[question.request] = question
            case PermissionAnswered(request=request) as answer if request in asked:
                found += session_grants(asked.pop(request), answer, now=record.time)
            case GrantRevoked(grant=id_):
                found = [grant for grant in found if grant.id != id_]
            case _:
                pass
    return tuple(found)


def shared_events(
    records: Iterable[Record], until: int | None
) -> tuple[tuple[TurnId | None, Event], ...]:
    """What a fork takes over: all up to a sequence number but what was of that session alone.

    That is the begin and the end of its runs, what a fleet noted about it, and what it has cost.
    """
    from .recovery import FORKED, closing_events

    kept = [record for record in records if until is None or record.seq <= until]
    taken = [(record.turn, _shared(record.event)) for record in kept]
    left_open = closing_events(kept, FORKED)
    closing = (pair for pair in left_open if not isinstance(pair[1], SessionEnded))
    return (*((turn, event) for turn, event in taken if event is not None), *closing)


def _shared(event: Event) -> Event | None:
    if isinstance(event, WorktreeEvent | BudgetEvent):
        return None
    match event:
        case SessionOpened() | SessionResumed() | SessionEnded() | SessionSpawned():
            return None
        case PromptQueued() | PromptDropped() | GrantRevoked() | GrantUsed() | Checkpointed():
            return None
        case Rewound():  # the conversation is carried over, the files are not
            return replace(event, files=(), restored=None, changed=0, kept=(), forced=False)
        case SessionChanged():
            return replace(event, name=UNSET, mode=UNSET, archived=UNSET)
        case TurnEnded():
            return replace(event, usage=None, cost=None)
        case UsageReported():
            return replace(event, session_tokens=None, session_cost=None)
        case _:
            return event
