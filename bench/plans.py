"""What it costs to run a plan: a turn with the durable engine against none, many tasks, tasks that
wait. The fleet answers at once (``peers/plan_run.py``), so nothing of an agent is in the figures.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from .size import Size
from .table import Row, Table

__all__ = ["run"]

_PEER = Path(__file__).parent / "peers" / "plan_run.py"
_TURN_GOAL = 50.0
"""Milliseconds of CPU of one more turn: against seconds of an agent."""
_GROWTH_GOAL = 2.0
_WAITING_GOAL = 0.02


def run(size: Size) -> Iterator[Table]:
    """Measure."""
    few, many = size.choose((2, 42), (2, 22), (1, 2))
    yield _measure_turns(few, many)
    small, large = size.choose((250, 1_000), (50, 200), (2, 4))
    yield _measure_tasks(small, large)
    count, seconds = size.choose((300, 20.0), (300, 5.0), (3, 0.2))
    yield _measure_waiting(count, seconds)


def _measure_turns(few: int, many: int) -> Table:
    each: dict[str, float] = {}
    walls: dict[str, float] = {}
    for kind in ("none", "dbos"):
        short, long = _run("turns", kind, few), _run("turns", kind, many)
        each[kind] = max(long["cpu"] - short["cpu"], 1e-6) / (many - few)
        walls[kind] = max(long["wall"] - short["wall"], 1e-6) / (many - few)
    over = (each["dbos"] - each["none"]) * 1e3
    return Table(
        "One more turn of a plan with one check; CPU and wall time",
        [
            Row("no engine, the same steps", _spell(each["none"], walls["none"])),
            Row(
                "the engine on SQLite", _spell(each["dbos"], walls["dbos"]),
                f"{each['dbos'] / each['none']:.1f}×", f"≤ {_TURN_GOAL:g} ms of CPU more",
                over <= _TURN_GOAL,
            ),
        ],
        notes=("Wall time has the engine's polling in it; a turn of an agent takes longer.",),
    )  # fmt: skip


def _measure_tasks(small: int, large: int) -> Table:
    rows: list[Row] = []
    for kind, what in (("none", "no engine"), ("dbos", "the engine on SQLite")):
        costs = {count: _run("tasks", kind, count)["cpu"] / count for count in (small, large)}
        growth = costs[large] / costs[small]
        rows.append(Row(f"{what}, {small:,} tasks", f"{costs[small] * 1e3:.1f} ms of CPU a task"))
        rows.append(
            Row(
                f"{what}, {large:,} tasks", f"{costs[large] * 1e3:.1f} ms of CPU a task",
                f"{growth:.2f}×", f"≤ {_GROWTH_GOAL:g}×", growth <= _GROWTH_GOAL,
            )
        )  # fmt: skip
    return Table(
        "A plan of many tasks, each after another; the ratio is the growth of the cost of a task",
        rows,
    )


def _measure_waiting(count: int, seconds: float) -> Table:
    found = _run("waiting", "dbos", count, seconds)
    share, memory = found["share"], found["memory"]
    return Table(
        f"{count:,} tasks that wait for another one",
        [
            Row("CPU", f"{share * 100:.2f} % of a core", "", f"< {_WAITING_GOAL * 100:g} %",
                share < _WAITING_GOAL),
            Row("memory", f"{memory / 1e6:.1f} MB, {memory / count / 1e3:.0f} kB a task"),
        ],
    )  # fmt: skip


def _spell(cpu: float, wall: float) -> str:
    return f"{cpu * 1e3:.1f} ms, {wall * 1e3:.1f} ms"


def _run(what: str, kind: str, count: int, seconds: float = 0.0) -> dict[str, float]:
    words = [sys.executable, str(_PEER), what, kind, str(count), str(seconds)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words[1:])} failed: {done.stderr[-2_000:]}")
    return json.loads(done.stdout.splitlines()[-1])
