"""What listing sessions costs: 5,000 of other agents, 2 GB, read by their heads; and 10,000 logs of
single sessions of ours, which are searched as well.

Bytes are those that the kernel counts for the process.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sized
from pathlib import Path

from quarterdeck.agent.session_store import SessionStore
from quarterdeck.drivers.history.history import AgentHistory
from quarterdeck.fleet.sessions.history_index import HistoryIndex
from quarterdeck.wire.ids import new_session_id
from tests.support.history_homes import LAB, history_in, many_sessions
from tests.support.run_logs import own_log, write_run

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
    with tempfile.TemporaryDirectory() as folder:
        count = size.choose(10_000, 1_000, 10)
        rows = asyncio.run(_list_logs(Path(folder), count))
    yield Table(f"{count:,} logs of single sessions", rows)


async def _list_logs(state: Path, count: int) -> list[Row]:
    await _write_logs(state, count)
    index, store = HistoryIndex(state), SessionStore(state / "sessions")
    calls: tuple[tuple[str, Callable[[], Awaitable[Sized]]], ...] = (
        ("all logs opened, without an index", lambda: store.sessions(limit=count)),
        ("listed first", lambda: index.sessions(limit=count)),
        ("listed again", lambda: index.sessions(limit=count)),
        ("searched first", lambda: index.search("needle")),
        ("searched again", lambda: index.search("needle")),
    )
    rows: list[Row] = []
    for name, call in calls:
        began = time.perf_counter()
        found = len(await call())
        spent = time.perf_counter() - began
        is_again = name.endswith("again")
        figure = f"{found:5} in {spent:6.2f} s"
        rows.append(Row(name, figure, "", "≤ 1 s" if is_again else "", not is_again or spent <= 1))
    await index.close()
    return rows


async def _write_logs(state: Path, count: int) -> None:
    """Copies of a few logs, each under an id of its own."""
    words = " ".join(f"word{number}" for number in range(120))
    ids = [
        await write_run(state, *[f"{words} {'needle' * (number == 3)}"] * 5, cwd=f"/work/{number}")
        for number in range(10)
    ]
    logs = [(id_, own_log(state, id_).read_bytes()) for id_ in ids]
    for number in range(count - len(logs)):
        old, data = logs[number % len(logs)]
        new = new_session_id()
        own_log(state, new).write_bytes(data.replace(old.encode(), new.encode()))


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
