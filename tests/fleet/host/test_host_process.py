"""The life of a host, and how clients come by one."""

import asyncio
import os
import signal
import socket as sockets
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import HostError, NoHostError
from quarterdeck.fleet.host.launcher import dial_host, ensure_host, is_host_running, stop_host
from quarterdeck.fleet.host.lock import HostRunningError, lock_file, socket_path
from quarterdeck.fleet.host.process import run_host
from quarterdeck.wire.errors import LinkBrokenError
from quarterdeck.wire.rpc import ByteStream
from quarterdeck.wire.session_options import SessionOptions
from tests.support.deadlines import SOON
from tests.support.memory_fleet import FakeFleet, open_fake

ROOT = Path(__file__).parents[3]
PROGRAM = """
import asyncio, os, sys
from quarterdeck.config.places import Places
from quarterdeck.fleet.host.lock import HostRunningError
from quarterdeck.fleet.host.process import run_host
from quarterdeck.wire.session_options import SessionOptions
from tests.support.memory_fleet import open_fake
try:
    asyncio.run(run_host(Places.find(), dict(os.environ), idle_seconds=20, open_fleet=open_fake))
except HostRunningError:
    sys.exit(0)
"""


@pytest.fixture
def places() -> Places:
    return Places.find()


children: list[subprocess.Popen[bytes]] = []


@pytest.fixture(autouse=True)
def no_child_is_left():
    yield
    while children:
        child = children.pop()
        child.returncode = None
        child.kill()
        child.wait(SOON)


def launch_fake(places: Places, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=dict(environ),
        start_new_session=True,
    )
    children.append(child)
    return child


@asynccontextmanager
async def hosting(places: Places, **options: object) -> AsyncIterator[asyncio.Task[str]]:
    ready = asyncio.Event()
    options = {"open_fleet": open_fake, "ready": ready.set, **options}
    task = asyncio.create_task(run_host(places, {}, **options))  # type: ignore[arg-type]
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait((task, waiting), timeout=SOON, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_client_finds_the_host_and_can_stop_it(places: Places):
    with pytest.raises(NoHostError, match="host start"):
        async with HostClient.connect(places):
            pass
    async with hosting(places) as host:
        async with HostClient.connect(places, name="test") as client:
            assert (await client.status()).clients == 1
            await client.stop_host()
        assert await asyncio.wait_for(host, SOON) == "a client asked"
    assert not await is_host_running(places)
    assert not socket_path(places).exists()


async def test_the_socket_is_found_from_another_runtime_directory(places: Places, tmp_path: Path):
    other = Places(
        config=places.config, state=places.state, cache=places.cache, runtime=tmp_path / "x"
    )
    async with hosting(places), HostClient.connect(other) as client:
        assert await client.agents() == []


async def test_a_second_host_is_refused(places: Places):
    async with hosting(places):
        with pytest.raises(HostRunningError):
            await run_host(places, {}, open_fleet=open_fake)
        async with HostClient.connect(places) as client:
            assert await client.agents() == []


async def test_a_socket_that_nobody_listens_at_is_replaced(places: Places):
    path = socket_path(places)
    path.parent.mkdir(parents=True)
    with sockets.socket(sockets.AF_UNIX) as stale:
        stale.bind(str(path))
    with pytest.raises(NoHostError):
        await dial_host(places)
    async with hosting(places), HostClient.connect(places) as client:
        assert await client.agents() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_closes_agents_in_good_order(places: Places, number: signal.Signals):
    opened: list[FakeFleet] = []

    @asynccontextmanager
    async def opening(*_: object) -> AsyncIterator[FakeFleet]:
        async with open_fake() as fleet:
            opened.append(fleet)
            yield fleet

    async with hosting(places, open_fleet=opening) as host:
        async with HostClient.connect(places) as client:
            await client.spawn(
                SpawnOptions(options=SessionOptions(cwd="/"), name="ann", prompt="work")
            )
        os.kill(os.getpid(), number)
        assert number.name in await asyncio.wait_for(host, SOON)
    (info,) = await opened[0].agents()
    assert (opened[0].closed, info.state, info.can_resume) == (True, "done", True)


async def test_an_idle_host_leaves_and_a_used_one_stays(places: Places):
    async with hosting(places, idle_seconds=1) as host:
        async with HostClient.connect(places) as client:
            await asyncio.sleep(1.2)
            assert not host.done()
            await client.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann"))
        await asyncio.sleep(1.2)
        assert not host.done()
        async with HostClient.connect(places) as client:
            await client.close("ann")
        assert "no client" in await asyncio.wait_for(host, SOON)


async def test_a_host_whose_lock_was_removed_makes_room(places: Places):
    async with hosting(places) as host:
        await asyncio.to_thread(lock_file(places).unlink)
        assert "was removed" in await asyncio.wait_for(host, SOON)


async def test_a_host_is_started_once_however_many_want_it(places: Places):
    await race(places, 8)


@pytest.mark.stress
async def test_a_hundred_races_have_one_host_each(places: Places):
    for _ in range(100):
        await race(places, 6)


async def race(places: Places, count: int) -> None:
    async def one() -> int:
        async with starting(places) as client:
            return (await client.status()).pid

    pids = await asyncio.gather(*(one() for _ in range(count)))
    assert len(set(pids)) == 1
    assert await stop_host(places) == pids[0]
    for child in children:
        child.returncode = None
        await asyncio.to_thread(end, child)
    children.clear()
    assert not await is_host_running(places)


def end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    child.wait(SOON)


@asynccontextmanager
async def starting(places: Places) -> AsyncIterator[HostClient]:
    client = HostClient.create(lambda: dial_host(places))
    try:
        await client.reach(lambda: ensure_host(places, os.environ, launcher=launch_fake))
        yield client
    finally:
        await client.disconnect()


async def test_a_host_that_was_killed_is_replaced_when_one_is_wanted(places: Places):
    async with starting(places) as client:
        first = (await client.status()).pid
        os.kill(first, signal.SIGKILL)
        with pytest.raises((LinkBrokenError, NoHostError)):
            while True:
                await client.status()
        with pytest.raises(NoHostError):  # who merely looks starts none
            await client.status()
        await client.reach(lambda: ensure_host(places, os.environ, launcher=launch_fake))
        assert (await client.status()).pid != first
    await stop_host(places)


async def test_a_host_that_cannot_start_is_told_with_its_last_words(places: Places):
    places.state.mkdir(parents=True)
    places.journal_file.with_name("host.lock").mkdir()

    def launch_broken(places: Places, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        places.logs.mkdir(exist_ok=True)
        with (places.logs / "host.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", "print('no room aboard'); raise SystemExit(1)"], stdout=log
            )

    places.journal_file.with_name("host.lock").rmdir()
    with pytest.raises(HostError, match=r"(?s)exits right after it starts.*no room aboard"):
        await ensure_host(places, {}, launcher=launch_broken, timeout=SOON)


async def test_a_host_that_does_not_listen_yet_is_stopped_too(
    places: Places, monkeypatch: pytest.MonkeyPatch
):
    async with starting(places) as client:
        pid = (await client.status()).pid
    misses = iter([NoHostError("not yet"), NoHostError("nor now")])

    async def dial_late(places: Places) -> ByteStream:
        for miss in misses:
            raise miss
        return await dial_host(places)

    monkeypatch.setattr("quarterdeck.fleet.host.launcher.dial_host", dial_late)
    assert await stop_host(places) == pid
    assert not await is_host_running(places)


async def test_a_host_that_hangs_is_killed_by_force(places: Places):
    async with starting(places) as client:
        pid = (await client.status()).pid
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(HostError, match="--force"):
            await stop_host(places, timeout=0.2)
        assert await stop_host(places, timeout=0.2, force=True) == pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not await is_host_running(places)
