"""``host``: the process that owns the agents."""

import asyncio
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from quarterdeck.config.places import Places
from quarterdeck.wire.clock import read_wall_clock
from quarterdeck.wire.terminal_text import count_noun

from ..command_io import as_json_option, echo_json, echo_lines, plain_json, with_fleet
from ..output import echo, escape_controls, format_age
from ..remote.host_option import find_remote, refuse_remote
from .exit_codes import NO_HOST

if TYPE_CHECKING:
    from quarterdeck.fleet.api import FleetStatus

__all__ = ["host"]


@click.group()
def host() -> None:
    """Manage the process that owns the agents.

    It starts with the first command that needs it, outlives your terminal, and exits after some
    time without clients, agents and terminals.
    """


@host.command()
@click.option(
    "--idle",
    type=click.FloatRange(0),
    metavar="MINUTES",
    help="Exit after this many minutes without clients, agents and terminals; 0: never.",
)
@click.option("--detached", is_flag=True, hidden=True)
def run(idle: float | None, detached: bool) -> None:
    """Run the host in the foreground until SIGTERM or Ctrl-C, for example under systemd."""
    from quarterdeck.fleet.host.lock import HostRunningError, log_file
    from quarterdeck.fleet.host.process import log_to_file

    refuse_remote("host run")
    places, environment = Places.find(), dict(os.environ)
    with log_to_file(log_file(places), environment):
        try:
            why = asyncio.run(_be_host(places, environment, idle, detached))
        except HostRunningError:
            if detached:  # two were started at once: the other one was first
                return
            raise
    if not detached:
        echo(f"The host ended: {why}", err=True)


async def _be_host(
    places: Places, environment: dict[str, str], idle: float | None, detached: bool
) -> str:
    from quarterdeck.config.loader import load_config
    from quarterdeck.fleet.host.lock import log_file
    from quarterdeck.fleet.host.process import open_local, run_host
    from quarterdeck.plans.proposal import PlanProposals, resume_at_start
    from quarterdeck.wire.tasks import log_failure, start_task

    tasks: list[asyncio.Task[None]] = []

    def ready() -> None:
        if not detached:
            echo(f"The host is ready; its log is {log_file(places)}", err=True)
        if settings.host.resume_plans:
            work = asyncio.to_thread(resume_at_start, places, environment)
            tasks.append(start_task(work, name="host: resume plans"))
            tasks[0].add_done_callback(log_failure)

    settings = (await asyncio.to_thread(load_config, places, environ=environment)).settings
    minutes = settings.host.idle_minutes if idle is None else idle
    return await run_host(
        places,
        environment,
        idle_seconds=minutes * 60 or None,
        notifications=settings.notifications,
        open_fleet=partial(
            open_local,
            resume_running=settings.host.resume_agents,
            plans=PlanProposals(places, environment),
        ),
        ready=ready,
    )


@host.command(hidden=True)
@click.option("--start", is_flag=True, help="Start it if it is not running.")
def report(start: bool) -> None:
    """Print where the host listens, for clients on other machines."""
    from quarterdeck.fleet.host.launcher import report_host

    found = asyncio.run(report_host(Places.find(), start=start))
    echo(plain_json(msgspec.json.encode(found)))


@host.command()
def disconnect() -> None:
    """Close the SSH connection to the host that --host names; its agents go on.

    It closes by itself a minute after its last use.
    """
    if (remote := find_remote()) is None:
        raise click.UsageError("name a host on another machine: quarterdeck --host NAME host …")
    if asyncio.run(remote.disconnect()):
        echo("Disconnected.")
    else:
        echo("There was no connection.")


@host.command()
@as_json_option
def start(as_json: bool) -> None:
    """Start the host if it is not running."""
    status = with_fleet(lambda fleet: fleet.status())
    if as_json:
        echo_json(status)
    else:
        echo(f"The host runs: process {status.pid}")


@host.command(epilog="Exit codes: 0 running, 3 not running.")
@as_json_option
@click.pass_context
def status(context: click.Context, as_json: bool) -> None:
    """Show whether the host is running, and its state."""
    from quarterdeck.fleet.errors import NoHostError

    try:
        found = with_fleet(lambda fleet: fleet.status(), start=False)
    except NoHostError as error:
        if as_json:
            echo_json({"running": False})
        else:
            echo(f"quarterdeck: {error}", err=True)
        context.exit(NO_HOST)
    if as_json:
        echo_json({"running": True, **_as_dict(found)})
    else:
        echo_lines(_status_lines(found))


@host.command(epilog="Exit codes: 0 stopped, 1 still running, 3 was not running.")
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    metavar="S",
    default=30.0,
    show_default=True,
    help="Seconds to wait until it has stopped.",
)
@click.option(
    "--force", is_flag=True, help="Kill the host, its agents and its terminals if it takes longer."
)
@as_json_option
@click.pass_context
def stop(context: click.Context, timeout: float, force: bool, as_json: bool) -> None:
    """Stop the host; its agents are closed and can be resumed, its terminals end."""
    from quarterdeck.fleet.errors import NoHostError
    from quarterdeck.fleet.host.launcher import stop_host

    try:
        if (remote := find_remote()) is not None:
            pid = asyncio.run(remote.stop(seconds=timeout, force=force))
        else:
            pid = asyncio.run(stop_host(Places.find(), timeout=timeout, force=force))
    except NoHostError as error:
        if as_json:
            echo_json({"stopped": False})
        else:
            echo(f"quarterdeck: {error}", err=True)
        context.exit(NO_HOST)
    if as_json:
        echo_json({"stopped": True, "pid": pid})
    else:
        echo("The host has ended.")


@host.command()
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Number of lines from the end.",
)
@click.option("-f", "--follow", is_flag=True, help="Follow new output; Ctrl-C ends it.")
@as_json_option
def logs(lines: int, follow: bool, as_json: bool) -> None:
    """Show the host's own log."""
    from quarterdeck.fleet.host.lock import log_file

    refuse_remote("host logs")
    path = log_file(Places.find())
    shown = _last_lines(path, lines)
    if as_json:
        echo_json({"file": str(path), "lines": shown})
        return
    echo_lines(escape_controls(line) for line in shown)
    if follow:
        for line in _new_lines(path):
            echo(escape_controls(line))


def _status_lines(status: "FleetStatus") -> Iterator[str]:
    age = format_age(status.started, read_wall_clock())
    agents = ", ".join(f"{number} {state}" for state, number in status.agents.items())
    yield f"process   {status.pid}, quarterdeck {escape_controls(status.version)}, for {age}"
    yield f"log       {escape_controls(status.log)}, {count_noun(status.last_seq, 'event')}"
    yield f"agents    {agents or 'none'}"
    yield f"needs you {status.needs_person or 'no agent'}"
    yield f"terminals {status.terminals or 'none'}"
    yield f"clients   {status.clients}"
    if status.problem:
        yield f"problem   {escape_controls(status.problem)}"


def _as_dict(status: "FleetStatus") -> dict[str, object]:
    return msgspec.to_builtins(status)


def _last_lines(path: Path, lines: int) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 1_000_000))
            found = file.read().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
    return found[-lines:] if lines else []


def _new_lines(path: Path) -> Iterator[str]:
    """Lines as they are written; a file that was turned over is opened anew."""
    position = path.stat().st_size if path.exists() else 0
    rest = b""
    while True:
        if path.exists():
            position = position if path.stat().st_size >= position else 0
            with path.open("rb") as file:
                file.seek(position)
                data = file.read()
            position += len(data)
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                yield line.decode("utf-8", "replace")
        time.sleep(0.3)
