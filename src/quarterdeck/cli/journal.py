"""``quarterdeck journal``: look after the log of every session."""

import asyncio
from collections.abc import Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quarterdeck.config.places import Places
from quarterdeck.wire.ids import SessionId

from .fleet.text import one_line
from .journal_export import export
from .journal_prune import prune
from .output import echo

if TYPE_CHECKING:
    from quarterdeck.journal import Hit, Report, Salvaged

__all__ = ["journal"]

T = TypeVar("T")

as_json_option = click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
session_option = click.option("--session", metavar="ID", help="Only this session.")


@click.group()
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The log; your own unless this says otherwise.",
)
@click.pass_context
def journal(context: click.Context, path: Path | None) -> None:
    """Look after the log of every session. A log that is in use can be read all the same."""
    context.obj = path


journal.add_command(export)
journal.add_command(prune)


@journal.command()
@as_json_option
@click.pass_context
def check(context: click.Context, as_json: bool) -> None:
    """Examine the whole log; ends with 1 if something is wrong."""
    report = _run(_check(_log(context)))
    if as_json:
        _echo_json({"healthy": report.healthy, **asdict(report)})
    else:
        echo(f"{report.events} events in {_log(context)}")
        for line in _told(report):
            echo(one_line(line))
        advice = "Copy what is whole to a new log: quarterdeck journal salvage TARGET"
        echo("All is well." if report.healthy else advice)
    if not report.healthy:
        context.exit(1)


@journal.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.pass_context
def salvage(context: click.Context, target: Path) -> None:
    """Copy what can be read of a damaged log to a new one at TARGET; changes nothing else."""
    saved = _run(_salvage(_log(context), target))
    echo(f"{saved.events} events of {saved.sessions} sessions are in {target}")
    if saved.lost_rows or saved.unreadable:
        echo(f"lost: {saved.lost_rows}; kept but not understood: {saved.unreadable}")


@journal.command()
@click.argument("words", nargs=-1, required=True)
@session_option
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@as_json_option
@click.pass_context
def search(
    context: click.Context, words: tuple[str, ...], session: str | None, limit: int, as_json: bool
) -> None:
    """Find WORDS in everything that was said, newest first.

    All of them must occur together; "several words" is a phrase, begin* a beginning.
    """
    hits = _run(_search(_log(context), " ".join(words), _session(session), limit))
    if as_json:
        import msgspec

        _echo_json({"hits": msgspec.to_builtins(hits)})
        return
    for hit in hits:
        echo(f"{hit.session} {hit.seq} {hit.type}: {' '.join(hit.snippet.split())}")


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def _log(context: click.Context) -> Path:
    path: Path | None = context.obj
    return path or Places.find().journal_file


def _session(text: str | None) -> SessionId | None:
    return SessionId(text) if text else None


async def _check(path: Path) -> "Report":
    from quarterdeck.journal import Corrupt, Journal, Report

    try:
        async with Journal.open(path, write=False) as log:
            return await log.check()
    except Corrupt as error:
        # It cannot even be opened: that is what was asked for, not a failure of asking.
        return Report(events=0, problems=(error.reason,), unreadable=(), orphans=())


async def _salvage(source: Path, target: Path) -> "Salvaged":
    from quarterdeck.journal import salvage

    return await salvage(source, target)


async def _search(path: Path, query: str, session: SessionId | None, limit: int) -> "list[Hit]":
    from quarterdeck.journal import Journal

    async with Journal.open(path, write=False) as log:
        return await log.search(query, session, limit)


def _told(report: "Report") -> list[str]:
    lines = list(report.problems)
    if report.unreadable:
        lines.append(f"not understood: {', '.join(map(str, report.unreadable[:20]))}")
    if report.changed:
        lines.append(f"not as they were written: {', '.join(map(str, report.changed[:20]))}")
    for session, count in report.damaged.items():
        lines.append(f"session {session}: damaged, unreadable records: {count or 'some'}")
    if report.unverified:
        lines.append(f"{report.unverified} events are older than checksums and were not verified")
    if report.orphans:
        lines.append(f"of no known session: {', '.join(map(str, report.orphans[:20]))}")
    return lines


def _echo_json(value: Any) -> None:
    import json

    echo(json.dumps(value, indent=2))
