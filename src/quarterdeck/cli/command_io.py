"""What commands share: the connection to the host, common options, JSON and text output."""

import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from .output import echo, escape_json, escape_to_line
from .remote.host_option import find_group, find_remote, resolve_remote

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.fleet.remote.grouped_host import GroupedHost
    from quarterdeck.plans.pool.address import PoolAddress
    from quarterdeck.plans.pool.database import PoolDatabase

__all__ = [
    "DURATION",
    "Duration",
    "as_json_option",
    "chosen_pool",
    "echo_json",
    "echo_lines",
    "find_pool",
    "plain_json",
    "read_given_text",
    "resolve_directory",
    "terminal_width",
    "with_fleet",
    "with_pool",
]

T = TypeVar("T")

as_json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON.")


def with_fleet(work: "Callable[[HostClient], Awaitable[T]]", *, start: bool = True) -> T:
    """Do some work with the host's fleet; ``start`` starts a host where there is none.

    Raises:
        NoHostError: none is running, and none is to be started.
        QuarterdeckError: the host cannot be reached, or it refuses.
    """
    if chosen_pool.url is not None:
        return with_pool(chosen_pool.url, lambda database: work(_make_pool_fleet(database)))
    return asyncio.run(_with_fleet(work, start))


class _ChosenPool:
    url: str | None = None


chosen_pool = _ChosenPool()
"""What `quarterdeck --pool` says: its commands are about the agents of a pool then."""


def find_pool(given: str | None) -> "PoolAddress":
    """The address of a pool: what is given, or the default one.

    Raises:
        PoolError: it cannot be used, or there is none.
    """
    from quarterdeck.plans.engine import check_engine

    check_engine()
    from quarterdeck.config.loader import load_config
    from quarterdeck.config.places import Places
    from quarterdeck.plans.pool.address import find_pool_address

    # Your own file alone: a project must not choose where commands go.
    return find_pool_address(
        given, setting=lambda: load_config(Places.find(), environ={}).settings.pool
    )


def with_pool(url: str | None, work: "Callable[[PoolDatabase], Awaitable[T]]") -> T:
    """Do some work with a pool; None: the default one.

    Raises:
        PoolError: it cannot be found or reached, or it refuses.
    """
    address = find_pool(url)
    from quarterdeck.plans.pool.database import PoolDatabase

    async def run() -> T:
        async with PoolDatabase.open(address, "quarterdeck cli") as database:
            return await work(database)

    return asyncio.run(run())


def _make_pool_fleet(database: "PoolDatabase") -> "HostClient":
    from quarterdeck.plans.pool.pool_fleet import PoolFleet

    return PoolFleet.create(database)


async def _with_fleet(work: "Callable[[HostClient], Awaitable[T]]", start: bool) -> T:
    from quarterdeck.config.places import Places
    from quarterdeck.fleet.client import HostClient

    if (remote := find_remote()) is not None:
        async with HostClient.connect_remote(remote, start=start, name="cli") as fleet:
            return await work(fleet)
    if hosts := find_group():
        return await _with_group(work, hosts, start)
    async with HostClient.connect(Places.find(), start=start, name="cli") as fleet:
        return await work(fleet)


async def _with_group(
    work: "Callable[[HostClient], Awaitable[T]]", hosts: "tuple[GroupedHost, ...]", start: bool
) -> T:
    from quarterdeck.fleet.remote.host_group import HostGroup

    async with HostGroup.connect(hosts, start=start) as group:
        try:
            return await work(cast("HostClient", group))
        finally:
            for label, reason in group.problems.items():
                click.echo(escape_to_line(f"host {label}: {reason}"), err=True)


def echo_json(value: Any) -> None:
    """Write a value as indented JSON."""
    import msgspec

    echo(plain_json(msgspec.json.format(msgspec.json.encode(value), indent=2)))


def plain_json(data: bytes) -> str:
    """JSON that means the same and holds nothing that acts on a terminal."""
    return escape_json(data.decode())


def echo_lines(lines: Iterable[str]) -> None:
    """Write lines as they are."""
    for line in lines:
        echo(line)


def terminal_width() -> int | None:
    """The columns of the terminal; None where the output is no terminal, and nothing is cut."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    import shutil  # late: it loads three libraries of compression

    return shutil.get_terminal_size().columns


def resolve_directory(given: str | None) -> str:
    """An absolute directory; the current one by default. On another machine: see ``--host``.

    Raises:
        click.UsageError: the current directory is gone.
    """
    if (there := resolve_remote(given)) is not None:
        return there
    try:
        return str(Path(given or ".").resolve(strict=True))
    except FileNotFoundError as error:
        raise click.UsageError(
            "the current directory no longer exists; change to another"
        ) from error


def read_given_text(given: str | None) -> str | None:
    """A prompt from the argument, or from standard input with ``-``."""
    if given != "-":
        return given
    piped = sys.stdin.buffer.read().decode("utf-8", "replace")
    if not piped.strip():
        raise click.UsageError("standard input has no prompt")
    return piped


_SECONDS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_FORM = re.compile(r"([0-9]{1,6})([wdhms])")


class Duration(click.ParamType[int]):
    """A number and a unit; the value is in microseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it."""
        if isinstance(value, int):
            return value
        found = _FORM.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a duration; write it as 90d, 12h or 30m", param, ctx)
        return int(found[1]) * _SECONDS[found[2]] * 1_000_000


DURATION = Duration()
