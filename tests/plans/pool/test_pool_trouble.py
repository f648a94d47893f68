"""A database that is away, full or too new, a remote that is gone, names that are taken."""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from quarterdeck.plans.pool.address import PoolAddress
from quarterdeck.plans.pool.database import PoolDatabase, check_server, create_tables
from quarterdeck.plans.pool.errors import PoolUnreachableError, PoolVersionError
from quarterdeck.plans.pool.store import PoolStore
from quarterdeck.plans.progress import ProgressEntry
from tests.plans.pool.conftest import PoolWorld
from tests.plans.pool.test_pool_store import INFO, ONE, add_run, execute, make_records
from tests.plans.pool.test_pool_takeover import compare_logs, write_plan
from tests.support.work_trees import git

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
async def database(pool_url: str) -> AsyncIterator[PoolDatabase]:
    assert await create_tables(PoolAddress(pool_url))
    async with PoolDatabase.open(PoolAddress(pool_url)) as opened:
        yield opened


@pytest.mark.parametrize("code", ["53100", "25006"])
async def test_a_full_database_is_one_that_does_not_answer_and_nothing_is_lost(
    database: PoolDatabase, code: str
):
    """By a trigger with the codes of a full disk, and of a server that takes no more writes."""
    store = PoolStore(database)
    await add_run(database, {"t": ((), ())})
    lease = await store.claim(ONE, [], 60)
    assert lease is not None
    await execute(
        database,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
        f"'could not extend file' USING ERRCODE = '{code}'; END $$; CREATE TRIGGER refuse "
        "BEFORE INSERT ON quarterdeck.events EXECUTE FUNCTION refuse()",
    )
    with pytest.raises(PoolUnreachableError, match="could not extend file"):
        await store.ship(lease, INFO, make_records(3))
    await execute(database, "DROP TRIGGER refuse ON quarterdeck.events")
    await store.ship(lease, INFO, make_records(3))
    assert await execute(database, "SELECT count(*) FROM quarterdeck.events") == [(3,)]


async def test_a_wrong_clock_changes_neither_leases_nor_order(database: PoolDatabase):
    store = PoolStore(database)
    await add_run(database, {"t": ((), ())})
    lease = await store.claim(ONE, [], 60)
    assert lease is not None
    for number, time in enumerate((4_102_444_800_000_000, 1, 1_800_000_000_000_000)):
        entry = ProgressEntry(time=time, kind="task_begun", key=f"n{number}")
        await store.note(lease, entry)
    entries = await store.read_progress("r")
    assert [entry.key for _, entry in entries] == ["n0", "n1", "n2"]
    left = "SELECT extract(epoch FROM lease_until - now()) BETWEEN 1 AND 60 FROM quarterdeck.tasks"
    assert await execute(database, left) == [(True,)]


def test_a_server_that_is_too_old_is_refused():
    check_server(PoolAddress("postgresql://h/d"), 150_004)
    with pytest.raises(PoolVersionError, match="Postgres 12; a pool needs 13"):
        check_server(PoolAddress("postgresql://h/d"), 120_009)


def test_a_database_that_is_away_is_waited_for(pool_world: PoolWorld, postgres: str):
    world = pool_world
    one = world.add("one")
    one.start_worker("--slots", "2", lease=300.0)
    world.submit(write_plan(2, turns=2, pause=1.0))
    world.wait_until(lambda: bool(world.counted()))
    name = world.pool.rpartition("/")[2]
    with psycopg.connect(f"{postgres}/postgres", autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
        )
        # Agents go on meanwhile, and the worker tries again and again.
        world.wait_until(lambda: "does not answer" in one.read_output())
        seen = world.run("plan", "status", "--pool", world.pool)
        assert seen.returncode == 1 and "does not answer" in seen.stderr
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())
    tasks = world.wait_for_end()
    assert {(one["state"], one["repeated"]) for one in tasks.values()} == {("done", 0)}
    assert sorted(world.counted()) == ["t0", "t0", "t1", "t1"]
    assert world.read("SELECT DISTINCT token FROM quarterdeck.tasks") == [(1,)]
    assert compare_logs(world, one, whole=True) > 0


def test_a_worker_leaves_a_pool_that_was_updated_and_ends_its_agents(pool_world: PoolWorld):
    world = pool_world
    one = world.add("one")
    one.start_worker(lease=3.0)
    world.submit('agent = "codex"\n[tasks.a]\nprompt = "ask make"\n')
    world.wait_until(world.has("SELECT 1 FROM quarterdeck.events WHERE kind = 'permission_asked'"))
    with psycopg.connect(world.pool) as connection:
        connection.execute("UPDATE quarterdeck.pool SET version = version + 1")
    worker, one.worker = one.worker, None
    assert worker is not None and worker.wait() == 1
    assert "update this program" in one.read_output()
    assert '"is_live": true' not in one.run("ps", "--json").stdout
    again = one.run("worker", "--pool", world.pool)
    assert again.returncode == 1 and "update this program" in again.stderr


def test_a_repository_that_cannot_be_cloned_fails_its_task_in_the_end(pool_world: PoolWorld):
    world = pool_world
    world.submit('agent = "codex"\n[tasks.a]\nprompt = "$ true"\n[tasks.b]\nneeds = ["a"]\n'
                 'prompt = "$ true"\n')  # fmt: skip
    world.remote.rename(world.folder / "moved.git")
    # It was offered four times before.
    with psycopg.connect(world.pool) as connection:
        connection.execute("UPDATE quarterdeck.tasks SET failures = 4 WHERE key = 'a'")
    one = world.add("one")
    one.start_worker()
    world.wait_until(world.has("SELECT 1 FROM quarterdeck.tasks WHERE outcome = 'failed'"))
    (world.folder / "moved.git").rename(world.remote)
    tasks = world.wait_for_end()
    assert tasks["a"]["state"] == "failed" and tasks["b"]["state"] == "skipped"
    assert "workers could not do it" in tasks["a"]["text"] and "remote.git" in tasks["a"]["text"]


def test_of_two_plans_with_one_name_one_is_submitted_and_nothing_is_left_of_the_other(
    pool_world: PoolWorld,
):
    world = pool_world
    (world.work / "work.toml").write_text('agent = "codex"\n[tasks.a]\nprompt = "$ true"\n')
    words = ("plan", "run", "work.toml", "--pool", world.pool, "--detach")

    async def submit_both() -> list[int]:
        both = (asyncio.to_thread(world.run, *words) for _ in range(2))
        return sorted(done.returncode for done in await asyncio.gather(*both))

    first, second = asyncio.run(submit_both())
    assert first == 0 and second != 0
    ((run,),) = world.read("SELECT id FROM quarterdeck.runs")
    left = git(world.remote, "for-each-ref", "--format=%(refname)", "refs/quarterdeck").split()
    assert left == [f"refs/quarterdeck/pool/{run}/base"]
