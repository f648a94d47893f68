"""What history costs: the CPU of our own agent for each of many steps of one turn.

The model asks for a file at each step. It is a server in this process, and at each request it
reads the CPU clock of the agent's process: what the server takes for a longer request does not
count, nor what others on the machine do. The first two steps load code and do not count either.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from quarterdeck.testing.model_server import ModelServer, RecordedRequest

from .agent_rig import AgentFailedError
from .contenders import make_own_environment, make_own_turn
from .size import Size
from .table import Row, Table

__all__ = ["run"]

_PROGRAM = str(Path(sys.executable).with_name("quarterdeck"))
_SKIPPED, _GROUP = 2, 10
_GOAL = 1.1
_SCRIPT = """
version = 1
default = "work"
[[scenes.work.replies]]
repeat = {count}
parts = [{{ tool = "read", arguments = {{ path = "file{{{{n}}}}.txt" }} }}]
[[scenes.work.replies]]
parts = ["Did them all."]
"""


class _Marks(deque[RecordedRequest]):
    """Requests, each with the CPU seconds that the agent has used when it comes."""

    def __init__(self) -> None:
        super().__init__(maxlen=1)
        self.agent: int | None = None
        self.seconds: list[float] = []

    def append(self, request: RecordedRequest, /) -> None:
        if self.agent is not None and request.method == "POST":
            # The kernel's clock of another process, as clock_getcpuclockid(3) names it.
            self.seconds.append(time.clock_gettime((~self.agent << 3) | 2))
        super().append(request)


async def _run_turn(folder: Path, count: int) -> list[float]:
    """CPU milliseconds of each step."""
    project = folder / "project"
    project.mkdir()
    for number in range(1, count + 1):
        lines = (f"line {line} of file {number}\n" for line in range(40))
        (project / f"file{number}.txt").write_text("".join(lines))
    script = folder / "model.toml"
    script.write_text(_SCRIPT.format(count=count))
    async with ModelServer(script) as server:
        server.requests = marks = _Marks()
        process = await asyncio.create_subprocess_exec(
            *(_PROGRAM, *make_own_turn("go")),
            cwd=project,
            env=dict(make_own_environment(folder / "home", server.url)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        marks.agent = process.pid
        _, errors = await process.communicate()
    if process.returncode or len(marks.seconds) != count + 1:
        raise AgentFailedError(
            f"{count} steps ended with code {process.returncode} after "
            f"{len(marks.seconds)} requests: {errors[-500:]!r}"
        )
    return [(later - before) * 1000 for before, later in pairwise(marks.seconds)]


def run(size: Size) -> Iterator[Table]:
    """Turns one after the other; each step counts as the median of its turns."""
    turns, counts = size.choose((9, (50, 500)), (5, (50,)), (1, (6,)))
    rows: list[Row] = []
    for count in counts:
        taken: list[list[float]] = []
        for _ in range(turns):
            with tempfile.TemporaryDirectory() as folder:
                taken.append(asyncio.run(_run_turn(Path(folder), count)))
        steps = [statistics.median(step) for step in zip(*taken, strict=True)][_SKIPPED:]
        group = min(_GROUP, len(steps) // 2)
        early, late = statistics.median(steps[:group]), statistics.median(steps[-group:])
        rows += [
            Row(f"a step early in a turn of {count}", f"{early:.2f} ms"),
            Row(
                f"a step at the end of a turn of {count}",
                f"{late:.2f} ms",
                f"{late / early:.2f}×",
                f"≤ {_GOAL:g}×",
                late / early <= _GOAL,
            ),
        ]
    yield Table("CPU of our own agent for a step that reads a file", rows)
