"""Our own agent against other people's, all on one scripted model that answers at once.

(a) from spawn to a new session over ACP; (b) a turn without a screen and with one text reply;
(c) a turn with 50 steps, each of which reads a file; (d) memory of the whole process tree.
"""

import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from .contenders import CONTENDERS, OURS, Contender
from .processes import Cost, Started, adopt_orphans, started
from .table import Row, show

_MODEL = Path(__file__).parent / "peers" / "model.py"
_FEW, _MANY = 5, 50
_LONGEST = 180.0
"""Seconds after which a run is given up."""
_SLOW, _FEWEST = 1.0, 3
"""An agent that takes more seconds than this is run no more often than that."""
_CLIENT = {"protocolVersion": 1, "clientCapabilities": {}}


class Failed(Exception):
    """An agent did not do what was measured; says what it did."""


@dataclass(slots=True)
class Figures:
    """What was measured of one agent, run by run."""

    sessions: list[Cost] = field(default_factory=list[Cost])
    texts: list[Cost] = field(default_factory=list[Cost])
    few: list[Cost] = field(default_factory=list[Cost])
    many: list[Cost] = field(default_factory=list[Cost])
    gaps: list[float] = field(default_factory=list[float])
    """Seconds between two requests of a long turn."""
    early: list[float] = field(default_factory=list[float])
    late: list[float] = field(default_factory=list[float])
    """The same, around step 5 and around step 50."""
    memory: int = 0
    request: int = 0
    """Bytes of the last request."""
    served: float = 0.0
    """CPU seconds of the model's server, a request."""

    @property
    def step_cpu(self) -> float:
        """Milliseconds of one step: what a long turn takes more than a short one."""
        return (_median(self.many, _cpu) - _median(self.few, _cpu)) / (_MANY - _FEW) * 1000

    @property
    def step_wall(self) -> float:
        """Milliseconds from one request to the next."""
        return statistics.median(self.gaps) * 1000


def run(quick: bool = False) -> None:
    """Measure what is installed, and show it."""
    adopt_orphans()
    with tempfile.TemporaryDirectory() as folder, _model() as model:
        benches = {
            contender.name: _Bench(contender, Path(folder), model)
            for contender in CONTENDERS
            if contender.is_installed()
        }
        for measure in _plan(quick):
            # Side by side, so that a busy minute of the machine is everybody's.
            for name, bench in tuple(benches.items()):
                try:
                    measure(bench)
                except Failed as failed:
                    print(f"\n{name} is left out: {failed}")
                    del benches[name]
    show_figures({name: bench.figures for name, bench in benches.items()})
    if missing := [one.name for one in CONTENDERS if one.name not in benches]:
        print(f"  {len(missing)} not measured: {', '.join(missing)}")


def _plan(quick: bool) -> "Iterator[Callable[[_Bench], None]]":
    """What to measure, in order; the first run of each kind fills caches and does not count."""
    rounds = 3 if quick else 7
    yield lambda bench: bench.session(counts=False)
    yield from [lambda bench: bench.session()] * rounds
    yield lambda bench: bench.text(counts=False)
    yield from [lambda bench: bench.text()] * rounds
    yield from [lambda bench: bench.steps()] * (2 if quick else 3)
    yield lambda bench: bench.memory()


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the model saw of a turn."""

    times: list[float]
    """When it was asked, in seconds."""
    size: int
    """Bytes of the last request."""
    cpu: float
    """Seconds that the server took for all of them."""


class _Model:
    """The scripted model's process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.url: str = json.loads(self._line())["url"]

    def asked(self, scene: str = "") -> "_Seen":
        """What it was asked since the last time, for one scene; see ``peers/model.py``."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = json.loads(self._line())
        asked = [(time, size) for name, time, size in answer["asked"] if name == scene]
        return _Seen([time for time, _ in asked], asked[-1][1] if asked else 0, answer["cpu"])

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def _model() -> Iterator[_Model]:
    with subprocess.Popen(
        [sys.executable, str(_MODEL)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield _Model(process)
        finally:
            process.kill()


class _Bench:
    """Measures one agent in a home and a project of its own."""

    def __init__(self, contender: Contender, folder: Path, model: _Model) -> None:
        self._contender = contender
        self._model = model
        name = re.sub(r"\W+", "-", contender.name)
        self._url = f"{model.url}/agent/{name}"
        self._home = folder / f"{name}-home"
        self._project = folder / f"{name}-project"
        self._stderr = folder / f"{name}.stderr"
        self._project.mkdir()
        for number in range(1, _MANY + 1):
            lines = (f"line {line} of file {number}\n" for line in range(40))
            (self._project / f"file{number}.txt").write_text("".join(lines))
        self.figures = Figures()
        self._enough = sys.maxsize

    def session(self, *, counts: bool = True) -> None:
        """Begin a session over ACP, if it speaks that."""
        command = self._contender.acp_command()
        if command is None or len(self.figures.sessions) >= self._enough:
            return
        with self._started(command, talks=True) as agent:
            self._call(agent, 0, "initialize", _CLIENT)
            self._call(agent, 1, "session/new", {"cwd": str(self._project), "mcpServers": []})
        self._count(agent.cost, self.figures.sessions, counts)

    def text(self, *, counts: bool = True) -> None:
        """Run a turn with one reply."""
        if len(self.figures.texts) >= self._enough:
            return
        cost, _ = self._turn("text", 1)
        self._count(cost, self.figures.texts, counts)

    def _count(self, cost: Cost, costs: list[Cost], counts: bool) -> None:
        if counts:
            costs.append(cost)
        elif cost.wall > _SLOW:
            self._enough = _FEWEST

    def steps(self) -> None:
        """Run a turn with few steps and one with many."""
        few, _ = self._turn("few", _FEW + 1)
        many, seen = self._turn("many", _MANY + 1)
        gaps = [later - earlier for earlier, later in pairwise(seen.times)]
        figures = self.figures
        figures.few.append(few)
        figures.many.append(many)
        figures.gaps += gaps
        figures.early += gaps[2:7]
        figures.late += gaps[-5:]
        figures.request = seen.size
        figures.served = seen.cpu / len(seen.times)

    def memory(self) -> None:
        """Run a turn with many steps and watch its memory."""
        cost, _ = self._turn("many", _MANY + 1, watch_memory=True)
        self.figures.memory = cost.memory

    def _turn(
        self, scene: str, requests: int, *, watch_memory: bool = False
    ) -> tuple[Cost, "_Seen"]:
        self._model.asked()
        with self._started(self._contender.turn_command(f"scene:{scene}"), watch_memory) as agent:
            output = agent.stdout.read()
            agent.wait()
        seen = self._model.asked(scene)
        if agent.cost.code or len(seen.times) != requests:
            raise Failed(
                f"scene {scene!r} ended with code {agent.cost.code} after {len(seen.times)} "
                f"requests: {self._said()} {output[-300:]!r}"
            )
        return agent.cost, seen

    def _call(self, agent: Started, number: int, method: str, params: Mapping[str, Any]) -> None:
        frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        agent.stdin.write(json.dumps(frame).encode() + b"\n")
        agent.stdin.flush()
        for line in agent.stdout:
            answer = json.loads(line)
            if answer.get("id") == number and "method" not in answer:
                if "result" not in answer:
                    raise Failed(f"{method} was answered with {line[:300]!r}")
                return
        raise Failed(f"{method} was not answered: {self._said()}")

    @contextmanager
    def _started(
        self, command: list[str], watch_memory: bool = False, *, talks: bool = False
    ) -> Iterator[Started]:
        environment = self._contender.environment(self._home, self._url, acp=talks)
        with started(
            command,
            cwd=self._project,
            environment=environment,
            stderr=self._stderr,
            talks=talks,
            watch_memory=watch_memory,
        ) as agent:
            patience = threading.Timer(_LONGEST, agent.kill)
            patience.start()
            try:
                yield agent
            finally:
                patience.cancel()

    def _said(self) -> str:
        return self._stderr.read_text(errors="replace")[-300:]


def show_figures(found: Mapping[str, Figures]) -> None:
    """Five tables: ours beside the others, with the goal."""
    _compare(
        "(a) spawn → initialize → session/new over ACP, wall",
        {n: _median(f.sessions, _wall) * 1000 for n, f in found.items() if f.sessions},
        {n: f"CPU {_median(f.sessions, _cpu) * 1000:5.0f} ms" for n, f in found.items()},
        "ms",
        goal=1.0,
    )
    _compare(
        "(b) a turn with one text reply, from spawn to the end, wall",
        {n: _median(f.texts, _wall) * 1000 for n, f in found.items()},
        {n: f"CPU {_median(f.texts, _cpu) * 1000:5.0f} ms" for n, f in found.items()},
        "ms",
        goal=1.0,
    )
    _compare(
        f"(c) one of {_MANY} steps that each read a file, CPU",
        {n: f.step_cpu for n, f in found.items()},
        {n: f"wall {f.step_wall:6.1f} ms" for n, f in found.items()},
        "ms",
        goal=0.5,
    )
    _compare(
        f"(c) what history costs: wall of a step around step {_MANY}",
        {n: statistics.median(f.late) * 1000 for n, f in found.items()},
        {n: _growth_told(f) for n, f in found.items()},
        "ms",
    )
    _compare(
        f"(d) memory of the process tree at its peak, in a turn of {_MANY} steps",
        {n: f.memory / 1e6 for n, f in found.items()},
        {},
        "MB",
        goal=0.5,
    )


def _growth_told(figures: Figures) -> str:
    early, late = (statistics.median(gaps) * 1000 for gaps in (figures.early, figures.late))
    return (
        f"{late - early:+6.1f} ms since step {_FEW}; the model's server took "
        f"{figures.served * 1000:.1f} ms a request, the last had {figures.request / 1000:3.0f} kB"
    )


def _compare(
    title: str,
    figures: Mapping[str, float],
    more: Mapping[str, str],
    unit: str,
    *,
    goal: float | None = None,
) -> None:
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
    if rows:
        show(title, rows)


def _wall(cost: Cost) -> float:
    return cost.wall


def _cpu(cost: Cost) -> float:
    return cost.cpu


def _median(costs: list[Cost], what: Callable[[Cost], float]) -> float:
    return statistics.median(map(what, costs)) if costs else 0.0
