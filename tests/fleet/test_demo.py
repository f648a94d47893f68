"""The demo: two agents, a real conflict, both land; and nothing is left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quarterdeck.config.trust import TrustStore
from quarterdeck.fleet.api import AgentInfo
from quarterdeck.fleet.demo import (
    FIRST,
    SECOND,
    DemoError,
    DemoScratch,
    find_stale,
    start_agents,
    sweep_stale,
)
from quarterdeck.fleet.landing.api import LandingOptions, LandingQueueInfo
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.models.script import load_script
from quarterdeck.models.script.format import ScriptScene, ScriptSleepPart
from quarterdeck.system.process_tree import ProcessTree, find_processes
from quarterdeck.wire.events import TurnEnded
from tests.support.deadlines import SOON


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def left_in(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


async def allow_turn(fleet: LocalFleet, agent: AgentInfo, after: int) -> None:
    """Allow everything until a turn of the agent has ended after a record."""
    async with asyncio.timeout(45):
        while True:
            for item in await fleet.inbox():
                await fleet.answer(item.request, "allow_once")
            records = await fleet.read(agent.session, after=after, limit=1000)
            if any(isinstance(record.event, TurnEnded) for record in records):
                return
            await asyncio.sleep(0.05)


async def compared(fleet: LocalFleet, *agents: AgentInfo) -> list[AgentInfo]:
    """Agents when the radar has seen that they conflict."""
    async with asyncio.timeout(SOON):
        while True:
            now = [await fleet.agent(agent.session) for agent in agents]
            if all(agent.conflicts for agent in now):
                return now
            await asyncio.sleep(0.05)


async def land(fleet: LocalFleet, *agents: AgentInfo) -> LandingQueueInfo:
    names = [agent.session for agent in agents]
    queue = await fleet.queue_landings(names, LandingOptions(checkout=True))
    async with asyncio.timeout(45):
        while not queue.is_done:
            queue = await fleet.wait_landing(queue.id, seen=queue.revision, timeout=5.0)
    return queue


def run_tests(project: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-B", "-m", "unittest"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=20)


@pytest.mark.parametrize(
    ("queued", "states", "rounds"),
    [((FIRST, SECOND), ["landed", "conflict"], 1), ((SECOND, FIRST), ["check", "landed"], 2)],
)
async def test_both_change_one_function_and_both_land(
    temporary: Path, queued: tuple[str, str], states: list[str], rounds: int
):
    scratch = await asyncio.to_thread(DemoScratch(is_fast=True).__enter__)
    try:
        before = await asyncio.to_thread(run_tests, scratch.project)
        assert before.returncode and "test_high_water_tomorrow" in before.stderr
        async with LocalFleet.open(scratch.places, scratch.environment) as fleet:
            both = await start_agents(fleet, scratch)
            for one in both:
                await allow_turn(fleet, one, 0)
            first, second = await compared(fleet, *both)
            assert [first.agent, second.agent] == ["native", "fake"]
            assert first.worktree and second.worktree
            assert first.worktree.path != second.worktree.path
            for agent in (first, second):
                (conflict,) = agent.conflicts
                assert [(f.path, f.kind, f.symbols) for f in conflict.files] == [
                    ("tides.py", "text", ("until_high",))
                ]
            order = sorted((first, second), key=lambda one: queued.index(one.name))
            last = (await fleet.agent(second.session)).last_seq
            queue = await land(fleet, *order)
            assert [entry.state for entry in queue.entries] == states
            # Each time it gets its work back; in the other order it merges once too early.
            for _ in range(rounds):
                await allow_turn(fleet, second, last)
                last = (await fleet.agent(second.session)).last_seq
                queue = await land(fleet, second)
            assert [entry.state for entry in queue.entries] == ["landed"], queue
            for agent in await fleet.agents():
                await fleet.kill(agent.session)
        text = (scratch.project / "tides.py").read_text()
        assert "if not tides:" in text and "% DAY" in text and "<<<" not in text
        after = await asyncio.to_thread(run_tests, scratch.project)
        assert after.returncode == 0, after.stderr
    finally:
        await asyncio.to_thread(scratch.remove)
    assert not left_in(temporary)


def test_its_settings_and_trust_are_its_own(temporary: Path):
    with DemoScratch() as scratch:
        assert scratch.folder.parent == Path(os.path.realpath(temporary))
        assert TrustStore(scratch.places.trust_file).trusted() == (scratch.project,)
        assert str(scratch.places.config).startswith(str(scratch.folder))
        names = set(scratch.environment)
        assert not any("KEY" in name or "TOKEN" in name for name in names)
    assert not left_in(temporary)


def test_what_is_kept_stays_and_is_never_swept(temporary: Path):
    with DemoScratch() as scratch:
        scratch.keep()
    assert (scratch.project / "tides.py").is_file()
    assert find_stale() == [] and sweep_stale() == 0
    with DemoScratch() as again:
        assert again.folder != scratch.folder
    assert left_in(temporary) == [scratch.folder.name]


def test_two_at_once_leave_each_other_alone(temporary: Path):
    with DemoScratch() as one, DemoScratch() as other:
        assert find_stale() == []
        assert one.project.is_dir() and other.project.is_dir()
    assert not left_in(temporary)


def test_without_git_it_says_what_is_missing(temporary: Path):
    with pytest.raises(DemoError, match="needs git"), DemoScratch(environ={"PATH": "/nowhere"}):
        pass
    assert not left_in(temporary)


def test_a_place_that_cannot_be_written_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(DemoError, match="nowhere"), DemoScratch():
        pass


_OWNER = """
import sys, tempfile, time
tempfile.tempdir = sys.argv[1]
from quarterdeck.fleet.demo import DemoScratch
with DemoScratch() as scratch:
    import subprocess
    sleeper = ["setsid", sys.executable, "-c", "import time; time.sleep(600)"]
    subprocess.Popen(sleeper, env=scratch.environment)
    print(scratch.folder.name, flush=True)
    time.sleep(600)
"""


def test_the_keeper_removes_what_a_killed_owner_left(temporary: Path):
    words = [sys.executable, "-c", _OWNER, str(temporary)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        name = owner.stdout.readline().strip()
        assert left_in(temporary) == [name]
        owner.kill()
    deadline = time.monotonic() + SOON
    while left_in(temporary) or find_processes([ProcessTree(name)]):
        assert time.monotonic() < deadline, left_in(temporary)
        time.sleep(0.05)


def test_where_the_keeper_is_killed_too_the_next_demo_sweeps(temporary: Path):
    words = [sys.executable, "-c", _OWNER, str(temporary)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        name = owner.stdout.readline().strip()
        keepers = subprocess.run(
            ["pgrep", "-f", f"keep_watch.*{name}"], capture_output=True, text=True
        )
        for pid in keepers.stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        owner.kill()
    assert [folder.name for folder in find_stale()] == [name]
    with DemoScratch():
        assert name not in left_in(temporary)
    assert not left_in(temporary) and not find_processes([ProcessTree(name)])


def test_the_script_takes_well_under_a_minute():
    # What is streamed takes some ten seconds; the person answers, reads and lands meanwhile.
    seconds = {name: played(scene) for name, scene in load_script("demo").scenes.items()}
    assert 5 < seconds["fix"] < 20 and seconds["over"] == 0


def played(scene: ScriptScene) -> float:
    total = 0.0
    for reply in scene.replies:
        for part in reply.parts:
            if isinstance(part, ScriptSleepPart):
                total += part.sleep
            else:
                total += (part.pause or 0) * (getattr(part, "chunks", 1) or 1)
    return total
