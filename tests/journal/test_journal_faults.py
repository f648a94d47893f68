"""Bad files, bad disks, two writers: each has a defined and clear outcome."""

import asyncio
import errno
import fcntl
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from quarterdeck.journal import (
    Journal,
    JournalCorruptError,
    JournalError,
    JournalLimits,
    JournalLockedError,
    JournalStalledError,
    JournalTooNewError,
    JournalUnlockableError,
    JournalUnreachableError,
    NotAJournalError,
)
from quarterdeck.journal.store import (
    MIGRATIONS,
    VERSION,
    commits_unsynced,
    connect_writer,
    migrate,
)
from quarterdeck.journal.writer import acquire_lock
from quarterdeck.wire.events import UnknownEvent
from quarterdeck.wire.filelock import release_lock
from tests.support.journal_events import append_all

GOLDEN = Path(__file__).parent / "fixtures"
QUICK = JournalLimits(retry_first=0.01, retry_most=0.05, pending_events=50, linger=0)


async def open_once(path: Path, **options) -> None:
    async with Journal.open(path, **options):
        pass


def size_of(path: Path) -> int:
    return path.stat().st_size


def alter(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


async def filled(path: Path, say, count: int = 2_000) -> None:
    async with Journal.open(path) as journal:
        await append_all(journal, "a", [say(f"event {n} " + "x" * 100) for n in range(count)])


async def test_a_second_writer_is_told_who_the_first_is(path: Path, say):
    async with Journal.open(path) as journal:
        with pytest.raises(JournalLockedError, match=f"process {os.getpid()}") as caught:
            await open_once(path)
        assert caught.value.pid == os.getpid()
        await journal.commit("a", say("unharmed"))
    await open_once(path)


def test_a_lock_that_a_starting_child_has_inherited_is_released(path: Path):
    handle = acquire_lock(path)
    inherited = os.dup(handle)
    try:
        release_lock(handle)
        release_lock(acquire_lock(path))
    finally:
        os.close(inherited)


async def test_a_file_system_without_locks_is_refused(path: Path, monkeypatch):
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(JournalUnlockableError, match="local disk"):
        await open_once(path)


async def test_a_newer_log_is_refused_and_unchanged(path: Path):
    await open_once(path)
    alter(path, f"PRAGMA user_version = {VERSION + 1}")
    before = await asyncio.to_thread(path.read_bytes)
    for write in (True, False):
        with pytest.raises(JournalTooNewError, match="Upgrade"):
            await open_once(path, write=write)
    assert await asyncio.to_thread(path.read_bytes) == before


async def test_a_foreign_database_is_refused_and_unchanged(path: Path):
    alter(path, "CREATE TABLE bookmarks (url)")
    before = await asyncio.to_thread(path.read_bytes)
    for write in (True, False):
        with pytest.raises(NotAJournalError, match="another program"):
            await open_once(path, write=write)
    assert await asyncio.to_thread(path.read_bytes) == before


async def test_a_file_that_is_no_database_is_damaged(path: Path):
    await asyncio.to_thread(path.write_bytes, b"dear diary, " * 1_000)
    for write in (True, False):
        with pytest.raises(JournalCorruptError, match="salvage"):
            await open_once(path, write=write)


async def test_a_truncated_log_is_damaged(path: Path, say):
    await filled(path, say)
    os.truncate(path, size_of(path) // 2)
    for write in (True, False):
        with pytest.raises(JournalCorruptError, match="salvage"):
            await open_once(path, write=write)


async def test_damage_within_is_reported_by_check_and_costs_only_itself(path: Path, say):
    await filled(path, say)

    def scribble() -> None:
        with path.open("r+b") as file:
            file.seek(4096 * 40)
            file.write(b"\xff" * 4096 * 20)

    await asyncio.to_thread(scribble)
    async with Journal.open(path, write=False) as journal:
        report = await journal.check()
        assert not report.healthy
        assert report.damaged["a"] > 0
        found = [record.seq async for record in journal.history()]
    assert found == sorted(set(found))
    assert 1_500 < len(found) == report.events < 2_000


async def test_a_missing_log_cannot_be_read(path: Path):
    with pytest.raises(JournalUnreachableError, match="no such file"):
        await open_once(path, write=False)


async def test_an_empty_file_becomes_a_log(path: Path, say):
    await asyncio.to_thread(path.touch)
    with pytest.raises(JournalUnreachableError, match="empty"):
        await open_once(path, write=False)
    async with Journal.open(path) as journal:
        assert (await journal.commit("a", say("x"))).seq == 1


async def test_tables_that_a_power_cut_took_before_the_first_record_are_made_again(
    path: Path, tmp_path: Path, say
):
    copy = tmp_path / "copy.db"
    async with Journal.open(path):  # nothing of its tables is anywhere but in the log of writes
        shutil.copy(path, copy)
    async with Journal.open(copy) as journal:
        await append_all(journal, "a", [say("hello")])
        await journal.durable(1)
        assert [record.seq async for record in journal.history()] == [1]


def test_a_record_is_on_disk_when_its_commit_returns(path: Path):
    for _ in range(2):  # a log that is made, and one that is there
        with closing(connect_writer(path)) as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
            with pytest.raises(ZeroDivisionError), commits_unsynced(connection):
                assert connection.execute("PRAGMA synchronous").fetchone() == (1,)  # NORMAL
                raise ZeroDivisionError
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)


async def test_a_directory_in_the_way_is_named(path: Path):
    await asyncio.to_thread(path.mkdir)
    with pytest.raises(JournalError, match=str(path)):
        await open_once(path)


async def test_a_bad_record_costs_only_itself(path: Path, say):
    await filled(path, say, 5)
    alter(
        path,
        'UPDATE events SET body = \'{"type":"from_the_future"}\' WHERE seq = 2',
        "UPDATE events SET body = X'ff00' WHERE seq = 3",
        "UPDATE events SET body = 7 WHERE seq = 4",
        "UPDATE events SET checksum = NULL",
    )
    async with Journal.open(path) as journal:
        events = [record.event for record in await journal.read()]
        assert [isinstance(event, UnknownEvent) for event in events] == [
            False,
            True,
            True,
            True,
            False,
        ]
        assert events[1].raw == {"type": "from_the_future"}
        assert (await journal.check()).unreadable == (2, 3, 4)
        assert len([line async for line in journal.export()]) == 5
        assert await journal.search("event")


async def test_a_torn_log_of_writes_leaves_a_prefix(path: Path, tmp_path: Path, say):
    """What a power cut can leave: the end of the last writes missing or garbled."""
    async with Journal.open(path) as journal:
        for number in range(30):
            await journal.commit("a", say(str(number)))
        whole = await asyncio.to_thread(path.read_bytes)
        wal = await asyncio.to_thread(path.with_name("log.db-wal").read_bytes)
    for number, size in enumerate(range(0, len(wal), len(wal) // 25)):
        torn = tmp_path / f"torn{number}.db"
        await asyncio.to_thread(torn.write_bytes, whole)
        garbled = wal[:size] + bytes(len(wal) - size if number % 2 else 0)
        await asyncio.to_thread(torn.with_name(torn.name + "-wal").write_bytes, garbled)
        async with Journal.open(torn) as journal:
            texts = [record.event.content.text for record in await journal.read()]
            assert texts == [str(n) for n in range(len(texts))]
            assert (await journal.commit("a", say("on"))).seq == len(texts) + 1


@contextmanager
def full_disk(size: int):
    """Let no file of this process grow beyond ``size`` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_disk_that_fills_up_stalls_and_recovers_with_nothing_lost(path: Path, say):
    big = "x" * 20_000
    async with Journal.open(path, limits=QUICK) as journal:
        await append_all(journal, "a", [say(big) for _ in range(20)])
        await journal.durable(20)
        kept = 20
        with full_disk(size_of(path.with_name("log.db-wal")) + 8_000):
            with pytest.raises(JournalStalledError) as caught:
                await journal.commit("a", say(big))
            assert caught.value.kept
            assert journal.stalled is not None
            kept += 1
            with pytest.raises(JournalStalledError) as refused:
                while True:
                    await journal.append("b", say(big))
                    kept += 1
            assert not refused.value.kept
            assert kept == 20 + QUICK.pending_events
            assert len(await journal.read()) == 20
        async with asyncio.timeout(45):
            while journal.last < kept:
                await asyncio.sleep(0.01)
        assert journal.stalled is None
        await journal.commit("a", say("after"))
        assert [record.seq async for record in journal.history()] == list(range(1, kept + 2))


async def test_jobs_that_wait_behind_a_stall_are_told_of_the_end(path: Path, say):
    with pytest.raises(JournalStalledError), ExitStack() as stack:
        async with Journal.open(path, limits=QUICK) as journal:
            await journal.commit("a", say("safe"))
            stack.enter_context(full_disk(size_of(path.with_name("log.db-wal"))))
            await journal.append("a", say("x" * 50_000))
            rebuilding = asyncio.create_task(journal.rebuild("sessions"))
            await asyncio.sleep(0)
    with pytest.raises(JournalStalledError):
        await rebuilding


async def test_closing_a_stalled_journal_says_what_is_lost(path: Path, say):
    with pytest.raises(JournalStalledError, match="1 events are lost"), ExitStack() as stack:
        async with Journal.open(path, limits=QUICK) as journal:
            await journal.commit("a", say("safe"))
            stack.enter_context(full_disk(size_of(path.with_name("log.db-wal"))))
            await journal.append("a", say("x" * 50_000))
            with pytest.raises(JournalStalledError):
                await journal.durable(2)
    async with Journal.open(path) as journal:
        assert [record.seq for record in await journal.read()] == [1]


READ_ONLY = """
import asyncio, sys
from quarterdeck.journal import Journal, JournalReadOnlyError

async def main():
    try:
        async with Journal.open(sys.argv[1]):
            print("opened")
    except JournalReadOnlyError as error:
        print("refused:", error)
    async with Journal.open(sys.argv[1], write=False) as journal:
        print(len(await journal.read()), len(await journal.search("event")))

asyncio.run(main())
"""


@contextmanager
def without_write_permission(*paths: Path):
    """Let nobody but root write there; afterwards it is as before."""
    before = [path.stat().st_mode for path in paths]
    try:
        for path, mode in zip(paths, before, strict=True):
            path.chmod(mode & 0o555)
        yield
    finally:
        for path, mode in zip(paths, before, strict=True):
            path.chmod(mode)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
async def test_a_home_that_cannot_be_written_can_be_read(path: Path, say):
    await filled(path, say, 3)
    with without_write_permission(path, path.with_name("log.db.lock"), path.parent):
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", READ_ONLY, str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.stderr == ""
    refused, read = done.stdout.splitlines()
    assert refused.startswith("refused:")
    assert "open it read-only" in refused
    assert read == "3 1"


async def test_a_log_of_each_old_version_opens(tmp_path: Path, say):
    for golden in sorted(GOLDEN.glob("v*.db")):
        copy = tmp_path / golden.name
        await asyncio.to_thread(shutil.copy, golden, copy)
        async with Journal.open(copy) as journal:
            records = await journal.read()
            assert [record.seq for record in records] == [1, 2, 3, 4, 6]
            assert records[0].event.agent == "native"
            assert [session.title for session in await journal.sessions()] == ["golden"]
            assert [hit.seq for hit in await journal.search("quarterdeck")] == [3]
            assert (await journal.commit("new", say("x"))).seq == 7
            assert (await journal.check()).healthy
    assert len(list(GOLDEN.glob("v*.db"))) == VERSION


def test_a_migration_runs_once_and_whole(path: Path):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, MIGRATIONS)
        later = (*MIGRATIONS, ("CREATE TABLE extra (x)", "NONSENSE"))
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, later)
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        later = (*MIGRATIONS, ("CREATE TABLE extra (x)",))
        migrate(connection, later)
        migrate(connection, later)
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION + 1,)
        assert connection.execute("SELECT * FROM extra").fetchall() == []
