"""What counts towards budgets, computed from the records of a log: a pure fold.

Usage is that of ``fleet.usage.ledger``, so that a budget and ``quarterdeck usage`` agree. On top
come calls that are reserved, and what only a settlement shows: calls that broke off, summaries.
What a settlement guesses of a call through the meter counts as far as the agent itself does not
report it later. Figures are whole numbers (of a billionth of a dollar, of a microsecond), so that
adding and taking away leaves no remainder.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck.models.model import Prices
from quarterdeck.wire.budgets import BudgetLevel, BudgetScope, BudgetUnit
from quarterdeck.wire.clock import MonotonicClock, format_local_time, read_wall_clock
from quarterdeck.wire.events import (
    BudgetCarried,
    BudgetChanged,
    BudgetReached,
    BudgetReserved,
    BudgetSettled,
    CompactionChanged,
    ModelCallFinished,
    ModelCallMetered,
    SessionEnded,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import RequestId, SessionId
from quarterdeck.wire.record import Record

from ..usage.ledger import (
    UNKNOWN_DAY,
    USAGE_EVENTS,
    UsageCell,
    UsageLedger,
    UsedSession,
)
from ..usage.running_totals import MeteredSpan
from ..usage.summary import price_of

__all__ = [
    "BUDGET_EVENTS",
    "COMMON_BUDGETS",
    "BudgetAccounts",
    "BudgetAmounts",
    "BudgetKey",
    "OpenReservation",
    "to_amounts",
]

BUDGET_EVENTS = USAGE_EVENTS | {
    "budget_carried",
    "budget_changed",
    "budget_reached",
    "budget_reserved",
    "budget_settled",
}
"""The tags of the events that count."""
COMMON_BUDGETS = SessionId("budgets")
"""The session in which budgets of projects, days and everything are noted."""

_NANO = 1_000_000_000
_MICRO = 1_000_000
_MOST_USD = 1e9

BudgetKey: TypeAlias = tuple[BudgetScope, str, BudgetUnit]
"""Names a budget: its scope, its subject, its unit."""
_Subject: TypeAlias = tuple[BudgetScope, str]


class BudgetAmounts(Struct, frozen=True, kw_only=True):
    """So much of every unit; added and subtracted without loss."""

    nanodollars: int = 0
    tokens: int = 0
    calls: int = 0
    microseconds: int = 0
    unpriced: int = 0
    """Tokens whose cost is not known."""

    def plus(self, other: "BudgetAmounts", sign: int = 1) -> "BudgetAmounts":
        """Both together; with a sign of -1 the difference."""
        return BudgetAmounts(
            nanodollars=self.nanodollars + sign * other.nanodollars,
            tokens=self.tokens + sign * other.tokens,
            calls=self.calls + sign * other.calls,
            microseconds=self.microseconds + sign * other.microseconds,
            unpriced=self.unpriced + sign * other.unpriced,
        )

    def cut(self, tokens: int) -> "BudgetAmounts":
        """Without so many of the tokens, and without the part of the money that is theirs."""
        left = max(self.tokens - tokens, 0)
        return replace(
            self,
            tokens=left,
            nanodollars=self.nanodollars * left // max(self.tokens, 1),
            unpriced=min(self.unpriced, left),
        )

    def of(self, unit: BudgetUnit) -> float:
        """How much of a unit, as people count it."""
        match unit:
            case "usd":
                return self.nanodollars / _NANO
            case "tokens":
                return float(self.tokens)
            case "calls":
                return float(self.calls)
            case "seconds":
                return self.microseconds / _MICRO
            case "agents":
                return 0.0


NOTHING = BudgetAmounts()


def to_amounts(tokens: int, usd: float | None, calls: int) -> BudgetAmounts:
    """Figures as events have them; those that cannot be true count as nothing."""
    tokens, calls = max(tokens, 0), max(calls, 0)
    if usd is None:
        return BudgetAmounts(tokens=tokens, calls=calls, unpriced=tokens)
    believed = usd if 0 <= usd < _MOST_USD else 0.0
    return BudgetAmounts(tokens=tokens, nanodollars=round(believed * _NANO), calls=calls)


class OpenReservation(Struct, kw_only=True, eq=False):
    """A reserved call that is not settled."""

    id: str
    session: SessionId
    amounts: BudgetAmounts
    day: str
    subjects: "tuple[_Subject, ...]" = ()
    """Where it counts."""
    is_summary: bool = False
    is_metered: bool = False
    is_reported: bool = False
    """What it used is in the log already."""
    span: MeteredSpan | None = None
    """In which it passed the meter, once it is over."""


class _Counted(Struct, frozen=True):
    amounts: BudgetAmounts
    subjects: tuple[_Subject, ...]


class _Guess(Struct, frozen=True):
    """What a call through the meter may have used beyond what is counted of it."""

    day: str
    amounts: BudgetAmounts
    span: MeteredSpan | None


class BudgetAccounts:
    """Counts, for every subject that a budget can have, what is used and what is reserved.

    ``prices`` and ``project`` are looked up for models and sessions as in ``UsageSource``; both
    answer at once and never raise.
    """

    def __init__(
        self,
        prices: Callable[[str], Prices | None],
        project: Callable[[UsedSession], str | None],
    ) -> None:
        self.limits: dict[BudgetKey, float] = {}
        """Those that the log has."""
        self.levels: dict[BudgetKey, tuple[float, BudgetLevel]] = {}
        """How far each was, when it had this limit."""
        self.requests: dict[RequestId, BudgetKey] = {}
        """Questions whether to raise one."""
        self.open: dict[str, OpenReservation] = {}
        self._prices = prices
        self._project = project
        self._ledger = UsageLedger()
        self._counted: dict[SessionId, dict[str, _Counted]] = {}
        """What is in the totals now, by day."""
        self._extra: dict[SessionId, dict[str, BudgetAmounts]] = {}
        """What settlements and turns add to the ledger's figures."""
        self._used: dict[_Subject, BudgetAmounts] = {}
        self._reserved: dict[_Subject, BudgetAmounts] = {}
        self._summaries: dict[SessionId, list[tuple[str, BudgetAmounts]]] = {}
        self._guesses: dict[SessionId, list[_Guess]] = {}
        self._turns: dict[SessionId, int] = {}
        """When the turns that run began, or were last looked at, by the clock in use."""
        self._stopwatch: Callable[[], int] | None = None
        self._deleted: set[SessionId] = set()

    # Answers

    @property
    def sessions(self) -> dict[SessionId, UsedSession]:
        """The sessions that the log knows."""
        return self._ledger.sessions

    def used(self, scope: BudgetScope, subject: str) -> BudgetAmounts:
        """What a subject has used."""
        return self._used.get((scope, subject), NOTHING)

    def reserved(self, scope: BudgetScope, subject: str) -> BudgetAmounts:
        """What calls of a subject that are not settled may use."""
        return self._reserved.get((scope, subject), NOTHING)

    def find_agent(self, session: SessionId) -> SessionId:
        """The agent that a session is, or is a sub-agent of."""
        return next(self._climb(session, to_agent=True), session)

    def find_chain(self, session: SessionId) -> tuple[SessionId, ...]:
        """The agent of a session and all above it, the nearest first."""
        return tuple(self._climb(self.find_agent(session))) or (session,)

    def find_project(self, session: SessionId) -> str | None:
        """The project that the agent of a session works in."""
        found = self.sessions.get(self.find_agent(session))
        return self._project(found) if found is not None else None

    @property
    def running(self) -> tuple[SessionId, ...]:
        """The sessions of which a turn runs."""
        return tuple(self._turns)

    def go_live(self, now: int, clock: MonotonicClock) -> None:
        """Measure time by a clock that only grows, from now on; before, records' times count."""
        self._stopwatch = lambda: round(clock() * _MICRO)
        moment = self._stopwatch()
        for session, begun in self._turns.items():
            self._turns[session] = moment - max(now - begun, 0)

    def advance(self) -> None:
        """Count the time of turns that run, up to now."""
        if self._stopwatch is None:
            return
        moment = self._stopwatch()
        for session, begun in tuple(self._turns.items()):
            self._turns[session] = moment
            self._add_time(session, moment - begun)

    def sum_deleted(self, session: SessionId) -> list[BudgetCarried]:
        """What would no longer count if a session with its sub-agents were deleted."""
        found: list[BudgetCarried] = []
        chain = self.find_chain(session)[1:]
        for day, amounts in self._sum_days(session).items():
            found.append(
                BudgetCarried(
                    day=day,
                    project=self.find_project(session),
                    within=chain,
                    tokens=amounts.tokens,
                    usd=amounts.of("usd"),
                    calls=amounts.calls,
                    seconds=amounts.of("seconds"),
                    unpriced=amounts.unpriced,
                )
            )
        return found

    def _sum_days(self, session: SessionId) -> dict[str, BudgetAmounts]:
        days: dict[str, BudgetAmounts] = {}
        for one in self._family(session):
            for day, counted in self._counted.get(one, {}).items():
                days[day] = days.get(day, NOTHING).plus(counted.amounts)
        return days

    def _family(self, session: SessionId) -> list[SessionId]:
        return [one for one in self.sessions if self.find_agent(one) == session]

    def _climb(self, session: SessionId, *, to_agent: bool = False) -> Iterator[SessionId]:
        seen: set[SessionId] = set()
        found = self.sessions.get(session)
        while found is not None and found.id not in seen:
            seen.add(found.id)
            above = self.sessions.get(found.parent) if found.parent is not None else None
            if not to_agent or found.is_spawned or above is None:
                yield found.id
            found = above

    # Records

    def add(self, records: Iterable[Record]) -> None:
        """Take in records."""
        for record in records:
            self.take(record)

    def take(self, record: Record) -> None:
        """Take in a record. Never raises for what it says."""
        event, session = record.event, record.session
        match event:
            case BudgetChanged() | BudgetReached() | BudgetCarried():
                self._note(event)
            case BudgetReserved():
                self.hold(_read_reservation(record, event))
            case BudgetSettled():
                self._settle(record, event)
            case _ if session not in self._deleted and record.parent is None:
                self._count(record)
            case _:
                pass

    def _note(self, event: BudgetChanged | BudgetReached | BudgetCarried) -> None:
        match event:
            case BudgetChanged():
                key = (event.scope, event.subject, event.unit)
                if event.amount is None:
                    self.limits.pop(key, None)
                else:
                    self.limits[key] = event.amount
                self.levels.pop(key, None)
            case BudgetReached():
                key = (event.scope, event.subject, event.unit)
                self.levels[key] = (event.amount, event.level)
                if event.request is not None:
                    self.requests[event.request] = key
            case BudgetCarried():
                amounts = replace(
                    to_amounts(event.tokens, event.usd, event.calls),
                    microseconds=round(max(event.seconds, 0.0) * _MICRO),
                    unpriced=max(event.unpriced, 0),
                )
                trees: list[_Subject] = [("tree", one) for one in event.within]
                for subject in (*trees, *_common(event.project, event.day)):
                    _add(self._used, subject, amounts)

    def hold(self, reservation: OpenReservation) -> None:
        """Count a reservation from now on; once, however often it is taken in."""
        if reservation.id in self.open:
            return
        self.open[reservation.id] = reservation
        reservation.subjects = self._subjects(reservation.session, reservation.day)
        for subject in reservation.subjects:
            _add(self._reserved, subject, reservation.amounts)

    def release(self, id_: str) -> OpenReservation | None:
        """Count a reservation no longer; None if there is none."""
        found = self.open.pop(id_, None)
        if found is not None:
            for subject in found.subjects:
                _add(self._reserved, subject, found.amounts, -1)
        return found

    def _settle(self, record: Record, event: BudgetSettled) -> None:
        found = self.release(event.reservation)
        session = record.session
        if event.how in ("reported", "released") or found is None:
            return
        amounts = to_amounts(event.tokens, event.usd, event.calls)
        if found.is_summary and event.how == "metered":
            self._summaries.setdefault(session, []).append((found.day, amounts))
        if found.is_metered:
            span = found.span or self._find_span(session, found.id)
            self._guesses.setdefault(session, []).append(_Guess(found.day, amounts, span))
            self._refresh(session)
        else:
            self._add_extra(session, found.day, amounts)

    def _find_span(self, session: SessionId, call: str) -> MeteredSpan | None:
        known = self.sessions.get(session)
        return known.metered.get(call) if known is not None else None

    def is_metered(self, session: SessionId) -> bool:
        """Whether the model calls of an agent pass the meter, as far as its turn shows by now."""
        known = self.sessions.get(session)
        if known is None or known.span is not None:
            return known is not None
        # A report without a call means that its calls go past it, now.
        return known.is_metered and not known.tokens.was_read

    def _count(self, record: Record) -> None:
        event, session = record.event, record.session
        match event:
            case TurnStarted() if self._is_agent(session):
                # The turns of sub-agents are within those of their agent.
                self._turns[session] = self._read_time(record)
            case TurnEnded() | SessionEnded():
                self._end_turn(record)
            case ModelCallFinished(usage=usage) if usage is not None:
                self._mark(session)
            case CompactionChanged(usage=usage) if usage is not None:
                self._forget_summary(session)
            case ModelCallMetered(state="finished"):
                self._end_call(session, event)
            case _:
                pass
        self._ledger.add((record,))
        self._refresh(session)

    def _end_turn(self, record: Record) -> None:
        begun = self._turns.pop(record.session, None)
        if begun is not None:
            self._add_time(record.session, self._read_time(record) - begun, _day(record.time))

    def _is_agent(self, session: SessionId) -> bool:
        """Whether a session is an agent of its own: of a fleet, or of a run without a host."""
        found = self.sessions.get(session)
        return found is not None and (found.is_spawned or found.parent is None)

    def _read_time(self, record: Record) -> int:
        return record.time if self._stopwatch is None else self._stopwatch()

    def _add_time(self, session: SessionId, microseconds: int, day: str | None = None) -> None:
        if microseconds > 0:
            day = day or _day(read_wall_clock())
            self._add_extra(session, day, BudgetAmounts(microseconds=microseconds))

    def _mark(self, session: SessionId) -> None:
        """The answer to the oldest call of a session is in the log."""
        for one in self.open.values():
            is_other = one.is_reported or one.is_summary or one.is_metered
            if one.session == session and not is_other:
                one.is_reported = True
                return

    def _end_call(self, session: SessionId, event: ModelCallMetered) -> None:
        """A call through the meter is over; its reservation has its name."""
        found = self.open.get(event.call)
        if found is not None:
            found.span = self._find_span(session, event.call)
            has_failed = event.status is not None and event.status >= 400
            found.is_reported = has_failed or (event.usage is not None and event.reason is None)

    def _forget_summary(self, session: SessionId) -> None:
        """The log shows what a summary took, which was counted when it was settled."""
        agent = self.find_agent(session)
        if kept := self._summaries.get(agent):
            day, amounts = kept.pop(0)
            self._add_extra(agent, day, BudgetAmounts().plus(amounts, -1))

    # Totals

    def _add_extra(self, session: SessionId, day: str, amounts: BudgetAmounts) -> None:
        days = self._extra.setdefault(session, {})
        days[day] = days.get(day, NOTHING).plus(amounts)
        self._refresh(session)

    def _refresh(self, session: SessionId) -> None:
        """Bring the totals up to date with one session."""
        if session not in self.sessions:
            return
        days = dict(self._extra.get(session, {}))
        for day, amounts in self._sum_guesses(session):
            days[day] = days.get(day, NOTHING).plus(amounts)
        for cell in self._ledger.cells_of(session):
            days[cell.day] = days.get(cell.day, NOTHING).plus(self._price(cell))
        fresh = {
            day: _Counted(amounts, self._subjects(session, day)) for day, amounts in days.items()
        }
        before = self._counted.get(session, {})
        for day, counted in before.items():
            if fresh.get(day) != counted:
                self._change(counted, -1)
        for day, counted in fresh.items():
            if before.get(day) != counted:
                self._change(counted)
        self._counted[session] = fresh

    def _sum_guesses(self, session: SessionId) -> Iterator[tuple[str, BudgetAmounts]]:
        """What was guessed of calls, without what the agent has reported of them since."""
        found: dict[int, int] = {}
        for guess in self._guesses.get(session, ()):
            known, whole = 0, guess.amounts.tokens
            if guess.span is not None:
                left = found.setdefault(id(guess.span), guess.span.found)
                known = min(left, whole)
                found[id(guess.span)] = left - known
            yield guess.day, guess.amounts if not known else guess.amounts.cut(known)

    def _change(self, counted: "_Counted", sign: int = 1) -> None:
        for subject in counted.subjects:
            _add(self._used, subject, counted.amounts, sign)

    def _price(self, cell: UsageCell) -> BudgetAmounts:
        dollars = cell.reported.get("USD", 0.0)
        # Money of another currency cannot be compared, so its tokens are without a price.
        foreign = any(currency != "USD" for currency in cell.reported)
        unpriced = cell.tokens.total if foreign else 0
        if cell.uncosted.total:
            prices = self._prices(cell.model) if cell.model else None
            if prices is None:
                unpriced = max(unpriced, cell.uncosted.total)
            else:
                dollars += price_of(cell.uncosted, prices)
        return BudgetAmounts(
            nanodollars=round(dollars * _NANO),
            tokens=cell.tokens.total,
            calls=cell.calls,
            unpriced=unpriced,
        )

    def _subjects(self, session: SessionId, day: str) -> tuple[_Subject, ...]:
        chain = self.find_chain(session)
        trees: list[_Subject] = [("tree", one) for one in chain]
        return (("agent", chain[0]), *trees, *_common(self.find_project(session), day))

    def drop(self, session: SessionId) -> None:
        """Forget a session that was deleted, with its sub-agents."""
        for one in self._family(session):
            for counted in self._counted.pop(one, {}).values():
                self._change(counted, -1)
            self._deleted.add(one)
            self._extra.pop(one, None)
            self._guesses.pop(one, None)
            self._turns.pop(one, None)
        for key in [key for key in self.limits if key[1] == session]:
            del self.limits[key]


def _common(project: str | None, day: str) -> Iterator[_Subject]:
    if project is not None:
        yield "project", project
    yield "day", day
    yield "all", ""


def _add(
    totals: dict[_Subject, BudgetAmounts], subject: _Subject, amounts: BudgetAmounts, sign: int = 1
) -> None:
    totals[subject] = totals.get(subject, NOTHING).plus(amounts, sign)


def _read_reservation(record: Record, event: BudgetReserved) -> OpenReservation:
    return OpenReservation(
        id=event.reservation,
        session=record.session,
        amounts=to_amounts(event.tokens, event.usd, 1),
        day=_day(record.time),
        is_summary=event.summary,
        is_metered=event.metered,
    )


def _day(time: int) -> str:
    return format_local_time(time, "%Y-%m-%d") or UNKNOWN_DAY
