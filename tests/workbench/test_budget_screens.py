"""Budgets on the screen: in the form for a new agent, in the list of agents, in their dialog."""

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from quarterdeck.fleet.budgets.accounts import BudgetAmounts
from quarterdeck.fleet.budgets.api import BudgetRow
from quarterdeck.fleet.budgets.bounds import Bound
from quarterdeck.fleet.budgets.stops import RAISE_FIELD, make_budget_question
from quarterdeck.fleet.errors import InvalidOptionsError
from quarterdeck.wire.budgets import BudgetLimit, BudgetUnit, parse_limit
from quarterdeck.wire.events import BudgetReached, TurnEnded
from quarterdeck.wire.ids import RequestId
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.rendering.agent_rows import (
    AgentRow,
    agent_card,
    agent_line,
    find_urgent_columns,
    measure_columns,
)
from quarterdeck.workbench.rendering.lines import text_of, width_of
from quarterdeck.workbench.screens.budgets import BudgetsScreen
from quarterdeck.workbench.screens.key_guard import QUIET
from quarterdeck.workbench.screens.question import QuestionForm, parse_form
from quarterdeck.workbench.screens.spawn_model import (
    OptionTextError,
    describe_budgets,
    parse_budgets,
)
from quarterdeck.workbench.stores.roster import RosterStore
from tests.support.memory_fleet import FakeFleet
from tests.support.staged_workbench import StagedFleet
from tests.support.workbench_app import begin, opened, screen_text, until
from tests.workbench.test_spawn_form import form

SIZE = (100, 30)


def row(subject: str, amount: float, used: float, **fields: object) -> BudgetRow:
    given = {"scope": "tree", "unit": "usd", "name": f"{subject} and all that it starts", **fields}
    return BudgetRow(subject=subject, amount=amount, used=used, **given)  # type: ignore[arg-type]


async def shows(app: Workbench, pilot: Pilot[None], *words: str) -> None:
    await until(pilot, lambda: all(word in screen_text(app) for word in words))


# The form


def test_a_line_of_budgets_is_read_and_a_wrong_one_says_what_one_looks_like():
    assert parse_budgets("") == () and parse_budgets(" , ") == ()
    assert parse_budgets("5usd 200ktok") == (parse_limit("5usd"), parse_limit("200ktok"))
    assert parse_budgets("5 usd, 30 min") == (parse_limit("5usd"), parse_limit("30min"))
    for wrong in ("5", "much", "5eur", "usd", "-5usd", "5usd x", "0usd"):
        with pytest.raises(OptionTextError, match=r"^budget: .+ is no budget"):
            parse_budgets(wrong)
        assert describe_budgets(wrong) == "such as 5usd, 200ktok, 50calls or 30min"
    with pytest.raises(OptionTextError, match="two in usd"):
        parse_budgets("5usd 6usd")
    assert describe_budgets("5usd") == "5 usd for it and all that it starts"
    assert describe_budgets("") == ""


async def test_the_form_starts_an_agent_with_a_budget(tmp_path: Path):
    async with form(tmp_path) as at:
        field = at.screen.query_one("#budget", Input)
        field.value = "5 or so"
        await at.shows("such as 5usd, 200ktok")
        await at.pilot.press("ctrl+s")
        await at.shows("✗ budget: '5 or' is no budget; write it as 5usd, 200ktok")
        assert at.app.focused is field and not at.given
        field.value = "5usd 1.5mtok"
        await at.shows("5 usd, 1.5 mtok for it and all that it starts")
        await at.start()
    assert at.given[0].budget == (parse_limit("5usd"), parse_limit("1.5mtok"))


async def test_a_low_screen_opens_the_field_of_a_wrong_budget(tmp_path: Path):
    async with form(tmp_path, (80, 24)) as at:
        at.screen.query_one("#budget", Input).value = "lots"
        await at.shows("budget lots")
        await at.pilot.press("ctrl+s")
        await at.shows("✗ budget: 'lots' is no budget")
        assert at.app.focused is at.screen.query_one("#budget")


# The agents


async def test_agents_show_how_much_of_their_budget_is_used(tmp_path: Path):
    fleet = StagedFleet()
    session = await fleet.agent_at_work("ann", "Fix it")
    await fleet.agent_at_work("bob", "Test it")
    info = fleet.infos[session]
    roster = RosterStore()
    roster.replace(fleet.infos.values(), None)
    made = AgentRow(agent=info, roster=roster, now=0, budget=row(session, 5, 4.1, level="warned"))
    assert find_urgent_columns([info], roster, budgets=True) == ("budget",)
    wide = measure_columns([made])
    for width in range(20, 200):
        line = agent_line(made, width, (), ("budget",), wide)
        shown = text_of(line)
        assert width_of(line) <= width
        assert ("! 4.10/5 $" in shown) == ("4.10" in shown)  # whole, or not there
        for card in agent_card(made, width, wide):
            shown = text_of(card)
            assert width_of(card) <= width
            assert ("! 4.10/5 $" in shown) == ("4.10" in shown)
    assert ("! 4.10/5 $", "warning") in [
        (text.strip(), role) for text, role in agent_line(made, 120, (), ("budget",), wide)
    ]
    calm = AgentRow(agent=info, roster=roster, now=0)
    assert "budget" not in text_of(agent_line(calm, 200))


async def test_budgets_are_asked_for_when_there_are_some(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    asked: list[int] = []
    real = fleet.budgets

    async def budgets(**fields: object) -> object:
        asked.append(1)
        return await real(**fields)  # type: ignore[arg-type]

    fleet.budgets = budgets  # type: ignore[method-assign,assignment]
    async with opened(fleet, tmp_path / "drafts", SIZE) as (app, pilot):
        await until(pilot, lambda: asked)
        await fleet.append(ann, TurnEnded(stop="end_turn"))
        await until(pilot, lambda: app.context.roster.agents[0].last_seq == len(fleet.records))
        await pilot.pause(0.1)
        assert len(asked) == 1  # no budget, so nothing of one can be used
        fleet.budget_rows = {("tree", ann, "usd"): row(ann, 5, 5.21, level="stopped")}
        reached = BudgetReached(
            scope="tree", subject=ann, unit="usd", amount=5, used=5.21, level="stopped"
        )
        await fleet.append(ann, reached)
        await shows(app, pilot, "⊘ 5.21/5 $")
        fleet.budget_rows = {("tree", ann, "usd"): row(ann, 10, 6.5)}
        await fleet.append(ann, TurnEnded(stop="end_turn"))
        await shows(app, pilot, "6.50/10 $")


async def test_an_error_about_budgets_leaves_everything_else_alone(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")

    async def budgets(**_: object) -> object:
        raise InvalidOptionsError("the settings of budget: '5' is no budget")

    fleet.budgets = budgets  # type: ignore[method-assign,assignment]
    async with opened(fleet, tmp_path / "drafts", SIZE) as (app, pilot):
        await shows(app, pilot, "ann")
        await begin(fleet, "bob")
        await shows(app, pilot, "bob")
        assert app.context.host == "connected"


# The dialog


async def open_dialog(app: Workbench, pilot: Pilot[None]) -> None:
    app.action_command("budgets", "")
    await until(pilot, lambda: isinstance(app.screen, BudgetsScreen))


async def test_budgets_are_raised_set_and_removed_in_their_dialog(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    key = ("tree", ann, "usd")
    fleet.budget_rows = {key: row(ann, 5, 5.21, level="stopped")}
    async with opened(fleet, tmp_path / "drafts", SIZE) as (app, pilot):
        await open_dialog(app, pilot)
        await shows(app, pilot, f"⊘ {ann}", "5.21/5 $", "104 %", "stopped")
        await pilot.press("enter")
        await shows(app, pilot, "5usd")
        await pilot.press("enter")
        await until(pilot, lambda: fleet.budget_rows[key].amount == 10)
        await shows(app, pilot, "0/10 $")
        await pilot.press("s")
        await shows(app, pilot, "to ", "10usd")
        await pilot.press("ctrl+u", *"3usd", "enter")
        await until(pilot, lambda: fleet.budget_rows[key].amount == 3)
        await pilot.press("enter")
        await shows(app, pilot, "3usd")
        await pilot.press("ctrl+u", *"9tok", "enter")
        await shows(app, pilot, "'9tok' is no budget of usd")
        await pilot.press("x")
        await shows(app, pilot, "remove this budget?")
        await pilot.pause(QUIET + 0.1)  # the guard of keys opens
        await pilot.press("y")
        await until(pilot, lambda: not fleet.budget_rows)
        await shows(app, pilot, "No budgets. n sets one.")
        await pilot.press("enter", "x", "s", "n")
        await shows(app, pilot, "a budget for what")
        await pilot.press("ctrl+u", *"ann 2mtok", "enter")
        await until(pilot, lambda: ("tree", "ann", "tokens") in fleet.budget_rows)
        await shows(app, pilot, "0/2.0M tok")


async def test_a_budget_of_the_settings_is_not_removed_here(tmp_path: Path):
    fleet = FakeFleet()
    known = row("2026-11-17", 5, 1, scope="day", source="settings", name="the day 2026-11-17")
    fleet.budget_rows = {("day", "x", "usd"): known}
    async with opened(fleet, tmp_path / "drafts", SIZE) as (app, pilot):
        await open_dialog(app, pilot)
        await shows(app, pilot, "the day 2026-11-17 (settings)")
        await pilot.press("x")
        await shows(app, pilot, "remove this budget?")
        await pilot.pause(QUIET + 0.1)
        await pilot.press("y")
        await shows(app, pilot, "it is in the settings: remove budget.day there")


async def test_budgets_are_changed_in_words(tmp_path: Path):
    fleet = FakeFleet()
    async with opened(fleet, tmp_path / "drafts", SIZE) as (app, pilot):
        for words, said in (
            ("day 10usd 2mtok", "10 usd for day; 0 usd used"),
            ("raise day 5usd", "15 usd for day"),
            ("project 3usd", "3 usd for /work/project"),
            ("remove day usd", "removed the budget of usd for day"),
            ("remove day usd", "there is no budget of usd for day"),
            ("remove day euro", "'euro' is no unit; there are usd, tokens"),
            ("all lots", "'lots' is no budget; write it as 5usd"),
            ("all", "'all' is no budget; write it as day 10usd"),
        ):
            app.clear_notifications()
            app.action_command("budgets", words)
            await shows(app, pilot, said)
    assert set(fleet.budget_rows) == {
        ("day", "", "tokens"),
        ("project", "/work/project", "usd"),
    }


# The question


@pytest.mark.parametrize("unit", ["usd", "tokens", "calls", "seconds"])
def test_what_is_offered_is_an_amount_of_the_budgets_unit(unit: BudgetUnit):
    bound = Bound(
        scope="all", subject="", unit=unit, amount=7200.0, source="log", used=BudgetAmounts(),
        reserved=BudgetAmounts(), allowance=0.05,
    )  # fmt: skip
    asked = make_budget_question(RequestId("r"), bound, "it is used up")
    (field,) = parse_form(asked)
    assert (field.name, field.kind, field.is_required) == (RAISE_FIELD, "text", True)
    assert parse_limit(field.default) == BudgetLimit(unit=unit, amount=7200.0)
    assert parse_limit(field.hint.rpartition(" ")[2]).unit == unit


async def test_a_budget_is_raised_from_the_inbox_with_one_key(tmp_path: Path):
    fleet = StagedFleet()
    ann = await fleet.agent_at_work("ann", "Fix it")
    bound = Bound(
        scope="tree", subject=ann, unit="usd", amount=5.0, source="log", used=BudgetAmounts(),
        reserved=BudgetAmounts(), allowance=0.05,
    )  # fmt: skip
    answers: list[object] = []

    async def reply(request: str, action: str, content: object = None, **_: object) -> bool:
        answers.append((action, content))
        fleet.open.pop(RequestId(request), None)
        return True

    fleet.reply = reply  # type: ignore[method-assign,assignment]
    async with opened(fleet, tmp_path / "drafts", (80, 24)) as (app, pilot):
        for keys, expected in (
            (("enter",), ("accept", {RAISE_FIELD: "5 usd"})),
            ((*"2usd", "enter"), ("accept", {RAISE_FIELD: "2usd"})),
            (("ctrl+x",), ("decline", None)),
        ):
            reason = f"{bound.describe('ann and all that it starts')} is used up: 5.21 usd"
            number = RequestId(f"req_{len(answers)}")
            await fleet.ask(ann, make_budget_question(number, bound, reason))
            await shows(app, pilot, "The budget of 5 usd for ann", "Raise it by", "ctrl+x decline")
            await pilot.press("ctrl+g")
            await until(
                pilot,
                lambda: (
                    app.focused is not None
                    and any(isinstance(one, QuestionForm) for one in app.focused.ancestors)
                ),
            )
            await pilot.pause(QUIET + 0.1)
            done = len(answers)
            await pilot.press(*keys)
            await until(pilot, lambda done=done: len(answers) > done)
            assert answers[-1] == expected
