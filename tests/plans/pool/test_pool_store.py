"""What the database of a pool refuses and keeps: fencing, exactly one, versions, passwords."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from quarterdeck.fleet.api import AgentInfo
from quarterdeck.plans.pool.address import PoolAddress, find_pool_address
from quarterdeck.plans.pool.database import Connection, PoolDatabase, create_tables
from quarterdeck.plans.pool.errors import (
    LeaseLostError,
    PoolAddressError,
    PoolError,
    PoolUnreachableError,
    PoolUnsupportedError,
    PoolVersionError,
)
from quarterdeck.plans.pool.limits import LimitKind, PoolLimits
from quarterdeck.plans.pool.pool_fleet import PoolFleet
from quarterdeck.plans.pool.store import Lease, PoolStore, PushedTree, WorkerInfo, fence
from quarterdeck.plans.progress import ProgressEntry
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.usage import Cost, TokenUsage

ONE = WorkerInfo(id="w1", name="one", labels=("linux",), slots=2)
TWO = WorkerInfo(id="w2", name="two", labels=("linux", "gpu"), slots=2)
ENTRY = ProgressEntry(time=1, kind="run_ended", key="run-end")


@pytest.fixture
async def database(pool_url: str) -> AsyncIterator[PoolDatabase]:
    assert await create_tables(PoolAddress(pool_url))
    async with PoolDatabase.open(PoolAddress(pool_url)) as opened:
        yield opened


async def add_run(
    database: PoolDatabase,
    tasks: dict[str, tuple[tuple[str, ...], tuple[str, ...]]],
    at_once: int = 9,
) -> None:
    """Tasks with their needs and labels."""

    async def write(connection: Connection) -> None:
        words = "INSERT INTO quarterdeck.runs VALUES ('r', 'run', '{}', %s, 'running', 'ann')"
        await connection.execute(words, (at_once,))
        for place, (key, (needs, labels)) in enumerate(tasks.items()):
            state = "waiting" if needs else "ready"
            await connection.execute(
                "INSERT INTO quarterdeck.tasks (run, key, place, needs, labels, state) "
                "VALUES ('r', %s, %s, %s, %s, %s)",
                (key, place, list(needs), list(labels), state),
            )

    await database.run(write)


async def execute(database: PoolDatabase, sql: str) -> list[tuple[Any, ...]]:
    async def run(connection: Connection) -> list[tuple[Any, ...]]:
        cursor = await connection.execute(sql.encode())
        return await cursor.fetchall() if cursor.description else []

    return await database.run(run)


def make_records(count: int, start: int = 1) -> list[Record]:
    return [
        Record(
            seq=seq, time=seq, session=SessionId("ses_1"), event=MessageChunk(content=text("☃\0"))
        )
        for seq in range(start, start + count)
    ]


INFO = AgentInfo(
    session=SessionId("ses_1"), name="ann", agent="codex", cwd="/", state="running", is_live=True
)


def list_writes(store: PoolStore, lease: Lease) -> dict[str, Callable[[], Awaitable[object]]]:
    tree = PushedTree(contender="c", token=lease.token, reference="refs/x", commit="0" * 40)
    info = replace(INFO, session=SessionId(f"ses_{lease.token}"))
    return {
        "check": lambda: store.check(lease),
        "step": lambda: store.store_step(lease, "t", f"step-{lease.token}", {"a": 1}),
        "note": lambda: store.note(lease, replace(ENTRY, key=f"n{lease.token}")),
        "ship": lambda: store.ship(lease, info, make_records(1)),
        "tree": lambda: store.add_tree(lease, tree),
        "release": lambda: store.release(lease),
        "finish": lambda: store.finish(lease, "done", ENTRY),
    }


async def test_nothing_is_written_with_a_token_that_is_not_the_latest(database: PoolDatabase):
    store = PoolStore(database)
    await add_run(database, {"t": ((), ())})
    old = await store.claim(ONE, [], 60)
    assert old is not None and old.token == 1
    assert await store.claim(TWO, [], 60) is None
    await execute(database, "UPDATE quarterdeck.tasks SET lease_until = now() - interval '1s'")
    new = await store.claim(TWO, [], 60)
    assert new is not None and new.token == 2
    counts = " UNION ALL ".join(
        f"SELECT count(*) FROM quarterdeck.{name}"
        for name in ("steps", "progress", "events", "sessions", "trees")
    )
    assert await store.renew(ONE, [old], 60) == set()
    for name, write in list_writes(store, old).items():
        with pytest.raises(LeaseLostError, match="another worker has it"):
            await write()
        assert await execute(database, counts) == [(0,)] * 5, name
    assert await store.renew(TWO, [new], 60) == {("r", "t", 2)}
    writes = list_writes(store, new)
    for name in ("check", "step", "note", "ship", "tree", "finish"):
        await writes[name]()
    assert await execute(database, counts) == [(1,), (2,), (1,), (1,), (1,)]
    with pytest.raises(LeaseLostError):
        await writes["step"]()  # it has ended


async def test_a_task_is_not_taken_over_within_a_write(database: PoolDatabase, pool_url: str):
    store = PoolStore(database)
    await add_run(database, {"t": ((), ())})
    lease = await store.claim(ONE, [], 60)
    assert lease is not None
    await execute(database, "UPDATE quarterdeck.tasks SET lease_until = now() - interval '1s'")
    within, go_on = asyncio.Event(), asyncio.Event()

    async def write(connection: Connection) -> None:
        await fence(connection, lease)
        within.set()
        await go_on.wait()

    async with PoolDatabase.open(PoolAddress(pool_url)) as other:
        task = asyncio.create_task(database.run(write))
        await within.wait()
        assert await PoolStore(other).claim(TWO, [], 60) is None
        go_on.set()
        await task
        taken = await PoolStore(other).claim(TWO, [], 60)
    assert taken is not None and taken.token == 2


async def test_tasks_are_taken_by_needs_labels_and_how_many_at_once(database: PoolDatabase):
    store = PoolStore(database)
    await add_run(database, {"a": ((), ("gpu",)), "b": ((), ()), "c": (("a", "b"), ())}, at_once=1)
    first = await store.claim(ONE, [], 60)
    assert first is not None and first.key == "b"  # it has no gpu
    assert await store.claim(TWO, [], 60) is None  # one at once
    await store.finish(first, "failed", ENTRY)
    second = await store.claim(TWO, [], 60)
    assert second is not None and second.key == "a"
    # A worker that starts again takes what it had, and no other takes it.
    assert await store.claim(TWO, [second], 60) is None
    again = await store.claim(TWO, [], 60)
    assert again is not None and (again.key, again.token) == ("a", 2)
    await store.release(again, failed=True, pause=3600)
    assert await store.claim(TWO, [], 60) is None
    await execute(database, "UPDATE quarterdeck.tasks SET not_before = now()")
    third = await store.claim(TWO, [], 60)
    assert third is not None and third.failures == 1
    await store.finish(third, "done", ENTRY)
    last = await store.claim(ONE, [], 60)
    assert last is not None and last.key == "c"
    # A run that is stopped is not worked on.
    await execute(database, "UPDATE quarterdeck.runs SET state = 'stopped'")
    assert await store.renew(ONE, [last], 60) == set()
    await execute(database, "UPDATE quarterdeck.runs SET state = 'running'")
    await store.finish(last, "skipped", ENTRY)
    assert await execute(database, "SELECT state FROM quarterdeck.runs") == [("failed",)]


async def test_records_are_shipped_once_and_read_as_they_were(database: PoolDatabase):
    store, fleet = PoolStore(database), PoolFleet.create(database)
    await add_run(database, {"t": ((), ())})
    lease = await store.claim(ONE, [], 60)
    assert lease is not None and await store.find_last("w1", "ses_1") == 0
    for page in (make_records(5), make_records(5), make_records(4, start=4)):
        await store.ship(lease, INFO, page)
    assert await store.find_last("w1", "ses_1") == 7
    assert await fleet.read("ann", limit=100) == make_records(7)
    assert await fleet.read("ses_1", before=4, limit=2) == make_records(2, start=2)
    (info,) = await fleet.agents()
    assert info.is_live and info.state == "running"
    await execute(database, "UPDATE quarterdeck.tasks SET lease_until = now() - interval '1s'")
    (info,) = await fleet.agents()
    assert not info.is_live and "its worker" in (info.reason or "")
    for call in (fleet.kill("ann"), fleet.meter(), fleet.worktrees()):
        with pytest.raises(PoolUnsupportedError, match="a pool does not offer"):
            await call


async def test_a_connection_that_is_cut_comes_back(database: PoolDatabase, pool_url: str):
    async with PoolDatabase.open(PoolAddress(pool_url), "victim") as victim:
        cut = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'victim'"
        )
        assert await execute(database, cut) == [(True,)]
        with pytest.raises(PoolUnreachableError, match="does not answer"):
            await execute(victim, "SELECT 1")
        assert await execute(victim, "SELECT 1") == [(1,)]


async def test_only_tables_of_this_version_are_used(pool_url: str):
    address = PoolAddress(pool_url)
    with pytest.raises(PoolVersionError, match="quarterdeck pool init"):
        async with PoolDatabase.open(address):
            pass
    assert [await create_tables(address), await create_tables(address)] == [True, False]
    async with PoolDatabase.open(address) as opened:
        await execute(opened, "UPDATE quarterdeck.pool SET version = 2")
    for use in (create_tables(address), PoolDatabase.open(address).__aenter__()):
        with pytest.raises(PoolVersionError, match=r"version 2 .* update this program"):
            await use
    nowhere = PoolAddress("postgresql://ann:secret@127.0.0.1:1/x")
    with pytest.raises(PoolUnreachableError) as caught:
        await create_tables(nowhere)
    assert "secret" not in f"{caught.value} {nowhere!r}"


def test_a_password_is_never_taken_from_the_command_line(tmp_path: Path):
    secret, plain = "postgresql://ann:hunter22@h/d", "postgresql://ann@h/d"
    assert find_pool_address(plain, {}).url == plain
    assert find_pool_address(None, {}, lambda: plain).url == plain
    with pytest.raises(PoolAddressError, match="the setting pool"):
        find_pool_address(None, {}, lambda: secret)
    assert find_pool_address(None, {"QUARTERDECK_POOL": secret}).url == secret
    assert "hunter22" not in str(find_pool_address("default", {"QUARTERDECK_POOL": secret}))
    for given in (secret, "postgresql://h/d?password=hunter22"):
        with pytest.raises(PoolAddressError, match="PGPASSFILE") as caught:
            find_pool_address(given, {})
        assert "hunter22" not in str(caught.value)
    file = tmp_path / "pool"
    file.write_text(f"{secret}\n")
    file.chmod(0o644)
    with pytest.raises(PoolAddressError, match="chmod 600"):
        find_pool_address(str(file), {})
    file.chmod(0o600)
    assert find_pool_address(str(file), {}).url == secret
    for given, told in ((None, "no pool is known"), ("/nonexistent", "cannot be read")):
        with pytest.raises(PoolAddressError, match=told):
            find_pool_address(given, {})
    with pytest.raises(PoolAddressError, match="does not have the form"):
        find_pool_address(None, {"QUARTERDECK_POOL": "mysql://h"})


async def test_limits_of_vendors_labels_and_a_day_hold_back_what_is_not_begun(
    database: PoolDatabase,
):
    store, limits = PoolStore(database), PoolLimits(database)
    await add_run(database, {"a": ((), ()), "b": ((), ("gpu",)), "c": ((), ("gpu",))})
    await execute(database, "UPDATE quarterdeck.tasks SET agents = '{codex}' WHERE key = 'a'")
    await limits.set("vendor", "codex", 1)
    await limits.set("label", "gpu", 1)
    first = await store.claim(TWO, [], 60)
    assert first is not None and first.key == "a"
    second = await store.claim(TWO, [first], 60)
    assert second is not None and second.key == "b"
    other = replace(TWO, id="w3")
    assert await store.claim(other, [], 60) is None  # c waits for the label
    used = {(one.kind, one.name): (one.used, one.is_reached) for one in await limits.list_all()}
    assert used == {("vendor", "codex"): (1.0, True), ("label", "gpu"): (1.0, True)}
    # A worker that comes back has its own task again, whatever the limits say.
    again = await store.claim(TWO, [second], 60)
    assert again is not None and again.key == "a" and again.token == 2
    await limits.set("label", "gpu", 2)
    spent = replace(INFO, cost=Cost(amount=3.0, currency="USD"), usage=TokenUsage(input=4_000))
    await store.ship(second, spent, [])
    for name, most in (("usd", 3.0), ("ktok", 4.0)):
        await limits.set("budget", name, most)
        assert await store.claim(other, [], 60) is None
        assert await limits.set("budget", name, None)
    await limits.set("budget", "usd", 3.5)
    third = await store.claim(other, [], 60)
    assert third is not None and third.key == "c"
    # What is begun is taken over even if the budget is spent by then.
    await limits.set("budget", "usd", 0.0)
    await execute(database, "UPDATE quarterdeck.tasks SET lease_until = now() - interval '1s'")
    assert await store.claim(other, [], 60) is not None
    assert not await limits.set("vendor", "nobody", None)


@pytest.mark.parametrize(
    ("kind", "name", "most"),
    [("budget", "eur", 1.0), ("vendor", "codex", 1.5), ("label", " ", 1.0), ("vendor", "x", -1.0)],
)
async def test_what_is_no_limit_is_refused(
    database: PoolDatabase, kind: LimitKind, name: str, most: float
):
    with pytest.raises(PoolError):
        await PoolLimits(database).set(kind, name, most)
