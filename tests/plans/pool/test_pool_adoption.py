"""An agent goes on at another machine with its own session, and with ignored files that travel."""

import signal

import pytest

from tests.plans.pool.conftest import PoolWorld
from tests.support.work_trees import git

pytestmark = pytest.mark.timeout(600)

SECRET = "hunter2-hunter2-hunter2"
TASK = """[tasks.KEY]
agent = "KEY"
prompt = "$ echo one >> file.txt; cat base.cache > made.cache; echo first SECRET"
retries = 1
retry_message = "at two\\n$ cat made.cache > seen.txt; echo one >> file.txt\\nrecall"
checks = [{ run = "test $(wc -l < file.txt) = 2" }]
end = "land"
into = "landed-KEY"
""".replace("SECRET", SECRET)
AGENTS = ("claude", "codex")


def test_agents_resume_their_own_sessions_at_another_machine(pool_world: PoolWorld):
    world = pool_world
    (world.work / ".gitignore").write_text("*.cache\n")
    (world.work / ".worktreeinclude").write_text("*.cache\n")
    (world.work / "base.cache").write_text("ignored, and carried\n")
    git(world.work, "add", ".gitignore", ".worktreeinclude")
    git(world.work, "commit", "-q", "-m", "lists")
    for name in ("one", "two"):
        world.add(name).environ |= {"VENDOR_FILES": "1", "MY_TOKEN": SECRET}
    one, two = world.machines.values()
    one.start_worker(lease=2.0)
    world.submit("carry_ignored = true\n" + "".join(TASK.replace("KEY", key) for key in AGENTS))
    waiting = "SELECT count(*) FROM quarterdeck.events WHERE record LIKE '%%\"waiting\"%%'"
    world.wait_until(lambda: world.read(waiting) == [(2,)])
    carried = "SELECT agent_session, token FROM quarterdeck.carried WHERE agent = %s ORDER BY token"
    before = {agent: world.read(carried, agent) for agent in AGENTS}
    ((files,),) = world.read(
        "SELECT string_agg(convert_from(data, 'utf8'), '') FROM quarterdeck.session_files"
    )
    assert files.count("first") == 2 and SECRET not in files
    one.end_worker()
    one.end_host(signal.SIGKILL)
    two.start_worker(lease=2.0)
    tasks = world.wait_for_end()
    for agent in AGENTS:
        assert (tasks[agent]["state"], tasks[agent]["repeated"]) == ("done", 1), tasks
        # The new agent has the vendor's session of the old one, and says what the old was sent.
        (session, token), *_ = before[agent]
        after = world.read(carried, agent)
        assert after[-1][0] == session and after[-1][1] > token
        ((name,),) = world.read(
            "SELECT name FROM quarterdeck.sessions WHERE task = %s AND token > %s", agent, token
        )
        log = world.run("--pool", world.pool, "logs", name).stdout
        assert "cat base.cache" in log and "Your session goes on at another machine" in log
        assert git(world.remote, "show", f"landed-{agent}:seen.txt") == "ignored, and carried\n"
        assert git(world.remote, "show", f"landed-{agent}:file.txt") == "one\none\n"
        landed = git(world.remote, "ls-tree", "-r", "--name-only", f"landed-{agent}")
        assert ".cache" not in landed
