"""What listing the sessions of other agents costs: 5,000 sessions of 2 GB, read by their heads.

Run alone with ``python -m bench.history``. Bytes are those that the kernel counts for the process.
"""

import asyncio
import tempfile
import time
from pathlib import Path

from quarterdeck.drivers.history.history import AgentHistory
from tests.support.history_homes import LAB, history_in, many_sessions

SESSIONS = 5_000
GOAL = 20_000_000


def run(quick: bool = False) -> None:
    """Measure and show the rows; ``quick`` takes a tenth of the sessions."""
    with tempfile.TemporaryDirectory() as folder:
        size = many_sessions(Path(folder), SESSIONS // 10 if quick else SESSIONS)
        history = history_in(Path(folder))
        print(f"\n(l) sessions on disk: {size / 1e9:.1f} GB")
        for name, where, limit in (
            ("of this directory", Path(LAB), 50),
            ("the newest 50 of all", None, 50),
            ("all", None, None),
        ):
            print(f"  {name:24} {asyncio.run(_list(history, where, limit))}")


async def _list(history: AgentHistory, where: Path | None, limit: int | None) -> str:
    before, began = _read(), time.perf_counter()
    listed = await history.list(where, limit=limit)
    spent, read = time.perf_counter() - began, _read() - before
    told = f"{len(listed.sessions):5} in {spent:6.2f} s, {read / 1e6:6.2f} MB read"
    return f"{told} (goal {GOAL / 1e6:.0f})"


def _read() -> int:
    try:
        words = Path("/proc/self/io").read_text().split()
    except OSError:
        return 0
    return int(words[words.index("rchar:") + 1])


if __name__ == "__main__":
    run()
