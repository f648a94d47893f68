"""A long session stays within the window and costs the same at every step."""

import statistics
import time
from pathlib import Path

import pytest

from quarterdeck.wire.events import CompactionChanged, ResultsCleared
from tests.support.native_agents import assert_valid
from tests.support.window_models import Worker, asked_again, at_sea, loud, size_of


class Clocked(Worker):
    """Notes when each step began, and keeps only the newest requests."""

    def __init__(self, window: int) -> None:
        super().__init__(window=window, max_output=window // 8)
        self.begun: list[float] = []
        self.largest = 0

    async def stream(self, request):  # type: ignore[override]
        self.begun.append(time.process_time())
        self.largest = max(self.largest, size_of(request))
        del self.requests[:-1]
        async for delta in super().stream(request):
            yield delta


async def sail(tmp_path: Path, steps: int, size: int, window: int) -> Clocked:
    worker = Clocked(window)
    async with at_sea(tmp_path, worker, tools=[loud(size)]) as ship:
        await ship.prompt(f"Never push. work {steps}")
        assert await ship.events(CompactionChanged, ResultsCleared)
        running, resumed = await asked_again(ship, "And now?", worker)
    assert worker.largest <= window
    assert worker.calls == steps
    assert resumed == running
    assert_valid(resumed.messages)
    return worker


async def test_hundreds_of_steps_stay_within_the_window(tmp_path: Path):
    await sail(tmp_path, 300, 1_500, 24_000)


@pytest.mark.stress
@pytest.mark.timeout(300)
async def test_two_thousand_steps_cost_the_same_to_the_end(tmp_path: Path):
    worker = await sail(tmp_path, 2_000, 2_500, 40_000)
    gaps = [b - a for a, b in zip(worker.begun, worker.begun[1:2_000], strict=False)]
    groups = [statistics.median(gaps[n : n + 100]) for n in range(0, len(gaps), 100)]
    # A busy machine disturbs some of them, hardly five in a row.
    assert min(groups[-5:]) <= 1.2 * min(groups[:5])
