"""``journal prune``: delete sessions for good, by age or by name."""

import asyncio
import time
from typing import TYPE_CHECKING

import click

from quarterdeck.config.places import Places

from .durations import DURATION
from .output import echo

if TYPE_CHECKING:
    from pathlib import Path

    from quarterdeck.fleet.keeping import Kept

__all__ = ["prune"]


@click.command()
@click.option(
    "--older-than", type=DURATION, metavar="TIME", help="Sessions at rest for 90d, 12h, 4w…"
)
@click.option(
    "--session", "sessions", multiple=True, metavar="ID", help="This session; may be repeated."
)
@click.option("--dry-run", is_flag=True, help="Only tell which would be deleted.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@click.pass_context
def prune(
    context: click.Context,
    older_than: int | None,
    sessions: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete sessions for good, with all that was said in them.

    Those of the host's log and those that were run without a host. With both options, only those
    that are named and old. Agents that are live stay, and so does what another process has open.
    """
    if older_than is None and not sessions:
        raise click.UsageError("say which: --older-than 90d, or --session ID")
    path: Path | None = context.obj
    if path is not None:
        raise click.UsageError("prune works on your own logs; leave out --file")
    done = asyncio.run(_prune(older_than, sessions, dry_run))
    _tell(done, dry_run, as_json)
    if any(one.problem for one in done):
        context.exit(1)


async def _prune(older_than: int | None, sessions: tuple[str, ...], dry_run: bool) -> "list[Kept]":
    from quarterdeck.agent.store import NoSuchSession
    from quarterdeck.fleet.going_back import forget_files
    from quarterdeck.fleet.keeping import forget, kept_sessions

    places = Places.find()
    before = None if older_than is None else time.time_ns() // 1_000 - older_than
    known = {one.session: one for one in await kept_sessions(places)}
    for session in sessions:
        if session not in known:
            raise NoSuchSession(session)
    meant = [
        one
        for one in known.values()
        if (not sessions or one.session in sessions) and (before is None or one.updated < before)
    ]
    if dry_run:
        return meant
    done = await forget(places, meant)
    await forget_files(places, [one.session for one in done if one.problem is None])
    return done


def _tell(done: "list[Kept]", dry_run: bool, as_json: bool) -> None:
    from .fleet.connecting import echo_json, terminal_width
    from .fleet.text import since, table

    if as_json:
        echo_json({"dry_run": dry_run, "sessions": done})
        return
    if not done:
        echo("Nothing to delete.")
        return
    now = time.time_ns() // 1_000
    head = ("WOULD GO" if dry_run else "DELETED", "AGENT", "AGE", "TITLE", "PROBLEM")
    rows = [
        (
            one.session,
            one.agent or "",
            since(one.updated, now),
            one.title or one.cwd or "",
            f"not deleted: {one.problem}" if one.problem else "",
        )
        for one in done
    ]
    for line in table(head, rows, terminal_width()):
        echo(line)
