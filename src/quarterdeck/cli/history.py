"""``quarterdeck history``: sessions of other agents on disk: list, search, show, import, hand
over.
"""

import asyncio
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quarterdeck.wire.clock import format_local_time, read_wall_clock
from quarterdeck.wire.events import Event, Prompted, TurnEnded
from quarterdeck.wire.usage import TokenUsage

from .command_io import (
    as_json_option,
    echo_json,
    echo_lines,
    read_given_text,
    resolve_directory,
    terminal_width,
    with_fleet,
)
from .output import count, cut_to_width, escape_controls, escape_to_line, format_age, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quarterdeck.drivers.history.history import AgentHistory, HistoryHit, HistoryListing
    from quarterdeck.drivers.history.reader import HistorySession
    from quarterdeck.fleet.api import AgentInfo, ImportedSession
    from quarterdeck.fleet.client import HostClient

__all__ = [
    "SessionTally",
    "describe_empty_history",
    "format_hit",
    "format_session_heading",
    "hand_over",
    "history",
    "import_",
    "make_session_table",
    "short_ids",
]

_SHORTEST = 8
"""Letters of an id at the least."""
_NO_SIZE, _NO_TIME = 60, 40
"""Columns of a terminal below which a list goes without."""


def make_session_table(
    sessions: Sequence["HistorySession"], now: int, width: int | None, *, is_anywhere: bool
) -> Iterator[str]:
    """A table of sessions; a terminal gets ids that are as long as they must be."""
    whole = [past.id for past in sessions]
    ids = whole if width is None else short_ids(whole)
    columns: dict[str, list[str]] = {
        "AGENT": [past.agent for past in sessions],
        "SESSION": ids,
        "CHANGED": [format_age(past.updated, now) for past in sessions],
        "SIZE": [_size(past.size) for past in sessions],
        "DIRECTORY": [past.cwd or "-" for past in sessions],
        "TITLE": [_title(past) for past in sessions],
    }
    left_out = {"DIRECTORY"} if not is_anywhere else set[str]()
    if width is not None and width < _NO_SIZE:
        left_out.add("SIZE")
    if width is not None and width < _NO_TIME:
        left_out.add("CHANGED")
    head = [name for name in columns if name not in left_out]
    return table(head, zip(*(columns[name] for name in head), strict=True), width)


def short_ids(ids: Sequence[str]) -> list[str]:
    """The beginnings that distinguish these ids, in the same length."""
    length = _SHORTEST
    longest = max(map(len, ids), default=0)
    while length < longest and max(Counter(one[:length] for one in set(ids)).values()) > 1:
        length += 1
    return [one[:length] for one in ids]


def format_hit(hit: "HistoryHit", width: int | None) -> str:
    """A session that was found, and where."""
    line = f"{hit.past.agent} {escape_controls(hit.past.id)}: {escape_to_line(hit.snippet)}"
    return line if width is None else cut_to_width(line, width)


def describe_empty_history(where: Path | None, others: Iterable["HistorySession"]) -> str:
    """What to say where there are none; ``others`` are those of every directory."""
    places = Counter(past.cwd for past in others)
    if where is None or not places:
        return "No sessions of other agents are on disk."
    text = f"No sessions of {escape_controls(str(where))}"
    above = next((one for one in where.parents if str(one) in places), None)
    if above is not None:
        there = f"{places[str(above)]} of {escape_controls(str(above))} above it"
        return f"{text}; {there}: quarterdeck history -C {_quoted(above)}"
    return f"{text}; --all lists {places.total()} sessions of other directories."


def format_session_heading(past: "HistorySession") -> str:
    """The agent of a session and where it worked."""
    parts = [f"{past.agent} {escape_controls(past.id)}"]
    if past.cwd is not None:
        parts.append(f"in {escape_to_line(past.cwd)}")
    if past.started:
        parts.append(f"began {format_local_time(past.started)}")
    if past.title is not None:
        parts.append(escape_to_line(past.title))
    return "= " + ", ".join(parts)


class SessionTally:
    """Counts what a session took."""

    def __init__(self) -> None:
        self._prompts = 0
        self._usage = TokenUsage()

    def take(self, event: Event) -> None:
        """Take the next event."""
        self._prompts += isinstance(event, Prompted)
        if isinstance(event, TurnEnded) and event.usage is not None:
            self._usage += event.usage

    def text(self) -> str:
        """What it comes to, in a line."""
        text = f"= {self._prompts} prompt{'s' * (self._prompts != 1)}"
        if not self._usage.total:
            return text
        return f"{text}, {count(self._usage.input)} tokens in, {count(self._usage.output)} out"


def _title(past: "HistorySession") -> str:
    put_away = "(archived) " if past.archived else ""
    prompts = "" if past.can_resume else "(prompts alone) "
    return f"{put_away}{prompts}{past.title or '-'}"


def _size(size: int | None) -> str:
    if size is None:
        return "-"
    return f"{count(size)}B"


def _quoted(path: Path) -> str:
    return shlex.quote(escape_controls(str(path)))


_name_option = click.option("-n", "--name", help="Its name; generated by default.")
_cwd_option = click.option(
    "-C",
    "--cwd",
    type=click.Path(file_okay=False, exists=True, resolve_path=True),
    help="Its working directory, if its files do not record it.",
)


@click.command("import")
@click.argument("id_", metavar="ID")
@_name_option
@_cwd_option
@as_json_option
@click.pass_context
def import_(
    context: click.Context, id_: str, name: str | None, cwd: str | None, as_json: bool
) -> None:
    """Import a session into the log: it can be searched, and `quarterdeck resume` continues it.

    Importing it again adds what is new.
    """
    given: dict[str, Any] = context.obj
    done = with_fleet(lambda fleet: _import(fleet, given, id_, name, cwd))
    if as_json or given["as_json"]:
        echo_json(done)
        return
    skipped = f"; {done.skipped} entries could not be read" if done.skipped else ""
    click.echo(f"{escape_controls(done.agent.name)}: {done.added} new events{skipped}")


@click.command("hand-over")
@click.argument("id_", metavar="ID")
@click.option("--to", "kind", required=True, metavar="NAME", help="The agent that takes over.")
@_name_option
@click.option("-m", "--model", help="Model of the new agent.")
@_cwd_option
@click.argument("prompt", required=False)
@as_json_option
@click.pass_context
def hand_over(
    context: click.Context,
    id_: str,
    kind: str,
    name: str | None,
    model: str | None,
    cwd: str | None,
    prompt: str | None,
    as_json: bool,
) -> None:
    """Hand a session to another agent.

    The session is imported; the new agent gets the same brief as from `quarterdeck hand-over` and
    can read the whole transcript. PROMPT is its next task; without one it continues the work.
    """
    given: dict[str, Any] = context.obj
    words = read_given_text(prompt)

    async def hand(fleet: "HostClient") -> "AgentInfo":
        from quarterdeck.fleet.api import HandoverOptions

        done = await _import(fleet, given, id_, None, cwd)
        request = HandoverOptions(to=kind, name=name, model=model, prompt=words)
        return await fleet.hand_over(done.agent.session, request)

    info = with_fleet(hand)
    if as_json or given["as_json"]:
        echo_json(info)
    else:
        click.echo(escape_controls(info.name))


async def _import(
    fleet: "HostClient", given: dict[str, Any], id_: str, name: str | None, cwd: str | None
) -> "ImportedSession":
    from quarterdeck.drivers.history.history import VARIABLES, AgentHistory

    homes = {key: os.environ[key] for key in VARIABLES if key in os.environ}
    past = await AgentHistory.of(homes).find(id_, agent=given["agent"], near=given["near"])
    return await fleet.import_session(past.agent, past.id, homes, name=name, cwd=cwd)


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
@click.option("-a", "--agent", metavar="NAME", help="Only sessions of this agent.")
@click.option(
    "-s",
    "--search",
    "words",
    metavar="WORDS",
    help=("Only sessions that contain all of these words."),
)
@click.option("--all", "everywhere", is_flag=True, help="Sessions of every directory.")
@click.option(
    "-C",
    "--cwd",
    type=click.Path(file_okay=False, exists=True),
    help=("Sessions of that directory."),
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Maximum number of sessions.",
)
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
    """List the sessions that other agents store on disk, newest first.

    With an ID or its prefix, show that session. Their files are not changed.
    """
    where = None if everywhere else Path(resolve_directory(cwd))
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
    """Show a session; with --json one event per line."""
    given: dict[str, Any] = context.obj
    asyncio.run(_show(id_, given["agent"], given["near"], as_json or given["as_json"]))


history.add_command(import_)
history.add_command(hand_over)


def _history() -> "AgentHistory":
    from quarterdeck.drivers.history.history import AgentHistory

    return AgentHistory.of(os.environ)


async def _list(where: Path | None, agent: str | None, limit: int, as_json: bool) -> None:

    past = _history()
    listed = await past.list(where, agent=agent, limit=limit)
    if as_json:
        echo_json({"sessions": listed.sessions, "failures": dict(listed.failures)})
        return
    _complain(listed.failures)
    if listed.sessions:
        now = read_wall_clock()
        width = terminal_width()
        echo_lines(make_session_table(listed.sessions, now, width, is_anywhere=where is None))
        return
    others: HistoryListing = (
        listed if where is None else await past.list(None, agent=agent, limit=None)
    )
    click.echo(describe_empty_history(where, others.sessions))


async def _search(
    words: str, where: Path | None, agent: str | None, limit: int, as_json: bool
) -> None:

    past, width = _history(), terminal_width()
    listed = await past.list(where, agent=agent, limit=_MOST_SEARCHED)
    hits: list[Any] = []
    if not as_json:
        _complain(listed.failures)
    async for hit in past.search(words, listed.sessions, limit=limit):
        hits.append({"session": hit.past, "snippet": hit.snippet})
        if not as_json:
            click.echo(format_hit(hit, width))
    if as_json:
        echo_json({"hits": hits, "failures": dict(listed.failures)})
    elif not hits:
        looked = len(listed.sessions)
        click.echo(f"In none of {looked} session{'s' * (looked != 1)} do all these words occur.")


def _complain(failures: "Mapping[str, str]") -> None:
    for agent, reason in failures.items():
        click.echo(f"{agent}: {escape_controls(reason)}", err=True)


async def _show(id_: str, agent: str | None, near: Path | None, as_json: bool) -> None:
    from quarterdeck.drivers.history.reader import ReadTally
    from quarterdeck.drivers.history.turn_builder import derive_session_id
    from quarterdeck.wire.record import Record

    from .fleet.logs import RecordPrinter, TranscriptPrinter, write_flushed

    past, tally, account = _history(), ReadTally(), SessionTally()
    found = await past.find(id_, agent=agent, near=near)
    transcript = RecordPrinter(write_flushed) if as_json else TranscriptPrinter(write_flushed)
    if not as_json:
        transcript.line(format_session_heading(found))
    session, number = derive_session_id(found.agent, found.id), 0
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
