"""``quarterdeck audit``: every permission decision as a file whose hashes can be verified."""

import asyncio
import os
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from quarterdeck.config.places import Places
from quarterdeck.wire.private_files import open_private

from .command_io import as_json_option, echo_json
from .output import echo, escape_to_line, is_terminal, write_notice, write_output

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from quarterdeck.fleet.permissions.audit import AuditCheck, AuditExport
    from quarterdeck.wire.record import Record

__all__ = ["audit", "export", "verify"]


@click.group()
def audit() -> None:
    """Export every permission decision, and verify an export.

    An export is a chain: the hash of each record covers all records before it. Keep the head, the
    last hash, somewhere else; with it anyone can verify an export.
    """


@click.command()
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file, readable only by you; default: standard output.",
)
@click.option("--mask", is_flag=True, help="Replace values that look like secrets by their hashes.")
@click.option(
    "--log",
    "path",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Another log than the host's, such as that of a session of `run`.",
)
def export(out: Path | None, mask: bool, path: Path | None) -> None:
    """Write every permission decision in the log, each with its hash, and print the head.

    A record has the request as it was shown, the decision, who or what decided, and when. With
    --mask the hash of a value stays in its place, so that the chain and its head are the same.
    """
    made = asyncio.run(_export(path or Places.find().journal_file, out, mask))
    write_notice(f"{made.records} records, head {made.head}")


async def _export(path: Path, out: Path | None, mask: bool) -> "AuditExport":
    from quarterdeck.fleet.log_pages import read_pages
    from quarterdeck.fleet.permissions.audit import AUDIT_EVENTS, AuditExport, load_audit_key
    from quarterdeck.journal import Journal

    async with Journal.open(path, write=False) as log:
        key = await asyncio.to_thread(load_audit_key, Places.find().state / "audit.key")
        made = AuditExport(key, mask=mask, environment=dict(os.environ))
        with await asyncio.to_thread(_open, out) as file:

            def take(records: "list[Record]") -> None:
                for line in made.add(records):
                    _write(file, line)

            _write(file, made.start())
            await read_pages(log, AUDIT_EVENTS, take)
            _write(file, made.finish())
    return made


def _open(out: Path | None) -> "AbstractContextManager[IO[bytes] | None]":
    if out is None:
        return nullcontext()
    return os.fdopen(open_private(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb")


def _write(file: IO[bytes] | None, line: bytes) -> None:
    if file is not None:
        file.write(line)
    elif is_terminal():
        echo(line.decode().rstrip("\n"))
    else:
        write_output(line)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--head", metavar="HASH", help="The head that you kept, of this export or an earlier one."
)
@as_json_option
@click.pass_context
def verify(context: click.Context, file: Path, head: str | None, as_json: bool) -> None:
    """Verify an export: whether a record was changed, dropped, added or moved.

    Needs nothing but the file. Without --head a file whose hashes were all computed anew is not
    found out. Exits with 1 if something is wrong.
    """
    from quarterdeck.fleet.permissions.audit import verify_audit

    with file.open("rb") as lines:
        found = verify_audit(lines, head)
    if as_json:
        echo_json(found)
    else:
        _show(found, head is not None)
    context.exit(0 if found.is_sound else 1)


def _show(found: "AuditCheck", has_head: bool) -> None:
    for problem in found.problems:
        echo(escape_to_line(problem))
    if not found.is_sound:
        return
    masked = f", {found.masked} values left out" if found.masked else ""
    echo(f"{found.records} records, nothing changed, dropped or moved{masked}")
    echo(f"head {found.head}")
    if not has_head:
        echo("Without --head this shows only that the file agrees with itself.")
    elif found.head_record != found.records:
        echo(f"The given head is that of record {found.head_record}; later ones are new.")


for _command in (export, verify):
    audit.add_command(_command)
