"""Our own agent against other people's, all on one scripted model that answers at once.

(a) from spawn to a new session over ACP; (b) a turn without a screen and with one text reply;
(c) a turn with 50 steps, each of which reads a file; (d) memory of the whole process tree.
"""

import json
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
    early: list[float] = field(default_factory=list[float])
    late: list[float] = field(default_factory=list[float])
    """Seconds between two requests, around step 5 and around step 50."""
    memory: int = 0
    request: int = 0
    """Bytes of the last request."""
    served: float = 0.0
    """CPU seconds of the model's server, a request."""

    def step(self, what: Callable[[Cost], float]) -> float:
        """Milliseconds of one step, starting and ending left out."""
        return (_median(self.many, what) - _median(self.few, what)) / (_MANY - _FEW) * 1000


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
        self._url = f"{model.url}/agent/{contender.name}"
        self._home = folder / f"{contender.name}-home"
        self._project = folder / f"{contender.name}-project"
        self._stderr = folder / f"{contender.name}.stderr"
        self._project.mkdir()
        for number in range(1, _MANY + 1):
            lines = (f"line {line} of file {number}\n" for line in range(40))
            (self._project / f"file{number}.txt").write_text("".join(lines))
        self.figures = Figures()

    def session(self, *, counts: bool = True) -> None:
        """Begin a session over ACP."""
        with self._started(self._contender.acp_command(), talks=True) as agent:
            self._call(agent, 0, "initialize", _CLIENT)
            self._call(agent, 1, "session/new", {"cwd": str(self._project), "mcpServers": []})
        if counts:
            self.figures.sessions.append(agent.cost)

    def text(self, *, counts: bool = True) -> None:
        """Run a turn with one reply."""
        cost, _ = self._turn("text", 1)
        if counts:
            self.figures.texts.append(cost)

    def steps(self) -> None:
        """Run a turn with few steps and one with many."""
        few, _ = self._turn("few", _FEW + 1)
        many, seen = self._turn("many", _MANY + 1)
        gaps = [later - earlier for earlier, later in pairwise(seen.times)]
        figures = self.figures
        figures.few.append(few)
        figures.many.append(many)
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
    """Four tables: ours beside the others, with the goal."""
    _compare(
        "(a) spawn → initialize → session/new over ACP, wall",
        {name: _median(figures.sessions, _wall) * 1000 for name, figures in found.items()},
        {name: f"CPU {_median(f.sessions, _cpu) * 1000:.0f} ms" for name, f in found.items()},
        "ms",
        1.0,
    )
    _compare(
        "(b) a turn with one text reply, from spawn to the end, wall",
        {name: _median(figures.texts, _wall) * 1000 for name, figures in found.items()},
        {name: f"CPU {_median(f.texts, _cpu) * 1000:.0f} ms" for name, f in found.items()},
        "ms",
        1.0,
    )
    _compare(
        f"(c) one of {_MANY} steps that each read a file, CPU",
        {name: figures.step(_cpu) for name, figures in found.items()},
        {name: _steps_told(figures) for name, figures in found.items()},
        "ms",
        0.5,
    )
    _compare(
        f"(d) memory of the process tree at its peak, in a turn of {_MANY} steps",
        {name: figures.memory / 1e6 for name, figures in found.items()},
        {},
        "MB",
        0.5,
    )


def _steps_told(figures: Figures) -> str:
    early, late = (statistics.median(gaps) * 1000 for gaps in (figures.early, figures.late))
    return (
        f"wall {figures.step(_wall):.1f} ms; around step {_FEW} {early:.1f}, around step {_MANY} "
        f"{late:.1f} ({late / early:.2f}×), of which the model {figures.served * 1000:.1f}; "
        f"last request {figures.request / 1000:.0f} kB"
    )


def _compare(
    title: str, figures: Mapping[str, float], more: Mapping[str, str], unit: str, goal: float
) -> None:
    """A row for each, and one for the goal: ours at most ``goal`` times the best other's."""
    digits = 0 if max(figures.values(), default=0) > 100 else 1
    rows = [
        Row(name, f"{value:.{digits}f} {unit}" + (f"; {more[name]}" if name in more else ""))
        for name, value in figures.items()
    ]
    others = {name: value for name, value in figures.items() if name != OURS}
    if others and OURS in figures:
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
    return statistics.median(map(what, costs))
