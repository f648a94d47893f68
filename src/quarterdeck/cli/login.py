"""``quarterdeck login``: log in to an agent by a way that it offers itself."""

import asyncio
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from quarterdeck.wire.terminal_text import escape_to_line

from .output import echo

if TYPE_CHECKING:
    from quarterdeck.drivers.errors import LoginMethod

__all__ = ["login"]


@click.command(epilog="Exit codes: 0 logged in, 1 not.")
@click.argument("name")
@click.option(
    "-m", "--method", metavar="ID", help="The login method; you are asked if there are several."
)
@click.option("--list", "only_list", is_flag=True, help="Only list the methods.")
@click.option("--json", "as_json", is_flag=True, help="With --list: write JSON.")
def login(name: str, method: str | None, only_list: bool, as_json: bool) -> None:
    """Log in to the agent NAME over ACP, and check that it can open a session.

    A terminal login uses this terminal until it is done.
    """
    from quarterdeck.drivers.login import log_in, login_methods

    if only_list or as_json:
        _show(asyncio.run(login_methods(name)), as_json)
        return
    if method is None and sys.stdin.isatty():
        method = _ask(asyncio.run(login_methods(name)))
    done = asyncio.run(log_in(name, method, run=partial(_run_here, name)))
    echo(f"Logged in to {name} with {done.name}.")


def _show(methods: "tuple[LoginMethod, ...]", as_json: bool) -> None:
    if as_json:
        import msgspec

        from .command_io import echo_json

        echo_json({"methods": [msgspec.to_builtins(method) for method in methods]})
        return
    if not methods:
        echo("It offers no login method.")
    for line in _lines(methods):
        echo(line)


def _lines(methods: "tuple[LoginMethod, ...]") -> list[str]:
    lines: list[str] = []
    for method in methods:
        lines.append(f"{escape_to_line(method.id)}  {escape_to_line(method.name)}")
        details = (
            method.description,
            f"runs: {' '.join(method.command)}" if method.command else None,
            f"needs: {', '.join(method.variables)}" if method.variables else None,
            method.link,
        )
        lines += [f"    {escape_to_line(detail)}" for detail in details if detail]
    return lines


def _ask(methods: "tuple[LoginMethod, ...]") -> str | None:
    if len(methods) < 2:
        return None
    for number, method in enumerate(methods, 1):
        first, *rest = _lines((method,))
        echo(f"{number}. {first}")
        for line in rest:
            echo(f"   {line}")
    number = click.prompt("Which", type=click.IntRange(1, len(methods)), default=1)
    return methods[number - 1].id


async def _run_here(name: str, method: "LoginMethod") -> int:
    """Run the command on this terminal; Ctrl-C is the command's."""
    from quarterdeck.drivers.agent_description import make_launch
    from quarterdeck.drivers.catalogue import find_agent
    from quarterdeck.system.environment import child_environment

    assert method.command is not None
    if not sys.stdin.isatty():
        words = " ".join(method.command)
        raise click.UsageError(f"this login method needs a terminal; run there: {words}")
    launch = make_launch(await asyncio.to_thread(find_agent, name), "acp")
    environment = child_environment(launch.environment, launch.inherit)
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = await asyncio.create_subprocess_exec(*method.command, env=environment)
        return await child.wait()
    except OSError as error:
        raise click.ClickException(f"cannot run {method.command[0]!r}: {error}") from error
    finally:
        signal.signal(signal.SIGINT, handler)
