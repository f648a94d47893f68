"""``quarterdeck journal``: check, rebuild, salvage, search, export and prune the log."""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from quarterdeck.config.places import Places
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.private_files import open_private
from quarterdeck.wire.terminal_text import escape_json

from .command_io import DURATION, echo_json, terminal_width
from .output import echo, escape_to_line, format_age, is_terminal, shown, table, write_output

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from quarterdeck.fleet.sessions.retention import LoggedSession
    from quarterdeck.journal import CheckReport, Journal, SalvageReport, SearchHit

__all__ = ["export", "journal", "prune"]

CHUNK = 65_536
_FORMATS = ("jsonl", "json", "markdown", "html")


@click.command()
@click.option("--session", metavar="ID", help="Only this session; its id, or an agent's name.")
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default="jsonl",
    show_default=True,
    help="Events as JSON lines, or one session as a document.",
)
@click.option("--after", type=click.IntRange(0), default=0, help="Only events after this number.")
@click.option("--unmasked", is_flag=True, help="Do not mask secrets.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file, readable only by you; default: standard output.",
)
@click.pass_context
def export(
    context: click.Context,
    session: str | None,
    form: str,
    after: int,
    unmasked: bool,
    output: Path | None,
) -> None:
    """Write events as JSON lines, or a session as Markdown, HTML or JSON.

    Without --session: every event of the host's log, then those of `run` and of editors, session by
    session. Each log has its own numbers; with --after, only the host's log is written.

    Text that looks like a secret is masked, and so are the values of environment variables with
    secret names.
    """
    if form != "jsonl" and session is None:
        raise click.UsageError(f"choose the session to export as {form}: --session ID")
    path: Path | None = context.obj
    asyncio.run(_export(path, session, form, after, not unmasked, output))


async def _export(
    path: Path | None, session: str | None, form: str, after: int, masked: bool, output: Path | None
) -> None:
    from quarterdeck.journal import Journal

    id_ = SessionId(session) if session else None
    if path is None and session:
        from quarterdeck.fleet.sessions.retention import find_session_log

        path, id_ = await find_session_log(Places.find(), session)
    if path is None and id_ is None and not after:
        await _export_all(masked, output)
        return
    async with Journal.open(path or Places.find().journal_file, write=False) as log:
        if form != "jsonl" and id_ is not None and not await log.read(0, id_, limit=1):
            from quarterdeck.agent.session_store import NoSuchSessionError

            raise NoSuchSessionError(id_)
        with _opened(output) as file:
            await _write(file, _pieces(log, id_, form, after, masked), form)
        _report_damage(log.damaged)


async def _export_all(masked: bool, output: Path | None) -> None:
    """Write the events of all logs; one that cannot be read is named on standard error."""
    from quarterdeck.fleet.log_pages import find_run_logs
    from quarterdeck.journal import Journal, JournalError

    places, damaged = Places.find(), 0
    runs = await asyncio.to_thread(find_run_logs, places.state)
    has_host = await asyncio.to_thread(places.journal_file.exists)
    with _opened(output) as file:
        # With no log at all, the error is about the host's.
        for path in [places.journal_file] * (has_host or not runs) + runs:
            try:
                async with Journal.open(path, write=False) as log:
                    await _write(file, _pieces(log, None, "jsonl", 0, masked), "jsonl")
                    damaged += log.damaged
            except JournalError as error:
                if path == places.journal_file:
                    raise
                click.echo(escape_to_line(f"not exported: {error}"), err=True)
    _report_damage(damaged)


def _report_damage(damaged: int) -> None:
    if damaged:
        click.echo(
            f"{damaged} record{'s are' if damaged != 1 else ' is'} damaged and omitted or "
            "exported as unknown; see: quarterdeck journal check",
            err=True,
        )


async def _write(file: IO[bytes] | None, pieces: AsyncIterator[bytes], form: str) -> None:
    pending = bytearray()
    async for piece in pieces:
        pending += piece
        if len(pending) >= CHUNK:
            _put(file, bytes(pending), form)
            pending.clear()
    _put(file, bytes(pending), form)


def _put(file: IO[bytes] | None, data: bytes, form: str) -> None:
    """Write whole pieces; on a terminal nothing in them acts on it."""
    if file is not None:
        file.write(data)
    elif not is_terminal():
        write_output(data)
    else:
        text = data.decode("utf-8", "backslashreplace")
        write_output(escape_json(text) if form in ("json", "jsonl") else shown(text))


async def _pieces(
    log: "Journal", session: SessionId | None, form: str, after: int, masked: bool
) -> AsyncIterator[bytes]:
    from quarterdeck.wire.redaction import find_secret_variables

    environment = find_secret_variables(os.environ) if masked else {}
    if form == "jsonl":
        from quarterdeck.journal.export.formats import masked_lines

        records = log.history(after, session)
        lines = masked_lines(records, environment) if masked else log.export(session, after)
        async for line in lines:
            yield line
        return
    from quarterdeck.journal.export import EXPORT_FORMATS, ExportFormat, export_session

    assert session is not None
    chosen: ExportFormat = next(one for one in EXPORT_FORMATS if one == form)
    records = log.history(after, session)
    texts = export_session(session, records, chosen, masked=masked, environment=environment)
    async for text in texts:
        yield text.encode("utf-8", "backslashreplace")


def _opened(output: Path | None) -> "AbstractContextManager[IO[bytes] | None]":
    if output is None:
        return nullcontext()

    return os.fdopen(open_private(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb")


@click.command()
@click.option("--older-than", type=DURATION, metavar="TIME", help="Sessions idle for 90d, 12h, 4w…")
@click.option(
    "--session", "sessions", multiple=True, metavar="ID", help="This session; may be repeated."
)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@click.pass_context
def prune(
    context: click.Context,
    older_than: int | None,
    sessions: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete sessions permanently, with all their messages.

    This covers the host's log and sessions that ran without a host. With both options, only
    sessions that match both. Live agents and sessions open in another process are kept, and so are
    pinned ones.
    """
    if older_than is None and not sessions:
        raise click.UsageError("choose sessions: --older-than 90d, or --session ID")
    path: Path | None = context.obj
    if path is not None:
        raise click.UsageError("prune works on your own logs; omit --file")
    done = asyncio.run(_prune(older_than, sessions, dry_run))
    _tell(done, dry_run, as_json)
    if any(one.problem for one in done):
        context.exit(1)


async def _prune(
    older_than: int | None, sessions: tuple[str, ...], dry_run: bool
) -> "list[LoggedSession]":
    from quarterdeck.agent.session_store import NoSuchSessionError
    from quarterdeck.fleet.sessions.pins import load_pins
    from quarterdeck.fleet.sessions.retention import delete_sessions, list_logged_sessions
    from quarterdeck.fleet.sessions.rewind import delete_unused_checkpoints

    places = Places.find()
    before = None if older_than is None else read_wall_clock() - older_than
    known = {one.session: one for one in await list_logged_sessions(places)}
    pinned = await asyncio.to_thread(load_pins, places.state)
    for session in sessions:
        if session not in known:
            raise NoSuchSessionError(session)
        if session in pinned:
            raise click.UsageError(
                f"session {session} is pinned; first: quarterdeck sessions unpin {session}"
            )
    meant = [
        one
        for one in known.values()
        if (not sessions or one.session in sessions)
        and (before is None or one.updated < before)
        and one.session not in pinned
    ]
    if dry_run:
        return meant
    done = await delete_sessions(places, meant)
    await delete_unused_checkpoints(places, [one.session for one in done if one.problem is None])
    return done


def _tell(done: "list[LoggedSession]", dry_run: bool, as_json: bool) -> None:
    if as_json:
        echo_json({"dry_run": dry_run, "sessions": done})
        return
    if not done:
        echo("Nothing to delete.")
        return
    now = read_wall_clock()
    head = ("WOULD GO" if dry_run else "DELETED", "AGENT", "AGE", "TITLE", "PROBLEM")
    rows = [
        (
            one.session,
            one.agent or "",
            format_age(one.updated, now),
            one.title or one.cwd or "",
            f"not deleted: {one.problem}" if one.problem else "",
        )
        for one in done
    ]
    for line in table(head, rows, terminal_width()):
        echo(line)


T = TypeVar("T")

as_json_option = click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
session_option = click.option("--session", metavar="ID", help="Only this session.")


@click.group()
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The log file; default: your own log.",
)
@click.pass_context
def journal(context: click.Context, path: Path | None) -> None:
    """Inspect and maintain the log of every session. A log that is in use can still be read."""
    context.obj = path


journal.add_command(export)
journal.add_command(prune)


@journal.command()
@as_json_option
@click.pass_context
def check(context: click.Context, as_json: bool) -> None:
    """Check the whole log; exits with 1 if something is wrong."""
    report = _run(_check(_log(context)))
    if as_json:
        _echo_json({"healthy": report.healthy, **asdict(report)})
    else:
        echo(f"{report.events} events in {_log(context)}")
        for line in _report_lines(report):
            echo(escape_to_line(line))
        advice = "Copy readable records to a new log: quarterdeck journal salvage TARGET"
        echo("No problems found." if report.healthy else advice)
    if not report.healthy:
        context.exit(1)


@journal.command("rebuild")
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.pass_context
def rebuild(context: click.Context, tables: tuple[str, ...]) -> None:
    """Rebuild the tables of the log from its records; without TABLE, all of them.

    The tables are the lists of sessions, agents, open requests and grants. Use this when a list
    does not show what the log contains. Records are not changed. Nothing else may write the log
    meanwhile: stop the host first.
    """
    failed = _run(_rebuild(context.obj, tables))
    for name, reason in failed.items():
        echo(escape_to_line(f"{name} cannot be computed and was disabled: {reason}"))
    if failed:
        context.exit(1)


@journal.command("salvage")
@click.argument("target", type=click.Path(path_type=Path))
@click.pass_context
def salvage(context: click.Context, target: Path) -> None:
    """Copy the readable records of a damaged log to a new log at TARGET; changes nothing else."""
    saved = _run(_salvage(_log(context), target))
    echo(f"{saved.events} events of {saved.sessions} sessions are in {target}")
    if saved.lost_rows or saved.unreadable:
        echo(f"lost: {saved.lost_rows}; copied but unreadable: {saved.unreadable}")


@journal.command()
@click.argument("words", nargs=-1, required=True)
@session_option
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of hits."
)
@as_json_option
@click.pass_context
def search(
    context: click.Context, words: tuple[str, ...], session: str | None, limit: int, as_json: bool
) -> None:
    """Search all messages for WORDS, newest first; also those of `run` and of editors.

    With --file, only that log is searched. All words must match; "several words" is a phrase,
    begin* a prefix.
    """
    hits = _run(_search(context.obj, " ".join(words), _session(session), limit))
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


async def _check(path: Path) -> "CheckReport":
    from quarterdeck.journal import CheckReport, Journal, JournalCorruptError

    try:
        async with Journal.open(path, write=False) as log:
            return await log.check()
    except JournalCorruptError as error:
        # It cannot even be opened: that is what was asked for, not a failure of asking.
        return CheckReport(events=0, problems=(error.reason,), unreadable=(), orphans=())


async def _rebuild(path: Path | None, tables: tuple[str, ...]) -> dict[str, str]:
    from quarterdeck.fleet.sessions.retention import open_host_journal
    from quarterdeck.journal import Journal

    places = Places.find()
    async with Journal.open(path or places.journal_file, write=False):
        pass  # only that it is there: opening it for writing would make a new log
    async with Journal.open(path) if path else open_host_journal(places) as log:
        if unknown := [name for name in tables if name not in log.projections]:
            known = ", ".join(log.projections)
            raise click.UsageError(f"no such table: {', '.join(unknown)}; there are: {known}")
        chosen = [name for name in log.projections if not tables or name in tables]
        for name in chosen:
            await log.rebuild(name)
            if name not in log.failed_projections:
                echo(f"{name}: computed anew")
        return {name: why for name, why in log.failed_projections.items() if name in chosen}


async def _salvage(source: Path, target: Path) -> "SalvageReport":
    from quarterdeck.journal import salvage_journal

    return await salvage_journal(source, target)


async def _search(
    path: Path | None, query: str, session: SessionId | None, limit: int
) -> "list[SearchHit]":
    from quarterdeck.journal import Journal

    if path is None:
        from quarterdeck.fleet.sessions.standalone import search_all_logs

        return await search_all_logs(Places.find(), query, session, limit)
    async with Journal.open(path, write=False) as log:
        return await log.search(query, session, limit)


def _report_lines(report: "CheckReport") -> list[str]:
    lines = list(report.problems)
    if report.unreadable:
        lines.append(f"unreadable: {', '.join(map(str, report.unreadable[:20]))}")
    if report.changed:
        lines.append(f"changed after they were written: {', '.join(map(str, report.changed[:20]))}")
    for session, count in report.damaged.items():
        lines.append(f"session {session}: damaged, unreadable records: {count or 'some'}")
    if report.unverified:
        lines.append(f"{report.unverified} events predate checksums and were not verified")
    if report.orphans:
        lines.append(f"of an unknown session: {', '.join(map(str, report.orphans[:20]))}")
    return lines


def _echo_json(value: Any) -> None:
    import json

    echo(json.dumps(value, indent=2))
