"""The command line of ``quarterdeck run``."""

import sys
from pathlib import Path
from typing import Any

import click

from quarterdeck.policy.modes import MODES

__all__ = ["run"]

_LATEST = ""


@click.command(
    epilog=(
        "Exit codes: 0 done, 1 error, 2 token limit, 3 refusal, 4 a call was denied because no "
        "person could be asked, 5 cancelled, 6 goal not reached, 7 request or budget limit."
    )
)
@click.argument("prompt", required=False)
@click.option("-a", "--agent", metavar="NAME", help="Another agent; see `quarterdeck agents`.")
@click.option("--transport", metavar="WAY", help="With -a: the transport, e.g. acp or pipe.")
@click.option("--agent-mode", metavar="MODE", help="With -a: a mode of the agent's own.")
@click.option("-m", "--model", metavar="VENDOR/MODEL", help="The model to use.")
@click.option("--mode", type=click.Choice(MODES), help="What may be done without asking.")
@click.option("--effort", type=click.Choice(["off", "low", "medium", "high"]), help="Thinking.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    show_default=True,
    help="Text: the answer. Json: one object. Stream-json: one event per line.",
)
@click.option("--allow", metavar="RULE", multiple=True, help="Allow calls, e.g. 'bash(git log:*)'.")
@click.option("--deny", metavar="RULE", multiple=True, help="Deny calls; wins over every allow.")
@click.option("--tool", "tools", metavar="NAME", multiple=True, help="Offer only these tools.")
@click.option("-C", "--cwd", type=click.Path(file_okay=False, exists=True), help="Work there.")
@click.option(
    "--resume",
    metavar="[ID]",
    is_flag=False,
    flag_value=_LATEST,
    help="Resume a session; without an ID, the latest of this directory.",
)
@click.option("-c", "--continue", "continue_", is_flag=True, help="Like --resume without an ID.")
@click.option("--fork", is_flag=True, help="With --resume: continue in a copy of the session.")
@click.option(
    "--goal",
    metavar="[TEXT]",
    is_flag=False,
    flag_value=_LATEST,
    help=(
        "Work turn after turn until this is reached; with --resume and no TEXT, the previous goal."
    ),
)
@click.option("--max-cost", type=float, metavar="USD", help="Stop at this cost.")
@click.option("--max-tokens", type=click.IntRange(1), metavar="N", help="Stop at this many tokens.")
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
    "--max-calls", type=click.IntRange(1), metavar="N", help=("Maximum number of model calls.")
)
@click.option("--max-seconds", type=float, metavar="S", help="Stop the turn after this time.")
@click.option(
    "--output-schema",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="The answer must match this JSON schema.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def run(prompt: str | None, format_: Any, quiet: bool, **options: Any) -> None:
    """Run our own agent, or another, on PROMPT.

    The answer is printed; no terminal is needed. PROMPT can also come from standard input; with
    both, the piped text follows PROMPT.
    """
    import asyncio  # late, so that --help does not wait for it

    from .exit_codes import CANCELLED
    from .job import run_job
    from .outputs import make_output

    said = _prompt(prompt) if options["goal"] is None else _goal_text(prompt, options)
    try:
        code = asyncio.run(run_job(_job(said, options), make_output(format_, quiet=quiet)))
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


def _job(prompt: str, options: dict[str, Any]) -> Any:
    from quarterdeck.agent.native import SessionOptions

    from .answer_schema import AnswerSchema
    from .job import HeadlessJob

    resume = _LATEST if options["continue_"] else options["resume"]
    if options["fork"] and resume is None:
        raise click.UsageError("--fork needs --resume or --continue")
    schema = options["output_schema"]
    foreign = _foreign(options, resume)
    return HeadlessJob(
        prompt=prompt,
        cwd=str(Path(options["cwd"] or ".").resolve()),
        resume=resume,
        fork=options["fork"],
        schema=AnswerSchema(schema) if schema else None,
        foreign=foreign,
        goal=_goal(prompt, options),
        options=SessionOptions(
            model=options["model"],
            mode=options["mode"],
            effort=options["effort"],
            rules=_rules(options),
            tools=options["tools"] or None,
            flags=_flags(options),
            attended=False,
        ),
    )


def _foreign(options: dict[str, Any], resume: str | None) -> Any:
    """The wish for another agent than our own; None where our own is meant."""
    if options["agent"] in (None, "native"):
        for name in ("transport", "agent_mode"):
            if options[name] is not None:
                raise click.UsageError(f"--{name.replace('_', '-')} needs another agent: -a NAME")
        return None
    for name in ("effort", "tools", "goal", "max_cost", "max_tokens", "max_calls"):
        if options[name] not in (None, ()):
            flag = "--tool" if name == "tools" else f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{flag} applies to our own agent only; omit it with -a")
    from .foreign_session import ForeignAgentOptions

    return ForeignAgentOptions(
        agent=options["agent"],
        cwd=str(Path(options["cwd"] or ".").resolve()),
        transport=options["transport"],
        model=options["model"],
        mode=options["mode"],
        agent_mode=options["agent_mode"],
        rules=_rules(options),
        resume=resume,
        fork=options["fork"],
        max_seconds=options["max_seconds"],
    )


def _rules(options: dict[str, Any]) -> tuple[Any, ...]:
    if not options["allow"] and not options["deny"]:
        return ()
    from quarterdeck.policy.grammar import parse_rule
    from quarterdeck.policy.rules import RuleSource

    return tuple(
        parse_rule(
            f"{effect} {text}",
            scope="session",
            source=RuleSource(origin="flag", where=f"--{effect}"),
        )
        for effect in ("allow", "deny")
        for text in options[effect]
    )


def _flags(options: dict[str, Any]) -> dict[str, Any]:
    whole = options["goal"] is not None  # then these are for all turns together
    limits = {
        "cost": None if whole else options["max_cost"],
        "tokens": None if whole else options["max_tokens"],
        "model_calls": options["max_calls"],
        "seconds": options["max_seconds"],
    }
    given = {name: value for name, value in limits.items() if value is not None}
    return {"limits": given} if given else {}
