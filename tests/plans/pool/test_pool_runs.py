"""Plans run by workers on several machines: separate homes, clones and hosts."""

import json
from typing import Any

import pytest

from tests.plans.pool.conftest import PoolWorld
from tests.support.work_trees import git

pytestmark = pytest.mark.timeout(600)

PLAN = r"""agent = "codex"
[tasks.a]
prompt = "$ echo a >> $COUNT; printf A > a.txt"
retries = 1
retry_message = "$ echo again >> a.txt; echo a-again >> $COUNT; printf from-a"
checks = [{ run = "grep -q again a.txt" }]
end = "land"
[tasks.b]
needs = ["a"]
base = "main"
prompt = "$ echo b >> $COUNT; cat a.txt; echo {{tasks.a.output}}"
labels = ["gpu"]
[tasks.c]
prompt = "ask make\n$ echo c >> $COUNT"
worktree = false
[tasks.d]
needs = ["c"]
prompt = "$ false"
checks = [{ run = "false" }]
[tasks.e]
needs = ["d"]
prompt = "$ echo never >> $COUNT"
[tasks.f]
prompt = "$ true"
gate = true
"""


def look_at_agents(world: PoolWorld, tasks: dict[str, Any]) -> None:
    """What else a person sees of agents on other machines."""
    (a,) = tasks["a"]["sessions"].values()
    shown = world.run("--pool", world.pool, "review", a)
    assert shown.returncode == 0 and "a.txt" in shown.stdout, shown.stderr
    patch = world.run("--pool", world.pool, "diff", a).stdout
    assert "+Aagain" in patch
    assert "hunk 1" in world.run("--pool", world.pool, "review", a, "a.txt").stdout
    hits = json.loads(world.run("--pool", world.pool, "search", "from-a", "--json").stdout)
    assert {one["session"] for one in hits["hits"]} >= {a}
    nothing = json.loads(world.run("--pool", world.pool, "search", "a☃b", "--json").stdout)
    assert nothing["hits"] == []
    usage = json.loads(world.run("--pool", world.pool, "usage", "--json").stdout)
    sent = "SELECT count(*) FROM quarterdeck.events WHERE kind = 'turn_ended'"
    ((turns,),) = world.read(sent)
    assert usage["total"]["tokens"]["input"] == 100 * turns
    followed = world.run("--pool", world.pool, "attach", a)
    assert followed.returncode == 0 and "from-a" in followed.stdout, followed.stderr
    marked = world.run("--pool", world.pool, "review", a, "--viewed", "a.txt")
    assert marked.returncode == 1 and "a pool does not offer" in marked.stderr


def test_workers_share_a_plan_and_a_person_answers_from_elsewhere(pool_world: PoolWorld):
    world = pool_world
    world.add("one").start_worker("--slots", "4")
    world.add("two").start_worker("--slots", "2", "--labels", "gpu,linux")
    (world.work / "work.toml").write_text(PLAN)
    child = world.start("plan", "run", "work.toml", "--pool", world.pool)

    asked = "SELECT count(*) FROM quarterdeck.events WHERE kind = 'permission_asked'"
    world.wait_until(lambda: world.read(asked) == [(2,)])
    shown = world.run("--pool", world.pool, "inbox", "--json")
    assert shown.returncode == 0, shown.stderr
    items = json.loads(shown.stdout)["inbox"]
    waiting = {one["permission"]["title"]: one["name"] for one in items}
    agents = json.loads(world.run("--pool", world.pool, "ps", "--json").stdout)["agents"]
    assert {one["name"] for one in agents if one["needs_person"]} == set(waiting.values())
    answered = world.run("--pool", world.pool, "answer", waiting["make"], "allow")
    assert answered.returncode == 0, answered.stderr
    title = "Approve the work of f in the plan work"
    denied = world.run("--pool", world.pool, "answer", waiting[title], "deny", "--feedback", "no")
    assert denied.returncode == 0, denied.stderr
    again = world.run("--pool", world.pool, "answer", waiting["make"], "allow")
    assert again.returncode != 0
    tasks = world.wait_for_end()
    out = child.communicate()[0]
    assert child.returncode == 5 and "a codex attempt 2\n" in out and "e skipped" in out, out
    assert {key: one["state"] for key, one in tasks.items()} == {
        **{"a": "done", "b": "done", "c": "done", "d": "failed", "e": "skipped", "f": "failed"},
    }
    assert "rejected by cli: no" in tasks["f"]["text"]
    assert sorted(world.counted()) == ["a", "a-again", "b", "c"]
    assert git(world.remote, "show", "main:a.txt") == "Aagain\n"
    (b,) = tasks["b"]["sessions"].values()
    log = world.run("--pool", world.pool, "logs", b).stdout
    assert "from-a" in log and "Aagain" in log
    ((worker,),) = world.read(
        "SELECT w.name FROM quarterdeck.sessions s JOIN quarterdeck.workers w ON w.id = s.worker "
        "WHERE s.session = %s", b,
    )  # fmt: skip
    assert worker == "two"
    listed = world.run("pool", "workers", "--pool", world.pool).stdout
    assert "gpu,linux" in listed and "active" in listed
    look_at_agents(world, tasks)
    refused = world.run("--pool", world.pool, "spawn", "x")
    assert refused.returncode == 2 and "--pool before a command" in refused.stderr
    # A worker that is drained ends by itself.
    for machine in world.machines.values():
        assert machine.end_worker(15) == 0, machine.read_output()
    assert world.read("SELECT DISTINCT state FROM quarterdeck.workers") == [("gone",)]
