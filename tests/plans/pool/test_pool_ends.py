"""How runs of a pool end: pull requests, what is removed afterwards, and what cannot be begun."""

import json

import pytest

from tests.plans.pool.conftest import PoolWorld
from tests.plans.test_plan_pull_requests import TOKEN, install_gh
from tests.support.work_trees import git

pytestmark = pytest.mark.timeout(600)

PLAN = """agent = "codex"
keep_days = 0
[tasks.good]
prompt = "$ echo work > ☃.txt"
end = "pull request"
[tasks.none]
prompt = "$ true"
end = "pull request"
into = "none"
"""


def test_a_worker_opens_a_pull_request_and_nothing_is_left_at_the_remote(
    pool_world: PoolWorld,
):
    world = pool_world
    programs = install_gh(world.folder / "programs")
    calls = world.folder / "calls"
    (world.folder / "calls.go").touch()
    one = world.add("one")
    for machine in (one, world.person):
        machine.environ |= {
            "PATH": f"{programs}:{machine.environ['PATH']}",
            "GH_CALLS": str(calls),
            "GH_TOKEN": TOKEN,
        }
    one.start_worker()
    world.submit(PLAN)
    tasks = world.wait_for_end()
    assert {key: (task["state"], task["pull_request"]) for key, task in tasks.items()} == {
        "good": ("done", "https://example.org/pull/7"),
        "none": ("done", "nothing was changed, so there is no pull request"),
    }, tasks
    (branch,) = git(world.remote, "branch", "--list", "*good*").split()
    assert git(world.remote, "show", f"{branch}:☃.txt") == "work\n"
    assert "--base main" in calls.read_text()
    world.wait_until(world.has("SELECT 1 FROM quarterdeck.runs WHERE cleaned IS NOT NULL"))
    assert git(world.remote, "for-each-ref", "refs/quarterdeck") == ""
    for table in ("session_files", "carried", "trees"):
        assert world.read(f"SELECT count(*) FROM quarterdeck.{table}") == [(0,)]
    # What was said and what came of it stay; the name is taken.
    assert json.loads(world.run("--pool", world.pool, "ps", "--json").stdout)["agents"]
    again = world.run("plan", "run", "work.toml", "--pool", world.pool, "--detach")
    assert again.returncode != 0 and "work" in again.stderr
    left = world.run("pool", "clean", "work", "--pool", world.pool)
    assert left.returncode == 1 and "has ended with something left" in left.stderr
    output = one.read_output() + json.dumps(tasks)
    assert "cleaned up" in output and TOKEN not in output
