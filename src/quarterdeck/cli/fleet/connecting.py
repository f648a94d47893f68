"""What the fleet's commands share: the way to the host, and their output."""

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..output import echo

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient

__all__ = [
    "as_json_option",
    "directory",
    "echo_json",
    "echo_lines",
    "given_text",
    "plain_json",
    "terminal_width",
    "with_fleet",
]

T = TypeVar("T")

as_json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON.")


def with_fleet(work: "Callable[[HostClient], Awaitable[T]]", *, start: bool = True) -> T:
    """Do some work with the host's fleet; ``start`` starts a host where there is none.

    Raises:
        NoHost: none is running, and none shall be started.
        QuarterdeckError: the host cannot be reached, or it refuses.
    """
    return asyncio.run(_with_fleet(work, start))


async def _with_fleet(work: "Callable[[HostClient], Awaitable[T]]", start: bool) -> T:
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.client import HostClient

    async with HostClient.connect(Places.find(), start=start, name="cli") as fleet:
        return await work(fleet)


def echo_json(value: Any) -> None:
    """Write a value as indented JSON."""
    import msgspec

    echo(plain_json(msgspec.json.format(msgspec.json.encode(value), indent=2)))


def plain_json(data: bytes) -> str:
    """JSON that means the same and holds nothing that acts on a terminal."""
    from .text import escape

    return escape(data.decode())


def echo_lines(lines: Iterable[str]) -> None:
    """Write lines as they are."""
    for line in lines:
        echo(line)


def terminal_width() -> int | None:
    """The columns of the terminal; None where the output is no terminal, and nothing is cut."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return shutil.get_terminal_size().columns


def directory(given: str | None) -> str:
    """An absolute directory; the current one by default.

    Raises:
        click.UsageError: the current directory is gone.
    """
    try:
        return str(Path(given or ".").resolve(strict=True))
    except FileNotFoundError as error:
        raise click.UsageError("the current directory is gone; change to another") from error


def given_text(given: str | None) -> str | None:
    """A prompt from the argument, or from standard input with ``-``."""
    if given != "-":
        return given
    piped = sys.stdin.buffer.read().decode("utf-8", "replace")
    if not piped.strip():
        raise click.UsageError("no prompt came from standard input")
    return piped
