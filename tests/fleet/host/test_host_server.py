"""Many clients at one socket: none can hurt another, or the fleet."""

import asyncio
import inspect
import json
import os
import stat
import struct
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

from quarterdeck.fleet.api import Fleet, SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.connection import HostConnection
from quarterdeck.fleet.errors import HostError, HostVersionError, NoHostError
from quarterdeck.fleet.host.client_handler import WINDOW
from quarterdeck.fleet.host.methods import (
    ATTACH_SCREEN,
    DETACH_SCREEN,
    FOLLOW,
    HELLO,
    PROTOCOL,
    READ,
    SCREEN_ACTIVE,
    STOP,
    UNFOLLOW,
    WATCH_TERMINAL,
    find_request,
    fleet_request,
)
from quarterdeck.fleet.host.peer_credentials import PeerCredentials, read_peer_credentials
from quarterdeck.fleet.host.server import FleetServer
from quarterdeck.fleet.method import FLEET_METHODS
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import LinkBrokenError, LinkClosedError
from quarterdeck.wire.events import MessageChunk
from quarterdeck.wire.rpc import ByteStream, connect_unix
from quarterdeck.wire.session_options import SessionOptions
from tests.support.deadlines import SOON
from tests.support.memory_fleet import FakeFleet

OWN = (READ.name, FOLLOW.name, ATTACH_SCREEN.name, WATCH_TERMINAL.name)
ABOUT_A_CLIENT = (
    *(HELLO, STOP, FOLLOW, UNFOLLOW, READ),
    *(ATTACH_SCREEN, DETACH_SCREEN, SCREEN_ACTIVE, WATCH_TERMINAL),
)
CALLS = {f"fleet/{name}": fleet_request(name) for name in FLEET_METHODS}
FIXTURES = Path(__file__).parents[2] / "fixtures" / "fleet"


class Line:
    """A client that writes what it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, path: Path, limit: int = 2**20) -> "Line":
        return cls(*await asyncio.open_unix_connection(path, limit=limit))

    async def say(self, line: bytes) -> Any:
        self.writer.write(line + b"\n")
        return json.loads(await self.reader.readline())

    async def ask(self, method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.say(json.dumps(message).encode())

    async def hello(self, protocol: int = PROTOCOL) -> Any:
        return await self.ask(HELLO.name, version="0", protocol=protocol)

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


@pytest.fixture
async def line(server: FleetServer, socket: Path):
    line = await Line.connect(socket)
    yield line
    await line.close()


async def until(condition: Any) -> None:
    async with asyncio.timeout(SOON):
        while not condition():
            await asyncio.sleep(0.005)


def test_every_method_of_a_fleet_can_be_called():
    parts = [one for one in Fleet.__mro__ if one.__module__.startswith("quarterdeck.")]
    wanted = {name for part in parts for name in vars(part) if not name.startswith("_")}
    assert {name.partition("/")[2] for name in (*CALLS, *OWN)} == wanted


def test_a_method_is_found_by_its_name_on_the_socket_and_made_once():
    found = find_request("fleet/spawn")
    assert found is not None
    assert found is fleet_request("spawn")
    for name in ("spawn", "host/spawn", "fleet/", "fleet/read", "fleet/__class__", "fleet/spawn/x"):
        assert find_request(name) is None


def test_a_client_has_every_method_with_the_signature_of_the_fleet():
    for name, method in FLEET_METHODS.items():
        assert inspect.signature(getattr(HostClient, name)) == inspect.signature(method.declaration)
    client = HostClient.create(lambda: connect_unix(Path("/nowhere")))
    for arguments in ((), (1, 2)):
        with pytest.raises(TypeError):
            _ = client.call("spawn", *arguments)


def test_the_methods_are_those_of_their_version():
    """What is new goes into the file; what an older program would misunderstand needs a new one."""
    told = {
        method.name: {
            "required": [f.name for f in fields(method.params) if f.required],
            "optional": [f.name for f in fields(method.params) if not f.required],
        }
        for method in (*ABOUT_A_CLIENT, *CALLS.values())
    }
    golden = FIXTURES / f"methods-v{PROTOCOL}.json"
    assert told == json.loads(golden.read_text())


def test_the_page_names_every_method():
    page = (FIXTURES.parents[2] / "docs/fleet.md").read_text()
    told = (*(method.name for method in ABOUT_A_CLIENT), *CALLS)
    assert [name for name in told if f"`{name}`" not in page] == []


async def test_only_the_user_can_reach_the_socket(server: FleetServer, socket: Path):
    modes = [stat.S_IMODE(os.stat(path).st_mode) for path in (socket, socket.parent)]  # noqa: PTH116
    assert modes == [0o600, 0o700]


async def test_the_system_says_who_is_there(server: FleetServer, socket: Path):
    stream = await connect_unix(socket)
    assert read_peer_credentials(stream) == PeerCredentials(uid=os.getuid(), pid=os.getpid())
    await stream.close()


def test_macos_says_who_is_there_in_its_own_way():
    class Socket:
        def getsockopt(self, level: int, option: int, size: int = 0) -> bytes | int:
            if option == 2:
                return 4321
            return struct.pack("=IIh2x16I", 0, 501, 1, *range(16))[:size]

    class Stream:
        def extra_info(self, name: str) -> object:
            return Socket()

    assert read_peer_credentials(Stream(), "darwin") == PeerCredentials(uid=501, pid=4321)


async def test_another_user_is_sent_away(fleet: FakeFleet, socket: Path):
    def stranger(stream: ByteStream) -> PeerCredentials:
        return PeerCredentials(uid=os.getuid() + 1)

    server = FleetServer(fleet, stop=lambda: None, credentials=stranger)
    async with server.serve(socket):
        line = await Line.connect(socket)
        assert await asyncio.wait_for(line.reader.read(), SOON) == b""
        await line.close()


async def test_who_cannot_be_told_is_sent_away(fleet: FakeFleet, socket: Path):
    def unknown(stream: ByteStream) -> PeerCredentials:
        raise LinkBrokenError("nobody knows")

    server = FleetServer(fleet, stop=lambda: None, credentials=unknown)
    async with server.serve(socket):
        line = await Line.connect(socket)
        assert await asyncio.wait_for(line.reader.read(), SOON) == b""
        await line.close()


async def test_garbage_gets_an_error_and_hurts_nobody(line: Line, connect: Any):
    assert (await line.say(b"GET / HTTP/1.1"))["error"]["code"] == -32700
    assert (await line.say(b"[]"))["error"]["code"] == -32600
    assert "host/hello" in (await line.ask("fleet/agents"))["error"]["message"]
    assert (await line.hello())["result"]["protocol"] == PROTOCOL
    assert (await line.ask("fleet/nothing"))["error"]["code"] == -32601
    wrong = await line.ask("fleet/agents", archive=True)
    assert (wrong["error"]["code"], "archive" in wrong["error"]["message"]) == (-32602, True)
    assert (await line.ask("fleet/spawn", request={"name": 1}))["error"]["code"] == -32602
    async with connect() as client:
        assert await client.agents() == []


async def test_who_says_nothing_is_sent_away(fleet: FakeFleet, socket: Path):
    server = FleetServer(fleet, stop=lambda: None, greeting_seconds=0.05)
    async with server.serve(socket):
        line = await Line.connect(socket)
        assert await asyncio.wait_for(line.reader.read(), SOON) == b""
        await line.close()
        await until(lambda: server.clients == 0)


async def test_another_version_is_told_so(line: Line):
    refused = await line.hello(protocol=PROTOCOL + 1)
    assert refused["error"]["data"]["error"] == "HostVersionError"
    assert "quarterdeck host stop" in refused["error"]["message"]
    assert "host/hello" in (await line.ask("fleet/agents"))["error"]["message"]


async def test_a_client_raises_what_a_host_of_another_version_says(tmp_path: Path):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(await reader.readline())
        result = {"version": "9.9", "protocol": 99, "pid": 1}
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
        writer.write(json.dumps(answer).encode() + b"\n")
        await reader.read()
        writer.close()

    path = tmp_path / "s"
    async with await asyncio.start_unix_server(serve, path):
        client = HostClient.create(lambda: connect_unix(path))
        with pytest.raises(HostVersionError, match=r"9\.9 \(protocol 99\)"):
            await client.agents()
        await client.disconnect()


async def test_a_host_that_hangs_is_told_and_not_waited_for(tmp_path: Path):
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    path = tmp_path / "s"
    async with await asyncio.start_unix_server(hang, path):
        link = HostConnection(await connect_unix(path), "test", hello_seconds=0.05)
        with pytest.raises(HostError, match="--force"):
            await link.__aenter__()


async def test_two_clients_see_the_same(connect: Any):
    async with connect() as one, connect() as two:
        await one.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann", prompt="ask"))
        (item,) = await two.inbox()
        assert (await one.status()).clients == 2
        answers = await asyncio.gather(
            one.answer(item.request, "allow_once"), two.answer(item.request, "reject_once")
        )
        assert sorted(answers) == [False, True]
        assert await one.inbox() == await two.inbox() == []
        last = (await one.status()).last_seq
        async with asyncio.timeout(SOON), aclosing(two.follow(0)) as records:
            assert [(await anext(records)).seq for _ in range(last)] == list(range(1, last + 1))


async def test_a_client_that_goes_in_the_middle_ends_nothing(
    fleet: FakeFleet, server: FleetServer, socket: Path, connect: Any
):
    fleet.spawn_gate.clear()
    line = await Line.connect(socket)
    await line.hello()
    request = {"options": {"cwd": "/"}, "name": "ann", "prompt": "work"}
    asked = {"jsonrpc": "2.0", "id": 2, "method": "fleet/spawn", "params": {"request": request}}
    line.writer.write(json.dumps(asked).encode() + b"\n")
    await line.ask("fleet/agents")
    line.writer.transport.abort()
    await line.close()
    await until(lambda: server.clients == 0)
    fleet.spawn_gate.set()
    async with connect() as client:
        while not await client.agents():
            await asyncio.sleep(0.005)
        assert (await client.agent("ann")).state == "running"


async def test_who_does_not_read_holds_back_itself_alone(
    fleet: FakeFleet, server: FleetServer, socket: Path, connect: Any
):
    lazy = await Line.connect(socket, limit=2**16)
    await lazy.hello()
    await lazy.ask("fleet/follow", after=0)
    async with connect() as client:
        await client.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann"))
        for _ in range(60):
            await client.send("ann", (text("big 200000"),))
        last = (await client.status()).last_seq
        async with asyncio.timeout(SOON), aclosing(client.follow(0)) as records:
            seen = [(await anext(records)).seq for _ in range(last)]
    assert seen == list(range(1, last + 1))

    async def batches(count: int) -> int:
        async with asyncio.timeout(SOON):
            received = b""
            while received.count(b"\n") < count:
                received += await lazy.reader.read(2**16)
        return len(received)

    assert await batches(WINDOW) < 4_000_000  # of twelve
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lazy.reader.read(1), 0.1)
    taken = {"jsonrpc": "2.0", "method": "fleet/taken", "params": {"subscription": 1}}
    lazy.writer.write(json.dumps(taken).encode() + b"\n")
    assert await batches(1) > 100_000
    lazy.writer.transport.abort()
    await lazy.close()


async def test_a_follower_that_calls_while_much_waits_does_not_hang(connect: Any):
    async with connect() as client:
        await client.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann"))
        seen = 0
        async with asyncio.timeout(SOON), aclosing(client.follow(0)) as records:
            await anext(records)
            for _ in range(50):
                await client.send("ann", (text("big 100000"),))
            async for record in records:
                await client.agent("ann")
                seen += isinstance(record.event, MessageChunk)
                if seen == 50:
                    break


async def test_following_ends_when_it_is_no_longer_wanted(connect: Any, server: FleetServer):
    def subscriptions() -> list[str]:
        return [t.get_name() for t in asyncio.all_tasks() if "subscription" in t.get_name()]

    async with connect() as client:
        await client.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann"))
        for _ in range(3):
            async with aclosing(client.follow(0)) as records:
                await anext(records)
        await until(lambda: not subscriptions())


async def test_calls_fail_when_the_host_goes_and_work_when_it_is_back(
    fleet: FakeFleet, socket: Path
):
    async def dial() -> ByteStream:
        try:
            return await connect_unix(socket)
        except LinkBrokenError as error:
            raise NoHostError("none") from error

    client = HostClient.create(dial)
    await fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann", prompt="work"))
    async with FleetServer(fleet, stop=lambda: None).serve(socket):
        waiting = asyncio.create_task(client.wait(["ann"]))
        following = asyncio.create_task(anext(client.follow()))
        lasting = client.follow(0, patience=SOON)
        first = [(await anext(lasting)).seq for _ in range(3)]
        await asyncio.sleep(0.05)
    with pytest.raises(LinkBrokenError, match="the host disconnected"):
        await waiting
    with pytest.raises(LinkBrokenError, match="the host disconnected"):
        await following
    with pytest.raises(NoHostError):
        await client.agents()
    await fleet.interrupt("ann")
    async with FleetServer(fleet, stop=lambda: None).serve(socket):
        assert len(await client.agents()) == 1
        async with asyncio.timeout(SOON):
            rest = [(await anext(lasting)).seq for _ in range(len(fleet.records) - 3)]
        assert first + rest == list(range(1, len(fleet.records) + 1))
        await lasting.aclose()
        await client.disconnect()
    with pytest.raises(LinkClosedError):
        await client.agents()


async def test_fifty_busy_agents_reach_three_clients_whole(fleet: FakeFleet, connect: Any):
    sessions = [
        (await fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name=f"a{n}"))).session
        for n in range(50)
    ]
    total = len(fleet.records) + 50 * 20

    async def look(client: HostClient) -> list[int]:
        async with aclosing(client.follow(0)) as records:
            return [(await anext(records)).seq for _ in range(total)]

    async with connect() as one, connect() as two, connect() as three:
        looking = asyncio.gather(*(look(client) for client in (one, two, three)))
        for number in range(20):
            for session in sessions:
                await fleet.append(session, MessageChunk(content=text(f"{number}")))
        async with asyncio.timeout(SOON):
            assert await looking == [list(range(1, total + 1))] * 3
