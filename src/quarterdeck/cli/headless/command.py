"""The command line of ``quarterdeck run``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from ..output import escape_to_line, write_notice
from ..session_flags import make_session_options, session_flags
from .answer_schema import AnswerSchema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quarterdeck.wire.budgets import BudgetLimit

__all__ = ["run"]

_LATEST = ""


@click.command(
    epilog=(
        "Exit codes: 0 done, 1 error, 2 token limit, 3 refusal, 4 a call was denied because no "
        "person could be asked, 5 interrupted, 6 goal not reached, 7 request or budget limit, "
        "8 a call was made without permission, 9 a replay differs from its cassette, 141 the "
        "reader of the output has gone."
    )
)
@click.argument("prompt", required=False)
@click.option("-a", "--agent", metavar="NAME", help="Another agent; see `quarterdeck agents`.")
@session_flags
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    show_default=True,
    help="Text: the answer. Json: one object. Stream-json: one event per line.",
)
@click.option(
    "--resume",
    metavar="[ID]",
    is_flag=False,
    flag_value=_LATEST,
    help=(
        "Resume a session, by our id or the agent's own; without an ID, the agent's latest of this "
        "directory, whichever program recorded it."
    ),
)
@click.option("-c", "--continue", "continue_", is_flag=True, help="Like --resume without an ID.")
@click.option(
    "--goal",
    metavar="[TEXT]",
    is_flag=False,
    flag_value=_LATEST,
    help=(
        "Work turn after turn until this is reached; with --resume and no TEXT, the previous goal."
    ),
)
@click.option(
    "--max-minutes", type=float, metavar="M", help=("With --goal: time limit for all turns.")
)
@click.option(
    "--max-turns",
    type=click.IntRange(1),
    metavar="N",
    help=("With --goal: maximum number of turns."),
)
@click.option(
    "--output-schema",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="The answer must match this JSON schema.",
)
@click.option(
    "--record",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With -a: record the model calls on a cassette, for `quarterdeck replay FILE`.",
)
@click.option(
    "--replay",
    "cassette",
    metavar="FILE",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="With -a: answer the model calls from a cassette, and report what differs.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def run(prompt: str | None, format_: Any, quiet: bool, **options: Any) -> None:
    """Run our own agent, or another, on PROMPT.

    The answer is printed; no terminal is needed. PROMPT can also come from standard input; with
    both, the piped text follows PROMPT.
    """
    from quarterdeck.system.late_module import delay_tls

    delay_tls()
    import asyncio  # late, so that --help does not wait for it

    from .exit_codes import CANCELLED, LIMIT
    from .job import run_job
    from .outputs import make_output
    from .run_budgets import BudgetUsedUpError

    request = _prompt(prompt) if options["goal"] is None else _goal_text(prompt, options)
    try:
        job = _job(request, options, quiet=quiet)
        code = asyncio.run(run_job(job, make_output(format_, quiet=quiet)))
    except BudgetUsedUpError as error:
        write_notice(f"· {escape_to_line(str(error))}")
        code = LIMIT
    except KeyboardInterrupt:  # before or after ``run_job`` listens for it
        code = CANCELLED
    raise SystemExit(code)


def _prompt(given: str | None) -> str:
    piped = ""
    if given in (None, "-") or not sys.stdin.isatty():
        piped = _piped(must=given in (None, "-"))
    parts = [part for part in (None if given == "-" else given, piped) if part and part.strip()]
    if not parts:
        raise click.UsageError("no prompt: give it as an argument or on standard input")
    return "\n\n".join(parts)


def _goal_text(prompt: str | None, options: dict[str, Any]) -> str:
    """The goal; empty: the one that the session has."""
    goal = options["goal"].strip()
    if prompt is not None:
        raise click.UsageError("--goal replaces the prompt; omit one of them")
    if not goal and options["resume"] is None and not options["continue_"]:
        raise click.UsageError("--goal needs a text, or --resume to continue an earlier goal")
    return goal


def _goal(text: str, options: dict[str, Any]) -> Any:
    if options["goal"] is None:
        for name in ("max_minutes", "max_turns"):
            if options[name] is not None:
                raise click.UsageError(f"--{name.replace('_', '-')} needs --goal")
        return None
    if options["output_schema"]:
        raise click.UsageError("--output-schema cannot be used with --goal")
    from quarterdeck.agent.goals.state import GoalBudget

    from .job import HeadlessGoal

    minutes = options["max_minutes"]
    budget = GoalBudget(
        tokens=options["max_tokens"],
        cost=options["max_cost"],
        seconds=None if minutes is None else minutes * 60,
        turns=options["max_turns"],
    )
    return HeadlessGoal(text=text or None, budget=budget)


def _piped(*, must: bool) -> str:
    if sys.stdin.isatty() and must:
        raise click.UsageError("no prompt: give it as an argument or on standard input")
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _job(prompt: str, options: dict[str, Any], *, quiet: bool = True) -> Any:
    from .job import HeadlessJob

    resume = _LATEST if options["continue_"] else options["resume"]
    if options["fork"] and resume is None:
        raise click.UsageError("--fork needs --resume or --continue")
    _check_agent(options)
    options = _with_settings(_with_budget(options, options["budget"]), resume, quiet)
    schema, goal = options["output_schema"], _goal(prompt, options)
    if goal is not None:  # then these are for all turns together
        options = {**options, "max_cost": None, "max_tokens": None}
    return HeadlessJob(
        prompt=prompt,
        options=make_session_options(options, resume=resume),
        schema=AnswerSchema(schema) if schema else None,
        goal=goal,
        record=options["record"],
        cassette=options["cassette"],
    )


_LIMITS = {
    "usd": "max_cost",
    "tokens": "max_tokens",
    "calls": "max_calls",
    "seconds": "max_seconds",
}


def _with_settings(options: dict[str, Any], resume: str | None, quiet: bool) -> dict[str, Any]:
    """The options with what is left of the budgets of the settings, where that is tighter.

    Other agents are held to time alone: of the rest there only has to be something left.

    Raises:
        BudgetUsedUpError: nothing is left.
    """
    from .run_budgets import find_run_limits

    is_own = options["agent"] in (None, "native")
    cwd = str(Path(options["cwd"] or ".").resolve())
    for found in find_run_limits(cwd, resume or None):
        held = options
        words = f"{found.words}; it is not stopped at it"
        if is_own or found.limit.unit == "seconds":
            held = _with_budget(options, (found.limit,))
            words = f"at most {found.words}" if held != options else ""
        if words and not quiet:
            write_notice(f"· {escape_to_line(words)}")
        options = held
    return options


def _with_budget(options: dict[str, Any], limits: "Iterable[BudgetLimit]") -> dict[str, Any]:
    """The options with budgets as limits: a run is all that they are for. The tighter wins."""
    options = dict(options)
    for limit in limits:
        name = _LIMITS.get(limit.unit)
        if name is None:
            raise click.UsageError("--budget: a run is one agent; give it no number of agents")
        if limit.unit == "seconds" and options["goal"] is not None:
            name, limit = "max_minutes", replace(limit, amount=limit.amount / 60)
        amount = int(limit.amount) if name in ("max_tokens", "max_calls") else limit.amount
        known = options[name]
        options[name] = amount if known is None else min(known, amount)
    return options


def _check_agent(options: dict[str, Any]) -> None:
    """Check what a driver cannot refuse, because it never gets it. Raises click.UsageError."""
    if options["agent"] in (None, "native"):
        for name in ("transport", "agent_mode", "record", "cassette"):
            if options[name] is not None:
                flag = "replay" if name == "cassette" else name.replace("_", "-")
                raise click.UsageError(f"--{flag} needs another agent: -a NAME")
    elif options["goal"] is not None:
        raise click.UsageError("--goal applies to our own agent only; omit it with -a")
    if options["record"] is not None and options["cassette"] is not None:
        raise click.UsageError("--record and --replay exclude each other")
    if options["record"] is None and options["cassette"] is None:
        return
    if options["continue_"] or options["resume"] is not None:
        raise click.UsageError("a cassette begins with a new session; omit --resume")
