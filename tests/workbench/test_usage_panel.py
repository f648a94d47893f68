"""The usage panel shows what the fleet has counted, at every size, and asks for it when needed."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from quarterdeck.fleet.api import AgentInfo
from quarterdeck.fleet.budgets.api import BudgetRow
from quarterdeck.fleet.errors import InvalidOptionsError
from quarterdeck.fleet.usage.api import UsageReport, UsageRow
from quarterdeck.models.model import Prices
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    MessageChunk,
    SessionChanged,
    SessionSpawned,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.usage import ContextUsage, Cost, TokenUsage
from quarterdeck.workbench.panels.usage_model import (
    UsagePage,
    draw_bar,
    draw_columns,
    draw_gauge,
    find_first_day,
    format_cost,
    usage_lines,
)
from quarterdeck.workbench.rendering.budget_text import format_budget_part, format_budget_use
from quarterdeck.workbench.rendering.lines import text_of, width_of
from quarterdeck.workbench.sanitize import sanitize_text
from quarterdeck.workbench.stores.budgets import BudgetStore
from tests.support.hostile_text import hostile_strings
from tests.support.memory_fleet import FakeFleet
from tests.support.panel_app import alone, desk_in, shown, until_shown

if TYPE_CHECKING:
    from collections.abc import Callable

DAY = 86_400_000_000
NOW = 1_795_000_000_000_000
"""In 2026, in microseconds."""


def used(name: str, tokens: int, **fields: object) -> UsageRow:
    return UsageRow(
        name=name, tokens=TokenUsage(input=tokens), session=SessionId(name), agents=1, **fields
    )  # type: ignore[arg-type]


def report(*rows: UsageRow, by: str = "agent", **fields: object) -> UsageReport:
    total = UsageRow(
        name="all",
        tokens=sum((row.tokens for row in rows), TokenUsage()),
        reported={"USD": sum(row.reported.get("USD", 0.0) for row in rows)},
        computed=sum(row.computed for row in rows),
        unpriced=sum(row.unpriced for row in rows),
    )
    given = {"since": "2026-10-19", "prices_of": "2026-11", **fields}
    return UsageReport(by=by, rows=rows, total=total, **given)  # type: ignore[arg-type]


def page(rows: UsageReport, *budgets: BudgetRow, **fields: object) -> UsagePage:
    days = report(used("2026-11-17", 9_000), used("2026-11-02", 3_000), by="day")
    given = {"days": days, "today": "2026-11-17", **fields}
    return UsagePage(rows=rows, budgets=budgets, **given)  # type: ignore[arg-type]


def budget(name: str, amount: float, spent: float, **fields: object) -> BudgetRow:
    given = {"scope": "tree", "subject": name, "unit": "usd", **fields}
    return BudgetRow(name=name, amount=amount, used=spent, **given)  # type: ignore[arg-type]


def words(made: UsagePage, width: int = 80) -> str:
    return "\n".join(text_of(line).rstrip() for line in usage_lines(made, width))


# Lines


@settings(deadline=None)
@given(part=st.floats(-1, 2), width=st.integers(0, 50))
def test_a_bar_fills_its_cells(part: float, width: int):
    assert width_of(((draw_bar(part, width), ""),)) == width


def test_bars_and_columns_tell_little_from_nothing():
    assert draw_bar(0, 4) == "    " and draw_bar(1, 4) == "━━━━" and draw_bar(0.5, 4) == "━━  "
    assert draw_bar(0.0001, 4) == "╸   " and draw_bar(0.625, 4) == "━━╸ "
    assert draw_gauge(0.5, 4) == "▓▓░░" and draw_gauge(0.0001, 4) == "▓░░░"
    assert draw_gauge(0, 4) == "░░░░" and draw_gauge(7.0, 4) == "▓▓▓▓" and draw_gauge(0.5, 0) == ""
    assert draw_columns([0, 1, 8], 1) == [" ▁█"] and draw_columns([], 1) == [""]
    assert draw_columns([0, 0], 2) == ["  ", "  "]
    assert draw_columns([8, 4, 1], 2, 2) == ["██    ", "████▂▂"]
    assert draw_columns([8, 4], 1, 3) == ["██ ▄▄ "]


@pytest.mark.parametrize("agents", [0, 1, 50])
def test_a_page_fits_at_every_width_and_stays_literal(agents: int):
    hostile = hostile_strings(60)
    rows = [
        used(f"{hostile[at % len(hostile)]}{at}", 10 ** (at % 9), unpriced=at)
        for at in range(agents)
    ]
    made = page(
        report(*rows, unpriced_models=tuple(hostile[:9]), ignored=3),
        *(budget(hostile[at], 5, at / 2, level="stopped") for at in range(min(agents, 20))),
        contexts={row.session: 0.97 for row in rows},
    )
    for width in (*range(1, 60), 80, 120, 200):
        for line in usage_lines(made, width):
            assert width_of(line) <= width
            assert sanitize_text(text_of(line)) == text_of(line)


def test_a_cost_that_is_not_known_is_said_and_never_zero():
    assert format_cost(used("a", 5, unpriced=5)) == "–"
    assert format_cost(used("a", 5, reported={"USD": 1.5})) == "1.50 $"
    assert format_cost(used("a", 5, computed=0.25)) == "~0.25 $"
    assert format_cost(used("a", 5, computed=0.25, unpriced=3)) == "~0.25 $ + ?"
    assert format_cost(used("a", 5, reported={"EUR": 2.0}, computed=1.0)) == "2.00 EUR ~1.00 $"
    models = tuple(f"odd/{at}" for at in range(5))
    seen = words(page(report(used("ann", 1_500, unpriced=1_500), unpriced_models=models)))
    note = "! no price for odd/0, odd/1, odd/2, 2 more: the cost of 1.5k tokens is unknown"
    assert note in seen and "0.00" not in seen


def test_days_without_usage_have_their_place_and_those_of_the_future_none():
    made = page(report(used("ann", 12_000)))
    seen = words(made, 67)
    assert "tokens by day  on 2 of 30 days, at most 9.0k" in seen
    columns = next(line for line in seen.splitlines() if line.startswith("    0 │"))
    assert columns[7:].rstrip() == " " * 28 + "██" + " " * 28 + "██"
    assert "19 Oct" in seen and "today" in seen
    future = report(used("2030-01-01", 5), used("unknown", 7), by="day", since=None)
    assert "tokens by day" not in words(page(report(used("ann", 12)), days=future, period="all"))
    by_day = report(used("2026-11-17", 9_000), used("2026-11-02", 3_000), by="day")
    listed = words(page(by_day))
    assert "by day" in listed and "today" in listed and "2 Nov" in listed
    assert "tokens by day" not in listed  # nothing is shown twice


def test_archived_agents_are_one_row_so_that_all_rows_add_up():
    rows = report(used("a", 60), used("b", 30, reported={"USD": 1.0}), used("c", 10, computed=0.5))
    seen = words(page(rows, archived=frozenset({"b", "c"})))
    line = next(line for line in seen.splitlines() if line.startswith("2 archived"))
    assert "40" in line and "~1.50 $" in line and "40 %" in line
    assert "\nb " not in seen
    apart = words(page(rows))
    assert "archived" not in apart and "\nb " in apart


def test_budgets_have_gauges_signs_and_words_and_the_fullest_are_shown():
    rows = [budget(f"agent{at}", 5, 5 - at / 4) for at in range(15)]
    rows[0] = budget("agent0", 5, 5.21, level="stopped")
    rows[1] = budget("agent1", 2_000_000, 1_740_000, unit="tokens", level="warned")
    seen = words(page(report(used("ann", 5)), *rows), 100)
    stopped = next(line for line in seen.splitlines() if "agent0" in line)
    assert stopped.startswith("⊘ agent0") and "5.21/5 $" in stopped and "stopped" in stopped
    warned = next(line for line in seen.splitlines() if "agent1 " in line)
    assert warned.startswith("! ") and "1.7M/2.0M tok   87 %  nearly used up" in warned
    assert "3 more budgets: /budgets" in seen and "agent14" not in seen
    assert format_budget_use(budget("x", 30, 3.2, unpriced=5)) == "3.20 + ?/30 $"
    assert format_budget_part(budget("x", 30, 3.2, unpriced=5)) == "–"
    assert format_budget_use(budget("x", 1800, 90, unit="seconds")) == "1.5/30 min"
    assert format_budget_use(budget("x", 8, 3, unit="agents")) == "3/8 agents"


def test_nothing_used_says_what_would_be_here_and_budgets_stay():
    nothing = report()
    assert "nothing since 19 Oct" in words(page(nothing)) and "p shows" in words(page(nothing))
    seen = words(page(replace(nothing, since=None), budget("ann", 5, 0), period="all"))
    assert "What agents use appears here." in seen and "0/5 $" in seen


def test_periods_begin_on_local_days():
    assert find_first_day("all", NOW) is None
    assert find_first_day("week", NOW) == find_first_day("today", NOW - 6 * DAY)
    assert find_first_day("month", NOW) == find_first_day("today", NOW - 29 * DAY)


def test_the_fullest_budget_of_an_agent_or_above_it_is_found():
    def agent(name: str, parent: str | None = None) -> AgentInfo:
        above = SessionId(parent) if parent else None
        return AgentInfo(
            session=SessionId(name), name=name, agent="claude", cwd="/", state="idle", parent=above
        )

    every = {one.session: one for one in (agent("lead"), agent("kid", "lead"), agent("one", "one"))}
    store, heard = BudgetStore(), list[int]()
    store.watch(lambda: heard.append(1))
    find = every.get
    assert store.find(every[SessionId("kid")], find) is None  # type: ignore[arg-type]
    store.replace((budget("lead", 5, 4), budget("kid", 1, 0.1), budget("one", 3, 1, scope="agent")))
    store.replace((budget("lead", 5, 4), budget("kid", 1, 0.1), budget("one", 3, 1, scope="agent")))
    assert heard == [1]
    kid, lead, one = (store.find(every[SessionId(name)], find) for name in ("kid", "lead", "one"))  # type: ignore[arg-type]
    assert kid is not None and lead is not None and one is not None
    assert (kid.subject, lead.subject, one.subject) == ("lead", "lead", "one")
    store.replace((budget("lead", 5, 4, scope="agent"),))
    assert store.find(every[SessionId("kid")], find) is None  # type: ignore[arg-type]


# The panel


class CountingFleet(FakeFleet):
    """A fleet whose log is written at a given time."""

    def __init__(self) -> None:
        super().__init__()
        self.time = NOW
        self.clock = lambda: self.time
        self.problem: Callable[[], Exception] | None = None

    async def usage(self, *words: object, **fields: object) -> UsageReport:
        if self.problem is not None:
            raise self.problem()
        return await super().usage(*words, **fields)  # type: ignore[arg-type]

    async def begin(self, name: str, model: str = "m1") -> SessionId:
        session = SessionId(f"ses_{name}")
        options = SessionOptions(agent="claude", cwd=f"/work/{name}", model=model)
        await self.append(session, SessionSpawned(options=options, name=name))
        return session

    async def turn(self, session: SessionId, tokens: int, cost: float = 0) -> Record:
        await self.append(session, TurnStarted())
        paid = Cost(amount=cost, currency="USD") if cost else None
        ended = TurnEnded(stop="end_turn", usage=TokenUsage(input=tokens), cost=paid)
        return await self.append(session, ended)


def info(name: str, *, archived: bool = False) -> AgentInfo:
    return AgentInfo(
        session=SessionId(f"ses_{name}"), name=name, agent="claude", cwd="/work", state="idle",
        is_archived=archived, context=ContextUsage(used=50, size=100),
    )  # fmt: skip


async def test_what_was_used_before_the_panel_was_opened_is_in_it(tmp_path: Path):
    fleet = CountingFleet()
    fleet.prices = lambda model: Prices(input=1000.0, output=1.0) if model == "m1" else None
    ann, bob = await fleet.begin("ann"), await fleet.begin("[b]ob", "m2")
    fleet.time = NOW - 3 * DAY
    await fleet.turn(ann, 1_000)
    fleet.time = NOW
    await fleet.turn(bob, 3_000)
    old = await fleet.begin("old")
    fleet.time = NOW - 90 * DAY
    await fleet.turn(old, 7_000, 7.0)
    desk = desk_in(tmp_path, fleet)
    desk.clock = lambda: NOW
    desk.roster.replace([info("ann"), info("[b]ob"), info("old", archived=True)], None)
    async with alone("usage", desk) as (panel, app, pilot):
        await until_shown(
            app, pilot, "[b]ob", "ann", "~1.00 $ + ?", "4.0k tokens", "75 %", "50 %", "by agent",
            "no price for m2", "list prices of 2026-11", "tokens by day",
        )  # fmt: skip
        assert "old" not in shown(app)
        await pilot.press("p")
        await until_shown(app, pilot, "1 archived", "11k tokens", "since the first day", "7.00 $")
        await pilot.press("a")
        await until_shown(app, pilot, "old")
        for title in ("by lead", "by project", "by vendor", "by model", "by day"):
            await pilot.press("g")
            await until_shown(app, pilot, title)
        assert panel.remember() == {"by": "day", "period": "all", "archived": True}
        await pilot.press("G")
        await until_shown(app, pilot, "by model", "m1", "m2")
    state = {"by": "model", "period": "today", "archived": 1}
    async with alone("usage", desk, {"by": "agent"}, state=state) as (panel, app, pilot):
        await until_shown(app, pilot, "by model", "m2", "today")
        assert "m1" not in shown(app)
        assert panel.remember()["archived"] is False
    async with alone("usage", desk, state={"by": "moon", "period": 3}) as (_, app, pilot):
        await until_shown(app, pilot, "by agent", "ann")


async def test_the_fleet_is_asked_again_only_when_something_was_used(tmp_path: Path):
    fleet = CountingFleet()
    ann = await fleet.begin("ann")
    await fleet.turn(ann, 1_000)
    desk = desk_in(tmp_path, fleet)
    now = NOW
    desk.clock = lambda: now
    async with alone("usage", desk) as (panel, app, pilot):
        await until_shown(app, pilot, "1.0k tokens")
        panel._poll_timer.pause()  # the test lets time pass
        asked = len(fleet.asked_usage)

        async def wait() -> None:
            panel._rests_until = 0.0
            panel._poll()
            await app.workers.wait_for_complete()
            await pilot.pause()

        chunk = await fleet.append(ann, MessageChunk(content=text("words")))
        desk.publish_records([chunk])
        await wait()
        assert len(fleet.asked_usage) == asked
        turns = [await fleet.turn(ann, 500) for _ in range(20)]
        for record in turns:
            desk.publish_records([record])
        await wait()
        assert len(fleet.asked_usage) == asked + 2
        await until_shown(app, pilot, "11k tokens")
        await wait()
        assert len(fleet.asked_usage) == asked + 2
        panel._rests_until = float("inf")
        desk.publish_records(turns[:1])
        panel._poll()
        await pilot.pause()
        assert len(fleet.asked_usage) == asked + 2  # it was asked a moment ago
        now += DAY  # another day is another period
        await wait()
        assert len(fleet.asked_usage) == asked + 4


async def test_names_contexts_and_budgets_are_those_of_now(tmp_path: Path):
    fleet = CountingFleet()
    ann = await fleet.begin("ann")
    await fleet.turn(ann, 1_000)
    desk = desk_in(tmp_path, fleet)
    desk.clock = lambda: NOW
    async with alone("usage", desk, size=(100, 30)) as (_, app, pilot):
        await until_shown(app, pilot, "ann")
        desk.roster.replace([info("ann")], None)
        desk.budgets.replace((budget("ses_ann", 5, 4.1, level="warned"),))
        await until_shown(app, pilot, "50 %", "4.10/5 $", "nearly used up")
        desk.publish_records([await fleet.append(ann, SessionChanged(name="anna"))])
        await until_shown(app, pilot, "anna")
        desk.roster.replace([info("ann", archived=True)], None)
        await until_shown(app, pilot, "1 archived")
        assert "4.10/5 $" not in shown(app)


async def test_an_error_is_said_and_what_is_known_stays(tmp_path: Path):
    fleet = CountingFleet()
    await fleet.turn(await fleet.begin("ann"), 1_000)
    fleet.problem = lambda: InvalidOptionsError("the log is gone")
    desk = desk_in(tmp_path, fleet)
    desk.clock = lambda: NOW
    async with alone("usage", desk) as (_, app, pilot):
        await until_shown(app, pilot, "✗ the log is gone", "r try again")
        fleet.problem = None
        await pilot.press("r")
        await until_shown(app, pilot, "ann", "1.0k tokens")
        fleet.problem = lambda: InvalidOptionsError("the log is gone")
        await pilot.press("r")
        await until_shown(app, pilot, "ann", "✗ the log is gone")
        fleet.problem = None
        desk.show_host("connected", "")
        await until_shown(app, pilot, "g groups", "ann", "1.0k tokens · cost unknown")
        assert "✗" not in shown(app)


@pytest.mark.parametrize("size", [(20, 5), (40, 12), (200, 50)])
async def test_fifty_agents_with_long_names_can_be_scrolled_through(
    tmp_path: Path, size: tuple[int, int]
):
    fleet = CountingFleet()
    for number in range(50):
        session = await fleet.begin(f"{'a-very-' * 20}long-name-{number}")
        await fleet.turn(session, 1_000 + number)
    desk = desk_in(tmp_path, fleet)
    desk.clock = lambda: NOW
    async with alone("usage", desk, size=size) as (panel, app, pilot):
        await until_shown(app, pilot, "usage")
        await pilot.press("end")
        await until_shown(app, pilot, "a-very-")
        assert panel.page.max_scroll_y > 0 or size[1] == 50
