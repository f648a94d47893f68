"""What the log costs: CPU microseconds an event, and the times a person waits for.

CPU time is that of the whole process, all threads; the
bare insert of the same rows through ``sqlite3`` is measured in the same run, as the ratio says
more than a number from a busy machine.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from quarterdeck.journal import Journal, JournalLimits
from quarterdeck.journal.store import connect_writer, transaction
from quarterdeck.wire.content import text
from quarterdeck.wire.events import Event, MessageChunk
from quarterdeck.wire.ids import MessageId, SessionId, TurnId
from quarterdeck.wire.record import encode_event

from .size import Size
from .table import Row, Table

# Indexing for search goes on in the background; here it is measured by itself.
ALONE = JournalLimits(index_every=3_600)
SESSIONS = [SessionId(f"ses_{number:026d}") for number in range(50)]
TURN = TurnId("trn_01h00000000000000000000000")
CHUNKS: list[Event] = [
    MessageChunk(content=text(f"chunk {n} of an answer "), message=MessageId(f"msg_{n // 20}"))
    for n in range(200)
]


@dataclass(frozen=True, slots=True)
class _Counts:
    """How many events each log gets."""

    events: int
    commits: int
    session: int
    opened: int


# No fewer when it is quick: the figures need the whole.
_WHOLE = _Counts(events=200_000, commits=500, session=100_000, opened=1_000_000)
_TINY = _Counts(events=200, commits=5, session=200, opened=200)


def run(size: Size) -> Iterator[Table]:
    """Measure; quick is as long as full."""
    counts = size.choose(_WHOLE, _WHOLE, _TINY)
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(_measure(Path(folder), counts))
    yield Table(f"The log, {counts.events:,} events", rows)


async def _measure(folder: Path, counts: _Counts) -> list[Row]:
    count = counts.events
    bare = _bare(folder / "bare.db", count)
    async with Journal.open(folder / "log.db", limits=ALONE) as journal:
        tenths = await _append(journal, count)
        append = sum(tenths) / 10
        commit = await _commit(journal, counts.commits)
        index, _ = await _timed(lambda: journal.search("answer"))
    each = "µs CPU an event"
    return [
        Row("bare sqlite3 insert", f"{bare:.2f} {each}"),
        Row(
            "append, 50 sessions",
            f"{append:.2f} {each}",
            f"{append / bare:.2f}×",
            "≤ 8",
            append <= 8,
        ),
        Row("  first and last tenth", f"{tenths[0]:.2f} and {tenths[-1]:.2f}"),
        Row("commit, one at a time", f"{commit:.2f} {each}"),
        Row("index all for search", f"{index / count * 1e6:.2f} {each}"),
        *await _one_session(folder / "one.db", counts.session),
        await _open_large(folder / "large.db", counts.opened),
    ]


def _bare(path: Path, count: int) -> float:
    connection = connect_writer(path)
    bodies = [encode_event(event) for event in CHUNKS]
    began = time.process_time()
    for start in range(0, count, 4_000):
        with transaction(connection):
            connection.executemany(
                "INSERT INTO events (seq, time, session, turn, parent, type, body)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                [
                    (n + 1, time.time_ns(), n % 50, TURN, None, "message_chunk", bodies[n % 200])
                    for n in range(start, min(count, start + 4_000))
                ],
            )
    spent = time.process_time() - began
    connection.close()
    return spent / count * 1e6


async def _append(journal: Journal, count: int) -> list[float]:
    tenths: list[float] = []
    for tenth in range(10):
        began = time.process_time()
        last = 0
        for number in range(count // 10):
            session = SESSIONS[number % 50]
            last = (await journal.append(session, CHUNKS[number // 50 % 200], turn=TURN)).seq
        await journal.durable(last)
        tenths.append((time.process_time() - began) / (count // 10) * 1e6)
        assert journal.last == count // 10 * (tenth + 1)
    return tenths


async def _commit(journal: Journal, count: int) -> float:
    began = time.process_time()
    for number in range(count):
        await journal.commit(SESSIONS[number % 50], CHUNKS[number // 50 % 200])
    return (time.process_time() - began) / count * 1e6


async def _one_session(path: Path, count: int) -> list[Row]:
    async with Journal.open(path, limits=ALONE) as journal:
        for number in range(count):
            await journal.append(SESSIONS[0], CHUNKS[number // 50 % 200], turn=TURN)
        await journal.durable(count)
        await journal.tail(SESSIONS[0])
        cpu, wall = await _timed(lambda: journal.tail(SESSIONS[0], limit=100))
        last = Row(f"last page of {count:,}", _times(wall, cpu), "", "≤ 10 ms", wall <= 0.01)
        cpu, wall = await _timed(lambda: journal.tail(SESSIONS[0], before=count // 2, limit=100))
        return [last, Row("page in the middle", _times(wall, cpu))]


async def _open_large(path: Path, count: int) -> Row:
    async with Journal.open(path, limits=ALONE) as journal:
        for number in range(count):
            await journal.append(SESSIONS[number % 50], CHUNKS[number // 50 % 200])

    async def open_and_close() -> None:
        async with Journal.open(path, limits=ALONE) as journal:
            assert journal.last == count

    cpu, wall = await _timed(open_and_close)
    return Row(f"open and close, {count:,}", _times(wall, cpu), "", "≤ 50 ms", wall <= 0.05)


def _times(wall: float, cpu: float) -> str:
    return f"{wall * 1e3:.2f} ms, {cpu * 1e3:.2f} ms CPU"


async def _timed(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    await work()
    return time.process_time() - cpu, time.perf_counter() - wall
