"""Plans are run by scripted agents: attempts, checks, gates, races, landings, reports."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from quarterdeck.config.places import Places
from quarterdeck.fleet.client import HostClient
from tests.plans.conftest import PlanWorld, wait_until
from tests.support.work_trees import git

pytestmark = pytest.mark.timeout(600)


MANY = r"""
agent = "codex"
[inputs.word]
default = "in put"
[tasks.a]
prompt = "$ echo from-a"
worktree = false
[tasks.b]
needs = ["a"]
prompt = '''$ echo {{tasks.a.output}} \{{x}}
$ echo "{{inputs.word}}" > b.txt'''
retries = 2
retry_message = "$ echo {{check.name}} {{check.reason}} >> b.txt"
end = "land"
into = "fixes"
checks = [
  { name = "word", run = "grep -qx {{inputs.word}} b.txt" },
  { name = "two", run = "test $(wc -l < b.txt) = 2" },
]
[tasks.m]
needs = ["a"]
prompt = "$ echo m-{{inputs.word}}"
matrix = { word = ["x", "y"] }
worktree = false
[tasks.slow]
prompt = "$ true"
checks = [{ name = "hangs", run = "sleep 60 & sleep 60", timeout = 0.3 }]
[tasks.junit]
prompt = "$ true"
retries = 1
[[tasks.junit.checks]]
junit = "r.xml"
run = '''
echo '<testsuite><testcase classname="t" name="one"><failure/></testcase>' > r.xml
echo '<testcase name="two"/></testsuite>' >> r.xml
'''
[tasks.never]
needs = ["slow", "m"]
prompt = "$ echo never >> $COUNT"
[tasks.last]
needs = ["m", "b"]
prompt = "$ echo last\n{{tasks.m.output}}"
worktree = false
"""


def test_a_plan_runs_its_tasks_in_order_with_checks_retries_and_landing(world: PlanWorld):
    world.write(MANY)
    child = world.start("plan", "run", "work.toml", "--json")
    out = world.finish(child)
    assert child.returncode == 5, out
    shown = json.loads(out)
    tasks = {one["key"]: one for one in shown["tasks"]}
    states = {key: one["state"] for key, one in tasks.items()}
    assert states == {
        **{"a": "done", "b": "done", "m.1": "done", "m.2": "done", "slow": "failed"},
        **{"junit": "failed", "never": "skipped", "last": "done"},
    }
    (b,) = tasks["b"]["contenders"]
    assert b["attempts"] == 2 and tasks["b"]["repeated"] == 0
    assert git(world.work, "show", "fixes:b.txt") == "in put\ntwo exit code 1\n"
    assert git(world.work, "branch", "--list", "main").strip() == "* main"
    assert "ended after 0.3 s" in tasks["slow"]["text"]
    assert "1 of 2 tests failed: t.one" in tasks["junit"]["text"]
    assert tasks["junit"]["attempts"] == 2
    assert tasks["never"]["text"] == "slow did not succeed" and world.counted() == []
    assert (b["tokens"], b["costs"]) == (220, {"USD": 0.5})
    log = world.run("logs", next(iter(tasks["last"]["sessions"].values()))).stdout
    assert "## m.1 (word=x)" in log and "m-y" in log
    table = world.run("plan", "status", "work").stdout
    assert table.startswith("work: failed, 5/8 tasks\n") and "skipped" in table
    # A run that has ended does nothing more.
    again = world.run("plan", "resume", "--all", "--json")
    assert json.loads(again.stdout) == {"resumed": [], "skipped": {}}


def test_a_gate_waits_in_the_inbox_over_kills_and_a_change_counts_for_what_comes(
    world: PlanWorld,
):
    text = """agent = "codex"
[tasks.a]
prompt = "$ echo work > w.txt"
gate = true
end = "land"
into = "gated"
[tasks.b]
prompt = "$ true"
gate = true
[tasks.c]
needs = ["a"]
prompt = "$ echo old >> $COUNT"
"""
    world.write(text)
    child = world.start("plan", "run", "work.toml")

    def list_inbox() -> dict[str, str]:
        found = json.loads(world.run("inbox", "--json").stdout)["inbox"]
        return {one["permission"]["title"]: one["request"] for one in found}

    wait_until(lambda: len(list_inbox()) == 2, child)
    assert "needs you" in world.run("plan", "status").stdout
    assert "plan approve work a" in world.run("plan", "status", "work").stdout
    taken = world.run("plan", "run", "work.toml")
    assert taken.returncode == 1 and "plan resume work" in taken.stderr
    child.kill()
    child.communicate()
    assert "stopped" in world.run("plan", "status").stdout
    assert git(world.work, "branch", "--list", "gated") == ""
    assert "does not wait" in world.run("plan", "approve", "work", "c").stderr
    # While neither runner nor host is there, the requests stay open.
    world.end_host(9)
    world.start_host()
    assert world.run("plan", "approve", "work", "a").returncode == 0
    assert "answered already" in world.run("plan", "reject", "work", "a").stderr
    title = "Approve the work of b in the plan work"
    denied = world.run("answer", list_inbox()[title], "deny", "--feedback", "too short")
    assert denied.returncode == 0, denied.stderr
    world.write(text.replace("echo old", "echo new").replace("echo work", "echo no"))
    resumed = world.run("plan", "resume", "--all", "--json")
    assert json.loads(resumed.stdout) == {"resumed": ["work"], "skipped": {}}, resumed.stderr
    wait_until(world.has_entry('"run_ended"'))
    tasks = world.read().tasks
    assert [one.state for one in tasks.values()] == ["done", "failed", "done"]
    assert tasks["b"].text == "rejected by cli: too short"
    assert git(world.work, "show", "gated:w.txt") == "work\n"
    assert world.counted() == ["new"]
    assert world.read().notes == ["the plan was changed; tasks that have not begun use it"]


RACE = """
[tasks.best]
prompt = "$ echo $AGENT > r.txt; test $AGENT != codex || echo more >> r.txt\\nask make"
race = { agents = ["codex", "claude", "pi"] }
checks = [{ run = "! grep -q pi r.txt" }]
[tasks.quick]
prompt = "unless claude\\n$ echo q > q.txt"
race = { agents = ["codex", "claude"], pick = "first" }
end = "land"
into = "quick"
[tasks.judged]
prompt = "$ echo PICK: claude"
race = { agents = ["codex", "claude"], pick = "judge", judge = "pi" }
"""


async def allow_all(child: subprocess.Popen[str]) -> None:
    """Allow every permission request until the run has ended."""
    async with HostClient.connect(Places.find()) as fleet:
        while child.poll() is None:
            for item in await fleet.inbox():
                await fleet.answer(item.request, "allow_once")
            await asyncio.sleep(0.05)


def test_races_are_decided_reported_and_picked(world: PlanWorld):
    world.write(RACE)
    child = world.start("plan", "run", "work.toml", "--json")
    asyncio.run(allow_all(child))
    out = world.finish(child)
    assert child.returncode == 0, out
    tasks = {one["key"]: one for one in json.loads(out)["tasks"]}
    assert {key: one["winner"] for key, one in tasks.items()} == {
        "best": "claude",  # fewer lines than codex; pi failed its check
        "quick": "claude",
        "judged": "claude",  # the judge is shown the prompt, and runs it
    }
    best = {one["contender"]: one for one in tasks["best"]["contenders"]}
    assert best["pi"]["state"] == "failed" and best["codex"]["added"] == 2
    assert [one["permissions"] for one in best.values()] == [1, 1, 1]
    quick = {one["contender"]: one["state"] for one in tasks["quick"]["contenders"]}
    assert quick == {"codex": "withdrawn", "claude": "passed"}
    assert git(world.work, "show", "quick:q.txt") == "q\n"
    # The one that lost is in the trash.
    assert "quick-codex" not in world.run("worktrees", "--json").stdout
    page = world.run("plan", "report", "work", "best", "--format", "html").stdout
    assert "<td>won</td>" in page and "Content-Security-Policy" in page
    text = world.run("plan", "report", "work", "best", "--format", "markdown").stdout
    assert "| claude | won | 1/1 | 1 | 1 | 0 |" in text
    report = json.loads(world.run("plan", "report", "work", "--format", "json").stdout)
    assert report["tasks"]["best"]["winner"] == "claude"
    assert world.run("plan", "pick", "work", "best", "nix", "--into", "x").returncode == 1
    picked = world.run("plan", "pick", "work", "best", "codex", "--into", "picked")
    assert picked.returncode == 0, picked.stderr
    assert git(world.work, "show", "picked:r.txt") == "codex\nmore\n"
    names = [
        one["name"] for one in json.loads(world.run("worktrees", "--json").stdout)["worktrees"]
    ]
    assert not any(name.startswith("best-claude") for name in names)
    restored = world.run("worktrees", "restore", best["claude"]["name"])
    assert restored.returncode == 0, restored.stderr


def test_a_turn_whose_host_was_killed_is_repeated_once_and_marked(world: PlanWorld, tmp_path: Path):
    flag = tmp_path / "go"
    wait = f"until [ -e {flag} ]; do sleep 0.05; done"
    world.write(
        'agent = "codex"\n[tasks.a]\nworktree = false\n'
        f'prompt = "$ echo a >> $COUNT; {wait}; echo end >> $COUNT"\n'
    )
    child = world.start("plan", "run", "work.toml", "--json")
    try:
        wait_until(world.has_entry('"turn_sent"'), child)
        wait_until(lambda: bool(world.counted()))
        world.end_host(9)
        world.start_host()
        wait_until(world.has_entry('"turn_repeated"'), child)
    finally:
        flag.touch()
    out = world.finish(child)
    assert child.returncode == 0, out
    (task,) = json.loads(out)["tasks"]
    assert task["repeated"] == 1 and "host was killed" in world.progress_of("work").read_text()
    assert world.counted().count("a") == 2


def test_a_run_is_stopped_and_goes_on(world: PlanWorld, tmp_path: Path):
    flag = tmp_path / "go"
    world.write(
        'agent = "codex"\n[tasks.a]\nworktree = false\n'
        f'prompt = "$ echo a >> $COUNT; test -e {flag} || echo wait\\nwait"\n'
    )
    started = world.run("plan", "run", "work.toml", "--detach")
    assert (started.returncode, started.stdout) == (0, "work\n")
    wait_until(world.has_entry('"turn_sent"'))
    wait_until(lambda: bool(world.counted()))
    stopped = world.run("plan", "stop", "work", "--json")
    assert len(json.loads(stopped.stdout)["interrupted"]) == 1, stopped.stderr
    assert "stopped" in world.run("plan", "status").stdout
    child = world.start("plan", "resume", "work", "--json")
    wait_until(world.has_entry('"turn_repeated"'), child)
    name = json.loads(world.run("ps", "--json").stdout)["agents"][0]["name"]
    wait_until(lambda: len(world.counted()) == 2)
    # Interrupted by a person: that is the end of it.
    assert world.run("interrupt", name).returncode == 0
    out = world.finish(child)
    (task,) = json.loads(out)["tasks"]
    assert (child.returncode, task["state"], task["repeated"]) == (5, "failed", 1)
    assert "cancelled" in task["text"] and world.counted() == ["a", "a"]


def test_what_cannot_run_is_refused_before_anything_starts(world: PlanWorld, tmp_path: Path):
    world.write('[tasks.a]\nagent = "codex"\nprompt = "{{inputs.x}}"\n[inputs.x]\n')
    assert "--input x=VALUE" in world.run("plan", "run", "work.toml").stderr
    assert "no input 'y'" in world.run("plan", "run", "work.toml", "-i", "y=1").stderr
    assert "no run 'nothing'" in world.run("plan", "resume", "nothing").stderr
    assert "No plan has run yet" in world.run("plan", "status").stdout
    hook = tmp_path / "sitecustomize.py"
    hook.write_text(
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'dbos':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Block())\n"
    )
    world.environ["PYTHONPATH"] = str(tmp_path)
    missing = world.start("plan", "run", "work.toml", "-i", "x=1")
    words = world.finish(missing)
    assert missing.returncode == 1 and "pip install -e '.[pool]'" in words, words
    assert world.run("config", "trust", "--revoke", ".").returncode == 0
    refused = world.run("plan", "run", "work.toml", "-i", "x=1")
    assert refused.returncode == 1 and "config trust" in refused.stderr
    assert "No plan has run yet" in world.run("plan", "status").stdout
