"""The fold behind budgets: what counts, where, once; and whether a call fits."""

import pytest

from quarterdeck.config.schema import BudgetSettings
from quarterdeck.fleet.budgets.accounts import BudgetAccounts, BudgetAmounts
from quarterdeck.fleet.budgets.bounds import Bound, decide_call, find_bounds
from quarterdeck.models.model import Prices
from quarterdeck.wire.budgets import CallEstimate
from quarterdeck.wire.events import (
    BudgetCarried,
    BudgetChanged,
    BudgetReserved,
    BudgetSettled,
    CompactionChanged,
    ModelCallFinished,
    ModelCallMetered,
    SessionSpawned,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from quarterdeck.wire.permissions import Decider
from quarterdeck.wire.record import Record
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.usage import Cost, TokenUsage

NOON = 1_794_916_800_000_000
SECOND = 1_000_000
DAY = 86_400 * SECOND
PRICES = Prices(input=10.0, output=10.0, cached=10.0, cache_written=10.0)


class Book:
    """Accounts, and a log of records for them."""

    def __init__(self) -> None:
        self.accounts = BudgetAccounts(
            lambda model: PRICES if model == "acme/m" else None, lambda session: session.cwd
        )
        self.seq = 0
        self.time = NOON

    def add(self, session, *events, turn=None):
        for event in events:
            self.seq += 1
            self.accounts.take(
                Record(seq=self.seq, time=self.time, session=session, turn=turn, event=event)
            )
        return self

    def spawn(self, session, parent=None, agent="claude", cwd="/p"):
        options = SessionOptions(agent=agent, cwd=cwd, model="acme/m")
        spawned = SessionSpawned(name=session, options=options, parent_session=parent)
        return self.add(session, spawned)

    def tokens(self, scope, subject=""):
        return self.accounts.used(scope, subject).tokens


def call(tokens: int, model: str = "acme/m", cost: float | None = None) -> ModelCallFinished:
    money = Cost(amount=cost, currency="USD") if cost is not None else None
    return ModelCallFinished(model=model, usage=TokenUsage(input=tokens), cost=money)


@pytest.fixture
def book() -> Book:
    return Book().spawn("lead").spawn("kid", "lead").spawn("other", cwd="/q")


def today(book: Book) -> str:
    from quarterdeck.wire.clock import format_local_time

    return format_local_time(book.time, "%Y-%m-%d")


def test_usage_counts_in_every_scope_that_it_is_in(book: Book):
    book.add("lead", call(100)).add("kid", call(10)).add("other", call(1))
    assert book.tokens("agent", "lead") == 100
    assert book.tokens("tree", "lead") == 110
    assert book.tokens("tree", "kid") == 10
    assert (book.tokens("project", "/p"), book.tokens("project", "/q")) == (110, 1)
    assert book.tokens("day", today(book)) == book.tokens("all") == 111
    assert book.accounts.used("all", "").calls == 3
    book.time += DAY
    book.add("kid", call(5))
    assert book.tokens("day", today(book)) == 5
    assert book.tokens("all") == 116


def test_running_totals_count_by_what_they_grew_also_after_a_fall(book: Book):
    for total in (100, 150, 120, 160):
        book.add("lead", UsageReported(session_tokens=TokenUsage(input=total)))
    assert book.tokens("all") == 160
    book.add("lead", UsageReported(session_tokens=TokenUsage(input=-7)))
    book.add("lead", UsageReported(session_tokens=TokenUsage(input=1 << 60)))
    book.add("lead", UsageReported(session_tokens=None))
    assert book.tokens("all") == 160


def test_a_model_without_a_price_is_never_free(book: Book):
    book.add("lead", call(100, model="odd/x"))
    assert book.accounts.used("all", "") == BudgetAmounts(tokens=100, calls=1, unpriced=100)
    book.add("kid", call(1_000_000))
    assert book.accounts.used("all", "").of("usd") == 10.0
    yen = Cost(amount=5.0, currency="JPY")
    book.add("kid", ModelCallFinished(model="acme/m", usage=TokenUsage(input=7), cost=yen))
    assert book.accounts.used("tree", "kid").unpriced > 0


def test_a_reservation_counts_until_it_is_settled_and_once(book: Book):
    reserved = BudgetReserved(reservation="r", tokens=50, usd=0.5)
    book.add("kid", reserved, reserved)
    assert book.accounts.reserved("tree", "lead").tokens == 50
    book.add("kid", call(20), BudgetSettled(reservation="r", how="reported"))
    book.add("kid", BudgetSettled(reservation="r", how="assumed", tokens=50, usd=0.5, calls=1))
    assert book.accounts.reserved("tree", "lead") == BudgetAmounts()
    assert book.tokens("tree", "lead") == 20
    assert book.accounts.open == {}


@pytest.mark.parametrize(("how", "counted"), [("estimated", 30), ("assumed", 30), ("released", 0)])
def test_a_settlement_counts_where_nothing_else_shows_the_call(book: Book, how, counted):
    book.add("kid", BudgetReserved(reservation="r", tokens=50, usd=0.5))
    book.add("kid", BudgetSettled(reservation="r", how=how, tokens=30, usd=0.25, calls=1))
    assert book.tokens("all") == counted


def test_a_summary_counts_once_whether_the_log_shows_it_or_not(book: Book):
    book.add("kid", BudgetReserved(reservation="r", tokens=50, usd=0.5, summary=True))
    book.add("kid", BudgetSettled(reservation="r", how="metered", tokens=30, usd=0.25, calls=1))
    assert book.tokens("all") == 30
    done = CompactionChanged(
        compaction="cmp_1", status="completed", usage=TokenUsage(input=30), summary="s"
    )
    book.add("kid", done)
    assert book.tokens("all") == 30
    assert book.accounts.used("all", "").calls == 1


def metered(state: str, used: int | None = None, call: str = "r", **fields) -> ModelCallMetered:
    usage = TokenUsage(input=used) if used is not None else None
    status = 200 if state == "finished" else None
    ended = {"status": status, **fields}
    return ModelCallMetered(
        call=call, state=state, wire="anthropic", model="acme/m", usage=usage, **ended
    )


def reserve_metered(book: Book, call: str = "r") -> None:
    book.add("kid", BudgetReserved(reservation=call, tokens=50, usd=0.5, metered=True))
    book.add("kid", metered("started", call=call))


def test_behind_a_meter_its_figures_count_and_not_the_reports(book: Book):
    reserve_metered(book)
    book.add("kid", metered("finished", 30), BudgetSettled(reservation="r", how="reported"))
    book.add("kid", UsageReported(session_tokens=TokenUsage(input=31)))
    book.add("kid", TurnEnded(stop="end_turn", usage=TokenUsage(input=31)))
    used = BudgetAmounts(tokens=30, nanodollars=300_000, calls=1)
    assert book.accounts.used("all", "") == used
    assert book.accounts.reserved("all", "") == BudgetAmounts()


@pytest.mark.parametrize(("how", "usage"), [("estimated", 10), ("estimated", None)])
@pytest.mark.parametrize("reported", [0, 10, 25, 90])
def test_what_is_guessed_of_a_broken_call_gives_way_to_what_the_agent_reports(
    book: Book, how, usage, reported: int
):
    known = usage or 0
    book.add("kid", TurnStarted(), turn="t")
    reserve_metered(book)
    book.add("kid", metered("finished", usage, reason="it broke off"))
    calls = 0 if usage else 1
    book.add("kid", BudgetSettled(reservation="r", how=how, tokens=30, usd=3e-4, calls=calls))
    assert book.tokens("all") == known + 30
    assert book.accounts.used("all", "").calls == 1
    ended = TurnEnded(stop="end_turn", usage=TokenUsage(input=reported) if reported else None)
    book.add("kid", ended, turn="t")
    assert book.tokens("all") == max(known + 30, reported)
    assert book.accounts.used("all", "").nanodollars == 10_000 * max(known + 30, reported)


def test_a_metered_call_of_a_host_that_was_killed_is_assumed_until_the_agent_reports_it(
    book: Book,
):
    book.add("kid", TurnStarted(), turn="t")
    reserve_metered(book)
    book.add("kid", BudgetSettled(reservation="r", how="assumed", tokens=50, usd=0.5, calls=1))
    assert book.tokens("all") == 50
    book.spawn("kid", "lead")
    assert book.tokens("all") == 50
    book.add("kid", UsageReported(session_tokens=TokenUsage(input=20)))
    assert book.tokens("all") == 70  # of another run, so it is not that call


def test_whether_an_agent_is_held_by_its_calls_follows_from_its_turns(book: Book):
    assert not book.accounts.is_metered("kid")
    book.add("kid", TurnStarted(), turn="t1")
    reserve_metered(book)
    assert book.accounts.is_metered("kid")
    book.add("kid", metered("finished", 3), TurnEnded(stop="end_turn"), turn="t1")
    book.add("kid", TurnStarted(), turn="t2")
    assert book.accounts.is_metered("kid")  # none yet in this turn
    book.add("kid", UsageReported(session_tokens=TokenUsage(input=9)), turn="t2")
    assert not book.accounts.is_metered("kid")  # past the meter
    book.spawn("kid", "lead").add("kid", TurnStarted(), turn="t3")
    assert not book.accounts.is_metered("kid")


def test_of_calls_at_the_meter_the_log_shows_which_is_settled(book: Book):
    for call, end in (
        ("a", metered("finished", 30, call="a")),
        ("b", metered("finished", call="b", status=529)),
        ("c", metered("finished", 3, call="c", reason="it broke off")),
        ("d", None),
    ):
        reserve_metered(book, call)
        if end is not None:
            book.add("kid", end)
    marks = {one.id: one.is_reported for one in book.accounts.open.values()}
    assert marks == {"a": True, "b": True, "c": False, "d": False}


def test_money_of_a_metered_call_counts_at_once_and_then_as_the_agent_says(book: Book):
    def usd() -> float:
        return book.accounts.used("all", "").of("usd")

    for number, turn in enumerate(("t1", "t2"), 1):
        book.add("kid", TurnStarted(), turn=turn)
        for call in ("x", "y"):
            before = usd()
            reserve_metered(book, turn + call)
            book.add("kid", metered("finished", 100_000, turn + call), turn=turn)
            book.add("kid", BudgetSettled(reservation=turn + call, how="reported"))
            assert usd() == pytest.approx(before + 1)
        reserve_metered(book, turn + "z")
        cost = Cost(amount=2.5, currency="USD")
        book.add("kid", TurnEnded(stop="end_turn", cost=cost), turn=turn)
        # The last call is noted after the turn that it was in.
        book.add("kid", metered("finished", 50_000, turn + "z"), turn=turn)
        book.add("kid", BudgetSettled(reservation=turn + "z", how="reported"))
        assert usd() == pytest.approx(2.5 * number)
    assert book.accounts.used("all", "").unpriced == 0


def test_time_is_that_of_turns_and_a_clock_that_goes_back_takes_nothing_away(book: Book):
    book.add("kid", TurnStarted())
    book.time += 90 * SECOND
    book.add("kid", TurnEnded(stop="end_turn"))
    assert book.accounts.used("tree", "lead").of("seconds") == 90
    book.add("kid", TurnStarted())
    book.time -= 2 * DAY
    book.add("kid", TurnEnded(stop="end_turn"))
    assert book.accounts.used("tree", "lead").of("seconds") == 90


def test_in_a_live_host_a_clock_that_jumps_does_not_count(book: Book):
    now = [100.0]
    book.add("kid", TurnStarted())
    book.time += 10 * SECOND
    book.accounts.go_live(book.time, lambda: now[0])
    now[0] += 5
    book.accounts.advance()
    assert book.accounts.used("tree", "lead").of("seconds") == 15
    book.time += 3 * DAY
    now[0] += 1
    book.add("kid", TurnEnded(stop="end_turn"))
    assert book.accounts.used("tree", "lead").of("seconds") == 16


def test_what_was_deleted_counts_above_and_no_longer_by_itself(book: Book):
    book.add("kid", call(10)).add("lead", call(1))
    carried = book.accounts.sum_deleted("kid")
    assert [(one.tokens, one.within, one.project) for one in carried] == [(10, ("lead",), "/p")]
    book.accounts.drop("kid")
    assert (book.tokens("tree", "lead"), book.tokens("all")) == (1, 1)
    book.add("budgets", *carried)
    assert (book.tokens("tree", "lead"), book.tokens("all")) == (11, 11)
    assert book.tokens("agent", "kid") == 0
    book.add("budgets", BudgetCarried(day="2026-01-01", tokens=-5, usd=float("nan"), calls=-1))
    assert book.accounts.used("all", "") == BudgetAmounts(tokens=11, nanodollars=110_000, calls=2)


# Which budgets count


def set_budget(book: Book, scope, subject, unit, amount):
    changed = BudgetChanged(
        scope=scope, subject=subject, unit=unit, amount=amount, by=Decider(kind="person")
    )
    return book.add("budgets", changed)


def amounts(book: Book, session: str, own=None, common=None) -> dict:
    nothing = BudgetSettings()
    found = find_bounds(book.accounts, session, today(book), own or nothing, common or nothing)
    return {(one.scope, one.subject, one.unit): (one.amount, one.source) for one in found}


def test_the_log_takes_the_place_of_the_same_budget_in_the_settings(book: Book):
    own = BudgetSettings(agent=("5usd", "3usd"), project=("9usd",))
    common = BudgetSettings(day=("100ktok",), all=("1h",))
    day = today(book)
    assert amounts(book, "kid", own, common) == {
        ("agent", "kid", "usd"): (3.0, "settings"),
        ("project", "/p", "usd"): (9.0, "settings"),
        ("day", day, "tokens"): (100_000, "settings"),
        ("all", "", "seconds"): (3600.0, "settings"),
    }
    set_budget(book, "tree", "lead", "usd", 7.0)
    set_budget(book, "tree", "other", "usd", 1.0)
    set_budget(book, "day", "", "tokens", 5.0)
    set_budget(book, "all", "", "seconds", 9.0)
    found = amounts(book, "kid", own, common)
    assert found["tree", "lead", "usd"] == (7.0, "log")
    assert ("tree", "other", "usd") not in found
    assert found["day", day, "tokens"] == (5.0, "log")
    assert found["all", "", "seconds"] == (9.0, "log")
    set_budget(book, "day", day, "tokens", 6.0)
    assert amounts(book, "kid", own, common)["day", day, "tokens"] == (6.0, "log")
    set_budget(book, "all", "", "seconds", None)
    assert amounts(book, "kid", own, common)["all", "", "seconds"] == (3600.0, "settings")


# Whether a call fits


def bound(unit, amount, used=0, reserved=0, allowance=0.05, scope="all") -> Bound:
    def of(number):
        return BudgetAmounts(tokens=number, calls=number, nanodollars=round(number * 1e9))

    return Bound(
        scope=scope,
        subject="",
        unit=unit,
        amount=amount,
        source="log",
        used=of(used),
        reserved=of(reserved),
        allowance=allowance,
    )


CALL = CallEstimate(model="acme/m", input=100, output=1_000, least_output=50)


def test_the_answer_is_cut_to_what_is_left():
    assert decide_call([bound("tokens", 10_000)], CALL, None).output == 1_000
    assert decide_call([bound("tokens", 1_000, used=500)], CALL, None).output == 450
    decided = decide_call([bound("tokens", 1_000, used=500), bound("usd", 1, used=1)], CALL, (1, 1))
    assert decided.refused is None
    assert decided.tightest is not None
    assert decided.tightest.unit == "usd"


def test_a_call_that_does_not_fit_is_refused_by_the_budget_with_the_least_left():
    bounds = [bound("tokens", 1_000, used=1_049, scope="day"), bound("calls", 2, used=3)]
    decided = decide_call(bounds, CALL, None)
    assert decided.refused is not None
    assert decided.refused.unit == "calls"


def test_the_budget_that_makes_a_call_the_last_is_the_one_that_is_named():
    small, large = bound("tokens", 280, scope="tree"), bound("tokens", 20_000, scope="day")
    for bounds in ([small, large], [large, small]):
        decided = decide_call(bounds, CALL, None)
        assert (decided.is_last, decided.refused) == (True, None)
        assert decided.tightest == small
    used = bound("tokens", 20_000, used=19_000, scope="day")
    assert decide_call([small, used], CALL, None).tightest == small
    calm = decide_call([bound("tokens", 9_000), used], CALL, None)
    assert (calm.is_last, calm.tightest) == (False, used)


def test_a_call_waits_for_what_others_have_reserved():
    decided = decide_call([bound("tokens", 1_000, used=500, reserved=500)], CALL, None)
    assert (decided.waits, decided.refused) == (True, None)
    decided = decide_call([bound("tokens", 1_000, used=950, reserved=50)], CALL, None)
    assert decided.waits is False
    assert decided.refused is not None


def test_money_needs_a_price():
    assert decide_call([bound("usd", 5)], CALL, None).refused is not None
    assert decide_call([bound("usd", 5)], CALL, (1.0, 1.0)).refused is None


@pytest.mark.parametrize(
    ("amount", "allowance", "most"), [(3, 0.05, 4), (100, 0.05, 105), (3, 0, 3)]
)
def test_of_calls_at_least_one_is_left_to_wrap_up(amount, allowance, most):
    assert bound("calls", amount, allowance=allowance).most == most
