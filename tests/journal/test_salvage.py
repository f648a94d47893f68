"""What a damaged log gives back."""

import asyncio
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from quarterdeck.journal import Journal, JournalUnreachableError, salvage_journal
from quarterdeck.wire.events import NoticePosted, SessionOpened
from tests.support.journal_events import append_all

EVENTS = 3_000


@pytest.fixture
async def log(path: Path, say) -> Path:
    async with Journal.open(path) as journal:
        await journal.append("b", SessionOpened(agent="native", cwd="/", title="kept"))
        await journal.append("b", NoticePosted(title="large " * 50_000))
        await append_all(journal, "a", [say(f"event {n}") for n in range(EVENTS - 2)])
        await journal.search("event")
    return path


async def recovered(target: Path) -> list[int]:
    async with Journal.open(target) as journal:
        assert (await journal.check()).healthy
        return [record.seq async for record in journal.history()]


async def test_a_sound_log_is_copied_whole(log: Path, tmp_path: Path):
    async with Journal.open(log, write=False) as journal:
        before = [record async for record in journal.history()]
    found = await salvage_journal(log, tmp_path / "new.db")
    assert (found.events, found.sessions, found.lost_rows, found.unreadable) == (EVENTS, 2, 0, 0)
    async with Journal.open(tmp_path / "new.db") as journal:
        assert [record async for record in journal.history()] == before
        assert [session.title for session in await journal.sessions()] == ["kept"]


async def test_what_only_the_log_of_writes_holds_is_found(path: Path, tmp_path: Path, say):
    async with Journal.open(path) as journal:
        for number in range(10):
            await journal.commit("a", say(str(number)))
        for end in ("", "-wal"):
            await asyncio.to_thread(shutil.copy, f"{path}{end}", tmp_path / f"crashed.db{end}")
    found = await salvage_journal(tmp_path / "crashed.db", tmp_path / "new.db")
    assert found.events == 10
    async with Journal.open(tmp_path / "new.db", write=False) as journal:
        assert await journal.sessions() == []
        assert await journal.search("0123456789")


async def test_half_a_file_gives_half_its_events(log: Path, tmp_path: Path):
    def halve() -> None:
        data = log.read_bytes()
        log.write_bytes(data[: len(data) // 2])

    await asyncio.to_thread(halve)
    found = await salvage_journal(log, tmp_path / "new.db")
    assert found.events > EVENTS / 20
    assert len(await recovered(tmp_path / "new.db")) == found.events


async def test_a_lost_beginning_costs_no_event_but_names(log: Path, tmp_path: Path):
    """The first pages hold the schema and the roots of all trees."""

    def scribble() -> None:
        with log.open("r+b") as file:
            file.write(b"\x00" * 4096 * 4)

    await asyncio.to_thread(scribble)
    found = await salvage_journal(log, tmp_path / "new.db")
    assert found.events == EVENTS
    assert await recovered(tmp_path / "new.db") == list(range(1, EVENTS + 1))


@pytest.mark.parametrize("seed", range(15))
async def test_random_damage_never_makes_salvage_fail(log: Path, tmp_path: Path, seed: int):
    chance = random.Random(seed)

    def scribble() -> None:
        data = bytearray(log.read_bytes())
        for _ in range(chance.choice([1, 5, 20])):
            place = chance.randrange(len(data))
            junk = chance.randbytes(chance.choice([1, 8, 100, 5_000]))
            data[place : place + len(junk)] = junk
        log.write_bytes(data[: chance.randrange(len(data))] if seed % 3 == 0 else data)

    await asyncio.to_thread(scribble)
    found = await salvage_journal(log, tmp_path / "new.db")
    async with Journal.open(tmp_path / "new.db") as journal:
        assert (await journal.check()).problems == ()
        assert await journal.count() == found.events
    if seed % 3:
        assert found.events > EVENTS / 2


async def test_deleted_sessions_do_not_come_back(log: Path, tmp_path: Path):
    async with Journal.open(log) as journal:
        await journal.delete("a")
    found = await salvage_journal(log, tmp_path / "new.db")
    assert (found.events, found.sessions) == (2, 1)


async def test_nothing_is_overwritten(log: Path, tmp_path: Path):
    with pytest.raises(JournalUnreachableError, match="already"):
        await salvage_journal(log, log)
    with pytest.raises(JournalUnreachableError, match="no such file"):
        await salvage_journal(tmp_path / "none.db", tmp_path / "new.db")


async def test_bytes_that_are_no_database_give_nothing(path: Path, tmp_path: Path):
    await asyncio.to_thread(path.write_bytes, b"")
    assert (await salvage_journal(path, tmp_path / "one.db")).events == 0
    await asyncio.to_thread(path.write_bytes, b"\x0d" * 100_000)
    assert (await salvage_journal(path, tmp_path / "two.db")).events == 0


async def test_a_foreign_database_gives_nothing(path: Path, tmp_path: Path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a, b)")
        connection.execute("INSERT INTO t VALUES (1, 'x')")
        connection.commit()
    assert (await salvage_journal(path, tmp_path / "new.db")).events == 0
