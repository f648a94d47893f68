"""A connection to another machine that drops: nothing is lost, nothing comes twice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import pytest

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import HostUnreachableError, RemoteHostError
from quarterdeck.fleet.host.server import FleetServer
from quarterdeck.fleet.remote.address import parse_address
from quarterdeck.fleet.remote.dialer import RemoteDialer
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import LinkBrokenError
from quarterdeck.wire.rpc import ByteStream, connect_unix, serve_unix
from quarterdeck.wire.tasks import race_tasks
from tests.support.deadlines import SOON
from tests.support.memory_fleet import FakeFleet, open_fake
from tests.support.scripted_ssh import ScriptedSsh


class Wire:
    """Carries bytes to the host's socket until it is cut."""

    def __init__(self, host: Path) -> None:
        self._host = host
        self._cut = asyncio.Event()
        self.connections = 0

    async def carry(self, client: ByteStream) -> None:
        self.connections += 1
        host = await connect_unix(self._host)
        try:
            await race_tasks(_copy(client, host), _copy(host, client), self._cut.wait())
        finally:
            await host.close()

    def cut(self) -> None:
        """End all that is carried now; what comes later is carried again."""
        self._cut.set()
        self._cut = asyncio.Event()


async def _copy(source: ByteStream, target: ByteStream) -> None:
    while data := await source.receive():
        await target.send(data)


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedSsh:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return ScriptedSsh(tmp_path / "bin")


@pytest.fixture
async def fleet() -> AsyncIterator[FakeFleet]:
    async with open_fake() as fleet:
        yield fleet


@pytest.fixture
async def wire(tmp_path: Path, fleet: FakeFleet, ssh: ScriptedSsh) -> AsyncIterator[Wire]:
    there = tmp_path / "there"
    wire = Wire(there / "s")
    there.mkdir(mode=0o700)
    async with (
        FleetServer(cast("Any", fleet), stop=lambda: None).serve(there / "s"),
        serve_unix(tmp_path / "w", wire.carry),
    ):
        ssh.report(tmp_path / "w")
        yield wire


@pytest.fixture
async def client(wire: Wire) -> AsyncIterator[HostClient]:
    dialer = RemoteDialer(parse_address("ssh://box"), Places.find())
    async with asyncio.timeout(SOON), HostClient.connect_remote(dialer) as client:
        yield client


async def test_a_stream_goes_on_after_drops(client: HostClient, fleet: FakeFleet, wire: Wire):
    info = await client.spawn(SpawnOptions.of(agent="fake", cwd="/", name="ann"))
    seen: list[int] = []
    rounds = 4

    async def follow() -> None:
        async with aclosing(client.follow(0, patience=SOON)) as records:
            async for record in records:
                seen.append(record.seq)
                if record.seq == len(fleet.records) and written.is_set():
                    return

    async def write() -> None:
        for number in range(rounds):
            for word in range(30):
                await fleet.send(info.session, (text(f"say {number} {word}"),))
                await fleet.wait([info.session])
                if word == 15:
                    wire.cut()
        written.set()
        await fleet.send(info.session, (text("say last"),))

    written = asyncio.Event()
    async with asyncio.timeout(SOON):
        await asyncio.gather(follow(), write())
    assert seen == [record.seq for record in fleet.records]
    assert wire.connections > 2


async def test_a_network_that_is_away_is_waited_for(
    client: HostClient, fleet: FakeFleet, wire: Wire, ssh: ScriptedSsh, tmp_path: Path
):
    await client.spawn(SpawnOptions.of(agent="fake", cwd="/", name="ann"))
    async with aclosing(client.follow(0, patience=SOON)) as records:
        assert (await anext(records)).seq == 1
        ssh.step("report", errors="ssh: connect to host box: No route to host\n", code=255)
        before = len(ssh.calls())
        wire.cut()

        async def come_back() -> None:
            while len(ssh.calls()) < before + 2:  # it was tried in vain
                await asyncio.sleep(0.01)
            ssh.report(tmp_path / "w")

        last = fleet.records[-1].seq
        coming = asyncio.create_task(come_back())
        found = [1]
        while found[-1] < last:
            found.append((await anext(records)).seq)
        await fleet.spawn(SpawnOptions.of(agent="fake", cwd="/", name="bob"))
        found.append((await anext(records)).seq)
        await coming
    assert found == list(range(1, len(found) + 1))


async def test_a_login_that_is_refused_meanwhile_ends_the_waiting(
    client: HostClient, wire: Wire, ssh: ScriptedSsh
):
    await client.spawn(SpawnOptions.of(agent="fake", cwd="/", name="ann"))
    async with aclosing(client.follow(patience=SOON)) as records:
        following = asyncio.create_task(anext(records))
        ssh.step("report", errors="Permission denied (publickey).\n", code=255)
        await asyncio.sleep(0)
        wire.cut()
        with pytest.raises(RemoteHostError, match="refuses your key"):
            await following


async def test_calls_after_a_drop_connect_again_and_start_no_host(
    client: HostClient, wire: Wire, ssh: ScriptedSsh, tmp_path: Path
):
    await client.spawn(SpawnOptions.of(agent="fake", cwd="/", name="ann", prompt="work"))
    working = asyncio.create_task(client.wait(["ann"]))
    assert (await client.agent("ann")).state == "running"
    wire.cut()
    with pytest.raises(LinkBrokenError, match="may or may not be done"):
        await working
    assert [one.name for one in await client.agents()] == ["ann"]
    ssh.step("report", errors="ssh: connect to host box: Connection refused\n", code=255)
    wire.cut()
    while True:
        try:
            await client.agents()
        except LinkBrokenError:
            continue  # it notices the cut only now
        except HostUnreachableError:
            break
    ssh.report(tmp_path / "w")
    assert [one.name for one in await client.agents()] == ["ann"]
    assert not any("--start" in call["words"][-1] for call in ssh.calls())
