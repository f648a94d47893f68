"""Usage from a log adds up: running totals, turns, calls, sub-agents, forks, and bad figures."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from quarterdeck.fleet.usage.api import USAGE_GROUPINGS
from quarterdeck.fleet.usage.ledger import UNKNOWN_DAY, UsageLedger
from quarterdeck.fleet.usage.summary import UsageSource, group_usage, price_of
from quarterdeck.models.catalogue import find_prices
from quarterdeck.models.model import Prices
from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.events import (
    ChildEnded,
    Event,
    ModelCallFinished,
    ModelCallMetered,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    SessionSpawned,
    TurnEnd,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId
from quarterdeck.wire.record import Record, decode_event
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.usage import Cost, TokenUsage

NOW = 1_795_000_000_000_000
DAY = 86_400_000_000
PRICE = Prices(input=1.0, output=2.0, cached=0.1, cache_written=1.5)


@dataclass
class Log:
    records: list[Record] = field(default_factory=list[Record])
    time: int = NOW

    def add(self, session: str, event: Event, turn: str | None = None) -> None:
        self.time += 1_000_000
        self.records.append(
            Record(
                seq=len(self.records) + 1,
                time=self.time,
                session=SessionId(session),
                turn=TurnId(turn) if turn else None,
                event=event,
            )
        )

    def spawn(self, session: str, agent: str = "codex", **fields: object) -> None:
        options = SessionOptions(
            agent=agent, cwd="/w", resume=fields.pop("resume", None), model="m"
        )  # type: ignore[arg-type]
        self.add(session, SessionSpawned(name=session, options=options, **fields))  # type: ignore[arg-type]
        self.add(session, SessionOpened(agent=agent, cwd="/w"))

    def turn(
        self,
        session: str,
        *totals: TokenUsage,
        told: TokenUsage | None = None,
        cost: Cost | None = None,
        stop: TurnEnd = "end_turn",
    ) -> str:
        turn = f"trn_{len(self.records)}"
        self.add(session, TurnStarted(), turn)
        for total in totals:
            self.add(session, UsageReported(session_tokens=total), turn)
        self.add(session, TurnEnded(stop=stop, usage=told, cost=cost), turn)
        return turn

    def ledger(self) -> UsageLedger:
        ledger = UsageLedger()
        ledger.add(self.records)
        return ledger


def source(ledger: UsageLedger, prices: Prices | None = PRICE) -> UsageSource:
    return UsageSource(cells=ledger.cells(), sessions=ledger.sessions, prices=lambda model: prices)


def use(input: int, output: int = 0, **more: int) -> TokenUsage:
    return TokenUsage(input=input, output=output, **more)


def total(log: Log) -> TokenUsage:
    return group_usage(source(log.ledger()), "agent").total.tokens


def test_a_running_total_counts_by_what_it_grew():
    log = Log()
    log.spawn("ann")
    log.turn("ann", use(10, 1), use(30, 5, cached=20), told=use(30, 5, cached=20))
    log.turn("ann", use(50, 9, cached=30), told=use(20, 4, cached=10))
    assert total(log) == use(50, 9, cached=30)


def test_turns_count_where_there_is_no_running_total():
    log = Log()
    log.spawn("ann")
    log.turn("ann", told=use(10, 1, thought=1))
    log.turn("ann", told=use(20, 2, cache_written=7))
    assert total(log) == use(30, 3, cache_written=7, thought=1)


def test_a_resumed_session_that_reports_the_whole_again_is_counted_once():
    log = Log()
    log.spawn("ann")
    log.turn("ann", use(100, 10), told=use(100, 10))
    log.add("ann", SessionEnded(how="closed"))
    log.add("ann", SessionResumed())
    log.turn("ann", use(130, 12), told=use(130, 12))
    assert total(log) == use(130, 12)


def test_a_total_that_begins_again_with_a_run_is_added():
    log = Log()
    log.spawn("ann")
    log.turn("ann", use(100, 10))
    log.add("ann", SessionResumed())
    log.turn("ann", use(30, 2), use(40, 3))
    assert total(log) == use(140, 13)


def test_a_total_that_falls_within_a_turn_is_a_correction():
    log = Log()
    log.spawn("ann")
    log.turn("ann", use(100, 10), use(90, 9), use(110, 10))
    assert total(log) == use(110, 10)


def test_a_session_from_elsewhere_counts_only_what_is_used_here():
    log = Log()
    log.spawn("ann", resume="theirs")
    log.turn("ann", use(5_000, 500), told=use(50, 5))
    log.turn("ann", use(5_100, 510))
    assert total(log) == use(150, 15)


def test_a_session_from_elsewhere_whose_total_comes_late_is_counted_whole():
    log = Log()
    log.spawn("ann", resume="theirs")
    log.turn("ann", told=use(40, 4))
    log.turn("ann", use(5_100, 510), told=use(60, 6))
    log.turn("ann", use(5_200, 520), told=use(100, 10))
    assert total(log) == use(200, 20)


def test_a_total_that_comes_late_does_not_count_turns_again():
    log = Log()
    log.spawn("ann")
    log.turn("ann", told=use(10, 1))
    log.turn("ann", told=use(10, 1))
    log.turn("ann", use(35, 3))
    assert total(log) == use(35, 3)


def test_a_turn_that_was_cut_off_counts_what_was_reported():
    log = Log()
    log.spawn("ann")
    log.add("ann", TurnStarted(), "trn_cut")
    log.add("ann", UsageReported(session_tokens=use(40, 4)), "trn_cut")
    assert total(log) == use(40, 4)
    log.add("ann", TurnEnded(stop="failed", reason="the host was killed"), "trn_cut")
    assert total(log) == use(40, 4)


def test_calls_of_our_own_agent_and_its_sub_agents_count_once():
    log = Log()
    log.spawn("ann", "native")
    log.add("ann", TurnStarted(), "trn_a")
    log.add("ann", ModelCallFinished(model="v/x", usage=use(10, 1)), "trn_a")
    log.add("kid", SessionOpened(agent="native", cwd="/w", parent_session=SessionId("ann")))
    log.add("kid", TurnStarted(), "trn_k")
    log.add("kid", ModelCallFinished(model="v/y", usage=use(5, 1)), "trn_k")
    log.add("kid", TurnEnded(stop="end_turn", usage=use(5, 1)), "trn_k")
    ended = ChildEnded(
        child=SessionId("kid"), call=ToolCallId("c"), how="completed", usage=use(5, 1)
    )
    log.add("ann", ended, "trn_a")
    log.add("ann", TurnEnded(stop="end_turn", usage=use(15, 2)), "trn_a")
    report = group_usage(source(log.ledger()), "agent")
    assert [(row.name, row.tokens, row.agents) for row in report.rows] == [("ann", use(15, 2), 2)]
    assert {row.name for row in group_usage(source(log.ledger()), "model").rows} == {"v/x", "v/y"}


def test_a_fork_does_not_count_what_it_took_over():
    log = Log()
    log.spawn("ann", "native")
    log.add("ann", TurnStarted(), "trn_a")
    log.add("ann", ModelCallFinished(model="v/x", usage=use(10, 1)), "trn_a")
    log.add("ann", TurnEnded(stop="end_turn", usage=use(10, 1)), "trn_a")
    log.spawn("bob", "native", forked_from=SessionId("ann"))
    for turn in ("trn_a", "trn_of_a_deleted_session"):
        log.add("bob", TurnStarted(), turn)
        log.add("bob", ModelCallFinished(model="v/x", usage=use(10, 1)), turn)
        log.add("bob", TurnEnded(stop="end_turn"), turn)
    log.add("bob", TurnStarted(), "trn_b")
    log.add("bob", ModelCallFinished(model="v/x", usage=use(3, 1)), "trn_b")
    log.add("bob", TurnEnded(stop="end_turn", usage=use(3, 1)), "trn_b")
    rows = {row.name: row.tokens for row in group_usage(source(log.ledger()), "agent").rows}
    assert rows == {"ann": use(10, 1), "bob": use(3, 1)}


def test_a_fork_of_a_foreign_agent_goes_on_from_its_source():
    log = Log()
    log.spawn("ann")
    log.turn("ann", use(100, 10))
    log.spawn("bob", forked_from=SessionId("ann"), resume="theirs")
    log.turn("bob", use(120, 12))
    rows = {row.name: row.tokens for row in group_usage(source(log.ledger()), "agent").rows}
    assert rows == {"ann": use(100, 10), "bob": use(20, 2)}


@pytest.mark.parametrize(
    "bad",
    [use(-5, 1), use(10, -1), use(1 << 60, 1), use(5, 1, cached=-1)],
    ids=["negative input", "negative output", "huge", "negative cache"],
)
def test_figures_that_cannot_be_true_are_left_out_and_counted(bad: TokenUsage):
    log = Log()
    log.spawn("ann")
    log.turn("ann", use(10, 1), bad, use(20, 2))
    log.turn("ann", told=bad)
    ledger = log.ledger()
    assert group_usage(source(ledger), "agent").total.tokens == use(20, 2)
    assert ledger.ignored == 2


def test_null_and_missing_figures_are_nothing():
    log = Log()
    log.spawn("ann")
    log.add("ann", decode_event(b'{"type":"usage_reported","session_tokens":null}'))
    log.add("ann", decode_event(b'{"type":"usage_reported","session_tokens":{"input":null}}'))
    log.add("ann", decode_event(b'{"type":"turn_ended","stop":"end_turn"}'), "trn_x")
    assert total(log) == TokenUsage()


def test_days_are_those_on_which_it_was_used():
    log = Log()
    log.spawn("ann")
    log.turn("ann", told=use(10))
    log.time += 3 * DAY
    log.turn("ann", told=use(5))
    log.time = 1 << 62
    log.turn("ann", told=use(1))
    days = {row.name: row.tokens.total for row in group_usage(source(log.ledger()), "day").rows}
    first, later = (format_local_time(NOW + n * DAY, "%Y-%m-%d") for n in (0, 3))
    assert days == {first: 10, later: 5, UNKNOWN_DAY: 1}
    assert group_usage(source(log.ledger()), "day", since=later).total.tokens == use(5)


def test_a_reported_cost_wins_and_an_unknown_one_is_said():
    log = Log()
    log.spawn("ann")
    log.turn("ann", told=use(1_000_000), cost=Cost(amount=9.0, currency="USD"))
    log.turn("ann", told=use(1_000_000))
    log.spawn("bob")
    log.turn("bob", told=use(1_000_000, cached=400_000, cache_written=100_000))
    report = group_usage(source(log.ledger()), "agent")
    ann, bob = sorted(report.rows, key=lambda row: row.name)
    assert (ann.reported, ann.computed, ann.unpriced) == ({"USD": 9.0}, 0.0, 0)
    assert bob.computed == pytest.approx(0.5 + 0.04 + 0.15)
    unknown = group_usage(source(log.ledger(), None), "agent").total
    assert (unknown.computed, unknown.unpriced) == (0.0, 1_000_000)


def test_money_of_a_running_total_counts_once_and_currencies_stay_apart():
    log = Log()
    log.spawn("ann")
    for amount, currency in ((1.0, "USD"), (2.5, "USD"), (7.0, "EUR")):
        cost = Cost(amount=amount, currency=currency)
        log.add("ann", TurnStarted(), f"trn_{amount}")
        log.add("ann", UsageReported(session_cost=cost), f"trn_{amount}")
        log.add("ann", TurnEnded(stop="end_turn", cost=cost), f"trn_{amount}")
    log.add("ann", UsageReported(session_cost=Cost(amount=-1.0, currency="USD")))
    ledger = log.ledger()
    report = group_usage(source(ledger), "agent")
    assert report.total.reported == {"USD": 2.5, "EUR": 7.0}
    assert ledger.ignored == 1


def test_a_tree_is_a_lead_with_all_below_it_and_a_circle_ends():
    log = Log()
    log.spawn("lead")
    log.spawn("kid", parent_session=SessionId("lead"))
    log.spawn("grandkid", parent_session=SessionId("kid"))
    log.spawn("one", parent_session=SessionId("two"))
    log.spawn("two", parent_session=SessionId("one"))
    for name in ("lead", "kid", "grandkid", "one"):
        log.turn(name, told=use(10))
    trees = {row.name: row.tokens.total for row in group_usage(source(log.ledger()), "tree").rows}
    assert trees == {"lead": 30, "two": 10}
    kids = group_usage(source(log.ledger()), "agent", within=SessionId("kid"))
    assert {row.name for row in kids.rows} == {"kid", "grandkid"}


def test_the_model_is_the_one_of_the_time():
    log = Log()
    log.spawn("ann")
    log.turn("ann", told=use(1))
    log.add("ann", SessionChanged(model="other"))
    log.turn("ann", told=use(2))
    models = {row.name: row.tokens.total for row in group_usage(source(log.ledger()), "model").rows}
    assert models == {"m": 1, "other": 2}


def test_prices_are_found_by_the_names_that_agents_use():
    known = find_prices("anthropic/claude-opus-5")
    assert known is not None
    assert find_prices("claude-opus-5") == known
    assert find_prices("openrouter/anthropic/claude-opus-5") == known
    assert find_prices("claude-opus-5-20260101") == known
    assert find_prices("no-such-model") is None
    own = {"here/mine": {"prices": {"input": 3.0}}}
    mine = find_prices("mine", own)
    assert mine is not None
    assert mine.input == 3.0
    assert price_of(use(10, cached=20, cache_written=20), PRICE) == pytest.approx(1e-6)


# Random logs of agents whose real usage is known


class _Agent:
    """Reports what it really uses in one of the ways that agents have."""

    def __init__(self, name: str, rng: random.Random, log: Log) -> None:
        self.name, self.rng, self.log = name, rng, log
        self.way = rng.choice(("turns", "totals", "both", "anew", "calls", "calls with child"))
        self.truth: list[TokenUsage] = []
        self.total = TokenUsage()
        self.is_calls = self.way.startswith("calls")
        log.spawn(name, "native" if self.is_calls else "codex")

    def _spend(self) -> TokenUsage:
        cached = self.rng.randrange(50)
        spent = use(cached + self.rng.randrange(1, 100), self.rng.randrange(50), cached=cached)
        self.truth.append(spent)
        self.total += spent
        return spent

    def play(self) -> None:
        if self.rng.random() < 0.2:
            self._restart()
        turn = f"trn_{self.name}_{len(self.log.records)}"
        self.log.add(self.name, TurnStarted(), turn)
        spent = TokenUsage()
        for _ in range(self.rng.randrange(1, 4)):
            used = self._spend()
            spent += used
            self._report(turn, used)
        is_cut = self.way != "turns" and self.rng.random() < 0.2
        if is_cut:
            self.log.add(self.name, TurnEnded(stop="failed", reason="killed"), turn)
            return
        has_figures = self.way in ("turns", "both") or self.is_calls
        told = spent if has_figures else None
        self.log.add(self.name, TurnEnded(stop="end_turn", usage=told), turn)

    def _report(self, turn: str, used: TokenUsage) -> None:
        match self.way:
            case "calls" | "calls with child":
                where, inside = self.name, turn
                if self.way == "calls with child" and self.rng.random() < 0.5:
                    where, inside = f"{self.name}-kid", f"{turn}-kid"
                    parent = SessionId(self.name)
                    opened = SessionOpened(agent="native", cwd="/w", parent_session=parent)
                    self.log.add(where, opened)
                self.log.add(where, ModelCallFinished(model="v/x", usage=used), inside)
            case "totals" | "both" | "anew":
                for _ in range(self.rng.randrange(1, 3)):
                    self.log.add(self.name, UsageReported(session_tokens=self.total), turn)
                if self.rng.random() < 0.1:
                    lower = use(self.total.input // 2)
                    self.log.add(self.name, UsageReported(session_tokens=lower), turn)
                if self.rng.random() < 0.1:
                    bad = UsageReported(session_tokens=use(-1, 1 << 61))
                    self.log.add(self.name, bad, turn)
            case _:
                pass

    def _restart(self) -> None:
        self.log.add(self.name, SessionEnded(how="closed"))
        self.log.add(self.name, SessionResumed())
        if self.way == "anew" and self.total.total > 1_000:
            # What it reports first is below what it had reached: else no one could tell.
            self.total = TokenUsage()


def _play(seed: int) -> Iterator[tuple[Log, list[_Agent]]]:
    rng = random.Random(seed)
    log = Log()
    agents = [_Agent(f"agent{n}", rng, log) for n in range(rng.randrange(1, 5))]
    for _ in range(rng.randrange(1, 25)):
        rng.choice(agents).play()
        log.time += rng.choice((0, 0, DAY // 3, -DAY // 5))
    yield log, agents


def check(seed: int) -> None:
    for log, agents in _play(seed):
        expected = {one.name: sum(one.truth, TokenUsage()) for one in agents if one.truth}
        found = source(log.ledger())
        rows = {row.name: row.tokens for row in group_usage(found, "agent").rows}
        assert rows == expected, f"seed {seed}"
        whole = sum(expected.values(), TokenUsage())
        for by in USAGE_GROUPINGS:
            report = group_usage(found, by)
            assert report.total.tokens == whole, f"seed {seed} by {by}"
            added = sum((row.tokens for row in report.rows), TokenUsage())
            assert added == whole, f"seed {seed} by {by}"
        # In pieces it is the same, and looking in between changes nothing.
        pieces = UsageLedger()
        for record in log.records:
            pieces.add([record])
            if record.seq % 7 == 0:
                pieces.cells()
        assert group_usage(source(pieces), "agent").total.tokens == whole


def test_sums_equal_what_agents_really_used():
    for seed in range(200):
        check(seed)


@pytest.mark.stress
def test_sums_equal_what_agents_really_used_in_many_logs():
    for seed in range(200, 1_200):
        check(seed)


def meter(log: Log, call: str, turn: str | None, used: int | None, **fields: object) -> None:
    """A call at the meter, from its start to its end."""
    meter_start(log, call, turn)
    meter_end(log, call, turn, used, **fields)


def meter_start(log: Log, call: str, turn: str | None) -> None:
    log.add("a", ModelCallMetered(call=call, state="started", wire="openai", model="m"), turn)


def meter_end(log: Log, call: str, turn: str | None, used: int | None, **fields: object) -> None:
    usage = TokenUsage(input=used, output=1) if used is not None else None
    ended = {"status": 200, **fields}
    event = ModelCallMetered(
        call=call,
        state="finished",
        wire="openai",
        model="m",
        usage=usage,
        **ended,  # type: ignore[arg-type]
    )
    log.add("a", event, turn)


def metered_sum(log: Log) -> tuple[int, int]:
    ledger = UsageLedger()
    ledger.add(log.records)
    tokens = [cell.tokens for cell in ledger.cells()]
    return sum(one.input for one in tokens), sum(one.output for one in tokens)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("own", ["turn", "total", "both", "none"])
def test_metered_calls_count_once_whatever_the_agent_reports(own: str, late: bool):
    log = Log()
    log.spawn("a")
    total = 0
    for number in range(1, 4):
        turn = f"t{number}"
        log.add("a", TurnStarted(), turn)
        meter(log, f"{turn}-1", turn, 10)
        meter_start(log, f"{turn}-2", turn)
        if not late:
            meter_end(log, f"{turn}-2", turn, 5)
        total += 15
        if own in ("total", "both"):
            figures = TokenUsage(input=total, output=2 * number)
            log.add("a", UsageReported(session_tokens=figures), turn)
        usage = TokenUsage(input=15, output=2) if own in ("turn", "both") else None
        log.add("a", TurnEnded(stop="end_turn", usage=usage), turn)
        if late:  # the agent is quicker than our note of what it used
            meter_end(log, f"{turn}-2", turn, 5)
        assert metered_sum(log) == (15 * number, 2 * number)
    log.add("a", SessionEnded(how="closed"))
    assert metered_sum(log) == (45, 6)


def test_an_agent_counts_itself_again_when_it_runs_without_the_meter():
    log = Log()
    log.spawn("a")
    log.add("a", TurnStarted(), "t1")
    meter(log, "c1", "t1", 10)
    log.add("a", TurnEnded(stop="end_turn", usage=TokenUsage(input=10, output=1)), "t1")
    log.add("a", SessionEnded(how="closed"))
    log.spawn("a")
    log.add("a", TurnStarted(), "t2")
    log.add("a", TurnEnded(stop="end_turn", usage=TokenUsage(input=7, output=3)), "t2")
    assert metered_sum(log) == (17, 4)


@pytest.mark.parametrize("fields", [{}, {"reason": "the server broke the answer off"}])
def test_what_the_meter_could_not_read_is_taken_from_the_agent(fields: dict[str, str]):
    log = Log()
    log.spawn("a")
    log.add("a", TurnStarted(), "t1")
    meter(log, "c1", "t1", 10)
    meter(log, "c2", "t1", None, **fields)
    log.add("a", TurnEnded(stop="end_turn", usage=TokenUsage(input=25, output=9)), "t1")
    assert metered_sum(log) == (25, 9)
    log.add("a", TurnStarted(), "t2")
    assert metered_sum(log) == (25, 9)


def test_refused_and_failed_calls_use_nothing_and_hide_nothing():
    log = Log()
    log.spawn("a")
    log.add("a", TurnStarted(), "t1")
    refused = ModelCallMetered(call="r", state="refused", wire="openai", reason="no more")
    log.add("a", refused, "t1")
    meter(log, "c1", "t1", None, status=529)
    meter(log, "c2", "t1", 10)
    log.add("a", TurnEnded(stop="end_turn", usage=TokenUsage(input=10, output=1)), "t1")
    assert metered_sum(log) == (10, 1)
    log.add("a", TurnStarted(), "t2")
    log.add("a", refused, "t2")
    log.add("a", TurnEnded(stop="failed", usage=TokenUsage(input=2, output=0)), "t2")
    assert metered_sum(log) == (12, 1)


def test_a_call_that_ran_when_the_host_was_killed_counts_as_the_agent_says():
    log = Log()
    log.spawn("a")
    log.add("a", TurnStarted(), "t1")
    meter_start(log, "c1", "t1")
    log.add("a", UsageReported(session_tokens=TokenUsage(input=8, output=2)), "t1")
    assert metered_sum(log) == (0, 0)
    log.spawn("a")
    assert metered_sum(log) == (8, 2)
    log.add("a", SessionEnded(how="closed"))
    assert metered_sum(log) == (8, 2)


def test_metered_usage_outside_of_turns_counts_and_the_agents_cost_stays():
    log = Log()
    log.spawn("a", "claude")
    meter(log, "title", None, 3)
    log.add("a", TurnStarted(), "t1")
    meter(log, "c1", "t1", 10)
    cost = Cost(amount=0.5, currency="USD")
    log.add("a", UsageReported(session_cost=cost), "t1")
    log.add("a", TurnEnded(stop="end_turn"), "t1")
    assert metered_sum(log) == (13, 2)
    ledger = UsageLedger()
    ledger.add(log.records)
    assert sum(cell.reported.get("USD", 0) for cell in ledger.cells()) == 0.5
    assert sum(cell.uncosted.total for cell in ledger.cells()) == 0


def uncosted(log: Log) -> int:
    ledger = UsageLedger()
    ledger.add(log.records)
    return sum(cell.uncosted.input for cell in ledger.cells())


def test_metered_calls_are_without_a_cost_until_the_agent_reports_one_that_includes_them():
    log = Log()
    log.spawn("a", "claude")
    for number, turn in enumerate(("t1", "t2"), 1):
        log.add("a", TurnStarted(), turn)
        meter(log, f"{turn}-1", turn, 10)
        assert uncosted(log) == 10
        log.add("a", UsageReported(session_cost=Cost(amount=0.5 * number, currency="USD")), turn)
        assert uncosted(log) == 0
        meter(log, f"{turn}-2", turn, 7)
        assert uncosted(log) == 7
        meter_start(log, f"{turn}-3", turn)
        log.add("a", TurnEnded(stop="end_turn"), turn)
        meter_end(log, f"{turn}-3", turn, 5)  # within the turn, and noted after it
        assert uncosted(log) == 0
    log.add("a", TurnStarted(), "t3")
    meter(log, "t3-1", "t3", 4)
    log.add("a", TurnEnded(stop="failed"), "t3")  # it reports nothing
    assert uncosted(log) == 4
