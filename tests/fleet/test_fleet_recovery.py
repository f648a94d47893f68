"""A host that was killed: nobody is shown as live, nothing that was acknowledged is missing."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from quarterdeck.fleet.local import LocalFleet
from quarterdeck.journal import JournalLockedError
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    PermissionAnswered,
    QuestionAnswered,
    SessionEnded,
    ToolCallEnded,
    TurnEnded,
)
from quarterdeck.wire.permissions import Cancelled
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import Casting, events_of, fleet_of, new_agent

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests/fleet/kill_hosts.py"


def snapshot(home: Path, copy: Path) -> None:
    """What a killed host would leave: the log as it is on disk at this moment."""
    shutil.copytree(home, copy)


async def test_what_ran_is_failed_and_what_waited_still_waits(tmp_path: Path):
    casting = Casting()
    async with fleet_of(tmp_path / "home", casting) as fleet:
        for name, prompt in (("asks", "ask rm x"), ("wonders", "question why"), ("idle", "say x")):
            await fleet.spawn(new_agent(tmp_path, name=name, prompt=prompt))
        await fleet.spawn(new_agent(tmp_path, name="works", prompt="wait"))
        await fleet.wait(["asks", "wonders", "idle"], timeout=SOON)
        await fleet.send("asks", (text("say first"),))
        await fleet.send("asks", (text("say second"),))
        await fleet.spawn(new_agent(tmp_path, name="gone"))
        await fleet.kill("gone")
        casting.hold = asyncio.Event()
        await fleet.spawn(new_agent(tmp_path, name="starts", prompt="say hi"))
        await asyncio.to_thread(snapshot, tmp_path / "home", tmp_path / "copy")
    casting = Casting()
    async with fleet_of(tmp_path / "copy", casting) as fleet:
        infos = {one.name: one for one in await fleet.agents()}
        states = {name: one.state for name, one in infos.items()}
        assert states == {
            **dict.fromkeys(("asks", "wonders", "idle", "works", "starts"), "failed"),
            "gone": "killed",
        }
        assert infos["works"].reason == "the host was killed"
        assert not any(one.is_live or one.needs_person for one in infos.values())
        assert all(one.can_resume for one in infos.values())
        assert await fleet.inbox() == []
        events = await events_of(fleet, "asks")
        kinds = (PermissionAnswered, ToolCallEnded, TurnEnded, SessionEnded)
        closing = [one for one in events if isinstance(one, kinds)]
        assert [type(one) for one in closing] == list(kinds)
        assert isinstance(closing[0], PermissionAnswered)
        assert isinstance(closing[0].outcome, Cancelled)
        assert any(isinstance(e, QuestionAnswered) for e in await events_of(fleet, "wonders"))
        assert [one.content[0] for one in infos["asks"].queue] == [
            text("say first"),
            text("say second"),
        ]
        assert await fleet.edit("asks", infos["asks"].queue[0].message, (text("say other"),))
        for name in ("asks", "starts"):
            await fleet.resume(name)
        await fleet.wait(["asks", "starts"], timeout=SOON)
        told = {link.start_.spawn.name: link.told for link in casting.links}
        assert told == {"asks": ["say other", "say second"], "starts": ["say hi"]}
        resumed = {
            link.start_.spawn.name: link.host.opening.options.resume for link in casting.links
        }
        assert resumed == {"asks": infos["asks"].agent_session, "starts": None}


async def test_recovery_happens_once(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann", prompt="wait"))
        await asyncio.to_thread(snapshot, tmp_path / "home", tmp_path / "copy")
    lengths = []
    for _ in range(3):
        async with fleet_of(tmp_path / "copy") as fleet:
            lengths.append(fleet.journal.last)
    assert len(set(lengths)) == 1


async def test_what_ran_runs_again_if_that_is_the_policy(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann", prompt="say x"))
        await fleet.spawn(new_agent(tmp_path, name="bob"))
        await fleet.wait(["ann", "bob"], timeout=SOON)
        await fleet.close("bob")
        await asyncio.to_thread(snapshot, tmp_path / "home", tmp_path / "copy")
    async with fleet_of(tmp_path / "copy", resume_running=True) as fleet:
        await fleet.wait(["ann", "bob"], timeout=SOON)
        states = {one.name: one.state for one in await fleet.agents()}
        assert states == {"ann": "idle", "bob": "done"}


async def test_another_live_host_is_left_alone(tmp_path: Path):
    async with fleet_of(tmp_path / "home") as fleet:
        await fleet.spawn(new_agent(tmp_path, name="ann", prompt="wait"))
        with pytest.raises(JournalLockedError):
            async with fleet_of(tmp_path / "home"):
                raise AssertionError("two hosts own one log")
        assert (await fleet.agent("ann")).state in ("starting", "idle", "running")


async def test_a_fleet_that_is_left_by_an_error_still_ends_its_agents(tmp_path: Path):
    casting = Casting()
    with pytest.raises(ZeroDivisionError):
        async with fleet_of(tmp_path / "home", casting) as fleet:
            await fleet.spawn(new_agent(tmp_path, name="ann"))
            await fleet.wait(["ann"], timeout=SOON)
            raise ZeroDivisionError
    assert casting.links[0].gone.is_set()


async def test_a_fleet_whose_owner_is_cancelled_still_ends_its_agents(tmp_path: Path):
    casting = Casting()
    ready = asyncio.Event()

    async def own() -> None:
        async with fleet_of(tmp_path / "home", casting) as fleet:
            await fleet.spawn(new_agent(tmp_path, name="ann", prompt="wait"))
            ready.set()
            await asyncio.Event().wait()

    owner = asyncio.create_task(own())
    await ready.wait()
    owner.cancel()
    await asyncio.sleep(0)
    owner.cancel()
    with pytest.raises(asyncio.CancelledError):
        await owner
    assert all(link.gone.is_set() for link in casting.links)
    async with fleet_of(tmp_path / "home") as fleet:
        assert isinstance(fleet, LocalFleet)
        assert (await fleet.agent("ann")).state == "done"


def kill(folder: Path, kills: int, seed: int, timeout: float) -> list[int]:
    done = subprocess.run(
        [sys.executable, PROGRAM, folder, str(kills), str(seed)],
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [int(number) for number in re.findall(r"\d+", done.stdout)]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.timeout(150)
def test_a_killed_host_loses_nothing_that_was_acknowledged(tmp_path: Path):
    kills, acknowledged, agents = kill(tmp_path, 9, seed=1, timeout=140)
    assert kills == 9
    # At least one for each host that is not killed at any time; how many more is the machine's.
    assert acknowledged >= 7 and agents >= 7


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.stress
def test_two_hundred_killed_hosts(tmp_path: Path):
    kills, acknowledged, _ = kill(tmp_path, 200, seed=2, timeout=1200)
    assert kills == 200
    assert acknowledged > 300
