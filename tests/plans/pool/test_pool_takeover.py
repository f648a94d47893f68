"""Workers that die, and one that comes back from the dead: every task ends once."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quarterdeck.config.places import Places
from quarterdeck.fleet.client import HostClient
from quarterdeck.wire.record import encode_record
from tests.plans.conftest import wait_until
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


class Deaths:
    """Kills of workers, machines and connections while a plan runs."""

    def __init__(self, world: PoolWorld, seed: int, slots: int) -> None:
        self.world = world
        self.kills = {"worker": 0, "machine": 0, "connection": 0}
        self._chance = random.Random(seed)
        self._slots = str(slots)

    def start_all(self) -> None:
        for name in ("one", "two", "three"):
            self._start(self.world.add(name))

    def _start(self, machine: Machine) -> None:
        machine.start_worker("--slots", self._slots, lease=4.0)

    def pause(self, least: float, most: float) -> None:
        time.sleep(self._chance.uniform(least, most))

    def kill(self, what: str | None = None) -> None:
        """One of these, of any machine."""
        what = what or self._chance.choice(list(self.kills))
        machine = self.world.machines[self._chance.choice(list(self.world.machines))]
        self.kills[what] += 1
        if what == "connection":
            self.world.read(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name LIKE 'quarterdeck worker%%'"
            )
            return
        machine.end_worker()
        if what == "machine":
            machine.end_host(signal.SIGKILL)
        self._start(machine)

    def check_end(self, tasks: int, turns: int) -> str:
        """What must hold in the end, and the figures."""
        repeated, events = check_all_once(self.world, tasks, turns)
        compared = 0
        for machine in self.world.machines.values():
            assert machine.end_worker(signal.SIGTERM) == 0, machine.read_output()
            compared += compare_logs(self.world, machine, whole=False)
            machine.end_host()
        assert compared == events
        wait_until(lambda: not list_processes(self.world))
        lost = self.world.read("SELECT 1 FROM quarterdeck.tasks WHERE outcome <> 'done'")
        taken = self.world.read("SELECT sum(token - 1) FROM quarterdeck.tasks")
        return (
            f"{tasks} tasks x {turns} turns on 3 workers, killed: {self.kills}; "
            f"{taken[0][0]} leases taken again, {repeated} turns repeated, {len(lost)} tasks "
            f"failed because a turn was lost twice; {events} events, each once, in no log a gap"
        )


def list_processes(world: PoolWorld) -> list[str]:
    """Processes that any machine of the world has started, and that still run."""
    found: list[str] = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            variables = (place / "environ").read_bytes()
        except OSError:
            continue  # it has ended meanwhile, or is another user's
        if f"HOME={world.folder}/".encode() in variables:
            found.append(place.name)
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_a_few_deaths(pool_world: PoolWorld):
    """The short version of what follows: one kill of each kind."""
    deaths = Deaths(pool_world, seed=3, slots=2)
    deaths.start_all()
    pool_world.submit(write_plan(4, 2, pause=0.2))
    for number, what in enumerate(deaths.kills, 1):
        # Some turn was sent since the last kill.
        sent = "SELECT 1 FROM quarterdeck.steps WHERE name = 'send' HAVING count(*) >= %s"
        wait_until(pool_world.has(sent, number))
        deaths.kill(what)
    deaths.check_end(4, 2)


@pytest.mark.stress
@pytest.mark.timeout(3_600)
def test_many_deaths(pool_world: PoolWorld, capsys: pytest.CaptureFixture[str]):
    """Three workers, forty tasks of twenty turns; workers, hosts and connections are killed."""
    tasks = int(os.environ.get("QUARTERDECK_POOL_TASKS", "40"))
    turns = int(os.environ.get("QUARTERDECK_POOL_TURNS", "20"))
    deaths = Deaths(pool_world, seed=7, slots=6)
    deaths.start_all()
    begun = time.monotonic()
    plan = write_plan(tasks, turns, pause=0.05)
    pool_world.submit(plan.replace("\n[tasks", "\nat_once = 18\n[tasks", 1))
    is_over = pool_world.has("SELECT 1 FROM quarterdeck.runs WHERE state <> 'running'")
    while not is_over():
        deaths.pause(2.0, 6.0)
        deaths.kill()
    figures = deaths.check_end(tasks, turns)
    with capsys.disabled():
        print(f"\n{figures}; {time.monotonic() - begun:.0f} s")
