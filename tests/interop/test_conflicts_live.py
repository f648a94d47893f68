"""Agents of three vendors in worktrees of one repository: the radar warns before any commit."""

import asyncio
import os
from contextlib import aclosing
from pathlib import Path

import pytest

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.events import ConflictChanged, Event, PermissionAsked
from quarterdeck.wire.record import Record
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.tasks import run_beside
from quarterdeck.wire.worktrees import ConflictFile, WorktreeOptions
from tests.support import real_agents
from tests.support.scripted_fleet import places_in
from tests.support.work_trees import git, new_repository

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(240)]
LONG = 100.0
VENDORS = {"claude": "pipe", "codex": "daemon", "opencode": "acp"}
"""Over ACP Codex runs commands in a sandbox of its own, which writes nothing."""
PROGRAMS = {"claude": "claude", "codex": "codex", "opencode": "opencode"}
MISSING = [program for program in PROGRAMS.values() if real_agents.find(program) is None]
TIDES = "def rise(moon):\n    return moon\n"
SCRIPT = r"""
default = "done"
[scenes]
done = ["Done."]
[[scenes.touch.replies]]
parts = [
  { tool = "shell", arguments = { command = "printf 'def rise(moon):\n    return {{args}} * moon\n' > tides.py" } },
  # The command has ended and the turn goes on: what is noted now is noted while it works.
]
[[scenes.touch.replies]]
delay = 8
parts = [{ text = "Changed." }]
[[scenes.other.replies]]
parts = [{ tool = "shell", arguments = { command = "printf 'other\n' > other.txt" } }]
[[scenes.other.replies]]
parts = [{ text = "Changed." }]
"""  # noqa: E501


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
@pytest.mark.parametrize("apart", VENDORS)
async def test_two_of_three_vendors_touch_one_function_and_the_radar_warns_within_five_seconds(
    apart: str, tmp_path: Path
):
    project = new_repository(tmp_path / "project", {"tides.py": TIDES})
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    async with (
        ModelServer(script) as server,
        LocalFleet.open(places_in(tmp_path / "fleet"), environment) as fleet,
        run_beside(allow_everything(fleet), name="allow"),
    ):
        for number, name in enumerate(VENDORS):
            prompt = "scene:other" if name == apart else f"scene:touch {number + 2}"
            await fleet.spawn(new_agent_of(name, prompt, project, tmp_path, server.url))
        record = await first_conflict(fleet)
        agents = [await fleet.agent(name) for name in VENDORS]
        touching = [one for one in agents if one.name != apart]
        written = [changed_at(one.cwd) for one in touching]
        assert record.time / 1e6 - max(written) < 5.0
        files = (ConflictFile(path="tides.py", kind="text", symbols=("rise",)),)
        assert {one.session for one in touching} == {record.session, record.event.other}  # type: ignore[union-attr]
        assert record.event.files == files  # type: ignore[union-attr]
        assert [one.conflicts for one in agents if one.name == apart] == [()]
        log = await asyncio.to_thread(git, project, "log", "--all", "--format=%s")
        assert log == "first\n"  # nothing is committed yet
        await asyncio.gather(*(fleet.kill(name) for name in VENDORS))


async def allow_everything(fleet: LocalFleet) -> None:
    """Allow what the agents ask: commands of theirs are outside our sandbox."""
    async with aclosing(fleet.follow(0)) as records:
        async for record in records:
            if isinstance(record.event, PermissionAsked):
                await fleet.answer(record.event.request, "allow_once")


def new_agent_of(name: str, prompt: str, project: Path, folder: Path, url: str) -> SpawnOptions:
    variables = real_agents.environment(PROGRAMS[name], folder / f"{name}-home", url)
    return SpawnOptions(
        options=SessionOptions(
            agent=name,
            transport=VENDORS[name],
            cwd=str(project),
            mode="full-auto",
            environment=variables,
            worktree=WorktreeOptions(),
        ),
        name=name,
        prompt=prompt,
    )


async def first_conflict(fleet: LocalFleet) -> Record:
    seen: list[Event] = []
    try:
        async with asyncio.timeout(LONG), aclosing(fleet.follow(0)) as records:
            async for record in records:
                if isinstance(record.event, ConflictChanged):
                    return record
                seen.append(record.event)
    except TimeoutError:
        pass
    raise AssertionError(f"no conflict was reported; the log: {seen}")


def changed_at(directory: str) -> float:
    """Seconds since the epoch."""
    return (Path(directory) / "tides.py").stat().st_mtime
