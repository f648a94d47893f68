"""Kills writers of one log at random moments and checks what they left; run as a program.

A warm process forks each writer, so a kill costs milliseconds. Prints one line of counts, or
fails with what is missing.
"""

import asyncio
import os
import random
import select
import signal
import sqlite3
import sys
import time
from pathlib import Path

from quarterdeck.journal import Journal, JournalLimits
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk, SessionOpened
from quarterdeck.wire.ids import SessionId


async def write(path: Path, pipe: int, number: int) -> None:
    """Append from several tasks until killed, telling of each event that is durable."""

    async def speak(journal: Journal, name: str) -> None:
        session = SessionId(name)
        await journal.append(session, SessionOpened(agent="native", cwd="/"))
        for count in range(100_000):
            words = f"{name} {count} " + "x" * random.choice([10, 200, 9_000])
            record = await journal.append(session, MessageChunk(content=text(words), message="m"))
            if count % 3 == 0:
                await journal.durable(record.seq)
                os.write(pipe, f"{record.seq} {name} {count}\n".encode())

    async def disturb(journal: Journal) -> None:
        while True:
            await journal.search("x")
            await journal.commit(SessionId("passing"), MessageChunk(content=text("gone soon")))
            await journal.delete(SessionId("passing"))

    async with Journal.open(path, limits=JournalLimits(index_every=0.01)) as journal:
        os.write(pipe, b"open\n")
        async with asyncio.TaskGroup() as tasks:
            for index in range(3):
                tasks.create_task(speak(journal, f"w{number}.{index}"))
            tasks.create_task(disturb(journal))


def one_kill(path: Path, number: int) -> list[tuple[int, str, int]]:
    """Start a writer, kill it after a while, and return what it acknowledged."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            asyncio.run(write(path, writing, number))
        finally:
            os._exit(1)
    os.close(writing)
    # Some are killed while they open the log, most after they have acknowledged something.
    told = read_lines(reading, 3, seconds=15) if number % 5 else b""
    time.sleep(random.uniform(0, 0.03))
    os.kill(pid, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        lines = (told + pipe.read()).decode().splitlines()
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, f"the writer ended by itself: {status}"
    words = [line.split() for line in lines if line != "open" and line.count(" ") == 2]
    return [(int(seq), name, int(count)) for seq, name, count in words]


def read_lines(pipe: int, count: int, *, seconds: float) -> bytes:
    """What a writer tells until it has told so many lines; however slow the machine is."""
    told, until = b"", time.monotonic() + seconds
    while told.count(b"\n") < count and (left := until - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            if not (more := os.read(pipe, 65536)):
                break
            told += more
    return told


def verify(path: Path, acknowledged: list[tuple[int, str, int]]) -> None:
    """Check that all acknowledged events are there, each writer's in order and without holes."""
    connection = sqlite3.connect(path)
    rows = connection.execute(
        "SELECT seq, id, json_extract(body, '$.content.text') FROM events"
        " JOIN session_ids ON key = session WHERE type = 'message_chunk' ORDER BY seq"
    ).fetchall()
    listed = {name for (name,) in connection.execute("SELECT id FROM sessions")}
    (sound,) = connection.execute("PRAGMA quick_check").fetchone()
    connection.close()
    assert sound == "ok", sound
    held = {seq: words.split()[:2] for seq, _, words in rows}
    for seq, name, count in acknowledged:
        assert held.get(seq) == [name, str(count)], f"{seq} {name} {count} is {held.get(seq)}"
        assert name in listed, f"{name} is not in the projection"
    following: dict[str, int] = {}
    for _, name, words in rows:
        if name.startswith("w"):
            count = int(words.split()[1])
            assert count == following.get(name, 0), f"{name} has a hole before {count}"
            following[name] = count + 1


async def open_once(path: Path) -> None:
    async with Journal.open(path) as journal:
        assert (await journal.check()).healthy
        await journal.search("x")


def main(folder: Path, kills: int, seed: int) -> None:
    random.seed(seed)
    total = 0
    for start in range(0, kills, 20):
        path = folder / f"log{start}.db"
        acknowledged: list[tuple[int, str, int]] = []
        for number in range(start, min(start + 20, kills)):
            acknowledged += one_kill(path, number)
        asyncio.run(open_once(path))
        verify(path, acknowledged)
        total += len(acknowledged)
    print(f"{kills} kills, {total} acknowledged")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
