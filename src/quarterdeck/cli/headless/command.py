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
    """Run our own agent on PROMPT, without a screen, and print its answer.

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
    return Job(
        prompt=prompt,
        cwd=str(Path(options["cwd"] or ".").resolve()),
        resume=resume,
        fork=options["fork"],
        schema=AnswerSchema(schema) if schema else None,
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
