"""One agent as the log tells it: pure functions from its records to what is known of it.

The projection on disk and the fleet in memory use the same functions, so that they cannot differ.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    Event,
    ModeChanged,
    PromptDropped,
    Prompted,
    PromptQueued,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from quarterdeck.wire.ids import MessageId, SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.usage import ContextUsage

from .port import AgentInfo, Queued
from .spending import Spending
from .states import EVENTS, NEW, Standing, State, advance

__all__ = ["NATIVE", "TYPES", "Entry", "Waiting", "fold", "info_of"]

_TITLE_LENGTH = 60

NATIVE = "native"
"""Our own agent's name in the catalogue, and how it is reached in the host's process."""
TYPES = EVENTS | {
    "mode_changed",
    "permission_violated",
    "prompt_queued",
    "prompt_dropped",
    "prompted",
    "usage_reported",
}
"""The tags of the events that change an entry; what agents say is not among them."""


class Waiting(Struct, frozen=True, kw_only=True):
    """A prompt in the queue."""

    message: MessageId
    seq: int
    """The record that has its words."""


class Entry(Struct, frozen=True, kw_only=True):
    """An agent: how it shall be, where it stands, what it has used."""

    session: SessionId
    wish: SessionSpawned
    """As it was last started."""
    name: str
    standing: Standing = NEW
    title: str | None = None
    model: str | None = None
    mode: str | None = None
    """Our permission mode."""
    transport: str | None = None
    agent_session: str | None = None
    is_known: bool = False
    """It has been opened once."""
    turns: int = 0
    """How many turns have begun."""
    run: int = 0
    """The sequence number at which its last run began."""
    spawned: int = 0
    updated: int = 0
    last_seq: int = 0
    """Of the last record that changed this entry."""
    spending: Spending = Spending()
    context: ContextUsage | None = None
    queue: tuple[Waiting, ...] = ()
    accepted: MessageId | None = None
    """A prompt that has left the queue and whose turn has not begun."""

    @property
    def is_native(self) -> bool:
        """Whether it is our own agent, in the host's process."""
        return self.wish.agent == NATIVE and self.wish.transport in (None, NATIVE)

    @property
    def state(self) -> State:
        """The word for where it stands."""
        state = self.standing.state
        return "running" if self.accepted is not None and self.standing.is_live else state

    @property
    def is_started(self) -> bool:
        """Whether it runs or is about to: somebody must write its end."""
        return self.standing.is_live or self.standing.phase == "starting"

    @property
    def can_resume(self) -> bool:
        """Whether it can be started again; one that has begun no turn needs no memory."""
        return not self.is_started and (self.resume is not None or self.turns == 0)

    @property
    def resume(self) -> str | None:
        """The agent's own id of the session."""
        if self.is_native and self.is_known:
            return self.session
        return self.agent_session

    @property
    def at_rest(self) -> bool:
        """Whether nothing will happen unless a person does something."""
        if not self.is_started:
            return True
        if self.standing.needs_person:
            return True
        return self.state in ("idle", "interrupted", "failed") and not self.queue


def fold(entry: Entry | None, record: Record) -> Entry | None:
    """The entry after a record; None for a session that no fleet has spawned.

    A record that the entry knows already changes nothing.
    """
    event = record.event
    if entry is not None and record.seq <= entry.last_seq:
        return entry
    if isinstance(event, SessionSpawned):
        entry = _spawned(entry, record, event)
    if entry is None:
        return None
    return replace(
        entry,
        standing=advance(entry.standing, event),
        updated=max(entry.updated, record.time),
        last_seq=record.seq,
        **_changes(entry, event, record.seq),
    )


def _spawned(entry: Entry | None, record: Record, wish: SessionSpawned) -> Entry:
    if entry is None:
        return Entry(
            session=record.session,
            wish=wish,
            name=wish.name,
            model=wish.model,
            mode=wish.mode,
            transport=wish.transport,
            spawned=record.time,
        )
    return replace(entry, wish=wish, name=wish.name, mode=wish.mode, accepted=None)


def _changes(entry: Entry, event: Event, seq: int) -> Mapping[str, Any]:
    """What an event changes besides the standing."""
    match event:
        case SessionOpened() | SessionResumed() | SessionEnded() | SessionChanged():
            return _run_changes(entry, event, seq)
        case ModeChanged(mode=mode) if entry.is_native:
            return {"mode": mode}
        case PromptQueued() if entry.title is None:
            return {**_queue_changes(entry, event, seq), "title": _title(event)}
        case PromptQueued() | PromptDropped() | Prompted():
            return _queue_changes(entry, event, seq)
        case TurnStarted():
            return {"turns": entry.turns + 1, "accepted": None}
        case TurnEnded():
            return {"spending": entry.spending.after_turn(event)}
        case UsageReported():
            context = entry.context if event.context is None else event.context
            return {"spending": entry.spending.after_report(event), "context": context}
        case _:
            return {}


def _run_changes(
    entry: Entry,
    event: SessionOpened | SessionResumed | SessionEnded | SessionChanged,
    seq: int,
) -> Mapping[str, Any]:
    match event:
        case SessionOpened():
            told = {
                "title": event.title or entry.title,
                "transport": NATIVE if entry.is_native else event.transport,
                "agent_session": event.agent_session,
                "model": event.model,
                "mode": event.mode if entry.is_native else None,
            }
            return {"run": seq, "is_known": True} | _given(told)
        case SessionResumed():
            told = {"transport": event.transport, "agent_session": event.agent_session}
            return {"run": seq, "is_known": True} | _given(told)
        case SessionEnded():
            return {"accepted": None}
        case SessionChanged():
            facts = {
                name: getattr(event, name)
                for name in ("title", "agent_session", "model", "name", "mode")
            }
            return {name: value for name, value in facts.items() if value is not UNSET}


def _given(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if value is not None}


def _title(event: PromptQueued) -> str | None:
    """A title from the first prompt, until the agent has a better one."""
    texts = (block.text for block in event.content if isinstance(block, TextContent))
    return " ".join(" ".join(texts).split())[:_TITLE_LENGTH] or None


def _queue_changes(
    entry: Entry, event: PromptQueued | PromptDropped | Prompted, seq: int
) -> Mapping[str, Any]:
    message, queue = event.message, entry.queue
    place = next((n for n, one in enumerate(queue) if one.message == message), None)
    if isinstance(event, PromptQueued):
        fresh = Waiting(message=message, seq=seq)
        if place is None:
            return {"queue": (*queue, fresh)}
        return {"queue": (*queue[:place], fresh, *queue[place + 1 :])}
    accepted = None if entry.accepted == message else entry.accepted
    if place is None:
        return {"accepted": accepted}
    if isinstance(event, Prompted):
        accepted = message
    return {"queue": (*queue[:place], *queue[place + 1 :]), "accepted": accepted}


def info_of(entry: Entry, words: Mapping[MessageId, Queued], last_seq: int = 0) -> AgentInfo:
    """The agent as callers see it. ``words``: of the prompts that wait."""
    standing = entry.standing
    return AgentInfo(
        session=entry.session,
        name=entry.name,
        agent=entry.wish.agent,
        cwd=entry.wish.cwd,
        state=entry.state,
        waits_for=standing.waits_for,
        needs_person=standing.needs_person,
        is_live=standing.is_live,
        is_archived=standing.is_archived,
        can_resume=entry.can_resume,
        reason=standing.reason,
        title=entry.title,
        transport=entry.transport,
        model=entry.model,
        mode=entry.mode,
        agent_session=entry.resume,
        parent=entry.wish.parent_session,
        spawned=entry.spawned,
        updated=entry.updated,
        last_seq=max(entry.last_seq, last_seq),
        queue=tuple(words[one.message] for one in entry.queue if one.message in words),
        usage=entry.spending.usage,
        cost=entry.spending.cost,
        context=entry.context,
    )
