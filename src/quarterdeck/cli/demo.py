"""``quarterdeck demo``: two agents fix a small project; no key and no network needed."""

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import click

from .output import echo

if TYPE_CHECKING:
    from collections.abc import Callable

    from quarterdeck.config.places import Places
    from quarterdeck.fleet.api import AgentInfo
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.wire.events import PermissionAsked

__all__ = ["demo"]


@click.command()
@click.option("-y", "--yes", is_flag=True, help="Run it here, allow everything, and print it.")
@click.option("--keep", is_flag=True, help="Keep the project and the agents of the demo.")
@click.option("--end", is_flag=True, help="Remove what an earlier demo left behind.")
def demo(yes: bool, keep: bool, end: bool) -> None:
    """Watch two agents work; no key needed.

    They fix a small project in about a minute. The model's words come from a script; files, tests,
    permission requests and the log are real. The demo removes everything afterwards unless you keep
    it. In a terminal, the workbench opens.
    """
    from .command_io import with_fleet

    if end:
        echo(with_fleet(_end))
        return
    if yes:
        raise SystemExit(with_fleet(lambda fleet: _play(fleet, keep)))
    from .welcome import is_terminal

    if not is_terminal():
        raise click.UsageError("the demo needs a terminal; use --yes to run it without one")
    from quarterdeck.workbench.launch import open_workbench

    if code := open_workbench(demo=True):
        raise click.exceptions.Exit(code)


async def _end(fleet: "HostClient") -> str:
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.demo import end_demo
    from quarterdeck.wire.terminal_text import count_noun

    ended = await end_demo(fleet, Places.find())
    return (
        f"removed: {count_noun(ended, 'agent')} and their project" if ended else "there is no demo"
    )


async def _play(fleet: "HostClient", keep: bool) -> int:
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.demo import begin_demo

    places = Places.find()
    last = (await fleet.status()).last_seq
    info = await begin_demo(fleet, places)
    try:
        await _follow(fleet, info, last)
        return 0 if (await fleet.agent(info.session)).state == "idle" else 1
    finally:
        await asyncio.shield(_leave(fleet, places, keep))


async def _leave(fleet: "HostClient", places: "Places", keep: bool) -> None:
    from quarterdeck.fleet.demo import end_demo, keep_demo

    if keep:
        for project in await keep_demo(fleet, places):
            echo(f"= kept: {project}")
    else:
        await end_demo(fleet, places)
        echo("= the demo is removed")


async def _follow(fleet: "HostClient", info: "AgentInfo", after: int) -> None:
    """Print what the lead does, and allow what it and its agents ask for, until its turn ends."""
    from quarterdeck.wire.events import PermissionAsked, SessionEnded, SessionSpawned, TurnEnded

    from .fleet.logs import TranscriptPrinter, write_flushed

    transcript = TranscriptPrinter(write_flushed)
    names = {info.session: info.name}
    async with aclosing(fleet.follow(after)) as records:
        async for record in records:
            event = record.event
            if isinstance(event, SessionSpawned) and event.parent_session == info.session:
                names[record.session] = event.name
            if record.session not in names:
                continue
            if record.session == info.session:
                transcript.record(record)
            if isinstance(event, PermissionAsked):
                await _allow(fleet, event, names[record.session], transcript.line)
            if isinstance(event, TurnEnded | SessionEnded) and record.session == info.session:
                transcript.end_line()
                return


async def _allow(
    fleet: "HostClient", asked: "PermissionAsked", name: str, line: "Callable[[str], None]"
) -> None:
    from quarterdeck.fleet.errors import NoSuchRequestError

    try:
        await fleet.answer(asked.request, "allow_once", by="demo --yes")
    except NoSuchRequestError:  # the agent took it back
        return
    line(f"= {name} needed permission, allowed by --yes: {asked.title}")
