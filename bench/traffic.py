"""Bytes that a workbench writes to its terminal: what a slow line has to carry."""

import time
from collections.abc import Iterator

from .size import Size
from .table import Row, Table
from .terminals import on_terminal
from .workbench import OURS, home, quarterdeck, write_paced_agent

__all__ = ["run"]

_RATE = 20
"""Pieces of a message a second."""
_GOAL = 20_000
"""Bytes a second."""
_STARTED, _SPEAKS = "Type a task below", "1 running"
"""What the transcript of an agent without a prompt says, and what stays while one speaks."""


def measure_traffic(
    size: tuple[int, int], seconds: float, settle: float, *, is_speaking: bool
) -> float:
    """Bytes a second while one agent speaks, or while nothing happens."""
    with home() as (project, environment):
        write_paced_agent(environment)
        told = f"{seconds + 60:.0f} {_RATE} prose"
        words = ("-a", "paced", "-n", "paced", told) if is_speaking else ("-m", "scripted/default")
        quarterdeck(environment, project, "spawn", *words)
        with on_terminal([OURS], cwd=project, environment=environment, size=size) as screen:
            screen.wait_for(_SPEAKS if is_speaking else _STARTED)
            time.sleep(settle)
            at, begun = screen.mark(), time.perf_counter()
            time.sleep(seconds)
            return (screen.mark() - at) / (time.perf_counter() - begun)


def run(size: Size) -> Iterator[Table]:
    """One agent that speaks, on terminals of three sizes; then nothing."""
    seconds, settle = size.choose((20.0, 5.0), (6.0, 3.0), (0.3, 0.3))
    sizes = size.choose(((80, 24), (120, 40), (200, 50)), ((120, 40),), ((120, 40),))
    rows: list[Row] = []
    for columns, lines in sizes:
        rate = measure_traffic((columns, lines), seconds, settle, is_speaking=True)
        what = f"one agent, {_RATE} pieces/s, {columns}×{lines}"
        figure = f"{rate / 1000:.1f} kB/s"
        rows.append(Row(what, figure, "", f"≤ {_GOAL / 1000:.0f} kB/s", rate <= _GOAL))
    rate = measure_traffic(sizes[0], seconds, settle, is_speaking=False)
    rows.append(Row("nothing happens", f"{rate:.0f} B/s"))
    yield Table("bytes written to the terminal", rows)
