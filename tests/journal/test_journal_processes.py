"""Several processes: killed writers, and readers beside a writer."""

import asyncio
import random
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from quarterdeck.journal import Journal, JournalUnreachableError

KILL_MANY = Path(__file__).parent / "kill_many.py"

WRITER = """
import asyncio, sys
from quarterdeck.journal import Journal
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk

async def main():
    async with Journal.open(sys.argv[1]) as journal:
        for number in range(int(sys.argv[2])):
            await journal.append("ab"[number % 2], MessageChunk(content=text(str(number))))
            if number % 50 == 49:
                await journal.durable(number + 1)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


async def kill_writers(folder: Path, kills: int) -> str:
    seed = random.randrange(1 << 30)
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        str(KILL_MANY),
        str(folder),
        str(kills),
        str(seed),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await child.communicate()
    assert child.returncode == 0, f"seed {seed}: {errors.decode()[-2_000:]}"
    return output.decode()


async def test_what_was_acknowledged_survives_being_killed(tmp_path: Path):
    output = await kill_writers(tmp_path, 100)
    assert output.startswith("100 kills")
    assert int(output.split()[2]) > 100


@pytest.mark.stress
async def test_what_was_acknowledged_survives_being_killed_often(tmp_path: Path):
    assert (await kill_writers(tmp_path, 400)).startswith("400 kills")


async def test_another_process_follows_while_one_writes(path: Path):
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(path), "1000", stdin=asyncio.subprocess.PIPE
    )
    while True:
        try:
            async with Journal.open(path, write=False) as journal:
                await follow_thousand(journal)
                break
        except JournalUnreachableError:
            # The writer has not made the log yet.
            await asyncio.sleep(0.01)
    await child.communicate(b"")
    assert child.returncode == 0


async def follow_thousand(journal: Journal) -> None:
    async def take(session: str | None, count: int) -> list[str]:
        texts: list[str] = []
        async with aclosing(journal.follow(session=session)) as records:
            async for record in records:
                texts.append(record.event.content.text)
                if len(texts) == count:
                    return texts
        return texts

    async with asyncio.timeout(45):
        everything, odd = await asyncio.gather(take(None, 1_000), take("b", 500))
    assert everything == [str(number) for number in range(1_000)]
    assert odd == [str(number) for number in range(1, 1_000, 2)]


async def test_a_reader_ends_its_followers_when_closed(path: Path, say):
    async with Journal.open(path) as writer:
        await writer.commit("a", say("x"))
        async with Journal.open(path, write=False) as reader:
            records = reader.follow()
            assert (await anext(records)).seq == 1
            waiting = asyncio.create_task(anext(records, None))
            await asyncio.sleep(0)
        assert await waiting is None
