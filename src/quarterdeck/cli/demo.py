"""``quarterdeck demo``: two agents change one function; no key and no network needed."""

import asyncio
from typing import TYPE_CHECKING

import click

from .output import echo

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo, Fleet
    from quarterdeck.fleet.demo import DemoScratch

__all__ = ["demo"]

_MOST_SECONDS = 120.0
_PAUSE = 0.1
_PAGE = 500


@click.command()
@click.option("-y", "--yes", is_flag=True, help="Run it here, allow everything, and print it.")
@click.option("--fast", is_flag=True, help="No pauses in what the agents say.")
@click.option("--no-captions", is_flag=True, help="Do not explain what happens.")
@click.option("--keep", is_flag=True, help="Keep the folder of the demo.")
@click.option("--end", is_flag=True, help="Remove what demos that were killed left behind.")
def demo(yes: bool, fast: bool, no_captions: bool, keep: bool, end: bool) -> None:
    """Watch two agents work; no key needed.

    Two agents of two vendors change the same function, each in a git worktree of its own: you
    allow, review and land it in about a minute. What the agents say comes from a script; files,
    tests, permission requests, conflicts and merges are real. It has a folder of its own, which is
    removed when you quit. In a terminal, the workbench opens.
    """
    from quarterdeck.fleet.demo import DemoScratch, sweep_stale
    from quarterdeck.wire.terminal_text import count_noun

    if end:
        count = sweep_stale()
        echo(
            f"removed what was left of {count_noun(count, 'demo')}" if count else "nothing is left"
        )
        return
    from .welcome import is_terminal

    if not yes and not is_terminal():
        raise click.UsageError("the demo needs a terminal; use --yes to run it without one")
    with DemoScratch(is_fast=fast) as scratch:
        if keep:
            scratch.keep()
        code = asyncio.run(_play(scratch)) if yes else _open(scratch, has_captions=not no_captions)
    if scratch.is_kept:
        echo(f"= kept: {scratch.project}")
        echo(f"= its agents: QUARTERDECK_HOME={scratch.places.config} quarterdeck")
    elif yes:
        echo("= the demo is removed")
    if code:
        raise click.exceptions.Exit(code)


def _open(scratch: "DemoScratch", *, has_captions: bool) -> int:
    from quarterdeck.workbench.launch import open_workbench

    return open_workbench(
        scratch.places,
        scratch.environment,
        scratch.project,
        demo=scratch,
        has_captions=has_captions,
    )


async def _play(scratch: "DemoScratch") -> int:
    """Play it without a screen; the exit code."""
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.demo import start_agents

    async with (
        asyncio.timeout(_MOST_SECONDS),
        HostClient.connect(
            scratch.places, start=True, environ=scratch.environment, name="demo"
        ) as fleet,
    ):
        first, second = await start_agents(fleet, scratch)
        both = " and ".join(f"{one.name} ({one.agent})" for one in (first, second))
        echo(f"= {both} change {scratch.project}")
        await _allow_turn(fleet, first, 0)
        await _allow_turn(fleet, second, 0)
        for file in await _find_conflicts(fleet, first):
            echo(f"= {first.name} and {second.name} conflict: {file}")
        last = (await fleet.agent(second.session)).last_seq
        if await _land(fleet, first, second):
            return 0
        await _allow_turn(fleet, second, last)
        return 0 if await _land(fleet, second) else 1


async def _allow_turn(fleet: "Fleet", agent: "AgentInfo", after: int) -> None:
    """Allow what agents ask for, until a turn of one of them has ended after a record."""
    from quarterdeck.wire.events import SessionEnded, TurnEnded

    while True:
        await _allow_all(fleet)
        records = await fleet.read(agent.session, after=after, limit=_PAGE)
        if any(isinstance(record.event, TurnEnded | SessionEnded) for record in records):
            return
        after = records[-1].seq if records else after
        await asyncio.sleep(_PAUSE)


async def _allow_all(fleet: "Fleet") -> None:
    from quarterdeck.fleet.errors import NoSuchRequestError

    for item in await fleet.inbox():
        assert item.permission is not None
        try:
            await fleet.answer(item.request, "allow_once", by="demo --yes")
        except NoSuchRequestError:  # the agent took it back
            continue
        echo(f"= {item.name} needed permission, allowed by --yes: {item.permission.title}")


async def _find_conflicts(fleet: "Fleet", agent: "AgentInfo") -> list[str]:
    """Files that an agent and another one change, with what both change in them."""
    report = await fleet.conflicts(agent.cwd)
    del report  # the files are compared now
    now = await fleet.agent(agent.session)
    return [
        f"{file.path} {', '.join(file.symbols)}"
        for conflict in now.conflicts
        for file in conflict.files
    ]


async def _land(fleet: "Fleet", *agents: "AgentInfo") -> bool:
    """Land agents one after the other; True if all have."""
    from quarterdeck.fleet.landing.api import LandingOptions

    names = [agent.session for agent in agents]
    queue = await fleet.queue_landings(names, LandingOptions(checkout=True))
    while not queue.is_done:
        queue = await fleet.wait_landing(queue.id, seen=queue.revision, timeout=30.0)
    for entry in queue.entries:
        result = entry.result
        where = f" on {result.into}, after its check" if result and entry.state == "landed" else ""
        back = "; the agent was asked to resolve it" if result and result.handed_to else ""
        echo(f"= {entry.name}: {entry.state}{where}{back}")
    return all(entry.state == "landed" for entry in queue.entries)
