"""The budgets of a fleet: calls are reserved and settled here, agents are held to them.

The log is the truth: what is decided here is decided on the fold of the log, and each reservation
is in it before its call is made. A decision and its reservation are one step of the event loop, so
that no two agents can be given the same money. A reservation stays open until its settlement, and
with it what the call used, has come back from the log.
"""

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from quarterdeck.journal import Journal
from quarterdeck.wire.budgets import BudgetLimit, CallEstimate, Refusal, Reservation, SettledAs
from quarterdeck.wire.clock import WallClock, format_local_time, read_wall_clock
from quarterdeck.wire.events import (
    BudgetChanged,
    BudgetReserved,
    BudgetSettled,
    SessionEnded,
    TurnEnded,
)
from quarterdeck.wire.ids import SessionId, new_budget_id
from quarterdeck.wire.record import Record, event_type
from quarterdeck.wire.tasks import BackgroundTasks
from quarterdeck.wire.usage import Cost, TokenUsage

from ..agent_entry import AgentEntry
from ..errors import FleetLimitError
from ..live_index import LiveIndex, LogWriter
from ..log_pages import read_pages
from ..usage.ledger import UNKNOWN_DAY
from ..usage.summary import price_of
from .accounts import (
    BUDGET_EVENTS,
    COMMON_BUDGETS,
    BudgetAccounts,
    BudgetKey,
    OpenReservation,
    to_amounts,
)
from .bounds import Bound, CallDecision, decide_call, find_bounds
from .lookup import BudgetLookup
from .stops import AgentReach, BudgetStops, make_decider

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from quarterdeck.wire.session_options import SessionOptions

__all__ = ["BudgetService", "SessionBudget"]

_log = logging.getLogger(__name__)
_MILLION = 1_000_000
_EVERY = 5.0
"""Seconds between two looks at the time that turns of other agents take."""


class BudgetService:
    """Keeps the budgets of one log; ``run`` follows it. A ``CallBudgets``."""

    def __init__(
        self,
        journal: Journal,
        current: LiveIndex,
        notes: LogWriter,
        lookup: BudgetLookup,
        reach: AgentReach,
        clock: WallClock = read_wall_clock,
    ) -> None:
        self.accounts = BudgetAccounts(lookup.prices, lookup.project)
        self._work = BackgroundTasks()
        self.stops = BudgetStops(self.accounts, current, notes, reach, self._work)
        self.are_calls_counted: Callable[[SessionOptions], Awaitable[bool]] = _count_none
        """Whether each model call of an agent of another vendor will be reserved here."""
        self._journal = journal
        self._current = current
        self._notes = notes
        self._lookup = lookup
        self._clock = clock
        self._wanted = asyncio.Event()
        """There is, or may be, a budget."""
        self._loaded = asyncio.Event()
        self._changed = asyncio.Event()
        self._position = 0
        self._catching = 0
        """How many wait until all that is in the log now is counted."""

    # Following the log

    async def recover(self) -> None:
        """Settle what a host that was killed had reserved; before anything else is reserved.

        What a call used that may have been made and whose answer is not in the log cannot be
        known, so all that was reserved for it counts.
        """
        kinds = {"budget_changed", "budget_reserved", "budget_carried"}
        found: list[int] = []
        await read_pages(self._journal, kinds, lambda records: found.append(len(records)))
        if not found:
            return
        await self._load()
        last = 0
        for one in tuple(self.accounts.open.values()):
            record = await self._journal.append(one.session, _settle_lost(one))
            last = max(last, record.seq)
        if last:
            await self._journal.durable(last)
        self._wanted.set()

    async def _load(self) -> None:
        def take(records: list[Record]) -> None:
            for record in records:
                self._lookup.learn(record)
                self.accounts.take(record)

        self._position = await read_pages(self._journal, BUDGET_EVENTS, take, self._position)

    async def run(self) -> None:
        """Follow the log from when the first budget is looked for, until the log is closed."""
        await self._wanted.wait()
        try:
            await self._load()
            self.accounts.go_live(self._clock(), time.monotonic)
            self._loaded.set()
            self._work.start(self._watch_time(), name="budgets: time")
            async for record in self._journal.follow(self._position):
                try:
                    await self._follow(record)
                except Exception:
                    # A bad record costs only itself.
                    _log.exception("could not count record %d", record.seq)
        finally:
            await self._work.close()

    async def _follow(self, record: Record) -> None:
        self._position = record.seq
        if event_type(record.event) not in BUDGET_EVENTS:
            if self._catching:
                self._wake()
            return
        if self._lookup.is_new(record):
            await asyncio.to_thread(self._lookup.learn, record)
        self.accounts.take(record)
        self._wake()
        event, session = record.event, record.session
        if isinstance(event, SessionEnded):
            for key, other in self.stops.forget_agent(session):
                self._work.start(self._ask_again(key, other), name="budgets: ask again")
        if session in self.accounts.sessions and not isinstance(event, BudgetReserved):
            await self._evaluate(session, is_over=isinstance(event, TurnEnded | SessionEnded))

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def want(self) -> None:
        """Count from now on: there is a budget, or will be."""
        self._wanted.set()

    @property
    def is_counting(self) -> bool:
        """Whether there was a budget, or something that needs one, since the host started."""
        return self._wanted.is_set()

    async def ready(self) -> None:
        """Wait until what the fleet shows now is counted."""
        self._wanted.set()
        await self._loaded.wait()
        target = self._current.seq
        self._catching += 1
        try:
            while self._position < target:
                await self._changed.wait()
        finally:
            self._catching -= 1

    @property
    def today(self) -> str:
        """The local day."""
        return format_local_time(self._clock(), "%Y-%m-%d") or UNKNOWN_DAY

    async def find_bounds(
        self, session: SessionId, cwd: str | None = None, project: str | None = None
    ) -> list[Bound]:
        """The budgets that count for a session. Raises ValueError for settings that are wrong."""
        if cwd is None:
            agent = self.accounts.sessions.get(self.accounts.find_agent(session))
            cwd = agent.cwd if agent is not None else None
        own, common = await self._lookup.settings(cwd)
        self.stops.warn_at = common.warn_at
        found = find_bounds(self.accounts, session, self.today, own, common, project)
        if any(one.unit == "seconds" for one in found):
            self.accounts.advance()
            found = find_bounds(self.accounts, session, self.today, own, common, project)
        return found

    # Calls

    async def reserve(
        self, session: SessionId, estimate: CallEstimate, *, call: str | None = None
    ) -> Reservation | Refusal:
        """Reserve a call; see ``CallBudgets``."""
        free = Reservation(id=None, session=session, estimate=estimate)
        if not await self._is_bounded(self._current.get(session).spawn.options.cwd):
            return free
        await self.ready()
        prices = await self._lookup.find_call_prices(estimate)
        while True:
            changed = self._changed
            bounds = await self.find_bounds(session)
            if not bounds:
                return free
            decided = decide_call(bounds, estimate, prices)
            if not decided.waits:
                break
            await changed.wait()
        if decided.refused is not None:
            no_price, is_again = prices is None, call is not None
            return await self.stops.refuse(
                session, decided.refused, no_price=no_price, is_again=is_again
            )
        return await self._hold(session, estimate, decided, prices, call)

    async def _is_bounded(self, cwd: str) -> bool:
        """Whether there may be a budget for what works in a directory."""
        return self._wanted.is_set() or await self._lookup.has_settings(cwd)

    async def _hold(
        self,
        session: SessionId,
        estimate: CallEstimate,
        decided: CallDecision,
        prices: tuple[float, float] | None,
        call: str | None,
    ) -> Reservation:
        tokens = estimate.input + decided.output
        usd = None
        if prices is not None:
            usd = (estimate.input * prices[0] + decided.output * prices[1]) / _MILLION
        id_ = call or new_budget_id()
        # Nothing is awaited between the decision and this.
        self.accounts.hold(
            OpenReservation(
                id=id_,
                session=session,
                amounts=to_amounts(tokens, usd, 1),
                day=self.today,
                is_summary=estimate.summary,
                is_metered=call is not None,
            )
        )
        event = BudgetReserved(
            reservation=id_,
            tokens=tokens,
            usd=usd,
            model=estimate.model,
            summary=estimate.summary,
            metered=call is not None,
        )
        try:
            await self._journal.commit(session, event)
        except BaseException:
            # Whether it is in the log or not, the call is not made.
            self._release(session, id_)
            raise
        return Reservation(
            id=id_,
            session=session,
            estimate=estimate,
            max_output=decided.output if decided.output < estimate.output else None,
            words=self.stops.find_words(session, decided),
        )

    def _release(self, session: SessionId, id_: str) -> None:
        event = BudgetSettled(reservation=id_, how="released")
        self._work.start(self._notes.take(session, event), name="budgets: release")

    async def settle(
        self,
        reservation: Reservation,
        usage: TokenUsage | None,
        *,
        cost: Cost | None = None,
        broke_off: bool = False,
        calls: int = 1,
    ) -> None:
        """Say what a call used, also if the caller is cancelled; see ``CallBudgets``."""
        if reservation.id is None:
            return
        estimate = reservation.estimate
        event = BudgetSettled(reservation=reservation.id, how="released")
        if usage is not None and (broke_off or estimate.summary):
            how: SettledAs = "estimated" if broke_off else "metered"
            event = BudgetSettled(
                reservation=reservation.id,
                how=how,
                tokens=max(usage.total, 0),
                usd=self._price(estimate, usage, cost),
                calls=calls,
            )
        elif usage is not None:
            event = BudgetSettled(reservation=reservation.id, how="reported")
        await self._work.finish(
            self._notes.take(reservation.session, event), name="budgets: settle"
        )

    def _price(self, estimate: CallEstimate, usage: TokenUsage, cost: Cost | None) -> float | None:
        if cost is not None and cost.currency == "USD" and cost.amount >= 0:
            return cost.amount
        prices = self._lookup.prices(estimate.model) if estimate.model else None
        if prices is not None:
            return price_of(usage, prices)
        if estimate.input_price is None or estimate.output_price is None:
            return None
        dollars = usage.input * estimate.input_price + usage.output * estimate.output_price
        return dollars / _MILLION

    # Other agents

    async def _evaluate(self, session: SessionId, *, is_over: bool) -> None:
        """Warn, and stop agents whose calls cannot be reserved."""
        agent = self.accounts.find_agent(session)
        is_own = self.stops.is_own(agent)
        for bound in await self.find_bounds(session):
            if bound.unit != "agents":
                await self.stops.note_level(agent, bound)
                if not is_own:
                    await self.stops.hold_to(agent, bound, is_over=is_over)

    async def _ask_again(self, key: BudgetKey, agent: SessionId) -> None:
        for bound in await self.find_bounds(agent):
            if bound.key == key and bound.is_exhausted:
                await self.stops.refuse(agent, bound)

    async def _watch_time(self) -> None:
        """Look at budgets of time now and then; agents that reserve are held at their calls."""
        while True:
            await asyncio.sleep(_EVERY)
            self._wake()  # the day may be another, or the settings
            for session in self.accounts.running:
                if not self.stops.is_own(self.accounts.find_agent(session)):
                    await self._evaluate(session, is_over=False)

    async def find_obstacle(self, session: SessionId) -> Bound | None:
        """The budget because of which an agent that does not reserve gets no prompt now."""
        entry = self._current.get(session)
        if entry.is_native or not await self._is_bounded(entry.spawn.options.cwd):
            return None
        await self.ready()
        every = await self.find_bounds(session)
        return next((one for one in every if one.unit != "agents" and one.is_exhausted), None)

    async def admit(self, session: SessionId) -> None:
        """Wait until an agent that does not reserve may be prompted; a person is asked."""
        while True:
            changed = self._changed
            bound = await self.find_obstacle(session)
            if bound is None:
                return
            if not self.stops.is_stopped(session, bound):
                await self._current.reached(self._journal.last)
                if self._current.get(session).is_started:  # else it has ended: no one is asked
                    await self.stops.refuse(session, bound)
            await changed.wait()

    async def check_agents(self, parent: SessionId | None, cwd: str) -> None:
        """Check that one more agent may run. Raises FleetLimitError."""
        if not await self._is_bounded(cwd):
            return
        await self.ready()
        project = await self._lookup.find_project(cwd)
        above = parent if parent is not None else SessionId("")
        for bound in await self.find_bounds(above, cwd, project):
            if bound.unit != "agents" or bound.scope == "agent":
                continue
            live = await self.count_live(bound)
            if live + 1 > bound.amount:
                budget = bound.describe(self.stops.find_name(bound))
                raise FleetLimitError(f"{budget} is used up: {live} are live; end some first")

    async def count_live(self, bound: Bound) -> int:
        """How many agents of the subject of a budget are live, by what the fleet shows."""
        live = [entry for entry in self._current.all() if entry.is_started]
        match bound.scope:
            case "tree":
                return sum(bound.subject in self._list_above(one) for one in live)
            case "project":
                return [await self._find_project(one) for one in live].count(bound.subject)
            case _:
                return len(live)

    def _list_above(self, entry: AgentEntry | None) -> set[SessionId]:
        """An agent and all above it."""
        known = {one.session: one for one in self._current.all()}
        found: set[SessionId] = set()
        while entry is not None and entry.session not in found:
            found.add(entry.session)
            parent = entry.spawn.parent_session
            entry = known.get(parent) if parent is not None else None
        return found

    async def _find_project(self, entry: AgentEntry) -> str:
        if entry.worktree is not None:
            return entry.worktree.repository
        return await self._lookup.find_project(entry.spawn.options.cwd)

    # Changes

    async def change(self, key: BudgetKey, amount: float | None, by: str) -> None:
        """Set or remove a budget; agents that it stopped go on if something is left."""
        await self.ready()
        scope, subject, unit = key
        session = SessionId(subject) if scope in ("agent", "tree") else COMMON_BUDGETS
        decider = make_decider(by)
        event = BudgetChanged(scope=scope, subject=subject, unit=unit, amount=amount, by=decider)
        await self._journal.commit(session, event)
        while self.accounts.limits.get(key) != amount:
            await self._changed.wait()
        await self.stops.answer(key, "accept", decider)
        for agent in self.stops.take_stopped(key):
            if not any(one.is_exhausted for one in await self.find_bounds(agent)):
                self.stops.go_on(agent)
        self._wake()
        await self._notes.settled()

    def list_limits(self, session: SessionId) -> tuple[BudgetLimit, ...]:
        """The budgets in the log of an agent with all that it starts."""
        return tuple(
            BudgetLimit(unit=unit, amount=amount)
            for (scope, subject, unit), amount in self.accounts.limits.items()
            if scope == "tree" and subject == session
        )

    async def forget(self, session: SessionId) -> None:
        """Keep what a session used that is being deleted; before it is."""
        if not self._wanted.is_set():
            return
        await self.ready()
        for event in self.accounts.sum_deleted(session):
            await self._journal.commit(COMMON_BUDGETS, event)
        self.accounts.drop(session)


class SessionBudget:
    """The budgets of one session of our own agent, and of its sub-agents; a ``CallBudget``."""

    def __init__(self, budgets: BudgetService, session: SessionId) -> None:
        self._budgets = budgets
        self._session = session

    async def reserve(self, estimate: CallEstimate) -> Reservation | Refusal:
        """Reserve a call."""
        return await self._budgets.reserve(self._session, estimate)

    async def settle(
        self,
        reservation: Reservation,
        usage: TokenUsage | None,
        *,
        cost: Cost | None = None,
        broke_off: bool = False,
    ) -> None:
        """Say what it used."""
        await self._budgets.settle(reservation, usage, cost=cost, broke_off=broke_off)


async def _count_none(_: "SessionOptions") -> bool:
    return False


def _settle_lost(one: OpenReservation) -> BudgetSettled:
    """The settlement of a call during which the host was killed."""
    if one.is_reported:
        return BudgetSettled(reservation=one.id, how="reported")
    is_priced = not one.amounts.unpriced
    return BudgetSettled(
        reservation=one.id,
        how="assumed",
        tokens=one.amounts.tokens,
        usd=one.amounts.of("usd") if is_priced else None,
        calls=1,
    )


if TYPE_CHECKING:
    from typing import cast

    from quarterdeck.agent.ports import CallBudget

    from .api import CallBudgets

    _service: CallBudgets = cast("BudgetService", None)
    _session: CallBudget = cast("SessionBudget", None)
