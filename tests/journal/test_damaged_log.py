"""Whatever a log's bytes become, nobody who reads it hangs, loops or crashes."""

import asyncio
import random
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from quarterdeck.journal import Journal, JournalError, salvage_journal
from quarterdeck.journal.damage import count_damaged, read_damage
from quarterdeck.journal.records import CHANGED
from quarterdeck.wire.events import NoticePosted, SessionOpened, UnknownEvent
from quarterdeck.wire.record import encode_record
from tests.support.journal_events import append_all

EVENTS = 600
LONGEST = 20.0
"""Seconds for all that is done with one damaged log; a sound one takes a tenth of one."""


async def write_log(path: Path, say) -> None:
    async with Journal.open(path) as journal:
        for name in "ab":
            await journal.append(name, SessionOpened(agent="native", cwd="/", title=f"of {name}"))
        await journal.append("b", NoticePosted(title="large " * 20_000))
        for number in range(EVENTS - 4):
            await journal.append("ab"[number % 2], say(f"event {number} " + "x" * (number % 200)))
        await journal.append("gone", say("deleted"))
        await journal.delete("gone")
        await journal.search("event")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from quarterdeck.wire.content import text
    from quarterdeck.wire.events import MessageChunk

    path = tmp_path_factory.mktemp("sound") / "log.db"
    asyncio.run(write_log(path, lambda words: MessageChunk(content=text(words), message="m1")))
    return path


async def use(path: Path) -> tuple[list[int], bool]:
    """Do everything that people do with a log; returns what was read and whether it is healthy."""
    found: list[int] = []
    healthy = False
    for work in (check, read, export, search, list_them, write_on):
        try:
            result = await work(path)
        except JournalError as error:
            assert str(path) in str(error)
        else:
            found = result if work is read else found
            healthy = result if work is check else healthy
    return found, healthy


async def check(path: Path) -> bool:
    async with Journal.open(path, write=False) as journal:
        return (await journal.check()).healthy


async def read(path: Path) -> list[int]:
    async with Journal.open(path, write=False) as journal:
        seqs = [record.seq async for record in journal.history()]
        assert seqs == sorted(set(seqs))
        for session in ("a", "b", "nobody"):
            own = [record.seq async for record in journal.history(session=session)]
            assert own == sorted(set(own))
            back, before = list[int](), None
            while page := await journal.tail(session, before=before, limit=97):
                before = page[0].seq
                back = [record.seq for record in page] + back
            assert back == sorted(set(back))
        return seqs


async def export(path: Path) -> None:
    async with Journal.open(path, write=False) as journal:
        async for line in journal.export():
            assert line.endswith(b"\n")


async def search(path: Path) -> None:
    async with Journal.open(path, write=False) as journal:
        await journal.search("event")


async def list_them(path: Path) -> None:
    async with Journal.open(path, write=False) as journal:
        for one in await journal.sessions():
            assert isinstance(one.id, str)


async def write_on(path: Path) -> None:
    async with Journal.open(path) as journal:
        await asyncio.wait_for(journal.commit("c", NoticePosted(title="goes on")), 10)


def damage(path: Path, seed: int) -> None:
    """One of the ways in which files go bad; also in the index and in the log of writes."""
    chance = random.Random(seed)
    ends = ["", "", "", ".search"]
    target = path.with_name(path.name + chance.choice(ends))
    data = bytearray(target.read_bytes())
    kind = chance.choice(["flip", "flip", "flip", "zero", "cut", "header", "page", "swap"])
    place = chance.randrange(len(data))
    match kind:
        case "flip":
            for _ in range(chance.choice([1, 1, 1, 4, 40])):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        case "zero":
            data[place : place + 64] = bytes(len(data[place : place + 64]))
        case "cut":
            del data[place:]
        case "header":
            data[chance.randrange(100)] = chance.randrange(256)
        case "page":
            page = place // 4096 * 4096
            data[page + chance.randrange(12)] = chance.randrange(256)
        case _:
            one, two = (chance.randrange(len(data) // 4096) * 4096 for _ in "12")
            data[one : one + 4096], data[two : two + 4096] = (
                data[two : two + 4096],
                data[one : one + 4096],
            )
    target.write_bytes(data)


def copied(sound: Path, folder: Path) -> Path:
    folder.mkdir()
    for end in ("", ".search"):
        shutil.copy(f"{sound}{end}", folder / f"log.db{end}")
    return folder / "log.db"


async def hurt(sound: Path, folder: Path, seed: int) -> None:
    path = await asyncio.to_thread(copied, sound, folder)
    await asyncio.to_thread(damage, path, seed)
    began = time.monotonic()
    try:
        async with asyncio.timeout(LONGEST):
            await use(path)
        saved = await salvage_journal(path, folder / "new.db")
        async with Journal.open(folder / "new.db", write=False) as journal:
            assert (await journal.check()).problems == ()
            assert await journal.count() == saved.events
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error
    assert time.monotonic() - began < 2 * LONGEST


async def test_no_damage_makes_anything_hang_or_crash(sound: Path, tmp_path: Path):
    for seed in range(60):
        await hurt(sound, tmp_path / str(seed), seed)


@pytest.mark.stress
@pytest.mark.timeout(0)
async def test_no_damage_of_thousands_makes_anything_hang_or_crash(sound: Path, tmp_path: Path):
    for seed in range(1_000, 3_000):
        await hurt(sound, tmp_path / str(seed), seed)
        await asyncio.to_thread(shutil.rmtree, tmp_path / str(seed))


async def test_a_flipped_byte_costs_one_record_and_is_found(sound: Path, tmp_path: Path):
    path = await asyncio.to_thread(copied, sound, tmp_path / "one")
    data = bytearray(await asyncio.to_thread(path.read_bytes))
    place = data.index(b"event 100 ")
    data[place + 6] ^= 0x03  # "event 200": JSON all the same
    await asyncio.to_thread(path.write_bytes, data)
    async with Journal.open(path, write=False) as journal:
        records = [record async for record in journal.history()]
        report = await journal.check()
        exported = [line async for line in journal.export("a")]
    assert len(records) == EVENTS - 1
    (bad,) = [record for record in records if isinstance(record.event, UnknownEvent)]
    assert bad.event.reason == CHANGED
    assert (report.changed, report.problems, report.healthy) == ((bad.seq,), (), False)
    assert report.damaged == {"a": 1}
    assert count_damaged(records) == 1
    assert encode_record(bad) + b"\n" in exported
    assert await asyncio.to_thread(read_damage, path) == {"a": "damaged: 1 record unreadable"}
    async with Journal.open(path, write=False) as journal:
        told = {one.id: one.damage for one in await journal.sessions()}
    assert told == {"a": "damaged: 1 record unreadable", "b": None}


async def test_reading_in_passing_notes_the_damage(sound: Path, tmp_path: Path):
    path = await asyncio.to_thread(copied, sound, tmp_path / "one")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE events SET time = time + 1 WHERE seq IN (10, 12)")
        connection.commit()
    async with Journal.open(path, write=False) as journal:
        assert count_damaged(await journal.read(limit=50)) == 2
    assert await asyncio.to_thread(read_damage, path) == {"a": "damaged: 2 records unreadable"}
    async with Journal.open(path) as journal:
        await journal.delete("a")
        assert (await journal.check()).healthy
    assert await asyncio.to_thread(read_damage, path) == {}


async def test_two_records_that_changed_places_are_found(sound: Path, tmp_path: Path):
    path = await asyncio.to_thread(copied, sound, tmp_path / "one")
    with closing(sqlite3.connect(path)) as connection:
        for seq in ("-1", "20", "30"):
            other = {"-1": "20", "20": "30", "30": "-1"}[seq]
            connection.execute(f"UPDATE events SET seq = {seq} WHERE seq = {other}")
        connection.commit()
    async with Journal.open(path, write=False) as journal:
        assert (await journal.check()).changed == (20, 30)


async def test_a_session_that_got_another_name_is_found(sound: Path, tmp_path: Path):
    path = await asyncio.to_thread(copied, sound, tmp_path / "one")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE session_ids SET id = 'z' WHERE id = 'a'")
        connection.commit()
    async with Journal.open(path, write=False) as journal:
        report = await journal.check()
    assert report.problems == ("the name of session 'z' was changed after it was written",)


@pytest.mark.parametrize("offset", range(8))
async def test_a_damaged_page_header_costs_no_record(sound: Path, tmp_path: Path, offset: int):
    """The database gives such a page up as a whole; its rows are whole, and are read."""
    path = await asyncio.to_thread(copied, sound, tmp_path / "one")
    data = bytearray(await asyncio.to_thread(path.read_bytes))
    page = data.index(b"event 100 ") // 4096 * 4096
    assert data[page] == 0x0D
    data[page + offset] ^= 0x41
    await asyncio.to_thread(path.write_bytes, data)
    async with Journal.open(path, write=False) as journal:
        assert [record.seq async for record in journal.history()] == [*range(1, EVENTS)]
        own = [record async for record in journal.history(session="a")]
        assert len(own) == (EVENTS - 2) // 2
        assert await journal.tail("a", limit=10) == own[-10:]
        assert not (await journal.check()).healthy or offset in (1, 2, 5, 6, 7)
    assert (await salvage_journal(path, tmp_path / "new.db")).events == EVENTS - 1


async def test_numbers_out_of_order_do_not_make_readers_go_in_circles(path: Path, say):
    """A row's number stands in its page alone, and no checksum of the database guards it."""
    async with Journal.open(path) as journal:
        await append_all(journal, "a", [say(f"event {n}") for n in range(200)])
    data = bytearray(await asyncio.to_thread(path.read_bytes))
    place = data.index(b'{"type":"message_chunk","content":{"type":"text","text":"event 150"}')
    # Before the body: its length, the row's number (151, in two bytes), then the header.
    head = data.rindex(bytes([0x81, 151 & 0x7F]), 0, place)
    data[head : head + 2] = bytes([0x80, 0x03])
    await asyncio.to_thread(path.write_bytes, data)
    async with asyncio.timeout(20):
        async with Journal.open(path, write=False) as journal:
            found = [record.seq async for record in journal.history()]
            assert not (await journal.check()).healthy
            assert await journal.search("event")
    assert found == [seq for seq in range(1, 201) if seq != 151]


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe\x00",
        b'{"type":"message_chunk"',
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b"17",
        b"null",
        b'{"type":5}',
        b"",
    ],
)
async def test_a_body_that_is_no_event_is_told_as_unknown(path: Path, say, body: bytes):
    async with Journal.open(path) as journal:
        await append_all(journal, "a", [say("one"), say("two"), say(" three")])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE events SET body = ?, checksum = NULL WHERE seq = 2", (body,))
        connection.commit()
    async with Journal.open(path) as journal:
        records = [record async for record in journal.history()]
        assert [isinstance(one.event, UnknownEvent) for one in records] == [False, True, False]
        assert len([line async for line in journal.export()]) == 3
        assert (await journal.check()).unreadable == (2,)
        assert [hit.seq for hit in await journal.search("three")]


async def test_records_of_the_first_version_are_unverified_and_read(tmp_path: Path):
    golden = Path(__file__).parent / "fixtures" / "v1.db"
    await asyncio.to_thread(shutil.copy, golden, tmp_path / "v1.db")
    for write in (False, True):
        async with Journal.open(tmp_path / "v1.db", write=write) as journal:
            report = await journal.check()
            assert (report.events, report.unverified, report.healthy) == (5, 5, True)


async def test_a_damaged_log_of_writes_hurts_nobody(path: Path, tmp_path: Path, say):
    """As a power cut leaves it: the last commits stand in the write-ahead log alone."""
    async with Journal.open(path) as journal:
        for number in range(30):
            await journal.commit("a", say(f"event {number}"))
        wal = bytearray(await asyncio.to_thread(Path(f"{path}-wal").read_bytes))
        data = await asyncio.to_thread(path.read_bytes)
    chance = random.Random(7)
    for number in range(12):
        copy = tmp_path / f"{number}.db"
        damaged = bytearray(wal)
        place = chance.randrange(40) if number % 3 == 0 else chance.randrange(len(wal))
        damaged[place : place + chance.choice([1, 8])] = b"\xff" * chance.choice([1, 8])
        if number % 4 == 3:
            del damaged[chance.randrange(len(damaged)) :]
        await asyncio.to_thread(copy.write_bytes, data)
        await asyncio.to_thread(Path(f"{copy}-wal").write_bytes, damaged)
        async with asyncio.timeout(LONGEST):
            await salvage_journal(copy, tmp_path / f"{number}-new.db")
            await use(copy)


def test_a_frame_that_names_a_page_far_away_is_not_waited_for(tmp_path: Path):
    from quarterdeck.journal.sqlite_pages import rows_of

    (tmp_path / "log.db").write_bytes(b"\x0d" * 8192)
    header = b"\x37\x7f\x06\x82" + (3007000).to_bytes(4, "big") + (4096).to_bytes(4, "big")
    header += bytes(4) + b"saltsalt" + bytes(8)
    frame = (0xFFFFFFF0).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"saltsalt" + bytes(8)
    (tmp_path / "log.db-wal").write_bytes(header + frame + b"\x0d" * 4096)
    began = time.monotonic()
    assert len(list(rows_of(tmp_path / "log.db"))) < 10_000
    assert time.monotonic() - began < 10


async def test_a_projection_that_cannot_be_read_is_told_as_damage(path: Path, say):
    async with Journal.open(path) as journal:
        await journal.commit("a", say("x"))

        def read_badly(connection: sqlite3.Connection) -> object:
            import msgspec

            return msgspec.json.decode(connection.execute("SELECT x'7b'").fetchone()[0])

        with pytest.raises(JournalError, match="damaged"):
            await journal.query(read_badly)
