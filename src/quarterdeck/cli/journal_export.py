"""``journal export``: a session for people, or events for programs."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from quarterdeck.config.places import Places
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.shown import escape

from .output import is_terminal, shown, write_output

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from quarterdeck.journal import Journal

__all__ = ["export"]

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
    help="Events as lines, or one session as a document.",
)
@click.option("--after", type=click.IntRange(0), default=0, help="Only what follows this number.")
@click.option("--unmasked", is_flag=True, help="Leave secrets as they are.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file, for you alone; standard output.",
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
    """Write events as lines of JSON, or a session as Markdown, HTML or JSON.

    What looks like a secret is masked, and so are the values of your variables whose names say
    that they are secret.
    """
    if form != "jsonl" and session is None:
        raise click.UsageError(f"say which session shall become {form}: --session ID")
    path: Path | None = context.obj
    asyncio.run(_export(path, session, form, after, not unmasked, output))


async def _export(
    path: Path | None, session: str | None, form: str, after: int, masked: bool, output: Path | None
) -> None:
    from quarterdeck.journal import Journal

    id_ = SessionId(session) if session else None
    if path is None and session:
        from quarterdeck.fleet.keeping import find_log

        path, id_ = await find_log(Places.find(), session)
    async with Journal.open(path or Places.find().journal_file, write=False) as log:
        if form != "jsonl" and id_ is not None and not await log.read(0, id_, limit=1):
            from quarterdeck.agent.store import NoSuchSession

            raise NoSuchSession(id_)
        with _opened(output) as file:
            await _write(file, _pieces(log, id_, form, after, masked), form)
        if damaged := log.damaged:
            click.echo(
                f"{damaged} record{'s are' if damaged != 1 else ' is'} damaged and left out or told"
                " as unknown; see: quarterdeck journal check",
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
        write_output(escape(text) if form in ("json", "jsonl") else shown(text))


async def _pieces(
    log: "Journal", session: SessionId | None, form: str, after: int, masked: bool
) -> AsyncIterator[bytes]:
    from quarterdeck.wire.masking import secrets_in

    environment = secrets_in(os.environ) if masked else {}
    if form == "jsonl":
        from quarterdeck.journal.exporting.lines import masked_lines

        records = log.history(after, session)
        lines = masked_lines(records, environment) if masked else log.export(session, after)
        async for line in lines:
            yield line
        return
    from quarterdeck.journal.exporting import FORMS, Form, export_session

    assert session is not None
    chosen: Form = next(one for one in FORMS if one == form)
    records = log.history(after, session)
    texts = export_session(session, records, chosen, masked=masked, environment=environment)
    async for text in texts:
        yield text.encode("utf-8", "backslashreplace")


def _opened(output: Path | None) -> "AbstractContextManager[IO[bytes] | None]":
    if output is None:
        return nullcontext()
    from quarterdeck.wire.private_files import open_private

    return os.fdopen(open_private(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb")
