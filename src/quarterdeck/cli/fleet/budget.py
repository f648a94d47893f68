"""``budget``: what agents may use, shown, set, raised and removed."""

from typing import TYPE_CHECKING, Any

import click

from quarterdeck.wire.budgets import (
    BUDGET_UNITS,
    BudgetLimit,
    BudgetScope,
    BudgetUnit,
    describe_limit,
)

from ..command_io import (
    as_json_option,
    echo_json,
    echo_lines,
    resolve_directory,
    terminal_width,
    with_fleet,
)
from ..output import count, echo, escape_to_line, table
from ..session_flags import Limit
from .usage import Day

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from quarterdeck.fleet.budgets.api import BudgetReport, BudgetRow

__all__ = ["budget", "format_budgets"]

_HEAD = ("USED", "OF", "LEFT", "PART", "STATE", "FOR")


@click.group(invoke_without_command=True, epilog="docs/budgets.md describes how budgets work.")
@as_json_option
@click.pass_context
def budget(context: click.Context, as_json: bool) -> None:
    """Show and change what agents may use.

    Without a command: all budgets, the fullest first.
    """
    if context.invoked_subcommand is None:
        _show(None, as_json)


def _subject(command: "Callable[..., None]") -> "Callable[..., None]":
    """Give a command the options that say what a budget is for."""
    options = (
        click.option("-a", "--agent", metavar="NAME", help="For an agent and all that it starts."),
        click.option("--alone", is_flag=True, help="With --agent: without the agents it starts."),
        click.option("--project", metavar="DIR", help="For all agents of a project."),
        click.option("--day", is_flag=True, help="For all agents, each day."),
        click.option("--on", type=Day(), metavar="DAY", help="For all agents, on 2026-11-09 only."),
        click.option("--all", "is_all", is_flag=True, help="For everything."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _read_subject(o: dict[str, Any]) -> tuple[BudgetScope, str]:
    given = [name for name in ("agent", "project", "day", "on", "is_all") if o[name]]
    if len(given) != 1:
        raise click.UsageError("say what it is for: --agent, --project, --day, --on or --all")
    if o["alone"] and not o["agent"]:
        raise click.UsageError("--alone needs --agent")
    scope: BudgetScope = "agent" if o["alone"] else "tree"
    match given[0]:
        case "agent":
            return scope, o["agent"]
        case "project":
            return "project", resolve_directory(o["project"])
        case "day" | "on":
            return "day", o["on"] or ""
        case _:
            return "all", ""


@budget.command()
@click.argument("agent", required=False)
@as_json_option
def show(agent: str | None, as_json: bool) -> None:
    """Show all budgets, or those that count for AGENT."""
    _show(agent, as_json)


def _show(agent: str | None, as_json: bool) -> None:
    report = with_fleet(lambda fleet: fleet.budgets(agent=agent))
    if as_json:
        echo_json(report)
    else:
        echo_lines(format_budgets(report, terminal_width(), agent))


@budget.command("set")
@click.argument("limits", metavar="LIMIT...", nargs=-1, required=True, type=Limit())
@_subject
@as_json_option
def set_(limits: tuple[BudgetLimit, ...], as_json: bool, **options: Any) -> None:
    """Set budgets: 5usd, 200ktok, 50calls, 30min, 8agents.

    Agents that a budget has stopped go on if something is left.
    """
    _change(limits, options, as_json, add=False)


@budget.command("raise")
@click.argument("limits", metavar="LIMIT...", nargs=-1, required=True, type=Limit())
@_subject
@as_json_option
def raise_(limits: tuple[BudgetLimit, ...], as_json: bool, **options: Any) -> None:
    """Raise budgets by so much; agents that they have stopped go on."""
    _change(limits, options, as_json, add=True)


def _change(
    limits: tuple[BudgetLimit, ...], options: dict[str, Any], as_json: bool, *, add: bool
) -> None:
    scope, subject = _read_subject(options)

    def change(limit: BudgetLimit) -> "BudgetRow":
        return with_fleet(lambda fleet: fleet.set_budget(scope, subject, limit, add=add))

    rows = [change(limit) for limit in limits]
    if as_json:
        echo_json({"budgets": rows})
        return
    for row in rows:
        words = f"{describe_limit(row.unit, row.amount)} for {row.name}"
        used = describe_limit(row.unit, row.used)
        echo(f"Budget: {escape_to_line(words)}; {used} used.")


@budget.command()
@click.argument(
    "units", metavar="UNIT...", nargs=-1, required=True, type=click.Choice(BUDGET_UNITS)
)
@_subject
@as_json_option
def remove(units: tuple[BudgetUnit, ...], as_json: bool, **options: Any) -> None:
    """Remove budgets by their unit. Those of the settings count again."""
    scope, subject = _read_subject(options)

    def take(unit: BudgetUnit) -> bool:
        return with_fleet(lambda fleet: fleet.remove_budget(scope, subject, unit))

    removed = {unit: take(unit) for unit in units}
    if as_json:
        echo_json({"removed": removed})
    else:
        for unit, was_there in removed.items():
            echo(f"Budget of {unit} removed." if was_there else f"There was no budget of {unit}.")
    if not all(removed.values()):
        raise SystemExit(1)


def format_budgets(
    report: "BudgetReport", width: int | None, agent: str | None = None
) -> "Iterator[str]":
    """Budgets as lines for people; foreign names are escaped.

    ``agent``: they are those of this agent; of two that disagree the tighter one is named.
    """
    if not report.rows and agent is not None:
        yield f"No budgets for {escape_to_line(agent)}. Set one: quarterdeck budget set --agent …"
        return
    if not report.rows:
        yield "No budgets. `quarterdeck spawn --budget 5usd PROMPT` starts an agent with one."
        return
    yield from table(_HEAD, [_cells(row) for row in report.rows], width)
    if agent is not None:
        yield from _name_tightest(report.rows)
    for row in report.rows:
        if row.unpriced:
            yield ""
            yield (
                f"The cost of {count(row.unpriced)} tokens for {escape_to_line(row.name)} is not "
                "known: set models.NAME.prices."
            )
        if row.request is not None:
            yield ""
            yield f"Raise it with: quarterdeck answer {row.request} {_example(row)}"


def _name_tightest(rows: "Sequence[BudgetRow]") -> "Iterator[str]":
    """Which of several budgets in one unit stops the agent first."""
    for unit in BUDGET_UNITS:
        same = [row for row in rows if row.unit == unit]
        if len(same) < 2:
            continue
        first = min(same, key=lambda row: (-row.unpriced, row.amount - row.used))
        left = describe_limit(unit, max(first.amount - first.used, 0.0))
        budget = f"{describe_limit(unit, first.amount)} for {first.name}"
        yield ""
        yield f"The tightest in {unit} counts: {escape_to_line(budget)}, {left} left."


def _example(row: "BudgetRow") -> str:
    return describe_limit(row.unit, row.amount).replace(" ", "")


def _cells(row: "BudgetRow") -> tuple[str, ...]:
    left = max(row.amount - row.used, 0.0)
    state = {None: "", "warned": "warned", "reached": "used up", "stopped": "stopped"}[row.level]
    name = row.name if row.source == "log" else f"{row.name} (settings)"
    part = f"{row.used / row.amount:.0%}"
    if row.unit == "usd" and row.unpriced:
        part = "unknown"
    shown = [describe_limit(row.unit, one) for one in (row.used, row.amount, left)]
    return (*shown, part, state, name)
