"""The command line of ``quarterdeck run``."""

import sys
from pathlib import Path
from typing import Any

import click

from quarterdeck.policy.modes import MODES

__all__ = ["run"]

_LATEST = ""


@click.command(
    epilog="Exit codes: 0 done, 1 error, 2 token limit, 3 refusal, 4 a call was refused because "
    "nobody was there to ask, 5 cancelled, 7 request or budget limit."
)
@click.argument("prompt", required=False)
@click.option("-a", "--agent", metavar="NAME", help="Another agent; see `quarterdeck agents`.")
@click.option("--transport", metavar="WAY", help="With -a: how to reach it, e.g. acp or pipe.")
@click.option("--agent-mode", metavar="MODE", help="With -a: a mode of the agent's own.")
@click.option("-m", "--model", metavar="VENDOR/MODEL", help="The model to ask.")
@click.option("--mode", type=click.Choice(MODES), help="What may be done without asking.")
@click.option("--effort", type=click.Choice(["off", "low", "medium", "high"]), help="Thinking.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    show_default=True,
    help="Text: the answer. Json: one object. Stream-json: one event a line.",
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
    help="Go on with a session; without an ID with the latest of this directory.",
)
@click.option("-c", "--continue", "continue_", is_flag=True, help="Like --resume without an ID.")
@click.option("--fork", is_flag=True, help="With --resume: leave the session as it is.")
@click.option("--max-cost", type=float, metavar="USD", help="End the turn at this cost.")
@click.option("--max-calls", type=click.IntRange(1), metavar="N", help="Model calls at the most.")
@click.option("--max-seconds", type=float, metavar="S", help="End the turn after this time.")
@click.option(
    "--output-schema",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="The answer must fit this JSON schema.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def run(prompt: str | None, format_: Any, quiet: bool, **options: Any) -> None:
    """Run our own agent, or another, on PROMPT.

    No screen is needed; the answer is printed.

    PROMPT may also come from standard input; with both, what is piped in follows PROMPT.
    """
    import asyncio  # late, so that --help does not wait for it

    from .outputs import make_output
    from .running import run_job

    code = asyncio.run(run_job(_job(_prompt(prompt), options), make_output(format_, quiet=quiet)))
    raise SystemExit(code)


def _prompt(given: str | None) -> str:
    piped = ""
    if given in (None, "-") or not sys.stdin.isatty():
        piped = _piped(must=given in (None, "-"))
    parts = [part for part in (None if given == "-" else given, piped) if part and part.strip()]
    if not parts:
        raise click.UsageError("no prompt: give it as an argument or on standard input")
    return "\n\n".join(parts)


def _piped(*, must: bool) -> str:
    if sys.stdin.isatty() and must:
        raise click.UsageError("no prompt: give it as an argument or on standard input")
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _job(prompt: str, options: dict[str, Any]) -> Any:
    from quarterdeck.agent.native import Wishes

    from .answers import AnswerSchema
    from .running import Job

    resume = _LATEST if options["continue_"] else options["resume"]
    if options["fork"] and resume is None:
        raise click.UsageError("--fork needs --resume or --continue")
    schema = options["output_schema"]
    foreign = _foreign(options, resume)
    return Job(
        prompt=prompt,
        cwd=str(Path(options["cwd"] or ".").resolve()),
        resume=resume,
        fork=options["fork"],
        schema=AnswerSchema(schema) if schema else None,
        foreign=foreign,
        wishes=Wishes(
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
    for name in ("effort", "tools", "max_cost", "max_calls"):
        if options[name]:
            flag = "--tool" if name == "tools" else f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{flag} holds for our own agent only; leave it out with -a")
    from .foreign import Foreign

    return Foreign(
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
    from quarterdeck.policy.rules import Source

    return tuple(
        parse_rule(
            f"{effect} {text}", scope="session", source=Source(origin="flag", where=f"--{effect}")
        )
        for effect in ("allow", "deny")
        for text in options[effect]
    )


def _flags(options: dict[str, Any]) -> dict[str, Any]:
    limits = {
        "cost": options["max_cost"],
        "model_calls": options["max_calls"],
        "seconds": options["max_seconds"],
    }
    given = {name: value for name, value in limits.items() if value is not None}
    return {"limits": given} if given else {}
