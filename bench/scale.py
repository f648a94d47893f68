"""Curves for docs/scale.md: waiting sessions and tasks of a pool, from few to many; fakes only.

A waiting session is what a client keeps of it: its entry in the list of agents. The tasks are rows
of a pool, claimed and ended by simulated workers in a model of the pool's protocol.
"""

import heapq
import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from quarterdeck.fleet.api import AgentInfo
from quarterdeck.wire.ids import new_session_id

from .size import Size
from .table import Row, Table

__all__ = ["run"]

_HEARTBEAT = 15.0
_TURN = 60.0
"""Seconds of a turn of an agent."""
_TURNS = 3


def run(size: Size) -> Iterator[Table]:
    """Measure."""
    yield _measure_waiting(size.choose((10, 1_000, 10_000, 100_000), (10, 1_000, 10_000), (10, 20)))
    counts = size.choose((100, 1_000, 10_000), (100, 1_000), (4, 8))
    yield _simulate_tasks(counts, size.choose(50, 50, 2))


def _measure_waiting(counts: tuple[int, ...]) -> Table:
    rows: list[Row] = []
    first = 0.0
    for count in counts:
        before, began = _read_memory(), time.process_time()
        kept = {one.session: one for one in (_make_agent(number) for number in range(count))}
        took = time.process_time() - began
        used = max(_read_memory() - before, 0)
        began = time.process_time()
        ordered = sorted(kept.values(), key=lambda one: (not one.needs_person, -one.updated))
        listed = time.process_time() - began
        assert len(ordered) == count
        each = took / count
        first = first or each
        rows.append(
            Row(
                f"{count:,} waiting sessions",
                f"{used / 1e6:.1f} MB, {each * 1e6:.1f} µs each, listed in {listed * 1e3:.1f} ms",
                f"{each / first:.2f}×",
            )
        )
    return Table("Waiting sessions as a client keeps them; the ratio is the cost of one", rows)


def _make_agent(number: int) -> AgentInfo:
    return AgentInfo(
        session=new_session_id(), name=f"agent-{number}", agent="codex", cwd="/work/project",
        state="idle", is_live=True, updated=number, title="Fix the parser",
    )  # fmt: skip


def _read_memory() -> int:
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _simulate_tasks(counts: tuple[int, ...], each: int) -> Table:
    rows: list[Row] = []
    for count in counts:
        workers = max(1, count // each // _TURNS)
        found = _simulate(count, workers, slots=each // 5 or 1)
        rows.append(
            Row(
                f"{count:,} tasks, {workers:,} workers",
                f"{found['writes']:,.1f} transactions/s, {found['claims']:,.2f} claims/s, "
                f"longest idle {found['idle']:.1f} s, {found['hours']:.1f} h",
            )
        )
    return Table(
        f"Tasks of {_TURNS} turns of {_TURN:.0f} s in a pool, a worker of twenty dying every hour",
        rows,
        notes=("Simulated by the protocol of the pool: claims, heartbeats, steps, takeovers.",),
    )


def _simulate(count: int, workers: int, slots: int) -> dict[str, float]:
    """Events in the order of their time: a task ends, or its worker dies and a lease runs out."""
    chance = random.Random(11)
    now = writes = claims = idle = 0.0
    waiting = list(range(count))[::-1]
    left = dict.fromkeys(waiting, _TURNS)
    events: list[tuple[float, int]] = []
    free = workers * slots
    while waiting or events:
        while waiting and free:
            task = waiting.pop()
            free -= 1
            claims += 1
            writes += 2  # the claim and the begin
            took = sum(chance.uniform(0.5, 1.5) * _TURN for _ in range(left[task]))
            if chance.random() < took / 3_600 / 20:
                left[task] = max(1, left[task] - chance.randrange(left[task]))
                heapq.heappush(events, (now + took / 2 + 90.0, -task - 1))
                idle = max(idle, 90.0)
            else:
                heapq.heappush(events, (now + took, task))
        now, task = heapq.heappop(events)
        free += 1
        if task < 0:
            waiting.append(-task - 1)
        else:
            # Per turn: send, wait, tree, check, and a batch of events each second; then three ends.
            writes += left[task] * (8 + _TURN) + 6
    writes += now / _HEARTBEAT * workers
    return {
        "writes": writes / now, "claims": claims / now, "idle": idle, "hours": now / 3_600,
    }  # fmt: skip
