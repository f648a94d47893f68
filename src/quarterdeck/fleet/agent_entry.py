"""One agent as the log describes it: pure functions from its records to an entry.

Token and money figures are added up here: some agents report each turn, some a running total, some
both. A running total replaces the one before; one that falls has started again with a new process.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    ChangesCounted,
    ConflictChanged,
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
    WorktreeAssigned,
    WorktreeReleased,
)
from quarterdeck.wire.ids import MessageId, SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.usage import ContextUsage, Cost, TokenUsage
from quarterdeck.wire.worktrees import ChangeCounts, ConflictFile, Worktree

from .agent_state import NEW_STATUS, STATUS_EVENTS, AgentStateName, AgentStatus, advance_status
from .api import AgentConflict, AgentInfo, QueuedPrompt

__all__ = [
    "ENTRY_EVENTS",
    "NATIVE",
    "AgentEntry",
    "AgentSpending",
    "WaitingPrompt",
    "fold_entry",
    "is_own_agent",
    "make_agent_info",
]


class AgentSpending(Struct, frozen=True, kw_only=True):
    """Tokens and money of one session so far."""

    turns: TokenUsage = TokenUsage()
    """Sum of what the turns took."""
    total: TokenUsage | None = None
    """The last running total."""
    before: TokenUsage = TokenUsage()
    """What earlier running totals had reached before they began again."""
    turns_cost: Cost | None = None
    total_cost: Cost | None = None
    before_cost: Cost | None = None

    @property
    def usage(self) -> TokenUsage:
        """All tokens."""
        return self.turns if self.total is None else self.before + self.total

    @property
    def cost(self) -> Cost | None:
        """All money, where the agent tells."""
        if self.total_cost is None:
            return self.turns_cost
        return _sum(self.before_cost, self.total_cost)

    def after_turn(self, event: TurnEnded) -> "AgentSpending":
        """With what a turn took."""
        turns = self.turns + event.usage if event.usage is not None else self.turns
        return replace(self, turns=turns, turns_cost=_sum(self.turns_cost, event.cost))

    def after_report(self, event: UsageReported) -> "AgentSpending":
        """With figures that the agent reported."""
        spending = self
        if (tokens := event.session_tokens) is not None:
            begun_again = self.total is not None and tokens.total < self.total.total
            before = self.before + self.total if begun_again and self.total else self.before
            spending = replace(spending, total=tokens, before=before)
        if (cost := event.session_cost) is not None:
            earlier = self.total_cost
            begun_again = earlier is not None and cost.amount < earlier.amount
            before_cost = _sum(self.before_cost, earlier) if begun_again else self.before_cost
            spending = replace(spending, total_cost=cost, before_cost=before_cost)
        return spending


def _sum(one: Cost | None, other: Cost | None) -> Cost | None:
    """Both together; of two currencies the later counts, since nothing here can exchange them."""
    if one is None or other is None:
        return other if one is None else one
    if one.currency != other.currency:
        return other
    return Cost(amount=one.amount + other.amount, currency=one.currency)


_TITLE_LENGTH = 60

NATIVE = "native"
"""Our own agent's name in the catalogue, and how it is reached in the host's process."""
ENTRY_EVENTS = STATUS_EVENTS | {
    "mode_changed",
    "permission_approved",
    "permission_violated",
    "prompt_queued",
    "prompt_dropped",
    "prompted",
    "usage_reported",
    "worktree_assigned",
    "worktree_released",
    "changes_counted",
    "conflict_changed",
}
"""The tags of the events that change an entry; what agents say is not among them."""


def is_own_agent(options: SessionOptions) -> bool:
    """Whether these options are for our own agent, in the host's process."""
    return options.agent == NATIVE and options.transport in (None, NATIVE)


_NoConflicts: type[dict[SessionId, tuple[ConflictFile, ...]]] = dict


class WaitingPrompt(Struct, frozen=True, kw_only=True):
    """A prompt in the queue."""

    message: MessageId
    seq: int
    """The record that has its words."""


class AgentEntry(Struct, frozen=True, kw_only=True):
    """An agent: how it is to be, where it stands, what it has used."""

    session: SessionId
    spawn: SessionSpawned
    """As it was last started."""
    name: str
    status: AgentStatus = NEW_STATUS
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
    spending: AgentSpending = AgentSpending()
    context: ContextUsage | None = None
    queue: tuple[WaitingPrompt, ...] = ()
    accepted: MessageId | None = None
    """A prompt that has left the queue and whose turn has not begun."""
    worktree: Worktree | None = None
    """Where it works, if that is a worktree which is there."""
    changes: ChangeCounts | None = None
    conflicts: dict[SessionId, tuple[ConflictFile, ...]] = field(default_factory=_NoConflicts)
    """By the other agent; only those that there are."""

    @property
    def is_native(self) -> bool:
        """Whether it is our own agent, in the host's process."""
        return is_own_agent(self.spawn.options)

    @property
    def state(self) -> AgentStateName:
        """The word for where it stands."""
        state = self.status.state
        return "running" if self.accepted is not None and self.status.is_live else state

    @property
    def is_started(self) -> bool:
        """Whether it runs or is about to: someone must write its end."""
        return self.status.is_live or self.status.phase == "starting"

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
        if self.status.needs_person:
            return True
        return self.state in ("idle", "interrupted", "failed") and not self.queue


def fold_entry(entry: AgentEntry | None, record: Record) -> AgentEntry | None:
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
        status=advance_status(entry.status, event),
        updated=max(entry.updated, record.time),
        last_seq=record.seq,
        **_changes(entry, event, record.seq),
    )


def _spawned(entry: AgentEntry | None, record: Record, spawn: SessionSpawned) -> AgentEntry:
    if entry is None:
        return AgentEntry(
            session=record.session,
            spawn=spawn,
            name=spawn.name,
            model=spawn.options.model,
            mode=spawn.options.mode,
            transport=spawn.options.transport,
            spawned=record.time,
        )
    return replace(entry, spawn=spawn, name=spawn.name, mode=spawn.options.mode, accepted=None)


def _changes(entry: AgentEntry, event: Event, seq: int) -> Mapping[str, Any]:
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
            return _worktree_changes(entry, event)


def _worktree_changes(entry: AgentEntry, event: Event) -> Mapping[str, Any]:
    match event:
        case WorktreeAssigned(worktree=worktree):
            return {"worktree": worktree}
        case WorktreeReleased():
            return {"worktree": None, "changes": None, "conflicts": {}}
        case ChangesCounted(counts=counts):
            return {"changes": counts}
        case ConflictChanged(other=other, files=files):
            others = {one: kept for one, kept in entry.conflicts.items() if one != other}
            return {"conflicts": others | ({other: files} if files else {})}
        case _:
            return {}


def _run_changes(
    entry: AgentEntry,
    event: SessionOpened | SessionResumed | SessionEnded | SessionChanged,
    seq: int,
) -> Mapping[str, Any]:
    match event:
        case SessionOpened():
            facts = {
                "title": event.title or entry.title,
                "transport": NATIVE if entry.is_native else event.transport,
                "agent_session": event.agent_session,
                "model": event.model,
                "mode": event.mode if entry.is_native else None,
            }
            return {"run": seq, "is_known": True} | _given(facts)
        case SessionResumed():
            facts = {"transport": event.transport, "agent_session": event.agent_session}
            return {"run": seq, "is_known": True} | _given(facts)
        case SessionEnded():
            return {"accepted": None}
        case SessionChanged():
            facts = {
                name: getattr(event, name)
                for name in ("title", "agent_session", "model", "name", "mode")
            }
            return {name: value for name, value in facts.items() if value is not UNSET}


def _given(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


def _title(event: PromptQueued) -> str | None:
    """A title from the first prompt, until the agent has a better one."""
    texts = (block.text for block in event.content if isinstance(block, TextContent))
    return " ".join(" ".join(texts).split())[:_TITLE_LENGTH] or None


def _queue_changes(
    entry: AgentEntry, event: PromptQueued | PromptDropped | Prompted, seq: int
) -> Mapping[str, Any]:
    message, queue = event.message, entry.queue
    place = next((n for n, one in enumerate(queue) if one.message == message), None)
    if isinstance(event, PromptQueued):
        fresh = WaitingPrompt(message=message, seq=seq)
        if place is None:
            return {"queue": (*queue, fresh)}
        return {"queue": (*queue[:place], fresh, *queue[place + 1 :])}
    accepted = None if entry.accepted == message else entry.accepted
    if place is None:
        return {"accepted": accepted}
    if isinstance(event, Prompted):
        accepted = message
    return {"queue": (*queue[:place], *queue[place + 1 :]), "accepted": accepted}


def make_agent_info(
    entry: AgentEntry, words: Mapping[MessageId, QueuedPrompt], last_seq: int = 0
) -> AgentInfo:
    """The agent as callers see it. ``words``: of the prompts that wait."""
    status = entry.status
    return AgentInfo(
        session=entry.session,
        name=entry.name,
        agent=entry.spawn.options.agent,
        cwd=entry.spawn.options.cwd,
        state=entry.state,
        waits_for=status.waits_for,
        needs_person=status.needs_person,
        is_live=status.is_live,
        is_archived=status.is_archived,
        can_resume=entry.can_resume,
        reason=status.reason,
        title=entry.title,
        transport=entry.transport,
        model=entry.model,
        mode=entry.mode,
        agent_session=entry.resume,
        parent=entry.spawn.parent_session,
        spawned=entry.spawned,
        updated=entry.updated,
        last_seq=max(entry.last_seq, last_seq),
        queue=tuple(words[one.message] for one in entry.queue if one.message in words),
        usage=entry.spending.usage,
        cost=entry.spending.cost,
        context=entry.context,
        worktree=entry.worktree,
        changes=entry.changes,
        conflicts=tuple(
            AgentConflict(other=other, files=files) for other, files in entry.conflicts.items()
        ),
    )
