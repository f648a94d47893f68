"""A long life of one host: a day of many agents, made short, and a session of many steps.

The day: agents work turn after turn, ask for permission, are replaced by others; clients come and
go, search, open terminals. Time is simulated: the events of a day happen as fast as they can, the
host's clock is that of the day, and what looks after the log now and then does so by it. Sessions
are kept for six hours, so that in the second half everything has to be flat; ``flatness.py`` has
the rule. Times are CPU times.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.terminals.api import FleetTerminalOptions
from quarterdeck.wire.content import text

from .curves import Curve, CurveChart
from .flatness import Tolerance, judge_flatness
from .life_host import LifeHost, life_host
from .processes import started
from .size import Size
from .table import Row, Table
from .terminals import on_terminal
from .workbench import OURS

__all__ = ["run"]

_KEPT_DAYS = 0.25
_STAYS = 4
"""Hours after which an agent is replaced."""
_CLIENTS = 4
"""Clients that come and go in an hour."""
_FRAME = "ctrl+q quit"
_LISTINGS = 10
_PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class _Limit:
    unit: str
    tolerance: Tolerance


_MEGABYTES = _Limit("MB", Tolerance(0.05, 1.0))
_COUNT = _Limit("", Tolerance(0.0, 3.0))
_FILE = _Limit("MB", Tolerance(0.10, 2.0))
_LIMITS = {
    "RSS": _MEGABYTES,
    "own memory": _MEGABYTES,
    "objects": _Limit("", Tolerance(0.03, 500.0)),
    "descriptors": _COUNT,
    "threads": _COUNT,
    "tasks": _COUNT,
    "log": _FILE,
    "search": _FILE,
    "write-ahead logs": _FILE,
    "list of agents": _Limit("ms", Tolerance(0.15, 0.5)),
    "attach": _Limit("ms", Tolerance(0.15, 2.0)),
    "search for a word": _Limit("ms", Tolerance(0.15, 2.0)),
    "`quarterdeck ps`": _Limit("ms", Tolerance(0.10, 10.0)),
    "first frame": _Limit("ms", Tolerance(0.10, 30.0)),
    "1,000 steps": _Limit("ms", Tolerance(0.10, 5.0)),
    "last page": _Limit("ms", Tolerance(0.15, 2.0)),
}
"""What may not grow, and by how much it may seem to."""
_CHARTS = (
    ("memory", "Memory of the host", "MB", ("RSS", "PSS", "own memory")),
    (
        "files",
        "Files of the host; sessions are kept for six hours",
        "MB",
        ("log", "search", "write-ahead logs"),
    ),
    ("counts", "What the host holds", "", ("descriptors", "threads", "tasks")),
    (
        "answers",
        "What answers cost, CPU of the host",
        "ms",
        ("list of agents", "attach", "search for a word"),
    ),
    ("programs", "What programs cost, CPU", "ms", ("`quarterdeck ps`", "first frame")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How much happens."""

    agents: int
    hours: int
    turns: int
    """Of each agent in an hour."""
    steps: int = 5
    chunks: int = 8
    thousands: int = 100
    """Of steps of the long session."""
    programs: bool = True
    """Whether whole programs are started at each sample, too."""
    unit: int = 1_000
    """Steps between two samples of the long session."""


_FULL = _Plan(agents=50, hours=24, turns=4)
_QUICK = _Plan(agents=50, hours=24, turns=1, thousands=20)
_TINY = _Plan(agents=2, hours=2, turns=1, steps=1, chunks=1, thousands=2, programs=False, unit=5)


@dataclass(slots=True)
class _Samples:
    """Curves as they come: what was measured, at which hour or step."""

    curves: dict[str, list[tuple[float, float]]] = field(
        default_factory=dict[str, list[tuple[float, float]]]
    )

    def add(self, at: float, values: dict[str, float]) -> None:
        for name, value in values.items():
            self.curves.setdefault(name, []).append((at, value))

    def judge(self) -> list[Row]:
        """A row for each curve: where it began, its second half, and whether that is flat."""
        return [self._judge(name) for name in _LIMITS if name in self.curves]

    def _judge(self, name: str) -> Row:
        limit = _LIMITS[name]
        values = [value for _, value in self.curves[name]]
        found = judge_flatness(values, limit.tolerance)
        unit = f" {limit.unit}" if limit.unit else ""
        figure = f"{values[0]:,.1f} → {found.middle:,.1f}{unit}"
        goal = f"≤ {found.allowed:+,.1f}{unit}"
        return Row(name, figure, f"{found.growth:+,.1f}{unit}", goal, found.is_flat)

    def draw(self, part: str, x: str) -> tuple[CurveChart, ...]:
        """Charts of what was measured."""
        charts: list[CurveChart] = []
        for name, title, unit, names in _CHARTS:
            curves = tuple(Curve(n, tuple(self.curves[n])) for n in names if n in self.curves)
            if curves:
                charts.append(CurveChart(f"{part}-{name}", title, x, unit, curves))
        return tuple(charts)


class _Day:
    """Drives the host through the hours."""

    def __init__(self, host: LifeHost, fleet: HostClient, plan: _Plan) -> None:
        self._host = host
        self._fleet = fleet
        self._plan = plan
        self._places = Places.find(host.environment)
        self._names: list[str] = []
        self._spawned = 0
        self.events = 0
        self.turns = 0
        self.samples = _Samples()

    async def live(self) -> None:
        """All hours."""
        for _ in range(self._plan.agents):
            await self._spawn()
        for hour in range(self._plan.hours):
            await self._replace(hour)
            for turn in range(self._plan.turns):
                await self._work(asks=turn == 0)
                self._host.advance(1 / (self._plan.turns + 1))
            await self._visit()
            self._host.advance(1 / (self._plan.turns + 1))
            self.samples.add(hour + 1.0, await self._sample())
        self.events = (await self._fleet.status()).last_seq

    async def _spawn(self) -> None:
        self._spawned += 1
        name = f"agent-{self._spawned}"
        project = str(self._host.project)
        await self._fleet.spawn(SpawnOptions.of(agent="day", cwd=project, name=name, mode="ask"))
        self._names.append(name)

    async def _replace(self, hour: int) -> None:
        """Put away a part of the agents, the oldest ones, and start others."""
        if hour == 0:
            return
        for _ in range(max(1, self._plan.agents // _STAYS)):
            await self._fleet.archive(self._names.pop(0))
            await self._spawn()

    async def _work(self, *, asks: bool) -> None:
        """A turn of every agent; with ``asks`` a third of them need permission first."""
        work = f"{self._plan.steps} {self._plan.chunks}"
        asking = self._names[:: _STAYS - 1] if asks else []
        for name in self._names:
            told = f"{work} ask" if name in asking else work
            await self._fleet.send(name, (text(told),))
        self.turns += len(self._names)
        await self._rest()
        items = await self._fleet.inbox()
        if len(items) < len(asking):
            raise RuntimeError(f"{len(asking)} agents ask, the inbox has {len(items)} requests")
        for item in items:
            await self._fleet.answer(item.request, "allow_once")
        await self._rest()

    async def _rest(self) -> None:
        found = await self._fleet.wait(self._names, timeout=_PATIENCE)
        if len(found) < len(self._names):
            raise RuntimeError(f"{len(found)} of {len(self._names)} agents came to rest")
        if broken := [agent.name for agent in found if not agent.is_live]:
            raise RuntimeError(f"{broken} ended: {self._host.read_log()}")

    async def _visit(self) -> None:
        """Clients come, look, open a terminal, go."""
        for number in range(_CLIENTS):
            async with HostClient.connect(self._places) as client:
                await client.agents()
                name = self._names[number % len(self._names)]
                await client.read(name, before=1 << 40, limit=200)
                if number == 0:
                    await self._use_terminal(client)

    async def _use_terminal(self, client: HostClient) -> None:
        options = FleetTerminalOptions(cwd=str(self._host.project), command=("echo", "hello"))
        terminal = await client.open_terminal(options)
        async with contextlib.aclosing(client.watch_terminal(terminal.id)) as seen:
            async for _ in seen:
                pass
        await client.close_terminal(terminal.id)

    async def _sample(self) -> dict[str, float]:
        fleet = self._fleet
        await fleet.search("offset")  # which brings the index up to date
        await asyncio.to_thread(self._host.wait_for_rest)
        found = {
            "list of agents": await self._count_cpu(lambda: fleet.agents(), _LISTINGS),
            "search for a word": await self._count_cpu(lambda: fleet.search("offset"), _LISTINGS),
            "attach": await self._count_cpu(self._attach, _LISTINGS),
        }
        if self._plan.programs:
            found |= await asyncio.to_thread(self._run_programs)
        return await asyncio.to_thread(self._host.look) | found

    async def _attach(self) -> None:
        async with HostClient.connect(self._places) as client:
            status = await client.status()
            await client.agents()
            await client.inbox()
            page = await client.read(self._names[0], before=status.last_seq + 1, limit=200)
            async with contextlib.aclosing(client.follow(page[-1].seq - 1)) as records:
                await anext(records)

    async def _count_cpu(self, work: object, times: int) -> float:
        """Milliseconds of the host's CPU for one of these."""
        assert callable(work)
        before = self._host.read_cpu()
        for _ in range(times):
            await work()
        return (self._host.read_cpu() - before) / times * 1000

    def _run_programs(self) -> dict[str, float]:
        """CPU milliseconds of ``ps``, and of the workbench up to its first frame."""
        around = {"cwd": self._host.project, "environment": self._host.environment}
        errors = self._host.home / "ps.stderr"
        with started([OURS, "ps", "--json"], **around, stderr=errors) as program:
            program.stdout.read()
            program.wait()
        with on_terminal([OURS], **around) as screen:
            screen.wait_for(_FRAME, seconds=_PATIENCE)
            frame = screen.cpu()
        return {"`quarterdeck ps`": program.cost.cpu * 1000, "first frame": frame * 1000}


async def _live_day(plan: _Plan) -> Table:
    with life_host(_KEPT_DAYS) as host:
        async with HostClient.connect(Places.find(host.environment)) as fleet:
            day = _Day(host, fleet, plan)
            await day.live()
    return Table(
        f"{plan.agents} agents for {plan.hours} simulated hours: {day.turns:,} turns, "
        f"{day.events:,} events",
        day.samples.judge(),
        ("First hour → median of the second half; by how much it rises in that half; the limit.",),
        day.samples.draw("life", "simulated hours"),
    )


async def _take_steps(plan: _Plan) -> Table:
    """One session, thousands of steps: CPU of the host, its memory, the last page."""
    samples = _Samples()
    with life_host(_KEPT_DAYS) as host:
        places = Places.find(host.environment)
        async with HostClient.connect(places) as fleet:
            project = str(host.project)
            await fleet.spawn(SpawnOptions.of(agent="day", cwd=project, name="long", mode="ask"))
            for number in range(plan.thousands):
                before = host.read_cpu()
                await fleet.send("long", (text(f"{plan.unit} 1"),))
                await fleet.wait(["long"], timeout=_PATIENCE)
                taken = (host.read_cpu() - before) * 1000
                before = host.read_cpu()
                for _ in range(_LISTINGS):
                    await fleet.read("long", before=1 << 40, limit=200)
                page = (host.read_cpu() - before) / _LISTINGS * 1000
                memory = await asyncio.to_thread(host.look)
                kept = {
                    name: memory[name] for name in ("RSS", "PSS", "own memory", "objects", "tasks")
                }
                found = {"1,000 steps": taken, "last page": page, **kept}
                samples.add((number + 1) * plan.unit, found)
    chart = CurveChart(
        "life-steps",
        "1,000 more steps of one session, CPU of the host",
        "steps",
        "ms",
        (Curve("1,000 steps", tuple(samples.curves["1,000 steps"])),),
    )
    title = f"a session of {plan.thousands * plan.unit:,} steps in a host"
    return Table(title, samples.judge(), (), (chart,))


def run(size: Size) -> Iterator[Table]:
    """The day, then the long session."""
    plan = size.choose(_FULL, _QUICK, _TINY)
    yield asyncio.run(_live_day(plan))
    yield asyncio.run(_take_steps(plan))
