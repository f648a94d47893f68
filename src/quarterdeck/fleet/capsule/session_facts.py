"""What a capsule says of a session besides its events: folded from them, one at a time."""

from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from quarterdeck.policy.permission_options import session_grants
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    Checkpointed,
    GrantRevoked,
    ModeChanged,
    PermissionAnswered,
    PermissionAsked,
    PromptDropped,
    Prompted,
    PromptQueued,
    SessionChanged,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    TurnEnded,
    UsageReported,
    WorktreeAssigned,
    WorktreeReleased,
)
from quarterdeck.wire.ids import MessageId, RequestId, SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.usage import TokenUsage

from ..agent_entry import AgentSpending
from .manifest import CapsuleGrant, CapsulePrompt, CapsuleSession

if TYPE_CHECKING:
    from quarterdeck.policy.grants import Grant
    from quarterdeck.wire.worktrees import Worktree

__all__ = ["SessionFacts"]

_WORDS = 200


class SessionFacts:
    """One session so far; takes memory for what is open, not for what has happened."""

    def __init__(self, session: SessionId) -> None:
        self.grants: dict[str, Grant] = {}
        """Those that are in force, by id."""
        self.worktree: Worktree | None = None
        self.has_checkpoints = False
        self.unset: tuple[str, ...] = ()
        """Variables and headers whose values the log does not keep."""
        self._known = CapsuleSession(id=session, agent="")
        self._queue: dict[MessageId, CapsulePrompt] = {}
        self._asked: dict[RequestId, PermissionAsked] = {}
        self._spending = AgentSpending()

    def take(self, record: Record) -> None:
        """Take the next record."""
        known = self._known
        self._known = replace(
            known,
            started=known.started if known.records else record.time,
            updated=max(known.updated, record.time),
            records=known.records + 1,
        )
        match record.event:
            case SessionSpawned() | SessionOpened() | SessionResumed() | SessionChanged() as event:
                self._take_session(event)
            case ModeChanged(mode=mode):
                self._known = replace(self._known, mode=mode)
            case PromptQueued(message=message, content=content):
                words = " ".join(one.text for one in content if isinstance(one, TextContent))
                self._queue[message] = CapsulePrompt(message=message, text=words[:_WORDS])
            case Prompted(message=message) | PromptDropped(message=message):
                self._queue.pop(message, None)
            case TurnEnded() as ended:
                self._spending = self._spending.after_turn(ended)
            case UsageReported() as reported:
                self._spending = self._spending.after_report(reported)
            case _:
                self._take_other(record)

    def _take_other(self, record: Record) -> None:
        match record.event:
            case PermissionAsked() as asked:
                self._asked[asked.request] = asked
            case PermissionAnswered(request=request) as answered if request in self._asked:
                asked = self._asked.pop(request)
                for grant in session_grants(asked, answered, now=record.time):
                    self.grants[grant.id] = grant
            case GrantRevoked(grant=id_):
                self.grants.pop(id_, None)
            case WorktreeAssigned(worktree=worktree):
                self.worktree = worktree
            case WorktreeReleased():
                self.worktree = None
            case Checkpointed():
                self.has_checkpoints = True
            case _:
                pass

    def _take_session(
        self, event: SessionSpawned | SessionOpened | SessionResumed | SessionChanged
    ) -> None:
        known = self._known
        match event:
            case SessionSpawned(options=options):
                self.unset = options.missing_values
                known = replace(
                    known,
                    name=event.name,
                    agent=options.agent,
                    cwd=options.cwd or known.cwd,
                    mode=options.mode,
                    model=options.model or known.model,
                    parent=event.parent_session or known.parent,
                    agent_session=options.resume or known.agent_session,
                )
            case SessionOpened():
                known = replace(
                    known,
                    agent=event.agent,
                    cwd=event.cwd,
                    title=event.title or known.title,
                    model=event.model or known.model,
                    mode=event.mode or known.mode,
                    parent=event.parent_session or known.parent,
                    agent_session=event.agent_session or known.agent_session,
                    agent_version=event.agent_version or known.agent_version,
                )
            case SessionResumed():
                known = replace(
                    known,
                    agent_session=event.agent_session or known.agent_session,
                    agent_version=event.agent_version or known.agent_version,
                )
            case SessionChanged():
                names = ("title", "agent_session", "model", "name", "mode")
                given = {name: getattr(event, name) for name in names}
                changes = {name: value for name, value in given.items() if value is not UNSET}
                known = replace(known, **changes)
        self._known = known

    def describe(self) -> CapsuleSession:
        """What the manifest says of it."""
        usage = self._spending.usage
        return replace(
            self._known,
            usage=usage if usage != TokenUsage() else None,
            cost=self._spending.cost,
            queue=tuple(self._queue.values()),
            grants=tuple(
                CapsuleGrant(id=one.id, effect=one.effect, pattern=one.pattern)
                for one in self.grants.values()
            ),
        )
