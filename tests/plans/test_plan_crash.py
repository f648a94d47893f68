"""A runner that is killed at any moment: every task ends once, no prompt is sent twice."""

import json
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from quarterdeck.plans.progress import read_entries
from tests.plans.conftest import PlanWorld, wait_until
from tests.support.work_trees import git

pytestmark = pytest.mark.timeout(600)

PLAN = """agent = "codex"
[tasks.a]
prompt = "$ echo a >> $COUNT; sleep 0.2; printf A"
worktree = false
checks = [{ run = "sleep 0.1" }]
[tasks.b]
needs = ["a"]
prompt = "$ echo b >> $COUNT; echo {{tasks.a.output}} > b.txt"
retries = 2
retry_message = "$ echo b-again >> $COUNT; sleep 0.2; echo again >> b.txt"
checks = [{ run = "test $(wc -l < b.txt) = 2" }]
end = "land"
into = "landed"
[tasks.c]
needs = ["a"]
prompt = "$ echo c-$AGENT >> $COUNT; echo $AGENT > c.txt; sleep 0.2"
race = { agents = ["codex", "pi"] }
checks = [{ run = "test -e c.txt" }]
[tasks.d]
needs = ["b", "c"]
prompt = "$ echo d >> $COUNT; sleep 0.1"
worktree = false
"""


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_at_random(world: PlanWorld, chance: random.Random, is_first: bool) -> bool:
    """Run until some more things have happened, and kill the runner then; whether it ended."""
    words = ("plan", "run", "work.toml") if is_first else ("plan", "resume", "work")
    path = world.progress_of("work")
    until = max(1, count_lines(path) + chance.randrange(6))
    child = world.start(*words)
    wait_until(lambda: count_lines(path) >= until or child.poll() is not None)
    time.sleep(chance.random() * 0.4)  # into the middle of something, wherever that is
    is_over = child.poll() is not None
    child.kill()
    child.communicate()
    return is_over


def check_once(world: PlanWorld) -> None:
    shown = json.loads(world.run("plan", "status", "work", "--json").stdout)
    assert {one["key"]: one["state"] for one in shown["tasks"]} == dict.fromkeys("abcd", "done")
    entries = list(read_entries(world.progress_of("work")))
    assert Counter(one.task for one in entries if one.kind == "task_ended") == Counter("abcd")
    # The host lived on, so every turn was picked up from its session.
    assert not [one for one in entries if one.kind == "turn_repeated"]
    expected = Counter(("a", "b", "b-again", "c-codex", "c-pi", "d"))
    assert Counter(world.counted()) == expected
    assert git(world.work, "show", "landed:b.txt") == "A\nagain\n"
    assert git(world.work, "rev-list", "--count", "main..landed").strip() == "1"


def crash_until_done(world: PlanWorld, seed: int, most: int) -> int:
    chance = random.Random(seed)
    world.write(PLAN)
    kills = 0
    while kills < most and not kill_at_random(world, chance, kills == 0):
        kills += 1
    child = world.start("plan", "resume", "work")
    out = world.finish(child)
    assert child.returncode == 0, out
    check_once(world)
    return kills


def test_every_task_ends_once_whenever_the_runner_is_killed(world: PlanWorld):
    assert crash_until_done(world, seed=5, most=2) > 0


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(10))
def test_many_kills(world: PlanWorld, seed: int, capsys: pytest.CaptureFixture[str]):
    begun = time.monotonic()
    most = int(os.environ.get("QUARTERDECK_KILLS", "12"))
    kills = crash_until_done(world, seed=seed, most=most)
    with capsys.disabled():
        print(f"\nseed {seed}: {kills} kills, {time.monotonic() - begun:.0f} s")
