"""``terminal``: programs in terminals that the host keeps, and the screens of agents."""

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from quarterdeck.fleet.terminals.api import TERMINAL_VARIABLE, FleetTerminalOptions
from quarterdeck.wire.clock import read_wall_clock

from ..command_io import (
    as_json_option,
    echo_json,
    echo_lines,
    resolve_directory,
    terminal_width,
    with_fleet,
)
from ..output import echo, escape_controls, format_age, table
from ..remote.host_option import DIRECTORY
from .exit_codes import ENDED_BADLY

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.terminals.api import TerminalInfo

__all__ = ["terminal"]

_HEAD = ("ID", "NAME", "STATE", "AGE", "SIZE", "COMMAND")
_WELL = "exit code 0"


@click.group()
def terminal() -> None:
    """Run programs in terminals that outlive this one.

    They belong to the host: you can detach from one, attach from elsewhere, and share it with
    others. They end when you close them or the host stops. Terminals of agents that run in one are
    included.
    """


@terminal.command("open")
@click.option("-n", "--name", help="Its name; default: the name of its program.")
@click.option(
    "-C",
    "--cwd",
    type=DIRECTORY,
    help="The directory; default: the current one.",
)
@click.option("--attach", "goes_there", is_flag=True, help="Attach to it immediately.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@as_json_option
def open_(
    name: str | None, cwd: str | None, goes_there: bool, command: tuple[str, ...], as_json: bool
) -> None:
    """Start COMMAND, or your shell, in a new terminal; prints its id.

    Put the command's own options after --.
    """
    if goes_there:
        _need_terminal()
        _need_no_json(as_json)
    columns, rows = _size()
    here = resolve_directory(cwd)

    async def work(fleet: "HostClient") -> int:
        options = FleetTerminalOptions(
            cwd=here, command=command, name=name, columns=columns, rows=rows
        )
        info = await fleet.open_terminal(options)
        if goes_there:
            return await _attach(fleet, info, closes=True)
        if as_json:
            echo_json(info)
        else:
            echo(info.id)
        return 0

    raise SystemExit(with_fleet(work))


@terminal.command("list")
@as_json_option
def list_(as_json: bool) -> None:
    """List the terminals, oldest first, including those of agents."""
    found = with_fleet(lambda fleet: fleet.terminals())
    if as_json:
        echo_json({"terminals": found})
    elif not found:
        echo("No terminals. `quarterdeck terminal open --attach` opens one.")
    else:
        now = read_wall_clock()
        echo_lines(table(_HEAD, [_row(one, now) for one in found], terminal_width()))


@terminal.command(epilog="Exit codes: 0 detached or its program succeeded, 5 its program failed.")
@click.argument("terminal")
def attach(terminal: str) -> None:
    r"""Attach to TERMINAL, by its id or name or the name of an agent; ctrl+\ detaches.

    All other keys go to its program. It takes the size of this terminal; an agent's terminal keeps
    its own. It keeps running when you detach.
    """
    _need_terminal()

    async def work(fleet: "HostClient") -> int:
        info = _find(await fleet.terminals(), terminal)
        if os.environ.get(TERMINAL_VARIABLE) == info.id:
            raise click.UsageError("this terminal cannot be attached inside itself")
        return await _attach(fleet, info)

    raise SystemExit(with_fleet(work))


@terminal.command()
@click.argument("terminals", nargs=-1, required=True)
@as_json_option
def close(terminals: tuple[str, ...], as_json: bool) -> None:
    """Kill the programs in TERMINALS and all processes that they started."""

    async def work(fleet: "HostClient") -> list[str]:
        closed: list[str] = []
        for given in terminals:
            info = _find(await fleet.terminals(), given)
            await fleet.close_terminal(info.id)
            closed.append(info.id)
        return closed

    closed = with_fleet(work)
    if as_json:
        echo_json({"closed": closed})


async def _attach(fleet: "HostClient", info: "TerminalInfo", *, closes: bool = False) -> int:
    from quarterdeck.fleet.errors import NoSuchFleetTerminalError

    from .terminal_console import TerminalConsole

    attached = TerminalConsole(fleet, info)
    code = await attached.run()
    if attached.left is None:
        text = (
            f"Detached from {escape_controls(info.name)}, which keeps running; quarterdeck "
            f"terminal attach {info.id}"
        )
        echo(text, err=True)
        return code
    if closes:
        with suppress(NoSuchFleetTerminalError):  # it may be closed already
            await fleet.close_terminal(info.id)
    echo(f"{escape_controls(info.name)} has ended: {attached.left}", err=True)
    return 0 if attached.left == _WELL else ENDED_BADLY


def _find(infos: "list[TerminalInfo]", given: str) -> "TerminalInfo":
    """The terminal of an id, or else of a name that only one has."""
    from quarterdeck.fleet.errors import NoSuchFleetTerminalError

    found = [one for one in infos if one.id == given] or [one for one in infos if one.name == given]
    if not found:
        raise NoSuchFleetTerminalError(given)
    if len(found) > 1:
        ids = ", ".join(one.id for one in found)
        raise click.UsageError(f"{len(found)} terminals are called {given!r}: {ids}; use an id")
    return found[0]


def _row(info: "TerminalInfo", now: int) -> tuple[str, ...]:
    state = "running" if info.ended is None else info.ended
    age, size = format_age(info.opened, now), f"{info.columns}x{info.rows}"
    return (info.id, info.name, state, age, size, info.title or " ".join(info.command))


def _size() -> tuple[int, int]:
    try:
        size = os.get_terminal_size(1)
    except OSError:
        return 120, 40
    return size.columns or 120, size.lines or 40


def _need_terminal() -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(
            "this needs a terminal for input and output; in a script, use `quarterdeck terminal "
            "list --json`"
        )


def _need_no_json(as_json: bool) -> None:
    if as_json:
        raise click.UsageError("--attach and --json cannot be used together")
