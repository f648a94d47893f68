"""Workers that die, and one that comes back from the dead: every task ends once."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from quarterdeck.config.places import Places
from quarterdeck.fleet.client import HostClient
from quarterdeck.wire.record import encode_record
from tests.plans.pool.conftest import Machine, PoolWorld
from tests.support.work_trees import git

pytestmark = pytest.mark.timeout(600)


def write_plan(tasks: int, turns: int = 2, pause: float = 0.3) -> str:
    """Each turn of a task adds one line to its file, which is landed in the end."""
    lines = ['agent = "codex"\n']
    for number in range(tasks):
        turn = f"echo t{number} >> $COUNT; sleep {pause}; echo line >> file.txt"
        lines.append(
            f'[tasks.t{number}]\nprompt = "$ {turn}"\nretries = {turns - 1}\n'
            f'retry_message = "$ {turn}"\nend = "land"\ninto = "landed-{number}"\n'
            f'checks = [{{ run = "test $(wc -l < file.txt) = {turns}" }}]\n'
        )
    return "".join(lines)


LOST_TWICE = "the turn ended: gone"
"""Why a task may fail: the session of one turn ended a second time, and it is repeated once."""


def check_all_once(world: PoolWorld, tasks: int, turns: int) -> tuple[int, int]:
    """What must hold however often workers were killed; repeated turns and events."""
    ended = world.wait_for_end()
    assert list(ended) == [f"t{number}" for number in range(tasks)]
    failed = {key: one["text"] for key, one in ended.items() if one["state"] != "done"}
    assert all(LOST_TWICE in text for text in failed.values()), failed
    for number in range(tasks):
        if f"t{number}" in failed:
            continue
        # A turn that was repeated began with the files of the last whole turn.
        assert git(world.remote, "show", f"landed-{number}:file.txt") == "line\n" * turns
    entries = world.read("SELECT key FROM quarterdeck.progress WHERE key LIKE '%%/end'")
    assert len([key for (key,) in entries if key.count("/") == 1]) == tasks
    # No two workers ever wrote one session, and no token is younger than that of its successor.
    assert world.read(
        "SELECT session FROM quarterdeck.events GROUP BY session "
        "HAVING count(DISTINCT worker) > 1 OR count(DISTINCT seq) <> count(*)"
    ) == []  # fmt: skip
    assert world.read(
        "SELECT 1 FROM quarterdeck.steps s JOIN quarterdeck.tasks t ON t.run = s.run "
        "AND t.key = s.task WHERE s.token > t.token"
    ) == []  # fmt: skip
    sent = [line for line in world.counted() if line.startswith("t")]
    repeated = sum(one["repeated"] for one in ended.values())
    assert len(sent) <= tasks * turns + repeated
    ((events,),) = world.read("SELECT count(*) FROM quarterdeck.events")
    return repeated, events


def compare_logs(world: PoolWorld, machine: Machine, *, whole: bool) -> int:
    """The pool's records of a machine are those of its own log, each once, without a gap."""
    return asyncio.run(compare_all(world, machine, whole))


async def compare_all(world: PoolWorld, machine: Machine, whole: bool) -> int:
    count = 0
    async with HostClient.connect(Places.find(machine.environ)) as host:
        for session, records in read_sessions(world, machine):
            own = [encode_record(one).decode() for one in await host.read(session, limit=100_000)]
            assert records == own[: len(records)], session
            # What comes after the end, such as a conflict that is seen, may be missing.
            assert not whole or any('"session_ended"' in record for record in records)
            count += len(records)
    return count


def read_sessions(world: PoolWorld, machine: Machine) -> Iterator[tuple[str, list[Any]]]:
    found = world.read(
        "SELECT s.session FROM quarterdeck.sessions s JOIN quarterdeck.workers w "
        "ON w.id = s.worker WHERE w.name = %s", machine.home.name,
    )  # fmt: skip
    for (session,) in found:
        rows = world.read(
            "SELECT record FROM quarterdeck.events WHERE session = %s ORDER BY seq", session
        )
        yield session, [record for (record,) in rows]


def test_the_tasks_of_a_machine_that_dies_go_on_at_another(pool_world: PoolWorld):
    world = pool_world
    one, two = world.add("one"), world.add("two")
    one.start_worker("--slots", "4", lease=2.0)
    world.submit(write_plan(4))
    # In the middle: some turn is whole, and another one is under way.
    world.wait_until(world.has("SELECT 1 FROM quarterdeck.steps WHERE name = 'wait'"))
    one.end_worker()
    one.end_host(signal.SIGKILL)
    two.start_worker("--slots", "4", lease=2.0)
    repeated, _ = check_all_once(world, 4, 2)
    assert world.read("SELECT DISTINCT outcome FROM quarterdeck.tasks") == [("done",)]
    assert repeated > 0
    taken = world.read("SELECT count(*) FROM quarterdeck.tasks WHERE token > 1")
    assert taken[0][0] > 0
    one.start_host()
    assert compare_logs(world, two, whole=True) > 0
    assert compare_logs(world, one, whole=False) > 0


def test_a_worker_that_comes_back_from_the_dead_ends_its_agents_and_writes_nothing(
    pool_world: PoolWorld,
):
    world = pool_world
    one, two = world.add("one"), world.add("two")
    one.start_worker(lease=1.5)
    world.submit('agent = "codex"\n[tasks.a]\nprompt = "$ echo a >> $COUNT\\nask make"\n')
    asked = "SELECT 1 FROM quarterdeck.events WHERE kind = 'permission_asked' AND token = %s"
    world.wait_until(world.has(asked, 1))
    assert one.worker is not None
    one.worker.send_signal(signal.SIGSTOP)
    two.start_worker(lease=30.0)
    world.wait_until(world.has(asked, 2))
    written = (
        "SELECT count(*) FROM quarterdeck.events WHERE token = 1 UNION ALL "
        "SELECT count(*) FROM quarterdeck.steps WHERE token = 1"
    )
    before = world.read(written)
    one.worker.send_signal(signal.SIGCONT)
    world.wait_until(lambda: "/a given up" in one.read_output())
    ((session,),) = world.read("SELECT session FROM quarterdeck.sessions WHERE token = 1")
    world.wait_until(lambda: '"is_live": false' in one.run("ps", "--json").stdout)
    assert session in one.run("ps", "--json").stdout
    # Only the request of the agent that counts is open.
    items = msgspec.json.decode(world.run("--pool", world.pool, "inbox", "--json").stdout)["inbox"]
    assert [one["session"] == session for one in items] == [False]
    assert world.run("--pool", world.pool, "answer", items[0]["request"], "allow").returncode == 0
    tasks = world.wait_for_end()
    assert tasks["a"]["state"] == "done" and tasks["a"]["repeated"] == 1
    assert world.counted() == ["a", "a"]
    assert world.read(written) == before
    assert one.end_worker(signal.SIGTERM) == 0


@pytest.mark.stress
def test_many_deaths(pool_world: PoolWorld, capsys: pytest.CaptureFixture[str]):
    """Three workers, forty tasks of twenty turns; workers, hosts and connections are killed."""
    world, chance = pool_world, random.Random(7)
    tasks = int(os.environ.get("QUARTERDECK_POOL_TASKS", "40"))
    turns = int(os.environ.get("QUARTERDECK_POOL_TURNS", "20"))
    for name in ("one", "two", "three"):
        world.add(name).start_worker("--slots", "6", lease=4.0)
    begun = time.monotonic()
    world.submit(
        write_plan(tasks, turns, pause=0.05).replace("\n[tasks", "\nat_once = 18\n[tasks", 1)
    )
    kills = {"worker": 0, "machine": 0, "connection": 0}
    is_over = world.has("SELECT 1 FROM quarterdeck.runs WHERE state <> 'running'")
    while not is_over():
        time.sleep(chance.uniform(2.0, 6.0))
        machine = world.machines[chance.choice(list(world.machines))]
        what = chance.choice(list(kills))
        kills[what] += 1
        if what == "connection":
            world.read(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name LIKE 'quarterdeck worker%%'"
            )
            continue
        machine.end_worker()
        if what == "machine":
            machine.end_host(signal.SIGKILL)
        machine.start_worker("--slots", "6", lease=4.0)
    repeated, events = check_all_once(world, tasks, turns)
    seconds = time.monotonic() - begun
    for machine in world.machines.values():
        assert machine.end_worker(signal.SIGTERM) == 0
        compare_logs(world, machine, whole=False)
    lost = world.read("SELECT 1 FROM quarterdeck.tasks WHERE outcome <> 'done'")
    with capsys.disabled():
        print(f"\n{len(lost)} tasks failed because a turn was lost twice")
        print(f"{tasks} tasks x {turns} turns: {kills}, {repeated} turns repeated")
        print(f"{events} events, {seconds:.0f} s")
