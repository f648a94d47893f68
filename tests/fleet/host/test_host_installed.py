"""The host as it is installed: a process of its own, real agents, killed and started again."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

import pytest

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import NoHostError
from quarterdeck.fleet.host.launcher import is_host_running, stop_host
from quarterdeck.fleet.host.lock import log_file
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import LinkBrokenError
from quarterdeck.wire.events import SessionEnded, TurnStarted
from quarterdeck.wire.session_options import SessionOptions
from tests.support.deadlines import SOON

MODEL = "scripted/default"


@pytest.fixture
async def places() -> AsyncIterator[Places]:
    places = Places.find()
    yield places
    with suppress(NoHostError):
        await stop_host(places, force=True)


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "QUARTERDECK_HOME": os.environ["QUARTERDECK_HOME"],
        "LANG": "C.UTF-8",
        "SOME_TOKEN": "very-secret-value",
    }


@asynccontextmanager
async def connected(places: Places, environ: dict[str, str]) -> AsyncIterator[HostClient]:
    async with (
        asyncio.timeout(SOON * 2),
        HostClient.connect(places, start=True, environ=environ) as client,
    ):
        yield client


async def running(client: HostClient, name: str) -> None:
    async with aclosing(client.follow(0, agent=name)) as records:
        async for record in records:
            if isinstance(record.event, TurnStarted):
                return


async def test_agents_outlive_their_clients(places: Places, environ: dict[str, str]):
    async with connected(places, environ) as client:
        await client.spawn(
            SpawnOptions(
                options=SessionOptions(cwd="/", model=MODEL), name="ann", prompt="scene:slow"
            )
        )
        await running(client, "ann")
        pid = (await client.status()).pid
    async with connected(places, environ) as client:
        assert (await client.status()).pid == pid
        assert (await client.agent("ann")).state == "running"
        await client.interrupt("ann")
        await client.send("ann", (text("scene:text"),))
        await client.wait(["ann"])
        last = (await client.status()).last_seq
        async with aclosing(client.follow(0)) as records:
            seen = [await anext(records) for _ in range(last)]
        assert [record.seq for record in seen] == list(range(1, last + 1))
        assert [record for record in seen if isinstance(record.event, SessionEnded)] == []


async def test_a_killed_host_leaves_no_agent_that_seems_live(
    places: Places, environ: dict[str, str]
):
    async with connected(places, environ) as client:
        ann = await client.spawn(
            SpawnOptions(
                options=SessionOptions(cwd="/", model=MODEL), name="ann", prompt="scene:slow"
            )
        )
        await running(client, "ann")
        sent = await client.send("ann", (text("later"),))
        status = await client.status()
        waiting = asyncio.create_task(client.wait(["ann"]))
        await asyncio.sleep(0)
        os.kill(status.pid, signal.SIGKILL)
        with pytest.raises(LinkBrokenError, match="may or may not be done"):
            await waiting
    async with connected(places, environ) as client:
        now = await client.status()
        assert now.pid != status.pid
        assert now.last_seq >= status.last_seq
        info = await client.agent("ann")
        assert (info.session, info.is_live, info.can_resume) == (ann.session, False, True)
        assert info.state in ("failed", "interrupted", "done")
        records = await client.read("ann")
        assert any(getattr(record.event, "message", None) == sent for record in records)
        await client.resume("ann")
        (rested,) = await client.wait(["ann"])
        assert rested.is_live


async def test_sigterm_closes_agents_that_can_be_resumed(places: Places, environ: dict[str, str]):
    async with connected(places, environ) as client:
        await client.spawn(
            SpawnOptions(
                options=SessionOptions(cwd="/", model=MODEL), name="ann", prompt="scene:slow"
            )
        )
        await running(client, "ann")
        os.kill((await client.status()).pid, signal.SIGTERM)
        async with asyncio.timeout(SOON):
            while await is_host_running(places):
                await asyncio.sleep(0.02)
    async with connected(places, environ) as client:
        info = await client.agent("ann")
        assert (info.state, info.can_resume, info.is_live) == ("done", True, False)


async def configure(places: Places, settings: str) -> None:
    def write() -> None:
        places.config_file.parent.mkdir(parents=True, exist_ok=True)
        places.config_file.write_text(settings)

    await asyncio.to_thread(write)


async def test_agents_are_resumed_by_themselves_if_that_is_wished(
    places: Places, environ: dict[str, str]
):
    await configure(places, "[host]\nresume_agents = true\n")
    async with connected(places, environ) as client:
        await client.spawn(
            SpawnOptions(
                options=SessionOptions(cwd="/", model=MODEL), name="ann", prompt="scene:slow"
            )
        )
        await running(client, "ann")
        os.kill((await client.status()).pid, signal.SIGKILL)
    async with connected(places, environ) as client:
        await client.wait(["ann"], timeout=SOON)
        assert (await client.agent("ann")).is_live


async def test_the_host_tells_a_command_of_the_person(
    places: Places, environ: dict[str, str], tmp_path: Path
):
    told = tmp_path / "told"
    command = f"['sh', '-c', 'echo $QUARTERDECK_NOTE_TITLE >> {told}']"
    await configure(places, f"[notifications]\ndelay = 0\ncommand = {command}\n")
    async with connected(places, environ) as client:
        request = SpawnOptions(
            options=SessionOptions(cwd=str(tmp_path), model=MODEL), name="ann", prompt="scene:write"
        )
        await client.spawn(request)
        await client.wait(["ann"])
        while not await asyncio.to_thread(told.exists):
            await asyncio.sleep(0.02)
        (item,) = await client.inbox()
        await client.answer(item.request, "allow_once")
        while len(await asyncio.to_thread(told.read_text)) < len("ann needs you\nann is done\n"):
            await asyncio.sleep(0.02)
    assert await asyncio.to_thread(told.read_text) == "ann needs you\nann is done\n"


async def test_the_host_keeps_secrets_out_of_its_log(places: Places, environ: dict[str, str]):
    secret = environ["SOME_TOKEN"]
    async with connected(places, environ), HostClient.connect(places, name=secret) as client:
        await client.agents()
    await stop_host(places)
    told = await asyncio.to_thread(log_file(places).read_text)
    assert "listens at" in told
    assert "connected" in told
    assert secret not in told


async def test_a_log_that_cannot_be_opened_is_told_to_who_starts(
    places: Places, environ: dict[str, str]
):
    def spoil() -> None:
        places.state.mkdir(parents=True)
        places.journal_file.write_bytes(b"no database at all, " * 100)

    await asyncio.to_thread(spoil)
    from quarterdeck.fleet.errors import HostError

    with pytest.raises(HostError, match=r"(?s)exits right after it starts.*journal"):
        async with connected(places, environ):
            pass


def test_a_host_in_the_foreground_ends_with_its_signal(environ: dict[str, str]):
    with subprocess.Popen(
        [sys.executable, "-m", "quarterdeck", "host", "run", "--idle", "0"],
        env=environ,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stderr is not None
        assert "ready" in child.stderr.readline()
        second = subprocess.run(
            [sys.executable, "-m", "quarterdeck", "host", "run"],
            env=environ,
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert (second.returncode, "already running" in second.stderr) == (1, True)
        child.send_signal(signal.SIGTERM)
        assert child.wait(SOON) == 0
        assert "SIGTERM" in child.stderr.read()


@pytest.mark.stress
async def test_a_host_killed_a_hundred_times_forgets_nothing(
    places: Places, environ: dict[str, str]
):
    acknowledged: list[str] = []
    for number in range(100):
        async with connected(places, environ) as client:
            agents = await client.agents()
            assert not any(agent.is_live for agent in agents)
            assert {agent.name for agent in agents} >= set(acknowledged)
            request = SpawnOptions(
                options=SessionOptions(cwd="/", model=MODEL),
                name=f"a{number}",
                prompt="scene:flood",
            )
            acknowledged.append((await client.spawn(request)).name)
            await asyncio.sleep(number % 10 / 50)
            os.kill((await client.status()).pid, signal.SIGKILL)
