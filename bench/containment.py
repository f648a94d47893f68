"""What it costs to run a command contained: ``true``, bare and in each kind of sandbox."""

import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from quarterdeck.system.api import CommandSpec, Terminals
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.sandbox import SandboxedSystem, probe_bubblewrap, probe_landlock

from .size import Size
from .table import Row, Table

_GOAL = 0.003
"""Seconds that Landlock may add."""


@dataclass(slots=True)
class _Contender:
    terminals: Terminals
    wall: list[float] = field(default_factory=list[float])
    cpu: float = 0.0


def run(size: Size) -> Iterator[Table]:
    """Measure."""
    # Not below /tmp, where bubblewrap would have to show it first.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        rows = asyncio.run(_rows(Path(folder), size.choose(200, 20, 2)))
    yield Table("A contained command, from the call until nothing of it is left", rows)


async def _rows(folder: Path, rounds: int) -> list[Row]:
    missing: list[Row] = []
    async with AsyncExitStack() as stack:
        bare = await stack.enter_async_context(LocalSystem([folder]))
        contenders = {"bare": _Contender(bare.terminals)}
        for found, name in ((probe_landlock(), "Landlock"), (probe_bubblewrap(), "bubblewrap")):
            if not found.is_there:
                missing.append(Row(name, "not here", found.reason))
                continue
            for sealed in (False, True):
                system = SandboxedSystem([folder], found, sealed=sealed)
                await stack.enter_async_context(system)
                kind = f"{name}, {'sealed' if sealed else 'workspace'}"
                contenders[kind] = _Contender(system.terminals)
        for number in range(rounds + 1):  # the first of each does not count
            for contender in contenders.values():
                await _measure(contender, counts=number > 0)
    base = contenders["bare"]
    return [_row(name, each, base, rounds) for name, each in contenders.items()] + missing


async def _measure(contender: _Contender, *, counts: bool) -> None:
    cpu, begun = _cpu(), time.perf_counter()
    terminal = await contender.terminals.create(CommandSpec(argv=["/bin/true"]))
    await terminal.wait()
    await terminal.release()
    if counts:
        contender.wall.append(time.perf_counter() - begun)
        contender.cpu += _cpu() - cpu


def _row(name: str, each: _Contender, base: _Contender, rounds: int) -> Row:
    wall = _quiet(each.wall)
    figure = f"{wall * 1000:.1f} ms wall, {each.cpu / rounds * 1000:.1f} ms CPU"
    if each is base:
        return Row(name, figure)
    more = wall - _quiet(base.wall)
    ratio = f"{more * 1000:+.1f} ms, CPU {each.cpu / base.cpu:.2f}×"
    if not name.startswith("Landlock"):
        return Row(name, figure, ratio)
    return Row(name, figure, ratio, f"≤ +{_GOAL * 1000:.0f} ms", more <= _GOAL)


def _quiet(seconds: list[float]) -> float:
    """The lowest decile: what else runs on the machine makes most of the others longer."""
    return statistics.quantiles(seconds, n=10)[0]


def _cpu() -> float:
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(who) for who in both]
    return sum(each.ru_utime + each.ru_stime for each in used)
