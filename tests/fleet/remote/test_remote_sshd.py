"""A host behind a real sshd on loopback."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import (
    HostError,
    HostUnreachableError,
    NoHostError,
    RemoteHostError,
)
from quarterdeck.fleet.host.launcher import is_host_running, stop_host
from quarterdeck.fleet.remote.address import parse_address
from quarterdeck.fleet.remote.dialer import RemoteDialer
from quarterdeck.fleet.remote.ssh_client import SshClient
from quarterdeck.wire.errors import QuarterdeckError
from tests.support.deadlines import SOON
from tests.support.leftovers import find_processes
from tests.support.ssh_server import SshServer, missing_programs, start_sshd

pytestmark = pytest.mark.skipif(
    bool(missing_programs()), reason=f"not installed: {missing_programs()}"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with start_sshd(tmp_path_factory.mktemp("sshd") / "s") as server:
        yield server


@pytest.fixture
async def dialer(server: SshServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RemoteDialer]:
    monkeypatch.setenv("PATH", f"{server.programs}:{os.environ['PATH']}")
    dialer = RemoteDialer(parse_address(server.url), Places.find())
    yield dialer
    await dialer.disconnect()


@pytest.fixture
async def there(server: SshServer) -> AsyncIterator[Places]:
    """The places of the host there, which is stopped at the end."""
    places = Places.find({"QUARTERDECK_HOME": str(server.remote_home / "qd")})
    yield places
    with suppress(NoHostError):
        await stop_host(places, force=True)


async def test_a_connection_that_drops_in_the_middle_of_a_stream(
    dialer: RemoteDialer, there: Places, server: SshServer, home: Path
):
    with pytest.raises(NoHostError, match="no host is running on"):
        await dialer.dial()
    assert not await is_host_running(there)
    async with (
        asyncio.timeout(SOON * 2),
        HostClient.connect_remote(dialer, start=True) as client,
        HostClient.connect(there) as beside,
    ):
        options = SpawnOptions.of(
            agent="native", model="scripted/default", cwd=dialer.resolve(None), name="ann"
        )
        info = await client.spawn(options)
        assert info.cwd == str(server.remote_home)
        await beside.wait([info.session])
        dropped = 0
        seen: list[int] = []

        async def write() -> None:
            nonlocal dropped
            for number in range(40):
                await beside.rename(info.session, f"ann{number}")
                if number == 20:
                    dropped += await asyncio.to_thread(server.drop)
            await beside.archive(info.session, archived=True)

        async with aclosing(client.follow(0, patience=SOON)) as records:
            writing = asyncio.create_task(write())
            last = None
            async for record in records:
                seen.append(record.seq)
                if last is None and writing.done():
                    last = (await beside.status()).last_seq
                if last is not None and record.seq >= last:
                    break
            await writing
        assert dropped >= 1
        assert seen == [record.seq for record in await beside.read(None, limit=10_000)]
        # Whoever calls after a drop is connected again.
        await asyncio.to_thread(server.drop)
        with suppress(QuarterdeckError):
            await client.status()
        assert (await client.status()).last_seq >= seen[-1]
    assert await dialer.disconnect()
    assert not [one for one in find_processes([home]).values() if "ssh" in one]
    assert await is_host_running(there)
    assert await dialer.stop(seconds=SOON, force=True)
    assert not await is_host_running(there)


async def test_clients_share_a_connection(
    dialer: RemoteDialer, there: Places, server: SshServer, home: Path
):
    others = [RemoteDialer(parse_address(server.url), Places.find()) for _ in range(2)]
    async with asyncio.timeout(SOON):
        # At once, without a connection and without a host.
        streams = await asyncio.gather(*(one.ensure() for one in (dialer, *others)))
        for stream in streams:
            await stream.close()
        for path in (home / "quarterdeck" / "run").glob("fwd-*"):
            await asyncio.to_thread(path.unlink)
        await (await dialer.dial()).close()
        # The process with the connection is killed: its sockets stay behind, and serve no one.
        client = SshClient(parse_address(server.url), Places.find())
        control = Path(await asyncio.to_thread(client.make_control_path))  # in its command
        (master,) = [pid for pid, one in find_processes([control]).items() if "[mux]" in one]
        os.kill(master, signal.SIGKILL)
        await (await dialer.dial()).close()


async def test_a_machine_without_quarterdeck(
    dialer: RemoteDialer, server: SshServer, there: Places
):
    before = (server.remote_home / ".profile").read_text()
    server.write_profile("/usr/bin:/bin")
    try:
        with pytest.raises(RemoteHostError, match="no program 'quarterdeck' there") as caught:
            await dialer.ensure()
    finally:
        (server.remote_home / ".profile").write_text(before)
    assert caught.value.problem == "program-missing"
    assert not await is_host_running(there)


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("authorized_keys", "", "login-refused"),
        ("known_hosts", "", "key-unknown"),
        ("known_hosts", "[127.0.0.1]:{port} {other}", "key-changed"),
    ],
)
async def test_logins_that_are_refused(
    dialer: RemoteDialer, server: SshServer, file: str, content: str, problem: str
):
    path = server.folder / file
    before = path.read_text()
    other = (server.folder / "key.pub").read_text()
    path.write_text(content.format(port=server.port, other=other))
    try:
        with pytest.raises(RemoteHostError) as caught:
            await dialer.dial()
    finally:
        path.write_text(before)
    assert caught.value.problem == problem, caught.value


async def test_a_machine_that_does_not_answer(dialer: RemoteDialer, server: SshServer):
    nowhere = RemoteDialer(parse_address("ssh://127.0.0.1:1"), Places.find())
    with pytest.raises(HostUnreachableError, match="Connection refused"):
        await nowhere.dial()
    unknown = RemoteDialer(parse_address("ssh://no-such-host.invalid"), Places.find())
    with pytest.raises(HostUnreachableError, match="Could not resolve"):
        await unknown.dial()


async def test_a_server_that_forwards_no_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with start_sshd(tmp_path / "s", "AllowStreamLocalForwarding no") as server:
        monkeypatch.setenv("PATH", f"{server.programs}:{os.environ['PATH']}")
        dialer = RemoteDialer(parse_address(server.url), Places.find())
        try:
            with pytest.raises(HostError, match="AllowStreamLocalForwarding") as caught:
                await dialer.ensure()
            assert getattr(caught.value, "problem", None) == "forwarding-refused"
        finally:
            await dialer.stop(seconds=SOON, force=True)
            await dialer.disconnect()
