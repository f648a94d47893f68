"""A plan of four tasks that Codex and OpenCode race for: a failing test, a kill, the landing."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from quarterdeck.config.places import Places
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import NoHostError
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.tasks import run_beside
from tests.support import real_agents
from tests.support.work_trees import git, new_repository

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]
AGENTS = ("codex", "opencode")
MISSING = [name for name in AGENTS if real_agents.find(name) is None]
TASKS = ("ebb", "flow", "neap", "spring")
SCRIPT = r"""
default = "done"
[scenes]
done = ["Done."]
[[scenes.write.replies]]
parts = [{ tool = "shell", arguments = { command = "printf 'draft\n' > {{args}}.txt" } }]
[[scenes.write.replies]]
parts = [{ text = "Written." }]
[[scenes.again.replies]]
parts = [{ tool = "shell", arguments = { command = "printf 'right\n' > {{args}}.txt" } }]
[[scenes.again.replies]]
parts = [{ text = "Fixed." }]
"""
TASK = """
[tasks.{name}]
prompt = "scene:write {name}"
retries = 2
retry_message = "scene:again {name}"
checks = [{{ name = "test", run = "sh test.sh {name}" }}]
race = {{ agents = ["codex", "opencode"], rank = ["checks", "diff", "time"] }}
end = "land"
into = "tides"
options = {{ mode = "full-auto", environment = {variables} }}
"""


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
async def test_a_race_of_two_vendors_is_killed_resumed_and_landed(tmp_path: Path):
    pytest.importorskip("dbos")
    project = new_repository(tmp_path / "project", {"test.sh": 'grep -qx right "$1.txt"\n'})
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT)
    async with ModelServer(script) as server:
        environ = make_environment(tmp_path / "home", server.url)
        (project / "tides.toml").write_text(make_plan(environ))
        places = Places.find(environ)
        await run(project, environ, "config", "trust", ".")
        await run(project, environ, "host", "start")
        try:
            async with run_beside(allow_everything(places), name="allow"):
                child = await start(project, environ, "plan", "run", "tides.toml")
                progress = places.state / "plans" / "tides" / "progress.jsonl"
                while not (progress.exists() and '"check_ended"' in progress.read_text()):
                    assert child.returncode is None, await child.communicate()
                    await asyncio.sleep(0.05)
                child.kill()
                await child.communicate()
                shown = json.loads(await run(project, environ, "plan", "resume", "tides", "--json"))
        finally:
            await run(project, environ, "host", "stop", "--force")
    tasks = {one["key"]: one for one in shown["tasks"]}
    assert {key: one["state"] for key, one in tasks.items()} == dict.fromkeys(TASKS, "done")
    for name, task in tasks.items():
        assert git(project, "show", f"tides:{name}.txt") == "right\n"
        reports = {one["contender"]: one for one in task["contenders"]}
        assert set(reports) == set(AGENTS)
        assert [one["state"] for one in reports.values()] == ["passed", "passed"], reports
        assert [one["attempts"] for one in reports.values()] == [2, 2]
        # The host lived on: every turn was picked up where it was.
        assert task["repeated"] == 0


def make_environment(home: Path, url: str) -> dict[str, str]:
    """One home in which both find what they need."""
    merged: dict[str, str] = {}
    paths: list[str] = []
    for name in AGENTS:
        variables = real_agents.environment(name, home, url)
        paths.append(variables.pop("PATH"))
        merged |= variables
    return merged | {"PATH": ":".join((str(Path(sys.executable).parent), *paths))}


def make_plan(environ: dict[str, str]) -> str:
    """What looks like a key reaches agents only if it is named: here those of the fake model."""
    pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in environ.items())
    tasks = (TASK.format(name=name, variables=f"{{ {pairs} }}") for name in TASKS)
    return "at_once = 2\n" + "".join(tasks)


async def start(project: Path, environ: dict[str, str], *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quarterdeck", *words),
        cwd=project,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def run(project: Path, environ: dict[str, str], *words: str) -> str:
    child = await start(project, environ, *words)
    out, err = await child.communicate()
    assert child.returncode == 0, (words, out[-2_000:], err[-2_000:])
    return out.decode()


async def allow_everything(places: Places) -> None:
    """Allow what the agents ask: commands of theirs are outside our sandbox."""
    async with HostClient.connect(places) as fleet:
        while True:
            try:
                for item in await fleet.inbox():
                    await fleet.answer(item.request, "allow_once")
            except (LinkError, NoHostError):
                return
            await asyncio.sleep(0.1)
