"""``quarterdeck history``: sessions that other agents keep on disk."""

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .fleet.connecting import as_json_option, directory, echo_json, echo_lines, terminal_width
from .fleet.text import literal, one_line, since, table
from .history_taking import hand_over, import_

if TYPE_CHECKING:
    from quarterdeck.drivers.history.history import History, Listed, PastHit
    from quarterdeck.drivers.history.past import PastSession

__all__ = ["history"]

_HEAD = ("AGENT", "SESSION", "CHANGED", "SIZE", "TITLE")
_MOST_SEARCHED = 2_000
"""Sessions that one search looks at, the newest."""


class _ById(click.Group):
    """A group in which a word that is no command is a session to show."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """See click; ``args`` begin with the word."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            return "show", show, args
        return super().resolve_command(ctx, args)


@click.group(cls=_ById, invoke_without_command=True, subcommand_metavar="[ID | COMMAND]")
@click.option("-a", "--agent", metavar="NAME", help="Only of claude, codex, gemini or opencode.")
@click.option("-s", "--search", "words", metavar="WORDS", help="Only those in which all occur.")
@click.option(
    "--all", "everywhere", is_flag=True, help="Of every directory, not of this one alone."
)
@click.option("-C", "--cwd", type=click.Path(file_okay=False, exists=True), help="Of that one.")
@click.option("-n", "--limit", type=click.IntRange(1), default=50, show_default=True)
@as_json_option
@click.pass_context
def history(
    context: click.Context,
    agent: str | None,
    words: str | None,
    everywhere: bool,
    cwd: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List the sessions that Claude Code, Codex, Gemini and OpenCode keep on disk, newest first.

    With an ID, or the beginning of one, show that session. Nothing of theirs is changed.
    """
    context.obj = {"agent": agent, "as_json": as_json}
    if context.invoked_subcommand is not None:
        return
    where = None if everywhere else Path(directory(cwd))
    if words:
        hits = asyncio.run(_search(words, where, agent, limit))
        _show_hits(hits, as_json)
    else:
        _show_list(asyncio.run(_list(where, agent, limit)), where, as_json)


@history.command(hidden=True)
@click.argument("id_", metavar="ID")
@as_json_option
@click.pass_context
def show(context: click.Context, id_: str, as_json: bool) -> None:
    """Show a session; with --json one event a line."""
    given: dict[str, Any] = context.obj
    asyncio.run(_show(id_, given["agent"], as_json or given["as_json"]))


history.add_command(import_)
history.add_command(hand_over)


def _show_list(listed: "Listed", where: Path | None, as_json: bool) -> None:
    if as_json:
        echo_json({"sessions": listed.sessions, "failures": dict(listed.failures)})
        return
    for agent, reason in listed.failures.items():
        click.echo(f"{agent}: {literal(reason)}", err=True)
    if not listed.sessions:
        there = "" if where is None else f" of {literal(str(where))}; --all lists the others"
        click.echo(f"No sessions{there}.")
        return
    now = time.time_ns() // 1_000
    head = _HEAD if where is not None else (*_HEAD[:-1], "DIRECTORY", _HEAD[-1])
    rows = [_row(past, now, where is None) for past in listed.sessions]
    echo_lines(table(head, rows, terminal_width()))


def _row(past: "PastSession", now: int, is_anywhere: bool) -> tuple[str, ...]:
    size = f"{past.size // 1024}k" if past.size is not None else "-"
    there = (past.cwd or "-",) if is_anywhere else ()
    return (past.agent, past.id, since(past.updated, now), size, *there, past.title or "")


def _show_hits(hits: "list[PastHit]", as_json: bool) -> None:
    if as_json:
        found = [{"session": hit.past, "snippet": hit.snippet} for hit in hits]
        echo_json({"hits": found})
        return
    for hit in hits:
        click.echo(f"{hit.past.agent} {literal(hit.past.id)}: {one_line(hit.snippet)}")


def _history() -> "History":
    from quarterdeck.drivers.history.history import History

    return History.of(os.environ)


async def _list(where: Path | None, agent: str | None, limit: int) -> "Listed":
    return await _history().list(where, agent=agent, limit=limit)


async def _search(words: str, where: Path | None, agent: str | None, limit: int) -> "list[PastHit]":
    past = _history()
    listed = await past.list(where, agent=agent, limit=_MOST_SEARCHED)
    return [hit async for hit in past.search(words, listed.sessions, limit=limit)]


async def _show(id_: str, agent: str | None, as_json: bool) -> None:
    from quarterdeck.drivers.history.past import Tally
    from quarterdeck.drivers.history.turns import session_of
    from quarterdeck.wire.record import Record

    from .fleet.logs import write_flushed
    from .fleet.transcript import RecordLines, Transcript

    past, tally = _history(), Tally()
    found = await past.find(id_, agent=agent)
    transcript = RecordLines(write_flushed) if as_json else Transcript(write_flushed)
    session, number = session_of(found.agent, found.id), 0
    async for one in past.read(found, tally):
        number += 1
        record = Record(
            seq=number,
            time=one.time or found.started,
            session=session,
            turn=one.turn,
            parent=one.parent,
            event=one.event,
        )
        if as_json or one.parent is None:
            transcript.record(record)
    transcript.end_line()
    if tally.skipped:
        click.echo(f"{tally.skipped} entries could not be read", err=True)
