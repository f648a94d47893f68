"""What listing the sessions of other agents costs: 5,000 sessions of 2 GB, read by their heads.

Bytes are those that the kernel counts for the process.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from quarterdeck.drivers.history.history import AgentHistory
from tests.support.history_homes import LAB, history_in, many_sessions

from .size import Size
from .table import Row, Table

GOAL = 20_000_000


def run(size: Size) -> Iterator[Table]:
    """Measure."""
    with tempfile.TemporaryDirectory() as folder:
        count = size.choose(5_000, 500, 5)
        written = many_sessions(Path(folder), count)
        history = history_in(Path(folder))
        rows = [
            asyncio.run(_list(name, history, where, limit))
            for name, where, limit in (
                ("of this directory", Path(LAB), 50),
                ("the newest 50 of all", None, 50),
                ("all", None, None),
            )
        ]
    yield Table(f"{count:,} sessions on disk, {written / 1e9:.1f} GB", rows)


async def _list(name: str, history: AgentHistory, where: Path | None, limit: int | None) -> Row:
    before, began = _read(), time.perf_counter()
    listed = await history.list(where, limit=limit)
    spent, read = time.perf_counter() - began, _read() - before
    figure = f"{len(listed.sessions):5} in {spent:6.2f} s, {read / 1e6:6.2f} MB read"
    return Row(name, figure, "", f"≤ {GOAL / 1e6:.0f} MB", read <= GOAL)


def _read() -> int:
    try:
        words = Path("/proc/self/io").read_text().split()
    except OSError:
        return 0
    return int(words[words.index("rchar:") + 1])
