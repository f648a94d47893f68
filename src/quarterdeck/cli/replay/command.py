"""``quarterdeck replay``: a recorded session again: as a film, as a test, or under other rules."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from quarterdeck.config.places import Places
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.private_files import open_private

from ..command_io import as_json_option, echo_json
from ..output import echo, write_output
from .cassette import is_cassette, rerun_cassette
from .report import format_report

if TYPE_CHECKING:
    from quarterdeck.agent.replay.check import ReplayChanges, ReplayReport
    from quarterdeck.wire.record import Record

__all__ = ["DIVERGED", "read_recording", "replay"]

DIVERGED = 3
"""The exit code of a check that found a difference."""
_EFFECTS = ("allow", "ask", "deny")


@click.command()
@click.argument("session", metavar="SESSION")
@click.option(
    "-C",
    "--cwd",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Of a cassette: where the agent works; default: here.",
)
@click.option(
    "-e",
    "--env",
    "variables",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="Of a cassette: set a variable for the agent, or pass yours.",
)
@click.option("--check", is_flag=True, help="Run our own agent on the recording; report changes.")
@click.option(
    "--rules",
    multiple=True,
    metavar="FILE|RULE",
    help="Decide with these rules besides: a settings file, or a rule: 'deny bash(rm:*)'.",
)
@click.option("--mode", metavar="MODE", help="Decide in this permission mode.")
@click.option("--model", metavar="NAME", help="Use the window and limits of this model.")
@click.option(
    "--system-prompt",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Add this text to the system prompt.",
)
@click.option(
    "--log",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Another log than those of this machine.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0.01, 1000),
    default=1.0,
    show_default=True,
    help="Play the film so many times as fast.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("terminal", "asciicast", "html")),
    default="terminal",
    show_default=True,
    help="Play the film here, or write it as a file. Secrets are masked.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file, readable only by you; default: standard output.",
)
@as_json_option
@click.pass_context
def replay(
    context: click.Context,
    session: str,
    cwd: Path | None,
    variables: tuple[str, ...],
    check: bool,
    rules: tuple[str, ...],
    mode: str | None,
    model: str | None,
    system_prompt: Path | None,
    log: Path | None,
    speed: float,
    form: str,
    output: Path | None,
    as_json: bool,
) -> None:
    """Play a recorded SESSION, or run it again without a model and compare.

    SESSION is an id, the name of an agent of the fleet, a file that `quarterdeck journal
    export` wrote, or a cassette of `quarterdeck run -a AGENT --record`. In the film, space pauses,
    the arrow keys seek and change the speed, and q quits.

    With --check our own agent runs on the recording: model answers, tool results and answers of
    people come from it, nothing is changed on disk and no connection is made. The exit code is 3 if
    anything differs. With --rules, --mode, --model or --system-prompt alone, what would have been
    different is listed, and the exit code is 0.

    A cassette runs its agent again, in this directory and with tools that really act; only the
    model is replaced. Its requests and its transcript are compared; the exit code is 3 if they
    differ. --mode and --model apply to the agent.
    """
    if log is None and is_cassette(Path(session)):
        unfit = {"--rules": rules, "--system-prompt": system_prompt, "--output": output}
        if found := next((name for name, value in unfit.items() if value), None):
            raise click.UsageError(f"{found} does not apply to a cassette")
        report = rerun_cassette(Path(session), cwd=cwd, variables=variables, mode=mode, model=model)
        _end(context, report, as_json)
        return
    if cwd is not None or variables:
        raise click.UsageError("--cwd and --env apply to a cassette, and not to a session")
    changes = _read_changes(rules, mode, model, system_prompt)
    if not check and changes is None:
        _show_film(session, log, form, speed, output)
        return
    _end(context, asyncio.run(_check(session, log, changes)), as_json, is_question=not check)


def _end(
    context: click.Context, report: "ReplayReport", as_json: bool, *, is_question: bool = False
) -> None:
    if as_json:
        echo_json(_as_json(report))
    else:
        for line in format_report(report, is_question=is_question):
            echo(line)
    context.exit(DIVERGED if not is_question and not report.is_same else 0)


def _show_film(
    session: str, log: Path | None, form: str, speed: float, output: Path | None
) -> None:
    from .film import make_frames, play_film, write_asciicast, write_html

    id_, records = asyncio.run(_read_film(session, log))
    if output is not None and form == "terminal":
        raise click.UsageError("choose what to write: --format asciicast, or --format html")
    frames, began = make_frames(records), records[0].time if records else 0
    title = f"Session {id_}"
    if form == "terminal":
        play_film(frames, speed, write_output)
        return
    lines = [write_html(frames, title=title)]
    if form == "asciicast":
        lines = list(write_asciicast(frames, title=title, began=began))
    if output is None:
        write_output("".join(lines))
        return
    try:
        descriptor = open_private(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    except OSError as error:
        raise click.UsageError(f"cannot write {str(output)!r}: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write("".join(lines).encode("utf-8", "backslashreplace"))


async def _read_film(session: str, log: Path | None) -> "tuple[SessionId, list[Record]]":
    """The records of the session itself, with secrets masked."""
    from quarterdeck.journal.export.formats import masked_lines
    from quarterdeck.wire.record import decode_record
    from quarterdeck.wire.redaction import find_secret_variables

    id_, found = await read_recording(Places.find(), session, log)

    async def own() -> "AsyncIterator[Record]":
        for record in found:
            if record.session == id_:
                yield record

    secrets = find_secret_variables(os.environ)
    return id_, [decode_record(line) async for line in masked_lines(own(), secrets)]


def _read_changes(
    rules: Iterable[str], mode: str | None, model: str | None, system_prompt: Path | None
) -> "ReplayChanges | None":
    given: dict[str, Any] = {"mode": mode, "model": model}
    if system_prompt is not None:
        given["system_prompt"] = _read_text(system_prompt)
    for text in rules:
        for effect, pattern in _read_rules(text):
            given[effect] = (*given.get(effect, ()), pattern)
    if not any(given.values()):
        return None
    from quarterdeck.agent.replay.check import ReplayChanges
    from quarterdeck.policy.modes import parse_mode

    if mode is not None:
        parse_mode(mode)
    return ReplayChanges(**given)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{str(path)!r} cannot be read as text: {error}") from error


def _read_rules(text: str) -> Iterator[tuple[str, str]]:
    """The effects and patterns of a rule, or of the rules in a settings file."""
    effect, _, pattern = text.partition(" ")
    if effect in _EFFECTS and pattern.strip():
        from quarterdeck.policy.grammar import parse_pattern

        parse_pattern(pattern.strip())
        yield effect, pattern.strip()
        return
    path = Path(text)
    if not path.is_file():
        raise click.UsageError(
            f"{text!r} is neither a file nor a rule; write a rule as 'deny bash(rm:*)'"
        )
    yield from _read_rules_file(path)


def _read_rules_file(path: Path) -> Iterator[tuple[str, str]]:
    import tomllib

    from quarterdeck.policy.grammar import parse_pattern

    try:
        table: Any = tomllib.loads(_read_text(path)).get("permissions", {})
    except tomllib.TOMLDecodeError as error:
        raise click.UsageError(f"{str(path)!r} is not TOML: {error}") from error
    lists: list[tuple[str, Any]] = []
    if isinstance(table, dict):
        lists = [(one, cast("dict[str, Any]", table).get(one, [])) for one in _EFFECTS]
    if not all(isinstance(patterns, list) for _, patterns in lists):
        raise click.UsageError(f"{str(path)!r}: allow, ask and deny have to be lists of rules")
    found = [(effect, str(pattern)) for effect, patterns in lists for pattern in patterns]
    if not found:
        raise click.UsageError(f"{str(path)!r} has no rules: allow, ask or deny in [permissions]")
    for effect, pattern in found:
        parse_pattern(pattern)
        yield effect, pattern


async def _check(session: str, log: Path | None, changes: "ReplayChanges | None") -> "ReplayReport":
    from quarterdeck.agent.replay.check import check_session

    places = Places.find()
    id_, records = await read_recording(places, session, log)
    return await check_session(
        id_, records, places=places, environment=dict(os.environ), changes=changes
    )


async def read_recording(
    places: Places, session: str, log: Path | None = None
) -> "tuple[SessionId, list[Record]]":
    """The records of a session, with its sub-agents, from a log or from an exported file.

    Raises:
        NoSuchSessionError: no log has it.
        QuarterdeckError: the file holds no session.
    """
    from quarterdeck.agent.replay.check import read_family
    from quarterdeck.journal import Journal

    if log is None and session.endswith(".jsonl"):
        return await asyncio.to_thread(_read_export, Path(session))
    if log is None:
        from quarterdeck.fleet.sessions.retention import find_session_log

        path, id_ = await find_session_log(places, session)
    else:
        path, id_ = log, SessionId(session)
    async with Journal.open(path, write=False) as journal:
        return id_, await read_family(journal, id_)


def _read_export(path: Path) -> "tuple[SessionId, list[Record]]":
    from quarterdeck.wire.events import SessionOpened
    from quarterdeck.wire.record import decode_record

    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise QuarterdeckError(f"cannot read {str(path)!r}: {error.strerror}") from error
    records = [decode_record(line) for line in lines if line.strip()]
    opened = (
        record.session
        for record in records
        if isinstance(record.event, SessionOpened) and record.event.parent_session is None
    )
    id_ = next(opened, None)
    if id_ is None:
        raise QuarterdeckError(
            f"{str(path)!r} has no beginning of a session; export one with "
            "`quarterdeck journal export --session ID`"
        )
    return id_, records


def _as_json(report: "ReplayReport") -> dict[str, Any]:
    return {
        "session": report.session,
        "same": report.is_same,
        "runs": report.runs,
        "steps": report.steps,
        "compared": report.compared,
        "divergences": [
            {
                "kind": found.kind,
                "turn": found.place.turn,
                "step": found.place.step,
                "child": found.place.child,
                "what": found.what,
                "diff": found.diff,
            }
            for found in report.divergences
        ],
        "notes": list(report.notes),
    }
