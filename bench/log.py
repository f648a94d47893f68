"""What the log costs: CPU microseconds an event, and the times a person waits for.

Run alone with ``python -m bench.log``. CPU time is that of the whole process, all threads; the
bare insert of the same rows through ``sqlite3`` is measured in the same run, as the ratio says
more than a number from a busy machine.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from quarterdeck.journal import Journal, JournalLimits
from quarterdeck.journal.store import connect_writer, transaction
from quarterdeck.wire.content import text
from quarterdeck.wire.events import Event, MessageChunk
from quarterdeck.wire.ids import MessageId, SessionId, TurnId
from quarterdeck.wire.record import encode_event

EVENTS = 200_000
# Indexing for search goes on in the background; here it is measured by itself.
ALONE = JournalLimits(index_every=3_600)
SESSIONS = [SessionId(f"ses_{number:026d}") for number in range(50)]
TURN = TurnId("trn_01h00000000000000000000000")
CHUNKS: list[Event] = [
    MessageChunk(content=text(f"chunk {n} of an answer "), message=MessageId(f"msg_{n // 20}"))
    for n in range(200)
]


def run(quick: bool = False) -> None:
    """Measure and show the rows; ``quick`` changes nothing, the figures need the whole."""
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(_measure(Path(folder)))
    print("\n(c) the log")
    for row in rows:
        print(f"  {row}")


async def _measure(folder: Path) -> list[str]:
    rows = [f"bare sqlite3 insert      {_bare(folder / 'bare.db'):8.2f} µs CPU an event"]
    async with Journal.open(folder / "log.db", limits=ALONE) as journal:
        tenths = await _append(journal)
        rows += [
            f"append, 50 sessions      {sum(tenths) / 10:8.2f} µs CPU an event (goal 8)",
            f"  first and last tenth   {tenths[0]:8.2f} and {tenths[-1]:.2f}",
            f"commit, one at a time    {await _commit(journal):8.2f} µs CPU an event",
        ]
        spent, _ = await _timed(lambda: journal.search("answer"))
        rows.append(f"index all for search     {spent / EVENTS * 1e6:8.2f} µs CPU an event")
    rows += await _one_session(folder / "one.db")
    rows.append(await _open_million(folder / "million.db"))
    return rows


def _bare(path: Path) -> float:
    connection = connect_writer(path)
    bodies = [encode_event(event) for event in CHUNKS]
    began = time.process_time()
    for start in range(0, EVENTS, 4_000):
        with transaction(connection):
            connection.executemany(
                "INSERT INTO events (seq, time, session, turn, parent, type, body)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (n + 1, time.time_ns(), n % 50, TURN, None, "message_chunk", bodies[n % 200])
                    for n in range(start, start + 4_000)
                ],
            )
    spent = time.process_time() - began
    connection.close()
    return spent / EVENTS * 1e6


async def _append(journal: Journal) -> list[float]:
    tenths: list[float] = []
    for tenth in range(10):
        began = time.process_time()
        last = 0
        for number in range(EVENTS // 10):
            session = SESSIONS[number % 50]
            last = (await journal.append(session, CHUNKS[number // 50 % 200], turn=TURN)).seq
        await journal.durable(last)
        tenths.append((time.process_time() - began) / (EVENTS // 10) * 1e6)
        assert journal.last == EVENTS // 10 * (tenth + 1)
    return tenths


async def _commit(journal: Journal) -> float:
    began = time.process_time()
    for number in range(500):
        await journal.commit(SESSIONS[number % 50], CHUNKS[number // 50 % 200])
    return (time.process_time() - began) / 500 * 1e6


async def _one_session(path: Path) -> list[str]:
    async with Journal.open(path, limits=ALONE) as journal:
        for number in range(100_000):
            await journal.append(SESSIONS[0], CHUNKS[number // 50 % 200], turn=TURN)
        await journal.durable(100_000)
        await journal.tail(SESSIONS[0])
        cpu, wall = await _timed(lambda: journal.tail(SESSIONS[0], limit=100))
        row = f"last page of 100,000     {wall * 1e3:8.2f} ms, {cpu * 1e3:.2f} ms CPU (goal 10)"
        cpu, wall = await _timed(lambda: journal.tail(SESSIONS[0], before=50_000, limit=100))
        return [row, f"page in the middle       {wall * 1e3:8.2f} ms, {cpu * 1e3:.2f} ms CPU"]


async def _open_million(path: Path) -> str:
    async with Journal.open(path, limits=ALONE) as journal:
        for number in range(1_000_000):
            await journal.append(SESSIONS[number % 50], CHUNKS[number // 50 % 200])

    async def open_and_close() -> None:
        async with Journal.open(path, limits=ALONE) as journal:
            assert journal.last == 1_000_000

    cpu, wall = await _timed(open_and_close)
    return f"open and close, 1,000,000{wall * 1e3:8.2f} ms, {cpu * 1e3:.2f} ms CPU (goal 50)"


async def _timed(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    await work()
    return time.process_time() - cpu, time.perf_counter() - wall


if __name__ == "__main__":
    run()
