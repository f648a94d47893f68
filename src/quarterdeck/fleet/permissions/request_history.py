"""Recorded permission requests: what was asked, in which session and mode, and what was answered.

A pure fold over records. Equal requests (the same call in the same place, mode and agent) are kept
as one with all their answers, so that rules are tried on each once.
"""

from collections.abc import Iterable
from typing import Any, cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from quarterdeck.policy.modes import DEFAULT_MODE, MODES, Mode
from quarterdeck.policy.permission_options import choice_of
from quarterdeck.wire.events import (
    Event,
    ModeChanged,
    PermissionAnswered,
    PermissionAsked,
    SessionChanged,
    SessionOpened,
    SessionSpawned,
    ToolCallStarted,
    WorktreeAssigned,
)
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import Decider, Selected
from quarterdeck.wire.record import Record
from quarterdeck.wire.tool_calls import Diff, ToolCallLocation

from ..agent_entry import NATIVE
from .api import RecordedAnswer

__all__ = ["REQUEST_EVENTS", "RecordedDecision", "RequestHistory", "RequestKind"]

REQUEST_EVENTS = frozenset(
    {
        "mode_changed",
        "permission_answered",
        "permission_asked",
        "session_changed",
        "session_opened",
        "session_spawned",
        "tool_call_started",
        "worktree_assigned",
    }
)
"""The tags of the events that count."""

_MOST_CALLS = 200
"""Calls of a session whose decision is waited for; one that is older was never decided."""


class _Session(Struct, eq=False):
    name: str | None = None
    agent: str | None = None
    cwd: str = "/"
    roots: tuple[str, ...] = ()
    mode: Mode = DEFAULT_MODE
    repository: str | None = None
    is_spawned: bool = False
    calls: dict[ToolCallId, ToolCallStarted] = field(
        default_factory=dict[ToolCallId, ToolCallStarted]
    )


class RecordedDecision(Struct, frozen=True, kw_only=True):
    """One request of a kind, and what was answered."""

    seq: int
    time: int
    session: SessionId
    name: str
    then: RecordedAnswer
    by: Decider | None
    """None: it is open."""
    was_asked: bool
    """A person, or an agent in place of one, was asked; else a rule or mode decided at once."""

    @property
    def is_approved(self) -> bool:
        """Whether a person allowed it."""
        return self.then == "allow" and self.by is not None and self.by.kind == "person"

    @property
    def is_refused(self) -> bool:
        """Whether a person denied it."""
        return self.then == "deny" and self.by is not None and self.by.kind == "person"


class RequestKind(Struct, kw_only=True, eq=False):
    """Requests that are equal for every rule."""

    question: PermissionAsked
    """Without options, and with the paths of its changes among the locations."""
    cwd: str
    roots: tuple[str, ...]
    mode: Mode
    agent: str | None
    repository: str | None
    decisions: list[RecordedDecision] = field(default_factory=list[RecordedDecision])


class RequestHistory:
    """Collects requests from the records of a log, given in order. Never raises for a record."""

    def __init__(self) -> None:
        self.kinds: dict[bytes, RequestKind] = {}
        self.unread: list[int] = []
        """Times of decisions whose call is not in the log."""
        self._sessions: dict[SessionId, _Session] = {}
        self._open: dict[RequestId, tuple[RequestKind, Record, PermissionAsked]] = {}
        self._done: set[RequestId] = set()

    def add(self, records: Iterable[Record]) -> None:
        """Take in records."""
        for record in records:
            session = self._sessions.setdefault(record.session, _Session())
            match record.event:
                case PermissionAsked() as asked:
                    self._ask(session, record, asked)
                case PermissionAnswered() as answered:
                    self._answer(session, record, answered)
                case ToolCallStarted(call=call) as started:
                    session.calls[call] = started
                    if len(session.calls) > _MOST_CALLS:
                        del session.calls[next(iter(session.calls))]
                case event:
                    _change(session, event)

    def _ask(self, session: _Session, record: Record, asked: PermissionAsked) -> None:
        if asked.request in self._done or asked.request in self._open:
            return  # a fork took it over
        self._open[asked.request] = (self._kind(session, asked), record, asked)

    def _answer(self, session: _Session, record: Record, answered: PermissionAnswered) -> None:
        if answered.request in self._done:
            return
        self._done.add(answered.request)
        known = self._open.pop(answered.request, None)
        if known is not None:
            kind, asked_at, asked = known
            then = _outcome(answered, asked)
            kind.decisions.append(_decision(session, asked_at, then, answered.by, True))
            return
        started = session.calls.pop(answered.call, None)
        if started is None:
            self.unread.append(record.time)
            return
        question = PermissionAsked(
            request=answered.request,
            call=answered.call,
            title=started.title,
            options=(),
            kind=started.kind,
            name=started.name,
            content=started.content,
            locations=started.locations,
            raw_input=started.raw_input,
        )
        then: RecordedAnswer = "allow" if answered.kind == "allow_once" else "deny"
        decision = _decision(session, record, then, answered.by, False)
        self._kind(session, question).decisions.append(decision)

    def _kind(self, session: _Session, asked: PermissionAsked) -> RequestKind:
        question = _strip(asked, session)
        places = (session.cwd, session.roots, session.mode, session.agent, session.repository)
        facts = (question.name, question.kind, question.title, question.raw_input)
        seen = (*facts, question.locations, places)
        key = msgspec.json.encode(seen, enc_hook=repr, order="sorted")
        known = self.kinds.get(key)
        if known is None:
            known = self.kinds[key] = RequestKind(
                question=question,
                cwd=session.cwd,
                roots=session.roots,
                mode=session.mode,
                agent=session.agent,
                repository=session.repository,
            )
        return known


def _strip(asked: PermissionAsked, session: _Session) -> PermissionAsked:
    """The request without what no decision looks at."""
    paths = [item.path for item in asked.content if isinstance(item, Diff)]
    locations = (*asked.locations, *(ToolCallLocation(path=path) for path in paths))
    raw = asked.raw_input
    if session.agent == NATIVE and isinstance(raw, dict) and "cwd" in raw:
        # The directory as our own agent found it; the model's word for it says no more.
        fields = cast("dict[str, Any]", raw)
        raw = {name: value for name, value in fields.items() if name != "workdir"}
    return replace(
        asked,
        request=RequestId(""),
        call=ToolCallId(""),
        options=(),
        content=(),
        locations=locations,
        raw_input=raw,
        reason=None,
        child=None,
    )


def _outcome(answered: PermissionAnswered, asked: PermissionAsked) -> RecordedAnswer:
    if not isinstance(answered.outcome, Selected):
        return "none"
    effect = choice_of(asked.options, answered.outcome.option_id).effect
    return "allow" if effect == "allow" else "deny"


def _decision(
    session: _Session, record: Record, then: RecordedAnswer, by: Decider, was_asked: bool
) -> RecordedDecision:
    return RecordedDecision(
        seq=record.seq,
        time=record.time,
        session=record.session,
        name=session.name or session.agent or record.session,
        then=then,
        by=by,
        was_asked=was_asked,
    )


def _change(session: _Session, event: Event) -> None:
    match event:
        case SessionSpawned(options=options):
            session.is_spawned = True
            session.name, session.agent = event.name, options.agent
            session.cwd, session.roots = options.cwd or "/", options.roots
            session.mode = _mode(options.mode, session.mode)
        case SessionOpened():
            session.cwd, session.roots = event.cwd or session.cwd, event.roots or session.roots
            session.agent = session.agent or event.agent
            if session.agent == NATIVE:
                session.mode = _mode(event.mode, session.mode)
        case ModeChanged(mode=mode) if session.agent == NATIVE:
            session.mode = _mode(mode, session.mode)
        case SessionChanged():
            session.mode = _mode(event.mode, session.mode)
            if isinstance(event.name, str):
                session.name = event.name
        case WorktreeAssigned(worktree=worktree):
            session.repository = worktree.repository
        case _:
            pass


def _mode(named: object, before: Mode) -> Mode:
    for mode in MODES:
        if mode == named:
            return mode
    return before
