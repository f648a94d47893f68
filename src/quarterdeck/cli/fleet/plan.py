"""``plan``: work that is written down, checked, drawn and carried out."""

import asyncio
import getpass
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.terminal_text import count_noun

from ..command_io import (
    as_json_option,
    echo_json,
    echo_lines,
    terminal_width,
    with_fleet,
    with_pool,
)
from ..output import echo, format_age, table, write_notice
from .exit_codes import ENDED_BADLY
from .pool import pool_option

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from quarterdeck.config.places import Places
    from quarterdeck.plans.plan import CheckedPlan
    from quarterdeck.plans.pool.database import PoolDatabase
    from quarterdeck.plans.pool.submission import PoolRun
    from quarterdeck.plans.progress import ProgressEntry, RunProgress, TaskProgress
    from quarterdeck.plans.run import PlanRun

__all__ = ["plan"]

INVALID = 2
NOT_LANDED = 6

_file_argument = click.argument("file", type=click.Path(path_type=Path))
_name_argument = click.argument("name")
_task_argument = click.argument("task")
_input_option = click.option(
    "-i",
    "--input",
    "inputs",
    metavar="NAME=VALUE",
    multiple=True,
    help="An input of the plan. May be repeated.",
)


@click.group()
def plan() -> None:
    """Check, show and run work that is written down in a plan.

    A plan is a TOML file with tasks for agents: prompts, what each task needs, checks, retries,
    races between agents. See docs/plans.md.
    """


@plan.command(epilog="Exit codes: 0 the plan can run, 1 it cannot be read, 2 it has problems.")
@_file_argument
@as_json_option
@click.pass_context
def check(context: click.Context, file: Path, as_json: bool) -> None:
    """Report every problem of a plan with its line; nothing runs."""
    from quarterdeck.plans.errors import InvalidPlanError

    try:
        found = _load(file)
    except InvalidPlanError as error:
        if as_json:
            fields = ("path", "line", "key", "message")
            problems = [{name: getattr(one, name) for name in fields} for one in error.problems]
            echo_json({"ok": False, "problems": problems})
        else:
            echo_lines(str(one) for one in error.problems)
            echo(f"quarterdeck: {count_noun(len(error.problems), 'problem')}", err=True)
        context.exit(INVALID)
    if as_json:
        echo_json({"ok": True, "name": found.name, "problems": []})
    else:
        echo(f"{found.name}: {count_noun(len(found.fields.tasks), 'task')}, no problems")


@plan.command()
@_file_argument
@_input_option
@click.option("--ascii", "is_ascii", is_flag=True, help="Draw with ASCII alone.")
@as_json_option
def show(file: Path, inputs: tuple[str, ...], is_ascii: bool, as_json: bool) -> None:
    """Draw the graph of a plan."""
    from quarterdeck.plans.graph import describe_graph, draw_graph, prefers_ascii
    from quarterdeck.plans.plan import expand_tasks

    found = _load(file)
    given = {name: f"<{name}>" for name, one in found.fields.inputs.items() if one.default is None}
    tasks = expand_tasks(found, {**given, **_parse_inputs(inputs)})
    if as_json:
        echo_json(describe_graph(found, tasks))
    else:
        echo_lines(draw_graph(found, tasks, ascii_only=is_ascii or prefers_ascii()))


@plan.command()
def schema() -> None:
    """Print the JSON schema of plan files, for editors."""
    from quarterdeck.plans.schema import make_plan_schema

    echo_json(make_plan_schema())


@plan.command(
    epilog="Exit codes: 0 every task succeeded, 1 the run does not go on, 5 a task failed."
)
@_file_argument
@_input_option
@click.option("-n", "--name", help="Name of the run; by default, that of the plan.")
@click.option("--detach", is_flag=True, help="Run it in the background.")
@pool_option
@as_json_option
def run(
    file: Path,
    inputs: tuple[str, ...],
    name: str | None,
    detach: bool,
    pool: str | None,
    as_json: bool,
) -> None:
    """Run a plan; it can be killed at any time and resumed.

    With --pool the workers of a pool run it, and this command only shows what happens. Needs the
    extra `pool`, and a project that is trusted.
    """
    from quarterdeck.config.places import Places
    from quarterdeck.plans.run import create_run
    from quarterdeck.plans.runner import check_trust

    places = Places.find()
    found = _load(file)
    check_trust(found.directory, places)
    _check_engine()
    if pool is not None:
        _submit(pool, found, _parse_inputs(inputs), name, detach, as_json)
        return
    made = create_run(places, found, _parse_inputs(inputs), name)
    _execute(made, detach, as_json)


@plan.command(
    epilog="Exit codes: 0 every task succeeded, 1 the run does not go on, 5 a task failed."
)
@click.argument("name", required=False)
@click.option(
    "--all", "resume_all", is_flag=True, help="Every run that ended early, in the background."
)
@click.option("--detach", is_flag=True, help="Run it in the background.")
@pool_option
@as_json_option
def resume(
    name: str | None, resume_all: bool, detach: bool, pool: str | None, as_json: bool
) -> None:
    """Continue the run NAME; no task that has ended runs again.

    With --all those whose process ended early; not those that were stopped with `plan stop`.
    """
    from quarterdeck.plans.runner import check_trust

    if (name is None) is not resume_all:
        raise click.UsageError("name a run, or give --all")
    if pool is not None:
        _set_pool_state(pool, name, "running", as_json)
        return
    if name is None:
        _resume_all(as_json)
        return
    found = _find_run(name)
    check_trust(found.load_kept_plan().directory, _places())
    _check_engine()
    _execute(found, detach, as_json)


@plan.command()
@click.argument("name", required=False)
@pool_option
@as_json_option
def status(name: str | None, pool: str | None, as_json: bool) -> None:
    """Show the runs, or the tasks of the run NAME; with --pool, those of a pool."""
    from quarterdeck.plans.run import list_runs

    if name is not None:
        _show_run(_find_run(name) if pool is None else _find_pool_run(pool, name), as_json)
        return
    runs: Sequence[PlanRun] = list_runs(_places()) if pool is None else _list_pool_runs(pool)
    if as_json:
        echo_json({"runs": [_describe_run(one) for one in runs]})
        return
    if not runs:
        echo("No plan has run yet; `quarterdeck plan run FILE` runs one.")
        return
    now = read_wall_clock()
    rows = [
        (one.info.name, *_count_states(one), format_age(one.info.created, now), one.info.plan)
        for one in runs
    ]
    echo_lines(table(("NAME", "STATE", "TASKS", "AGE", "PLAN"), rows, terminal_width()))


@plan.command()
@_name_argument
@pool_option
@as_json_option
def stop(name: str, pool: str | None, as_json: bool) -> None:
    """Stop the run NAME and interrupt its agents; it can be resumed."""
    from quarterdeck.plans.runner import stop_run

    if pool is not None:
        _set_pool_state(pool, name, "stopped", as_json)
        return
    found = _find_run(name)
    stopped = with_fleet(lambda fleet: stop_run(found, fleet))
    if as_json:
        echo_json({"name": name, "interrupted": stopped})
    else:
        echo(f"{name} is stopped; continue with `quarterdeck plan resume {name}`")


@plan.command()
@_name_argument
@_task_argument
def approve(name: str, task: str) -> None:
    """Approve the work of TASK, which waits at its gate.

    The gate is in the inbox too, as a permission request of the agent that did the work.
    """
    _answer(name, task, True, None)


@plan.command()
@_name_argument
@_task_argument
@click.option("--feedback", metavar="TEXT", help="Why; it is noted with the task.")
def reject(name: str, task: str, feedback: str | None) -> None:
    """Reject the work of TASK, which waits at its gate: the task has failed then."""
    _answer(name, task, False, feedback)


@plan.command()
@_name_argument
@click.argument("task", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(("table", "json", "markdown", "html")),
    default="table",
    show_default=True,
    help="How to write it.",
)
def report(name: str, task: str | None, form: str) -> None:
    """Compare the contenders of TASK, or of every task of the run NAME."""
    from quarterdeck.plans.race_report import (
        REPORT_HEAD,
        make_report_html,
        make_report_markdown,
        make_report_rows,
    )

    progress = _find_run(name).read_progress()
    tasks = [_find_task(progress, name, task)] if task else list(progress.tasks.values())
    reports = [one for of in tasks for one in of.reports.values()]
    winner = tasks[0].winner if len(tasks) == 1 else ""
    title = f"{name}: {task}" if task else name
    match form:
        case "json":
            echo_json(
                {
                    "name": name,
                    "tasks": {
                        one.key: {"winner": one.winner, "contenders": list(one.reports.values())}
                        for one in tasks
                    },
                }
            )
        case "markdown":
            echo(make_report_markdown(title, reports, winner), nl=False)
        case "html":
            echo(make_report_html(title, reports, winner), nl=False)
        case _:
            for one in tasks:
                rows = make_report_rows(one.reports.values(), one.winner)
                echo(f"{one.key}: {one.state}")
                echo_lines(table(REPORT_HEAD, rows, terminal_width()))


@plan.command(epilog="Exit codes: 0 landed, 6 refused, conflicts or a failed check.")
@_name_argument
@_task_argument
@click.argument("contender")
@click.option("--into", metavar="BRANCH", help="Branch; default: the one that it started from.")
@click.option(
    "--checkout",
    is_flag=True,
    help="Also update the files of the checkout that has the branch, if it is clean.",
)
@as_json_option
def pick(
    name: str, task: str, contender: str, into: str | None, checkout: bool, as_json: bool
) -> None:
    """Land the work of CONTENDER and discard that of the others.

    What is discarded can be restored: `quarterdeck worktrees restore`.
    """
    from quarterdeck.fleet.landing.api import LandingOptions
    from quarterdeck.plans.runner import pick_contender

    found = _find_run(name)
    chosen = _find_task(found.read_progress(), name, task)
    options = LandingOptions(into=into, checkout=checkout, keep_worktree=True)
    result = with_fleet(lambda fleet: pick_contender(found, fleet, chosen, contender, options))
    is_landed = result.state in ("landed", "unchanged")
    if as_json:
        echo_json(result)
    elif is_landed:
        echo(f"{contender} is landed; the others are discarded and can be restored")
    else:
        echo(f"quarterdeck: {contender} is not landed: {result.reason or result.state}", err=True)
    raise SystemExit(0 if is_landed else NOT_LANDED)


def _submit(
    pool: str,
    found: "CheckedPlan",
    inputs: dict[str, str],
    name: str | None,
    detach: bool,
    as_json: bool,
) -> None:
    """Give a plan to a pool, and show what happens unless it is detached."""
    from quarterdeck.plans.pool.submission import PoolRuns

    def show(entry: "ProgressEntry") -> None:
        if not as_json and (line := _describe_entry(made_name[0], entry)):
            echo(line)

    made_name = [name or found.name]

    async def work(database: "PoolDatabase") -> "PoolRun":
        runs = PoolRuns(database)
        made = await runs.submit(found, inputs, name)
        made_name[0] = made.info.name
        if detach:
            return made
        if not as_json:
            write_notice(f"quarterdeck: run {made.info.name}")
        return await runs.follow(made, show)

    made = with_pool(pool, work)
    if as_json:
        echo_json(_describe_run(made))
    elif detach:
        echo(made.info.name)
    if not detach and made.state != "done":
        raise SystemExit(ENDED_BADLY)


def _find_pool_run(pool: str, name: str) -> "PoolRun":
    from quarterdeck.plans.pool.submission import PoolRuns

    return with_pool(pool, lambda database: PoolRuns(database).find(name))


def _list_pool_runs(pool: str) -> "list[PoolRun]":
    from quarterdeck.plans.pool.submission import PoolRuns

    return with_pool(pool, lambda database: PoolRuns(database).list_all())


def _set_pool_state(pool: str, name: str | None, state: str, as_json: bool) -> None:
    from quarterdeck.plans.pool.submission import PoolRuns

    if name is None:
        raise click.UsageError("name a run; the runs of a pool need no --all")
    is_changed = with_pool(pool, lambda database: PoolRuns(database).set_state(name, state))
    if not is_changed:
        raise click.ClickException(f"{name} has ended")
    if as_json:
        echo_json({"name": name, "state": state})
    else:
        echo(f"{name} is {state}")


def _resume_all(as_json: bool) -> None:
    from quarterdeck.plans.runner import resume_runs

    _check_engine()
    started, skipped = resume_runs(_places(), os.environ)
    if as_json:
        echo_json({"resumed": started, "skipped": skipped})
        return
    echo_lines(started)
    for name, reason in skipped.items():
        write_notice(f"quarterdeck: {name} is not resumed: {reason}")


def _execute(made: "PlanRun", detach: bool, as_json: bool) -> None:
    """Run in a process of its own, or in this one, which then ends here."""
    from quarterdeck.plans.runner import launch_runner

    if detach:
        pid = launch_runner(made, os.environ)
        if as_json:
            echo_json({"name": made.info.name, "pid": pid})
        else:
            echo(made.info.name)
        return
    if not as_json:
        write_notice(f"quarterdeck: run {made.info.name}")
    try:
        code = asyncio.run(_run_in_front(made, as_json))
        if as_json:
            echo_json(_describe_run(made))
    finally:
        sys.stdout.flush()
    # Threads of the engine would keep the process, and nothing that is needed is in it.
    os._exit(code)


async def _run_in_front(made: "PlanRun", as_json: bool) -> int:
    from quarterdeck.plans.runner import run_plan

    def show(entry: "ProgressEntry") -> None:
        if not as_json and (line := _describe_entry(made.info.name, entry)):
            echo(line)

    def end(error: Exception) -> "NoReturn":
        write_notice(f"quarterdeck: {error}")
        sys.stdout.flush()
        os._exit(1)

    await run_plan(made, _places(), show, end)
    progress = await asyncio.to_thread(made.read_progress)
    return ENDED_BADLY if progress.has_failed else 0


def _describe_entry(name: str, entry: "ProgressEntry") -> str:
    who = f"{entry.task} {entry.contender}"
    match entry.kind:
        case "task_ended":
            more = f": {entry.text}" if entry.text else ""
            return f"{entry.task} {entry.state}{more}"
        case "turn_sent":
            return f"{who} attempt {entry.attempt}"
        case "turn_repeated":
            return f"{who} turn repeated: {entry.text}"
        case "check_ended" if entry.check is not None:
            result = "passed" if entry.check.passed else f"failed: {entry.check.reason}"
            return f"{who} check {entry.check.name} {result}"
        case "gate_opened":
            return f"{entry.task} waits for you: quarterdeck plan approve {name} {entry.task}"
        case "landed":
            return f"{who} landed"
        case "pull_request":
            return f"{who} pull request: {entry.text}"
        case "plan_changed":
            return entry.text
        case _:
            return ""


def _show_run(found: "PlanRun", as_json: bool) -> None:
    if as_json:
        echo_json(_describe_run(found))
        return
    progress = found.read_progress()
    state, done = _count_states(found)
    echo(f"{found.info.name}: {state}, {done} tasks")
    rows = [_make_task_row(one) for one in progress.tasks.values()]
    head = ("TASK", "STATE", "WINNER", "ATTEMPTS", "TIME", "TOKENS", "COST", "NOTE")
    echo_lines(table(head, rows, terminal_width()))
    for note in progress.notes:
        echo(f"note: {note}")
    for one in progress.tasks.values():
        if one.state == "gate":
            echo(f"{one.key} waits for you: quarterdeck plan approve {found.info.name} {one.key}")


def _make_task_row(one: "TaskProgress") -> tuple[str, ...]:
    from quarterdeck.plans.race_report import describe_costs
    from quarterdeck.wire.terminal_text import count

    costs: dict[str, float] = {}
    for report in one.reports.values():
        for currency, amount in report.costs.items():
            costs[currency] = costs.get(currency, 0.0) + amount
    until = one.ended or read_wall_clock()
    took = f"{(until - one.begun) / 1e6:.0f}s" if one.begun else ""
    marks = [text for text in (one.text, one.pull_request) if text]
    if one.repeated:
        marks.append(f"{count_noun(one.repeated, 'turn')} repeated")
    tokens = count(sum(report.tokens for report in one.reports.values())) if one.reports else ""
    return (
        *(one.key, one.state, one.winner, str(one.attempts or ""), took, tokens),
        *(describe_costs(costs) if one.reports else "", "; ".join(marks)),
    )


def _count_states(found: "PlanRun") -> tuple[str, str]:
    """The state of a run in a word, and how many of its tasks are done."""
    progress = found.read_progress()
    done = sum(one.state == "done" for one in progress.tasks.values())
    return found.find_state(progress), f"{done}/{len(progress.tasks)}"


def _describe_run(found: "PlanRun") -> dict[str, Any]:
    progress = found.read_progress()
    return {
        "name": found.info.name,
        "id": found.info.id,
        "plan": found.info.plan,
        "inputs": found.info.inputs,
        "created": found.info.created,
        "state": _count_states(found)[0],
        "runner": found.find_runner(),
        "notes": progress.notes,
        "tasks": [
            {
                "key": one.key,
                "state": one.state,
                "text": one.text,
                "winner": one.winner,
                "attempts": one.attempts,
                "repeated": one.repeated,
                "pull_request": one.pull_request,
                "begun": one.begun,
                "ended": one.ended,
                "sessions": one.sessions,
                "contenders": list(one.reports.values()),
            }
            for one in progress.tasks.values()
        ],
    }


def _answer(name: str, task: str, approve: bool, feedback: str | None) -> None:
    from quarterdeck.plans.gate import answer_gate
    from quarterdeck.wire.ids import RequestId

    found = _find_task(_find_run(name).read_progress(), name, task)
    if found.state != "gate":
        raise click.ClickException(f"{task} does not wait at a gate: it is {found.state}")
    request, by = RequestId(found.request), getpass.getuser()
    with_fleet(lambda fleet: answer_gate(fleet, request, approve=approve, by=by, feedback=feedback))


def _find_task(progress: "RunProgress", name: str, task: str) -> "TaskProgress":
    if task not in progress.tasks:
        known = ", ".join(progress.tasks)
        raise click.ClickException(f"{name} has no task {task!r}; it has: {known}")
    return progress.tasks[task]


def _find_run(name: str) -> "PlanRun":
    from quarterdeck.plans.run import find_run

    return find_run(_places(), name)


def _places() -> "Places":
    from quarterdeck.config.places import Places

    return Places.find()


def _check_engine() -> None:
    from quarterdeck.plans.engine import check_engine

    check_engine()


def _load(file: Path) -> "CheckedPlan":
    from quarterdeck.plans.proposal import load_runnable_plan

    return load_runnable_plan(file, _places())


def _parse_inputs(inputs: tuple[str, ...]) -> dict[str, str]:
    given: dict[str, str] = {}
    for one in inputs:
        name, sign, value = one.partition("=")
        if not sign:
            raise click.UsageError(f"--input {one!r}: write it as NAME=VALUE")
        given[name] = value
    return given
