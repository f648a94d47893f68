"""``quarterdeck history``: sessions that other agents keep on disk."""

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .fleet.connecting import as_json_option, directory, echo_json, echo_lines, terminal_width
from .fleet.text import literal
from .history_taking import hand_over, import_

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quarterdeck.drivers.history.history import History, Listed

__all__ = ["history"]

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
    """List the sessions that other agents keep on disk, newest first.

    With an ID, or the beginning of one, show that session. Nothing of theirs is changed.
    """
    where = None if everywhere else Path(directory(cwd))
    context.obj = {"agent": agent, "as_json": as_json, "near": where}
    if context.invoked_subcommand is not None:
        return
    if words:
        asyncio.run(_search(words, where, agent, limit, as_json))
    else:
        asyncio.run(_list(where, agent, limit, as_json))


@history.command(hidden=True)
@click.argument("id_", metavar="ID")
@as_json_option
@click.pass_context
def show(context: click.Context, id_: str, as_json: bool) -> None:
    """Show a session; with --json one event a line."""
    given: dict[str, Any] = context.obj
    asyncio.run(_show(id_, given["agent"], given["near"], as_json or given["as_json"]))


history.add_command(import_)
history.add_command(hand_over)


def _history() -> "History":
    from quarterdeck.drivers.history.history import History

    return History.of(os.environ)


async def _list(where: Path | None, agent: str | None, limit: int, as_json: bool) -> None:
    from .history_text import nothing, rows

    past = _history()
    listed = await past.list(where, agent=agent, limit=limit)
    if as_json:
        echo_json({"sessions": listed.sessions, "failures": dict(listed.failures)})
        return
    _complain(listed.failures)
    if listed.sessions:
        now = time.time_ns() // 1_000
        width = terminal_width()
        echo_lines(rows(listed.sessions, now, width, is_anywhere=where is None))
        return
    others: Listed = listed if where is None else await past.list(None, agent=agent, limit=None)
    click.echo(nothing(where, others.sessions))


async def _search(
    words: str, where: Path | None, agent: str | None, limit: int, as_json: bool
) -> None:
    from .history_text import hit_line

    past, width = _history(), terminal_width()
    listed = await past.list(where, agent=agent, limit=_MOST_SEARCHED)
    hits: list[Any] = []
    if not as_json:
        _complain(listed.failures)
    async for hit in past.search(words, listed.sessions, limit=limit):
        hits.append({"session": hit.past, "snippet": hit.snippet})
        if not as_json:
            click.echo(hit_line(hit, width))
    if as_json:
        echo_json({"hits": hits, "failures": dict(listed.failures)})
    elif not hits:
        looked = len(listed.sessions)
        click.echo(f"In none of {looked} session{'s' * (looked != 1)} do all these words occur.")


def _complain(failures: "Mapping[str, str]") -> None:
    for agent, reason in failures.items():
        click.echo(f"{agent}: {literal(reason)}", err=True)


async def _show(id_: str, agent: str | None, near: Path | None, as_json: bool) -> None:
    from quarterdeck.drivers.history.past import Tally
    from quarterdeck.drivers.history.turns import session_of
    from quarterdeck.wire.record import Record

    from .fleet.logs import write_flushed
    from .fleet.transcript import RecordLines, Transcript
    from .history_text import Account, heading

    past, tally, account = _history(), Tally(), Account()
    found = await past.find(id_, agent=agent, near=near)
    transcript = RecordLines(write_flushed) if as_json else Transcript(write_flushed)
    if not as_json:
        transcript.line(heading(found))
    session, number = session_of(found.agent, found.id), 0
    async for one in past.read(found, tally):
        number += 1
        account.take(one.event)
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
    if not as_json:
        transcript.line(account.text())
    if tally.skipped:
        click.echo(f"{tally.skipped} entries could not be read", err=True)
