"""The demo: real files, real requests, and nothing left behind."""

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.fleet.api import AgentInfo, InboxItem, SpawnOptions
from quarterdeck.fleet.demo import (
    ScratchProjectError,
    begin_demo,
    demo_agents,
    end_demo,
    keep_demo,
    make_project,
)
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.models.script import load_script
from quarterdeck.models.script.format import ScriptScene, ScriptSleepPart
from quarterdeck.wire.session_options import SessionOptions
from tests.support.deadlines import SOON


@asynccontextmanager
async def fleet_in(home: Path) -> AsyncGenerator[tuple[LocalFleet, Places]]:
    places = Places.find({"QUARTERDECK_HOME": str(home)})
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    async with LocalFleet.open(places, environment) as fleet:
        yield fleet, places


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


async def trusted(places: Places) -> list[str]:
    found = await asyncio.to_thread(TrustStore(places.trust_file).trusted)
    return [str(place) for place in found]


def left_in(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


async def asked(fleet: LocalFleet, name: str) -> InboxItem:
    async with asyncio.timeout(SOON):
        while True:
            for item in await fleet.inbox():
                if item.name == name:
                    return item
            await asyncio.sleep(0.05)


async def at_rest(fleet: LocalFleet, info: AgentInfo) -> AgentInfo:
    """Say yes to everything until an agent is at rest."""
    async with asyncio.timeout(45):
        while (now := await fleet.agent(info.session)).state not in ("idle", "failed"):
            for item in await fleet.inbox():
                await fleet.answer(item.request, "allow_once")
            await asyncio.sleep(0.05)
    return now


async def test_it_mends_a_real_test_and_leaves_nothing_behind(tmp_path: Path, scratch: Path):
    async with fleet_in(tmp_path / "home") as (fleet, places):
        info = await begin_demo(fleet, places)
        project = Path(info.cwd)
        before = await asyncio.to_thread(run_tests, project)
        assert before.returncode and "test_high_water_tomorrow" in before.stderr
        assert await trusted(places) == [info.cwd]
        assert (await at_rest(fleet, info)).state == "idle"
        after = await asyncio.to_thread(run_tests, project)
        assert after.returncode == 0, after.stderr
        assert "python3 -m unittest" in (project / "README.md").read_text()
        assert [agent.name for agent in await demo_agents(fleet)] == ["demo", "scribe"]
        assert await end_demo(fleet, places) == 2
        assert await fleet.agents(archived=True) == []
        assert await trusted(places) == [] and not left_in(scratch)


def run_tests(project: Path) -> subprocess.CompletedProcess[str]:
    command = ["python3", "-B", "-m", "unittest"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=20)


async def test_it_can_be_interrupted_and_begun_again(tmp_path: Path, scratch: Path):
    async with fleet_in(tmp_path / "home") as (fleet, places):
        first = await begin_demo(fleet, places)
        item = await asked(fleet, "demo")
        await fleet.answer(item.request, "allow-user-1")
        async with asyncio.timeout(SOON):
            while not await fleet.grants():  # recorded when the agent has the answer
                await asyncio.sleep(0.01)
        await fleet.interrupt(first.session)
        second = await begin_demo(fleet, places)
        assert not await fleet.grants()  # what was allowed for longer is taken back
        assert first.cwd != second.cwd
        assert [agent.session for agent in await fleet.agents(archived=True)] == [second.session]
        assert await trusted(places) == [second.cwd]
        assert len(left_in(scratch)) == 1
        await end_demo(fleet, places)
        assert not left_in(scratch)


async def test_what_is_kept_stays_with_its_agents_and_is_not_trusted(tmp_path: Path, scratch: Path):
    async with fleet_in(tmp_path / "home") as (fleet, places):
        info = await begin_demo(fleet, places)
        assert await keep_demo(fleet, places) == [info.cwd]
        assert await end_demo(fleet, places) == 0
        assert "tides.py" in left_in(Path(info.cwd))
        assert await trusted(places) == []
        assert (await fleet.agent("demo")).session == info.session
        again = await begin_demo(fleet, places)  # the name is taken now
        assert again.name != "demo"
        await end_demo(fleet, places)


async def test_agents_of_the_person_are_left_alone(tmp_path: Path):
    work = tmp_path / "quarterdeck-demo-mine" / "tides"  # looks like ours and has no mark
    work.mkdir(parents=True)
    async with fleet_in(tmp_path / "home") as (fleet, places):
        request = SpawnOptions(
            options=SessionOptions(cwd=str(work), model="scripted/default"), name="mine"
        )
        mine = await fleet.spawn(request)
        assert await end_demo(fleet, places) == 0
        assert (await fleet.agent("mine")).session == mine.session
    assert work.exists()


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(ScratchProjectError, match="nowhere"):
        make_project()


def test_the_script_takes_about_a_minute_with_a_person():
    # What is streamed takes some twenty seconds; the person reads five requests meanwhile.
    seconds = {name: played(scene) for name, scene in load_script("demo").scenes.items()}
    assert 12 < seconds["fix"] < 30
    assert seconds["readme"] < seconds["fix"] and seconds["over"] == 0


def played(scene: ScriptScene) -> float:
    total = 0.0
    for reply in scene.replies:
        for part in reply.parts:
            if isinstance(part, ScriptSleepPart):
                total += part.sleep
            else:
                total += (part.pause or 0) * (getattr(part, "chunks", 1) or 1)
    return total
