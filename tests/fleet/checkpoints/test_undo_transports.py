"""Undo for agents that are real processes, over every transport, and in a host that is killed."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest

from quarterdeck.drivers.driver import DriverSession, EventSink
from quarterdeck.drivers.open_session import start_session
from quarterdeck.drivers.session import LinkSession
from quarterdeck.fleet.agent_runner import AgentStart
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.events import Prompted, TurnEnded
from tests.support.deadlines import SOON
from tests.support.driver_rig import Rig
from tests.support.scripted_fleet import events_of, fleet_of, new_agent, places_in
from tests.support.work_trees import new_repository, state_of, untouched
from tests.support.working_agents import prompt, workers

RIGS: Mapping[str, Rig] = {
    rig.name: rig
    for file in sorted((Path(__file__).parents[2] / "drivers" / "rigs").glob("*.py"))
    for rig in import_module(f"tests.drivers.rigs.{file.stem}").RIGS
}
TRANSPORTS = ("acp", "claude-pipe", "codex-daemon", "opencode-daemon", "codex-pipe", "fake-pty")


@pytest.mark.parametrize("rig", TRANSPORTS)
async def test_a_file_that_nobody_told_of_is_undone(rig: str, tmp_path: Path):
    work = await asyncio.to_thread(new_repository, tmp_path / "work", {"a.txt": "one\n"})
    before, repository = state_of(work), await asyncio.to_thread(untouched, work)
    (tmp_path / "state").mkdir()

    async def open_session(start: AgentStart, sink: EventSink) -> DriverSession:
        agent, opening = RIGS[rig], start.opening
        variables = {**agent.environment, "FAKE_STATE": str(tmp_path / "state")}
        opening = opening.with_options(environment=variables)
        session = LinkSession(start.session, rig, opening, sink, start.gate, start.around)
        await start_session(session, [agent.make], is_known=start.is_known)
        return session

    places = places_in(tmp_path / "home")
    async with LocalFleet.open(places, {}, open_session=open_session) as fleet:
        await fleet.spawn(new_agent(work, name="ann", mode="full-auto"))
        await fleet.wait(["ann"], timeout=SOON)
        await prompt(fleet, "ann", "sneak-run printf 'two' > a.txt && echo new > new.txt")
        assert (await fleet.agent("ann")).state == "idle", await events_of(fleet, "ann")
        after = await asyncio.to_thread(state_of, work)
        assert after != before
        assert (await fleet.undo("ann")).restored == 2
        assert await asyncio.to_thread(state_of, work) == before
        await fleet.redo("ann")
        assert await asyncio.to_thread(state_of, work) == after
    assert await asyncio.to_thread(untouched, work) == repository


HOST = """
import asyncio, sys
from pathlib import Path
from quarterdeck.wire.content import text
from tests.support.scripted_fleet import fleet_of
from tests.support.working_agents import at_work, workers

async def main(home, work):
    casting = workers()
    async with fleet_of(Path(home), casting) as fleet:
        link = await at_work(fleet, casting, Path(work), "ann")
        await fleet.send("ann", (text("hold echo two >> a.txt; echo new > new.txt"),))
        await link.holds.wait()
        print("holds", flush=True)
        await asyncio.sleep(60)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_the_turn_of_a_host_that_was_killed_is_undone(tmp_path: Path):
    work = await asyncio.to_thread(new_repository, tmp_path / "work", {"a.txt": "one\n"})
    before = state_of(work)
    await asyncio.to_thread(_kill_host, tmp_path / "home", work)
    assert (work / "new.txt").exists()
    async with fleet_of(tmp_path / "home", workers()) as fleet:
        async with asyncio.timeout(SOON):
            while (await fleet.turns("ann"))[0].files == "none":
                await asyncio.sleep(0.02)
        (turn,) = await fleet.turns("ann")
        assert "the host was killed" in turn.uncovered[0]
        assert (await fleet.undo("ann")).restored == 2
        assert await asyncio.to_thread(state_of, work) == before
        ends = [one for one in await events_of(fleet, "ann") if isinstance(one, TurnEnded)]
        assert len(ends) == 1


UNDOING_HOST = """
import asyncio, os, sys
from pathlib import Path
from tests.support.kill_switch import KillSwitch
from tests.support.scripted_fleet import fleet_of
from tests.support.working_agents import at_work, prompt, workers

async def main(home, work, number):
    casting = workers()
    async with fleet_of(Path(home), casting) as fleet:
        await at_work(fleet, casting, Path(work), "ann")
        await prompt(fleet, "ann", "echo two >> a.txt; echo new > new.txt; rm b.txt; mkdir c; >c/d")
        print("holds", flush=True)
        sys.addaudithook(KillSwitch(Path(home).parent, int(number)))
        await fleet.undo("ann")
        os._exit(3)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [9, 11, 13])
async def test_an_undo_that_a_killed_host_had_begun_is_done_when_the_next_is_open(
    tmp_path: Path, number: int
):
    files = {"a.txt": "one\n", "b.txt": "b\n"}
    work = await asyncio.to_thread(new_repository, tmp_path / "work", files)
    before = state_of(work)
    await asyncio.to_thread(
        _kill_host, tmp_path / "home", work, UNDOING_HOST, str(number), is_killed_by_itself=True
    )
    cut = state_of(work)
    async with fleet_of(tmp_path / "home", workers()) as fleet:
        assert state_of(work) == before != cut
        await fleet.redo("ann")
        assert (work / "new.txt").read_text() == "new\n"


def _kill_host(
    home: Path, work: Path, host: str = HOST, *more: str, is_killed_by_itself: bool = False
) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    root = Path(__file__).parents[3]
    words = [sys.executable, "-c", host, str(home), str(work), *more]
    with subprocess.Popen(words, cwd=root, env=environment, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"holds\n"
        if not is_killed_by_itself:
            child.send_signal(signal.SIGKILL)
        assert child.wait(SOON) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("rig", "mode"),
    [("codex-daemon", "full-auto"), ("claude-pipe", "full-auto"), ("pi-pipe", "accept-edits")],
)
async def test_an_agent_that_can_goes_back_in_its_conversation(rig: str, mode: str, tmp_path: Path):
    work = await asyncio.to_thread(new_repository, tmp_path / "work", {"a.txt": "one\n"})
    (tmp_path / "state").mkdir()

    async def open_session(start: AgentStart, sink: EventSink) -> DriverSession:
        variables = {"FAKE_STATE": str(tmp_path / "state")}
        opening = start.opening.with_options(environment=variables)
        session = LinkSession(start.session, rig, opening, sink, start.gate, start.around)
        await start_session(session, [RIGS[rig].make], is_known=start.is_known)
        return session

    places = places_in(tmp_path / "home")
    async with LocalFleet.open(places, {}, open_session=open_session) as fleet:
        await fleet.spawn(new_agent(work, name="ann", mode=mode))
        await fleet.wait(["ann"], timeout=SOON)
        for number in (1, 2):
            await prompt(fleet, "ann", f"sneak-run echo {number} > n{number}")
        before = (await fleet.agent("ann")).agent_session
        done = await fleet.undo("ann")
        assert (done.number, done.conversation, done.restored) == (2, "rewound", 1)
        assert not (work / "n2").exists() and (work / "n1").exists()
        assert (await fleet.agent("ann")).agent_session != before
        assert [one.in_conversation for one in await fleet.turns("ann")] == [True, False]
        await prompt(fleet, "ann", "history")
        events = await events_of(fleet, "ann")
        last = max(n for n, one in enumerate(events) if isinstance(one, Prompted))
        said = "".join(str(one) for one in events[last:])
        assert "echo 1" in said and "echo 2" not in said
        # What cannot be brought back to its memory is told.
        assert (await fleet.undo("ann", turn="1", files=True)).conversation == "noted"
