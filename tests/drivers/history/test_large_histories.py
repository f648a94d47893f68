"""Thousands of sessions are listed by their heads alone."""

import sys
import time
from pathlib import Path

import pytest

from quarterdeck.drivers.history.files import ReadBudget
from tests.support.history_homes import LAB, history_in, many_sessions

MOST = 20 * 1024 * 1024
"""Bytes that may be read of 5,000 sessions."""


def bytes_read() -> int:
    """What this process has read of files so far, as the kernel counts it."""
    words = Path("/proc/self/io").read_text().split()
    return int(words[words.index("rchar:") + 1])


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel counts what is read")
@pytest.mark.parametrize(
    "count", [500, pytest.param(5_000, marks=pytest.mark.stress)], ids=["some", "2 GB"]
)
async def test_many_are_listed_with_little_read(tmp_path: Path, count: int):
    most = MOST * count // 5_000
    assert many_sessions(tmp_path, count) > 400_000 * count
    history = history_in(tmp_path)
    before = bytes_read()
    here = await history.list(Path(LAB), limit=None)
    assert len(here.sessions) == count // 50 and all(past.title for past in here.sessions)
    assert bytes_read() - before < most
    before, began = bytes_read(), time.monotonic()
    everything = await history.list(None, limit=None, budget=ReadBudget(most))
    assert time.monotonic() - began < 30
    assert bytes_read() - before < most + 100_000 and everything.read <= most
    assert len(everything.sessions) == count
    assert all(past.cwd for past in everything.sessions)
    before = bytes_read()
    newest = await history.list(None)
    assert len(newest.sessions) == 50 and all(past.title for past in newest.sessions)
    assert bytes_read() - before < 5_000_000
    times = [past.updated for past in everything.sessions]
    assert times == sorted(times, reverse=True)


async def test_a_search_is_bounded(tmp_path: Path):
    many_sessions(tmp_path, 40)
    history = history_in(tmp_path)
    listed = await history.list(None)
    budget = ReadBudget(2_000_000)
    hits = [hit async for hit in history.search("prompt", listed.sessions, budget=budget)]
    assert budget.spent <= 2_000_000 and 0 < len(hits) < 20
