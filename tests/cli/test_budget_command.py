"""``quarterdeck budget``, and ``--budget`` of the commands that start agents."""

import json
from collections.abc import Iterator
from typing import Any

import click
import pytest

from quarterdeck.cli.fleet.budget import format_budgets
from quarterdeck.cli.fleet.spawn import lead, spawn
from quarterdeck.cli.headless import command as headless
from quarterdeck.fleet.budgets.api import BudgetReport, BudgetRow
from quarterdeck.wire.budgets import parse_limit


@pytest.fixture
def host(run) -> Iterator[None]:
    yield
    run("host", "stop")


def test_budgets_are_set_shown_raised_and_removed(run, host: None, work):
    assert run("budget").stdout.startswith("No budgets.")
    done = run("budget", "set", "--all", "50usd", "2mtok")
    assert done.stdout == (
        "Budget: 50 usd for everything; 0 usd used.\nBudget: 2 mtok for everything; 0 tok used.\n"
    )
    assert run("budget", "raise", "--all", "5usd").stdout.startswith("Budget: 55 usd")
    assert run("budget", "set", "--day", "10usd").returncode == 0
    assert run("budget", "set", "--project", ".", "3agents").returncode == 0
    rows = json.loads(run("budget", "show", "--json").stdout)["rows"]
    found = {(row["scope"], row["unit"]): row["amount"] for row in rows}
    assert found == {
        ("all", "usd"): 55.0,
        ("all", "tokens"): 2e6,
        ("day", "usd"): 10.0,
        ("project", "agents"): 3.0,
    }
    lines = run("budget").stdout.splitlines()
    assert lines[0].split() == ["USED", "OF", "LEFT", "PART", "STATE", "FOR"]
    assert len(lines) == 5
    assert run("budget", "remove", "--all", "usd", "tokens").returncode == 0
    again = run("budget", "remove", "--all", "usd")
    assert (again.returncode, again.stdout) == (1, "There was no budget of usd.\n")


def test_of_the_budgets_of_an_agent_the_tighter_is_named():
    def row(name: str, amount: float, used: float, unit: str = "usd") -> BudgetRow:
        return BudgetRow(scope="all", subject="", name=name, unit=unit, amount=amount, used=used)  # type: ignore[arg-type]

    rows = (
        row("the day 2026-11-17", 10, 7),
        row("ann\x1b[2J and all that it starts", 4, 2.5),
        row("everything", 100_000, 90_000, "tokens"),
    )
    report = BudgetReport(rows=rows, allowance=0.05)
    lines = list(format_budgets(report, 100, "ann"))
    assert lines[0].split() == ["USED", "OF", "LEFT", "PART", "STATE", "FOR"]
    named = (
        "The tightest in usd counts: 4 usd for ann\\x1b[2J and all that it starts, 1.50 usd left."
    )
    assert lines[-1] == named
    assert not any("tightest in tokens" in line for line in lines)
    assert not any("tightest" in line for line in format_budgets(report, 100))
    none = BudgetReport(rows=(), allowance=0.05)
    assert next(iter(format_budgets(none, 100, "a\x1b"))).startswith("No budgets for a\\x1b.")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set", "5usd"), "say what it is for"),
        (("set", "--all", "--day", "5usd"), "say what it is for"),
        (("set", "--all", "5eur"), "'5eur' is no budget"),
        (("set", "--all", "--alone", "5usd"), "--alone needs --agent"),
        (("remove", "--all", "euro"), "euro"),
    ],
)
def test_what_is_no_budget_is_refused_without_a_host(run, words, said):
    done = run("budget", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert run("host", "status").returncode == 3


@pytest.mark.parametrize("command", [spawn, lead], ids=lambda one: one.name)
def test_several_budgets_are_read(command: click.Command):
    context = command.make_context(command.name, ["--budget", "5usd", "--budget", "30min"])
    assert context.params["budget"] == (parse_limit("5usd"), parse_limit("30min"))


def run_job_of(*words: str) -> Any:
    params = headless.run.make_context("run", ["x", *words]).params
    return headless._job("x", params)


def test_a_run_is_limited_by_its_budget_and_the_tighter_wins():
    given = ("--budget", "5usd", "--budget", "200ktok", "--budget", "50calls", "--budget", "30min")
    limits = run_job_of(*given, "--max-cost", "3").options.limits
    assert (limits.cost, limits.tokens, limits.model_calls, limits.seconds) == (
        3,
        200_000,
        50,
        1800,
    )
    goal = run_job_of("--goal", "y", "--budget", "5usd", "--budget", "30min").goal
    assert (goal.budget.cost, goal.budget.seconds) == (5, 1800)


def test_a_run_is_one_agent():
    with pytest.raises(click.UsageError, match="a run is one agent"):
        run_job_of("--budget", "3agents")
