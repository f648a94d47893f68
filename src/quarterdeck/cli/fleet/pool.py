"""``worker`` and ``pool``: plans on many machines."""

import asyncio
import math
from typing import TYPE_CHECKING, Any, cast

import click

from quarterdeck.wire.clock import read_wall_clock

from ..command_io import (
    as_json_option,
    echo_json,
    echo_lines,
    find_pool,
    terminal_width,
    with_pool,
)
from ..output import echo, format_age, table, write_notice

if TYPE_CHECKING:
    from quarterdeck.plans.pool.database import PoolDatabase
    from quarterdeck.plans.pool.limits import PoolLimit
    from quarterdeck.plans.pool.store import WorkerInfo

__all__ = ["pool", "pool_option", "worker"]

pool_option = click.option(
    "--pool",
    metavar="URL",
    help="The pool: postgresql://HOST/DATABASE without a password, a file with a URL, or `default` "
    "for the variable QUARTERDECK_POOL or the setting pool.",
)


@click.command(epilog="Exit codes: 0 drained, 1 the pool or the host cannot be used.")
@pool_option
@click.option(
    "--slots", type=click.IntRange(1), default=4, show_default=True, help="Tasks at a time."
)
@click.option("--labels", default="", metavar="A,B", help="What this machine has, for tasks.")
@click.option("--name", help="Name of the worker; by default, that of the machine.")
@click.option(
    "--lease",
    type=click.FloatRange(1.0),
    default=90.0,
    show_default=True,
    help="Seconds without a heartbeat after which the worker counts as dead.",
)
@click.option(
    "--drain",
    type=click.FloatRange(0.0),
    default=3600.0,
    show_default=True,
    help="Seconds that tasks may go on after SIGTERM.",
)
def worker(
    pool: str | None, slots: int, labels: str, name: str | None, lease: float, drain: float
) -> None:
    """Work on the tasks of a pool's plans, with the agents of this machine.

    Anyone who may write to the database of the pool can run commands here. SIGTERM drains: no more
    tasks are taken, those under way end. A second one gives them back at once. Needs the extra
    `pool`.
    """
    from quarterdeck.config.places import Places

    address = find_pool(pool)
    from quarterdeck.plans.pool.worker import WorkerOptions, run_worker

    places = Places.find()
    options = WorkerOptions(
        slots=slots,
        labels=tuple(label.strip() for label in labels.split(",") if label.strip()),
        lease_seconds=lease,
        drain_seconds=drain,
        name=name or "",
    )
    asyncio.run(run_worker(address, places, options, lambda text: echo(text)))


@click.group()
def pool() -> None:
    """Create and look at a pool: plans on many machines. See docs/pool.md."""


@pool.command()
@pool_option
def init(pool: str | None) -> None:
    """Create the tables of a pool in its database; does nothing if they are there."""
    address = find_pool(pool)
    from quarterdeck.plans.pool.database import create_tables

    if asyncio.run(create_tables(address)):
        echo(f"the pool {address} is ready; start workers with `quarterdeck worker`")
    else:
        write_notice(f"quarterdeck: {address} is a pool already")


@pool.command()
@pool_option
@as_json_option
def workers(pool: str | None, as_json: bool) -> None:
    """List the workers of a pool."""
    found = with_pool(pool, _list_workers)
    if as_json:
        echo_json({"workers": found})
        return
    if not found:
        echo("No worker has come yet; start one with `quarterdeck worker`.")
        return
    now = read_wall_clock()
    rows = [
        (
            *(one.name, one.state, str(one.slots), ",".join(one.labels) or "-"),
            *(format_age(now - int(one.seconds * 1e6), now), one.program),
        )
        for one in found
    ]
    echo_lines(
        table(("NAME", "STATE", "SLOTS", "LABELS", "SEEN", "VERSION"), rows, terminal_width())
    )


class _Most(click.ParamType[float]):
    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Infinite for ``none``."""
        if value == "none":
            return math.inf
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither a number nor `none`", param, ctx)


@pool.command()
@pool_option
@click.argument("kind", type=click.Choice(("vendor", "label", "budget")))
@click.argument("name")
@click.argument("most", type=_Most(), metavar="NUMBER|none")
def limit(pool: str | None, kind: str, name: str, most: float) -> None:
    """Limit what a pool does: tasks with the agent NAME or the label NAME at a time, or the usd or
    ktok that sessions of the last 24 hours may have used.

    A limit holds back tasks that are not begun. `none` removes it.
    """
    given = None if math.isinf(most) and most > 0 else most

    async def set_limit(database: "PoolDatabase") -> bool:
        from quarterdeck.plans.pool.limits import LimitKind, PoolLimits

        return await PoolLimits(database).set(cast("LimitKind", kind), name, given)

    if not with_pool(pool, set_limit):
        write_notice(f"quarterdeck: there is no limit of {kind} {name}")


@pool.command()
@pool_option
@as_json_option
def limits(pool: str | None, as_json: bool) -> None:
    """Show the limits of a pool and how far they are used."""
    found = with_pool(pool, _list_limits)
    if as_json:
        echo_json({"limits": found})
        return
    if not found:
        echo("No limits; set one with `quarterdeck pool limit`.")
        return
    rows = [
        (one.kind, one.name, f"{one.used:g}", f"{one.most:g}", "reached" if one.is_reached else "")
        for one in found
    ]
    echo_lines(table(("KIND", "NAME", "USED", "MOST", ""), rows, terminal_width()))


@pool.command()
@pool_option
@click.argument("name")
def clean(pool: str | None, name: str) -> None:
    """Remove what the run NAME has left at the git remote, once it has ended.

    Workers do it by themselves after `keep_days` of the plan. Transcripts and results stay.
    """
    from quarterdeck.config.places import Places

    async def clean_run(database: "PoolDatabase") -> int:
        from quarterdeck.plans.pool.cleanup import PoolCleanUp

        return (await PoolCleanUp(database, Places.find()).clean_named(name)).references

    echo(f"{with_pool(pool, clean_run)} references removed")


async def _list_workers(database: "PoolDatabase") -> "list[WorkerInfo]":
    from quarterdeck.plans.pool.submission import PoolRuns

    return await PoolRuns(database).list_workers()


async def _list_limits(database: "PoolDatabase") -> "list[PoolLimit]":
    from quarterdeck.plans.pool.limits import PoolLimits

    return await PoolLimits(database).list_all()
