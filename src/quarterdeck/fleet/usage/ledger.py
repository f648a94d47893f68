"""What was used, computed from the records of a log: a pure fold, each token counted once.

Agents report in different ways. Our own reports each model call. Others report each turn
(``TurnEnded``), a running total of the session (``UsageReported``), or both. So, for each turn:

- what a running total grew by counts, at the time of each report;
- where the growth is not certain (the total began again, or began before this log) the turn's own
  figure counts instead;
- a turn's own figure that no running total has shown yet is deducted from that total's next growth.

Calls of a foreign agent that pass the meter are counted there. From one turn to the next in which
there was such a call, what the agent itself reports does not count, except for what the meter could
not read: then the agent's figures count as far as they exceed the meter's.

Within a turn a total that falls is a correction and counts nothing. At the beginning of a turn or
run it has begun again. A sub-agent of our own agent is a session of its own; the figures of its
parent's turns include it, so they are left out in favour of the model calls. What a fork took over
from its source has turns of the source and counts there.
"""

import math
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.events import (
    CompactionChanged,
    Event,
    ModelCallFinished,
    ModelCallMetered,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    TurnEnded,
    TurnStarted,
    UsageReported,
    WorktreeAssigned,
)
from quarterdeck.wire.ids import SessionId, TurnId
from quarterdeck.wire.record import Record
from quarterdeck.wire.usage import Cost, TokenUsage

from ..agent_entry import NATIVE, is_own_agent

__all__ = ["UNKNOWN_DAY", "USAGE_EVENTS", "UsageCell", "UsageLedger", "UsedSession"]

USAGE_EVENTS = frozenset(
    {
        "compaction_changed",
        "model_call_finished",
        "model_call_metered",
        "session_changed",
        "session_ended",
        "session_opened",
        "session_resumed",
        "session_spawned",
        "turn_ended",
        "turn_started",
        "usage_reported",
        "worktree_assigned",
    }
)
"""The tags of the events that count."""
UNKNOWN_DAY = "unknown"
"""The day of a record whose time no calendar has."""

_MOST_TOKENS = 1 << 53
_MOST_MONEY = 1e9

_Figures: TypeAlias = tuple[float, ...]
"""Tokens (input, output, cached, cache written, thought) or an amount of money."""


class UsageCell(Struct, kw_only=True, eq=False):
    """What one turn of a session used of one model on one day."""

    session: SessionId
    turn: TurnId | None
    model: str | None
    day: str
    """Local, of the records."""
    first: int
    last: int
    tokens: TokenUsage = TokenUsage()
    uncosted: TokenUsage = TokenUsage()
    """Those of the tokens whose cost no one reported."""
    reported: dict[str, float] = field(default_factory=dict[str, float])
    """Money by currency."""


class UsedSession(Struct, kw_only=True, eq=False):
    """What is known of a session that used something."""

    id: SessionId
    name: str | None = None
    agent: str | None = None
    cwd: str | None = None
    repository: str | None = None
    """Of the worktree that it works in."""
    model: str | None = None
    parent: SessionId | None = None
    is_spawned: bool = False
    """It is an agent of a fleet, not a sub-agent of our own agent."""
    is_forked: bool = False
    is_own: bool = False
    """It is our own agent, in our process."""
    has_calls: bool = False
    """It reports its model calls, so that its turns' figures only repeat them."""
    reports_cost: bool = False
    turn: TurnId | None = None
    span: "_MeteredSpan | None" = None
    """Of now, once a call has passed the meter."""
    spans: list["_MeteredSpan"] = field(default_factory=list["_MeteredSpan"])
    """Those in which something is or may be missing."""
    metered: dict[str, "_MeteredSpan"] = field(default_factory=dict[str, "_MeteredSpan"])
    """Of the calls that run."""
    tokens: "_Gauge" = field(default_factory=lambda: _Gauge())
    money: dict[str, "_Gauge"] = field(default_factory=dict[str, "_Gauge"])
    """By currency."""


class _MeteredSpan(Struct, eq=False):
    """From one turn of a session to the next, where calls passed the meter."""

    counted: _Figures = (0,) * 5
    """By the meter, in tokens."""
    own: list[tuple[TurnId | None, "_Growth"]] = field(
        default_factory=list[tuple[TurnId | None, "_Growth"]]
    )
    """What the agent reported."""
    is_partial: bool = False
    """The counts of a call could not be read, or not to the end."""

    def rest(self) -> list[tuple[TurnId | None, "_Growth"]]:
        """What the agent reported and the meter did not see."""
        if not self.is_partial:
            return []
        left = self.counted
        found: list[tuple[TurnId | None, _Growth]] = []
        for turn, growth in self.own:
            known = tuple(map(min, growth.amount, left))
            left = _minus(left, known)
            amount = _minus(growth.amount, known)
            if any(amount):
                found.append((turn, _Growth(growth.time, growth.model, amount)))
        return found


class _Growth(Struct, frozen=True):
    time: int
    model: str | None
    amount: _Figures


class _Gauge(Struct, eq=False):
    """A running total that an agent reports now and then."""

    high: _Figures | None = None
    """As far as it has got."""
    begins: bool = True
    """A report now may be the first of a total that began again."""
    began_elsewhere: bool = False
    """The first report includes what was used before this log knew the session."""
    is_certain: bool = True
    ahead: _Figures = ()
    """What turns reported and the total has not shown yet."""
    growth: list[_Growth] = field(default_factory=list[_Growth])
    was_read: bool = False
    """There was a report since the last settlement."""

    def read(self, time: int, model: str | None, total: _Figures) -> None:
        """Take a report of the running total."""
        self.was_read = True
        high = self.high
        if high is None:
            self.is_certain = not self.began_elsewhere
            amount = total
        elif sum(total[:2]) >= sum(high[:2]):
            amount = tuple(max(new - old, 0) for new, old in zip(total, high, strict=True))
        elif self.begins:
            high, self.ahead, self.is_certain, amount = None, (), False, total
        else:
            amount = ()  # a correction
        self.begins = False
        self.high = total if high is None else tuple(map(max, total, high))
        if self.ahead and amount and self.is_certain:
            shown = tuple(map(min, amount, self.ahead))
            self.ahead = _minus(self.ahead, shown)
            amount = _minus(amount, shown)
        if any(amount):
            self.growth.append(_Growth(time, model, amount))

    def settle(self, of_turn: _Growth | None) -> list[_Growth]:
        """What was used since the last settlement; ``of_turn``: the turn's own figures."""
        counted = self.growth
        if of_turn is not None and not (self.was_read and self.is_certain):
            counted = [of_turn]
            if not self.was_read:
                before = self.ahead or (0,) * len(of_turn.amount)
                self.ahead = tuple(map(sum, zip(before, of_turn.amount, strict=True)))
        elif not self.is_certain and self.began_elsewhere:
            counted = []
        if self.was_read:
            self.began_elsewhere = False
        self.growth, self.is_certain, self.was_read, self.begins = [], True, False, True
        return counted


def _minus(one: _Figures, other: _Figures) -> _Figures:
    return tuple(a - b for a, b in zip(one, other, strict=True))


class UsageLedger:
    """Counts the usage in the records of one log, given in order. Never raises for a record."""

    def __init__(self) -> None:
        self.sessions: dict[SessionId, UsedSession] = {}
        self.ignored = 0
        """Reports that cannot be true."""
        self._cells: dict[tuple[SessionId, TurnId | None, str | None, str], UsageCell] = {}
        self._owners: dict[TurnId, SessionId] = {}
        self._summaries: set[str] = set()
        self._held: dict[TurnId, list[tuple[Record, str, TokenUsage, Cost | None]]] = {}
        """Calls in turns of forks, until it is known whether the turn was taken over."""

    def add(self, records: Iterable[Record]) -> None:
        """Take in records."""
        for record in records:
            # What a sub-agent of a foreign agent reports is in its session's figures.
            if record.parent is None:
                self._add(record)

    def cells(self) -> list[UsageCell]:
        """What was used so far, also in turns that still run; the ledger can go on after this."""
        found = [self._finished(cell) for cell in self._cells.values()]
        for session in self.sessions.values():
            found += self._unsettled(session)
        for held in self._held.values():
            found += [
                self._finished(self._make_call_cell(record, model, tokens, cost))
                for record, model, tokens, cost in held
            ]
        return found

    def _finished(self, cell: UsageCell) -> UsageCell:
        session = self.sessions[cell.session]
        if session.reports_cost and not session.has_calls:
            return replace(cell, uncosted=TokenUsage())
        return cell

    def _unsettled(self, session: UsedSession) -> Iterator[UsageCell]:
        for turn, growth in (one for span in session.spans for one in span.rest()):
            cell = _make_cell(session, turn, growth.time, growth.model)
            _increase(cell, growth, "")
            yield self._finished(cell)
        gauges = (("", session.tokens), *session.money.items())
        for currency, gauge in gauges:
            if not gauge.is_certain and gauge.began_elsewhere:
                continue
            if session.span is not None and not currency:
                continue
            for growth in gauge.growth:
                cell = _make_cell(session, session.turn, growth.time, growth.model)
                _increase(cell, growth, currency)
                yield self._finished(cell)

    # Records

    def _add(self, record: Record) -> None:
        session = self.sessions.get(record.session)
        if session is None:
            session = self.sessions[record.session] = UsedSession(id=record.session)
        event = record.event
        match event:
            case SessionSpawned() | SessionOpened() | SessionResumed() | SessionEnded():
                self._run(session, event)
            case SessionChanged() | WorktreeAssigned():
                _change(session, event)
            case TurnStarted() | TurnEnded():
                self._turn(session, record, event)
            case ModelCallFinished(usage=TokenUsage() as usage):
                self._call(session, record, event.model, usage, event.cost)
            case CompactionChanged(usage=TokenUsage() as usage) if (
                event.compaction not in self._summaries
            ):
                self._summaries.add(event.compaction)
                self._call(session, record, session.model or "", usage, event.cost)
            case UsageReported():
                self._report(session, record, event)
            case ModelCallMetered():
                self._metered(session, record, event)
            case _:
                pass

    def _run(self, session: UsedSession, event: Event) -> None:
        self._settle(session, None, None)
        self._end_span(session)
        session.turn = None
        if isinstance(event, SessionSpawned):
            for span in session.metered.values():
                span.is_partial = True  # the host was killed while it ran
            session.metered.clear()
        match event:
            case SessionSpawned(options=options):
                session.name, session.agent, session.cwd = event.name, options.agent, options.cwd
                session.model = session.model or options.model
                session.parent = event.parent_session or session.parent
                if not session.is_spawned:
                    self._begin(session, event.forked_from, options.resume)
                session.is_spawned, session.is_own = True, is_own_agent(options)
            case SessionOpened():
                session.agent = session.agent or event.agent
                session.cwd = session.cwd or event.cwd
                session.model = event.model or session.model
                session.parent = session.parent or event.parent_session
                session.is_forked |= event.forked_from is not None
                if not session.is_spawned:
                    session.is_own = event.agent == NATIVE and event.transport in (None, NATIVE)
            case _:
                pass

    def _begin(self, session: UsedSession, source: SessionId | None, resume: str | None) -> None:
        """Note what the first running total of a session may include."""
        session.is_forked = source is not None
        known = self.sessions.get(source) if source is not None else None
        if known is not None and known.tokens.high is not None:
            session.tokens.high = known.tokens.high
        elif source is not None or resume is not None:
            session.tokens.began_elsewhere = True
        for currency, gauge in known.money.items() if known is not None else ():
            session.money[currency] = _Gauge(high=gauge.high)

    def _turn(self, session: UsedSession, record: Record, event: TurnStarted | TurnEnded) -> None:
        turn = record.turn
        if isinstance(event, TurnStarted):
            self._settle(session, None, None)
            self._end_span(session)
            session.turn = turn
            if turn is not None:
                self._owners.setdefault(turn, session.id)
            return
        if turn is not None:
            self._release(session, turn, event)
        if turn is None or self._owners.setdefault(turn, session.id) == session.id:
            self._settle(session, record, event)
        session.turn = None

    def _report(self, session: UsedSession, record: Record, event: UsageReported) -> None:
        if event.session_tokens is not None:
            figures = self._read_tokens(event.session_tokens)
            if figures is not None:
                session.tokens.read(record.time, session.model, figures)
        if event.session_cost is not None:
            amount = self._read_money(event.session_cost)
            if amount is not None:
                gauge = self._gauge(session, event.session_cost.currency)
                gauge.read(record.time, session.model, (amount,))

    def _gauge(self, session: UsedSession, currency: str) -> _Gauge:
        session.reports_cost = True
        if currency not in session.money:
            gauge = _Gauge(began_elsewhere=session.tokens.began_elsewhere)
            session.money[currency] = gauge
        return session.money[currency]

    # Counting

    def _settle(self, session: UsedSession, record: Record | None, ended: TurnEnded | None) -> None:
        tokens: _Figures | None = None
        money: dict[str, _Figures] = {}
        if ended is not None and not (session.has_calls or session.is_own):
            if ended.usage is not None:
                tokens = self._read_tokens(ended.usage)
            if ended.cost is not None and (amount := self._read_money(ended.cost)) is not None:
                self._gauge(session, ended.cost.currency)
                money[ended.cost.currency] = (amount,)
        turn = record.turn if record is not None else session.turn
        grown = session.tokens.settle(_turn_growth(record, session, tokens))
        if session.span is not None:
            session.span.own += [(turn, growth) for growth in grown]
        else:
            self._count(session, turn, "", grown)
        for currency, gauge in session.money.items():
            of_turn = _turn_growth(record, session, money.get(currency))
            self._count(session, turn, currency, gauge.settle(of_turn))

    def _count(
        self, session: UsedSession, turn: TurnId | None, currency: str, grown: list[_Growth]
    ) -> None:
        for growth in grown:
            day = _day(growth.time)
            key = (session.id, turn, growth.model, day)
            cell = self._cells.get(key)
            if cell is None:
                cell = self._cells[key] = _make_cell(session, turn, growth.time, growth.model)
            _increase(cell, growth, currency)

    def _metered(self, session: UsedSession, record: Record, event: ModelCallMetered) -> None:
        if event.state == "started":
            if session.span is None:
                session.span = _MeteredSpan()
                session.spans.append(session.span)
            session.metered[event.call] = session.span
        elif event.state == "finished":
            span = session.metered.pop(event.call, None) or session.span or _MeteredSpan()
            figures = self._read_tokens(event.usage) if event.usage is not None else None
            is_refused = event.status is not None and event.status >= 400
            span.is_partial |= event.reason is not None or (figures is None and not is_refused)
            if event.usage is not None and figures is not None:
                span.counted = tuple(map(sum, zip(span.counted, figures, strict=True)))
                self._count_call(record, event.model or "", event.usage, None)

    def _end_span(self, session: UsedSession) -> None:
        session.span = None
        running = {id(span) for span in session.metered.values()}
        session.spans = [one for one in session.spans if one.is_partial or id(one) in running]

    def _call(
        self,
        session: UsedSession,
        record: Record,
        model: str,
        usage: TokenUsage,
        cost: Cost | None,
    ) -> None:
        session.has_calls = True
        if self._read_tokens(usage) is None:
            return
        if cost is not None and self._read_money(cost) is None:
            cost = None
        turn = record.turn
        if turn is not None:
            if self._owners.setdefault(turn, session.id) != session.id:
                return  # a fork took it over
            if session.is_forked:
                self._held.setdefault(turn, []).append((record, model, usage, cost))
                return
        self._count_call(record, model, usage, cost)

    def _release(self, session: UsedSession, turn: TurnId, ended: TurnEnded) -> None:
        """Count the calls of a fork's turn; one without figures that went well was taken over."""
        for call in self._held.pop(turn, ()):
            if ended.usage is not None or ended.stop == "failed":
                self._count_call(*call)

    def _make_call_cell(
        self, record: Record, model: str, usage: TokenUsage, cost: Cost | None
    ) -> UsageCell:
        session = self.sessions[record.session]
        cell = _make_cell(session, record.turn, record.time, model or None)
        _add_call(cell, usage, cost, record.time)
        return cell

    def _count_call(self, record: Record, model: str, usage: TokenUsage, cost: Cost | None) -> None:
        key = (record.session, record.turn, model or None, _day(record.time))
        cell = self._cells.get(key)
        if cell is None:
            self._cells[key] = self._make_call_cell(record, model, usage, cost)
        else:
            _add_call(cell, usage, cost, record.time)

    # What can be true

    def _read_tokens(self, usage: TokenUsage) -> _Figures | None:
        figures = (usage.input, usage.output, usage.cached, usage.cache_written, usage.thought)
        if all(0 <= figure < _MOST_TOKENS for figure in figures):
            return figures
        self.ignored += 1
        return None

    def _read_money(self, cost: Cost) -> float | None:
        if math.isfinite(cost.amount) and 0 <= cost.amount < _MOST_MONEY and cost.currency:
            return cost.amount
        self.ignored += 1
        return None


def _change(session: UsedSession, event: SessionChanged | WorktreeAssigned) -> None:
    if isinstance(event, WorktreeAssigned):
        session.repository = event.worktree.repository
        return
    if isinstance(event.model, str):
        session.model = event.model
    if isinstance(event.name, str):
        session.name = event.name


def _turn_growth(
    record: Record | None, session: UsedSession, figures: _Figures | None
) -> _Growth | None:
    if record is None or figures is None:
        return None
    return _Growth(record.time, session.model, figures)


def _make_cell(
    session: UsedSession, turn: TurnId | None, time: int, model: str | None
) -> UsageCell:
    return UsageCell(
        session=session.id, turn=turn, model=model, day=_day(time), first=time, last=time
    )


def _increase(cell: UsageCell, growth: _Growth, currency: str) -> None:
    cell.first, cell.last = min(cell.first, growth.time), max(cell.last, growth.time)
    if currency:
        cell.reported[currency] = cell.reported.get(currency, 0.0) + growth.amount[0]
        return
    read, written, cached, cache_written, thought = map(int, growth.amount)
    used = TokenUsage(
        input=read, output=written, cached=cached, cache_written=cache_written, thought=thought
    )
    cell.tokens += used
    cell.uncosted += used


def _add_call(cell: UsageCell, usage: TokenUsage, cost: Cost | None, time: int) -> None:
    cell.first, cell.last = min(cell.first, time), max(cell.last, time)
    cell.tokens += usage
    if cost is None:
        cell.uncosted += usage
    else:
        cell.reported[cost.currency] = cell.reported.get(cost.currency, 0.0) + cost.amount


def _day(time: int) -> str:
    return format_local_time(time, "%Y-%m-%d") or UNKNOWN_DAY
