"""Our own agent against other people's, all on one scripted model that answers at once.

(a) from spawn to a new session over ACP; (b) a turn without a screen and with one text reply;
(c) a turn with 50 steps, each of which reads a file; (d) memory of the whole process tree.
"""

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from .agent_rig import AgentFailedError, AgentRig, ScriptedModel, scripted
from .contenders import CONTENDERS, OURS, Contender
from .processes import Cost, adopt_orphans
from .size import Size
from .table import Row, Table

_SLOW, _FEWEST = 1.0, 3
"""An agent that takes more seconds than this is run no more often than that."""
_TINY = (OURS, "codex")
"""Those of the tiny run: ours, and the quickest other where it is installed."""


@dataclass(slots=True)
class AgentFigures:
    """What was measured of one agent, run by run."""

    steps: tuple[int, int]
    """In a short turn and in a long one."""
    sessions: list[Cost] = field(default_factory=list[Cost])
    texts: list[Cost] = field(default_factory=list[Cost])
    few: list[Cost] = field(default_factory=list[Cost])
    many: list[Cost] = field(default_factory=list[Cost])
    gaps: list[float] = field(default_factory=list[float])
    """Seconds between two requests of a long turn."""
    early: list[float] = field(default_factory=list[float])
    late: list[float] = field(default_factory=list[float])
    """The same, early in the long turn and at its end."""
    memory: int = 0
    request: int = 0
    """Bytes of the last request."""
    served: float = 0.0
    """CPU seconds of the model's server, a request."""

    @property
    def step_cpu(self) -> float:
        """Milliseconds of one step: what a long turn takes more than a short one."""
        few, many = self.steps
        return (_median(self.many, _cpu) - _median(self.few, _cpu)) / (many - few) * 1000

    @property
    def step_wall(self) -> float:
        """Milliseconds from one request to the next."""
        return statistics.median(self.gaps) * 1000


@dataclass(frozen=True, slots=True)
class _Plan:
    """How often each kind of run is done, and how many steps the two kinds of turns have."""

    warm: int
    """Runs of each kind that come first, fill caches and do not count."""
    rounds: int
    turns: int
    steps: tuple[int, int]


def run(size: Size) -> Iterator[Table]:
    """Measure what is installed."""
    plan = size.choose(_Plan(1, 7, 3, (5, 50)), _Plan(1, 3, 2, (5, 50)), _Plan(0, 1, 1, (1, 8)))
    wanted = [one for one in CONTENDERS if size is not Size.TINY or one.name in _TINY]
    adopt_orphans()
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as folder, scripted(*plan.steps) as model:
        benches = {
            contender.name: _Bench(contender, Path(folder), model, plan.steps)
            for contender in wanted
            if contender.is_installed()
        }
        for measure in _runs(plan):
            # Side by side, so that a busy minute of the machine is everybody's.
            for name, bench in tuple(benches.items()):
                try:
                    measure(bench)
                except AgentFailedError as failed:
                    if name == OURS:
                        raise
                    notes.append(f"{name} is left out: {failed}")
                    del benches[name]
    if missing := [one.name for one in wanted if one.name not in benches]:
        notes.append(f"{len(missing)} not measured: {', '.join(missing)}")
    *tables, last = _compare_all({name: bench.figures for name, bench in benches.items()}, plan)
    yield from tables
    yield replace(last, notes=tuple(notes))


def _runs(plan: _Plan) -> "Iterator[Callable[[_Bench], None]]":
    """What to measure, in order."""
    yield from [lambda bench: bench.open_session(counts=False)] * plan.warm
    yield from [lambda bench: bench.open_session()] * plan.rounds
    yield from [lambda bench: bench.run_text(counts=False)] * plan.warm
    yield from [lambda bench: bench.run_text()] * plan.rounds
    yield from [lambda bench: bench.run_steps()] * plan.turns
    yield lambda bench: bench.watch_memory()


class _Bench:
    """Measures one agent, run by run."""

    def __init__(
        self, contender: Contender, folder: Path, model: ScriptedModel, steps: tuple[int, int]
    ) -> None:
        self._few, self._many = (f"read-{count}" for count in steps)
        self._rig = AgentRig(contender, folder, model, files=steps[1])
        self.figures = AgentFigures(steps)
        self._enough = sys.maxsize

    def open_session(self, *, counts: bool = True) -> None:
        """Begin a session over ACP, if it speaks that."""
        if len(self.figures.sessions) >= self._enough:
            return
        cost = self._rig.open_session()
        if cost is not None:
            self._count(cost, self.figures.sessions, counts)

    def run_text(self, *, counts: bool = True) -> None:
        """Run a turn with one reply."""
        if len(self.figures.texts) >= self._enough:
            return
        cost, _ = self._rig.run_turn("text")
        self._count(cost, self.figures.texts, counts)

    def _count(self, cost: Cost, costs: list[Cost], counts: bool) -> None:
        if counts:
            costs.append(cost)
        elif cost.wall > _SLOW:
            self._enough = _FEWEST

    def run_steps(self) -> None:
        """Run a turn with few steps and one with many."""
        few, _ = self._rig.run_turn(self._few)
        many, seen = self._rig.run_turn(self._many)
        gaps = [later - earlier for earlier, later in pairwise(seen.times)]
        figures = self.figures
        figures.few.append(few)
        figures.many.append(many)
        figures.gaps += gaps
        figures.early += gaps[2:7]
        figures.late += gaps[-5:]
        figures.request = seen.size
        figures.served = seen.cpu / len(seen.times)

    def watch_memory(self) -> None:
        """Run a turn with many steps and watch its memory."""
        cost, _ = self._rig.run_turn(self._many, watch_memory=True)
        self.figures.memory = cost.memory


def _compare_all(found: Mapping[str, AgentFigures], plan: _Plan) -> Iterator[Table]:
    """Five tables: ours beside the others, with the goal."""
    many = plan.steps[1]
    yield _compare(
        "(a) spawn → initialize → session/new over ACP, wall",
        {n: _median(f.sessions, _wall) * 1000 for n, f in found.items() if f.sessions},
        {n: f"CPU {_median(f.sessions, _cpu) * 1000:5.0f} ms" for n, f in found.items()},
        "ms",
        goal=1.0,
    )
    yield _compare(
        "(b) a turn with one text reply, from spawn to the end, wall",
        {n: _median(f.texts, _wall) * 1000 for n, f in found.items()},
        {n: f"CPU {_median(f.texts, _cpu) * 1000:5.0f} ms" for n, f in found.items()},
        "ms",
        goal=1.0,
    )
    yield _compare(
        f"(c) one of {many} steps that each read a file, CPU",
        {n: f.step_cpu for n, f in found.items()},
        {n: f"wall {f.step_wall:6.1f} ms" for n, f in found.items()},
        "ms",
        goal=0.5,
    )
    yield _compare(
        f"(c) what history costs: wall of a step around step {many}",
        {n: statistics.median(f.late) * 1000 for n, f in found.items()},
        {n: _tell_growth(f) for n, f in found.items()},
        "ms",
    )
    yield _compare(
        f"(d) memory of the process tree at its peak, in a turn of {many} steps",
        {n: f.memory / 1e6 for n, f in found.items()},
        {},
        "MB",
        goal=0.5,
    )


def _tell_growth(figures: AgentFigures) -> str:
    early, late = (statistics.median(gaps) * 1000 for gaps in (figures.early, figures.late))
    return (
        f"{late - early:+6.1f} ms since step 5; the model's server took "
        f"{figures.served * 1000:.1f} ms a request, the last had {figures.request / 1000:3.0f} kB"
    )


def _compare(
    title: str,
    figures: Mapping[str, float],
    more: Mapping[str, str],
    unit: str,
    *,
    goal: float | None = None,
) -> Table:
    """A row for each, and one for the goal: ours at most ``goal`` times the best other's."""
    rows = [
        Row(name, f"{value:6.1f} {unit}" + (f"; {more[name]}" if name in more else ""))
        for name, value in figures.items()
    ]
    others = {name: value for name, value in figures.items() if name != OURS}
    if goal is not None and others and OURS in figures:
        best = min(others, key=others.__getitem__)
        ratio = figures[OURS] / others[best]
        rows.append(Row(f"ours / {best}", "", f"{ratio:.2f}×", f"≤ {goal:g}×", ratio <= goal))
    return Table(title, rows)


def _wall(cost: Cost) -> float:
    return cost.wall


def _cpu(cost: Cost) -> float:
    return cost.cpu


def _median(costs: list[Cost], what: Callable[[Cost], float]) -> float:
    return statistics.median(map(what, costs)) if costs else 0.0
