"""What was used, computed from the records of a log: a pure fold, each token counted once.

Agents report in different ways. Our own reports each model call. Others report each turn
(``TurnEnded``), a running total of the session (``UsageReported``), or both. So, for each turn:

- what a running total grew by counts, at the time of each report;
- where the growth is not certain (the total began again, or began before this log) the turn's own
  figure counts instead;
- a turn's own figure that no running total has shown yet is deducted from that total's next growth.

Calls of a foreign agent that pass the meter are counted there. From one turn to the next in which
there was such a call, what the agent itself reports does not count, except for what the meter could
not read: then the agent's figures count as far as they exceed the meter's. What such a call cost
is for its price to tell, until the agent reports a cost that includes it.

Within a turn a total that falls is a correction and counts nothing. At the beginning of a turn or
run it has begun again. A sub-agent of our own agent is a session of its own; the figures of its
parent's turns include it, so they are left out in favour of the model calls. What a fork took over
from its source has turns of the source and counts there.
"""

import math
from collections.abc import Iterable, Iterator

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
from .running_totals import MeteredSpan, RunningTotal, UsageFigures, UsageGrowth

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
    unpaid: TokenUsage = TokenUsage()
    """Those that passed the meter and that no cost of the agent includes yet."""
    reported: dict[str, float] = field(default_factory=dict[str, float])
    """Money by currency."""
    calls: int = 0
    """Model calls, where the agent reports each."""


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
    is_metered: bool = False
    """A call of this run has passed the meter."""
    span: "MeteredSpan | None" = None
    """Of now, once a call has passed the meter."""
    spans: list["MeteredSpan"] = field(default_factory=list["MeteredSpan"])
    """Those in which something may still be missing."""
    metered: dict[str, "MeteredSpan"] = field(default_factory=dict[str, "MeteredSpan"])
    """Of the calls that run."""
    unpaid: dict[int, UsageCell] = field(default_factory=dict[int, UsageCell])
    """Where calls are that no cost of the agent includes yet, by identity."""
    paid: set[str] = field(default_factory=set[str])
    """Of the calls that run, those that a cost of the agent includes."""
    tokens: "RunningTotal" = field(default_factory=lambda: RunningTotal())
    money: dict[str, "RunningTotal"] = field(default_factory=dict[str, "RunningTotal"])
    """By currency."""

    @property
    def gauges(self) -> "tuple[tuple[str, RunningTotal], ...]":
        """Its running totals: of tokens, without a name, and of each currency."""
        return ("", self.tokens), *self.money.items()


class UsageLedger:
    """Counts the usage in the records of one log, given in order. Never raises for a record."""

    def __init__(self) -> None:
        self.sessions: dict[SessionId, UsedSession] = {}
        self.ignored = 0
        """Reports that cannot be true."""
        self._cells: dict[tuple[SessionId, TurnId | None, str | None, str], UsageCell] = {}
        self._days: dict[str, dict[tuple[SessionId, str | None], UsageCell]] = {}
        """The same without turns, by day: as much as is asked for again and again."""
        self._cells_of: dict[SessionId, list[UsageCell]] = {}
        """Those of the days, by session."""
        self._loose: set[SessionId] = set()
        """Sessions that may have reported something which is not in the cells yet."""
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
        return found + self._list_loose()

    def day_cells(self, since: str | None = None) -> list[UsageCell]:
        """The same without turns, from a day on; those of earlier days cost nothing then."""
        days = [day for day in self._days if since is None or UNKNOWN_DAY != day >= since]
        found = [self._finished(cell) for day in days for cell in self._days[day].values()]
        return found + self._list_loose()

    def cells_of(self, id_: SessionId) -> list[UsageCell]:
        """Those of one session without turns, in a time that grows with its days alone."""
        found = [self._finished(cell) for cell in self._cells_of.get(id_, ())]
        if id_ in self._loose:
            found += self._unsettled(self.sessions[id_])
        return found + [cell for cell in self._list_held() if cell.session == id_]

    def _list_loose(self) -> list[UsageCell]:
        """What is not in the cells yet, since more about it may follow."""
        found: list[UsageCell] = []
        for id_ in tuple(self._loose):
            session = self.sessions[id_]
            found += self._unsettled(session)
            if not session.spans and not any(gauge.growth for _, gauge in session.gauges):
                self._loose.discard(id_)
        return found + self._list_held()

    def _list_held(self) -> list[UsageCell]:
        return [
            self._finished(self._make_call_cell(record, model, tokens, cost))
            for held in self._held.values()
            for record, model, tokens, cost in held
        ]

    def _finished(self, cell: UsageCell) -> UsageCell:
        session = self.sessions[cell.session]
        if session.reports_cost and not session.has_calls:
            return replace(cell, uncosted=cell.unpaid)
        return cell

    def _unsettled(self, session: UsedSession) -> Iterator[UsageCell]:
        for turn, growth in (one for span in session.spans for one in span.rest()):
            cell = _make_cell(session, turn, growth.time, growth.model)
            _increase(cell, growth, "")
            yield self._finished(cell)
        for currency, gauge in session.gauges:
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
            session.paid.clear()
            session.is_metered = False
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
            session.tokens.high, session.tokens.ahead = known.tokens.high, known.tokens.ahead
        elif source is not None or resume is not None:
            session.tokens.began_elsewhere = True
        for currency, gauge in known.money.items() if known is not None else ():
            session.money[currency] = RunningTotal(high=gauge.high, ahead=gauge.ahead)

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
        self._loose.add(session.id)
        if event.session_tokens is not None:
            figures = self._read_tokens(event.session_tokens)
            if figures is not None:
                session.tokens.read(record.time, session.model, figures)
        if event.session_cost is not None:
            amount = self._read_money(event.session_cost)
            if amount is not None:
                gauge = self._gauge(session, event.session_cost.currency)
                gauge.read(record.time, session.model, (amount,))
                if gauge.counts:
                    _pay(session)

    def _gauge(self, session: UsedSession, currency: str) -> RunningTotal:
        session.reports_cost = True
        if currency not in session.money:
            gauge = RunningTotal(began_elsewhere=session.tokens.began_elsewhere)
            session.money[currency] = gauge
        return session.money[currency]

    # Counting

    def _settle(self, session: UsedSession, record: Record | None, ended: TurnEnded | None) -> None:
        tokens: UsageFigures | None = None
        money: dict[str, UsageFigures] = {}
        if ended is not None and not (session.has_calls or session.is_own):
            if ended.usage is not None:
                tokens = self._read_tokens(ended.usage)
            if ended.cost is not None and (amount := self._read_money(ended.cost)) is not None:
                self._gauge(session, ended.cost.currency)
                money[ended.cost.currency] = (amount,)
        if money or (ended is not None and any(one.counts for one in session.money.values())):
            # The last call may be in the log only after the turn's end.
            session.paid.update(session.metered)
            _pay(session)
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
        self, session: UsedSession, turn: TurnId | None, currency: str, grown: list[UsageGrowth]
    ) -> None:
        for growth in grown:
            for cell in self._find_cells(session.id, turn, growth.model, growth.time):
                _increase(cell, growth, currency)

    def _metered(self, session: UsedSession, record: Record, event: ModelCallMetered) -> None:
        self._loose.add(session.id)
        if event.state == "started":
            session.is_metered = True
            if session.span is None:
                session.span = MeteredSpan()
                session.spans.append(session.span)
            session.metered[event.call] = session.span
        elif event.state == "finished":
            span = session.metered.pop(event.call, None) or session.span or MeteredSpan()
            figures = self._read_tokens(event.usage) if event.usage is not None else None
            is_refused = event.status is not None and event.status >= 400
            span.is_partial |= event.reason is not None or (figures is None and not is_refused)
            if event.usage is not None and figures is not None:
                span.counted = tuple(map(sum, zip(span.counted, figures, strict=True)))
                cells = self._count_call(record, event.model or "", event.usage, None)
                for cell in cells if event.call not in session.paid else ():
                    cell.unpaid += event.usage
                    session.unpaid.setdefault(id(cell), cell)
            session.paid.discard(event.call)

    def _end_span(self, session: UsedSession) -> None:
        """No more is reported for the span of now; what the meter did not see counts then."""
        session.span = None
        running = {id(span) for span in session.metered.values()}
        ended = [span for span in session.spans if id(span) not in running]
        session.spans = [span for span in session.spans if id(span) in running]
        for turn, growth in (one for span in ended for one in span.rest()):
            self._count(session, turn, "", [growth])

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

    def _count_call(
        self, record: Record, model: str, usage: TokenUsage, cost: Cost | None
    ) -> tuple[UsageCell, UsageCell]:
        cells = self._find_cells(record.session, record.turn, model or None, record.time)
        for cell in cells:
            _add_call(cell, usage, cost, record.time)
        return cells

    def _find_cells(
        self, id_: SessionId, turn: TurnId | None, model: str | None, time: int
    ) -> tuple[UsageCell, UsageCell]:
        """The cells in which something counts: that of the turn and that of the day."""
        day, session = _day(time), self.sessions[id_]
        of_turn = self._cells.get((id_, turn, model, day))
        if of_turn is None:
            of_turn = self._cells[id_, turn, model, day] = _make_cell(session, turn, time, model)
        cells = self._days.setdefault(day, {})
        of_day = cells.get((id_, model))
        if of_day is None:
            of_day = cells[id_, model] = _make_cell(session, None, time, model)
            self._cells_of.setdefault(id_, []).append(of_day)
        return of_turn, of_day

    # What can be true

    def _read_tokens(self, usage: TokenUsage) -> UsageFigures | None:
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


def _pay(session: UsedSession) -> None:
    """The agent reported a cost that includes its calls so far."""
    for cell in session.unpaid.values():
        cell.unpaid = TokenUsage()
    session.unpaid.clear()


def _turn_growth(
    record: Record | None, session: UsedSession, figures: UsageFigures | None
) -> UsageGrowth | None:
    if record is None or figures is None:
        return None
    return UsageGrowth(record.time, session.model, figures)


def _make_cell(
    session: UsedSession, turn: TurnId | None, time: int, model: str | None
) -> UsageCell:
    return UsageCell(
        session=session.id, turn=turn, model=model, day=_day(time), first=time, last=time
    )


def _increase(cell: UsageCell, growth: UsageGrowth, currency: str) -> None:
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
    cell.calls += 1
    if cost is None:
        cell.uncosted += usage
    else:
        cell.reported[cost.currency] = cell.reported.get(cost.currency, 0.0) + cost.amount


def _day(time: int) -> str:
    return format_local_time(time, "%Y-%m-%d") or UNKNOWN_DAY
