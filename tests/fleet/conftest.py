"""A fleet of its own for each test, and the way to it through a socket."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from quarterdeck.fleet.api import Fleet
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.host.server import FleetServer
from quarterdeck.wire.rpc import ByteStream, connect_unix
from tests.support.memory_fleet import FakeFleet

Connect = Callable[[], AbstractAsyncContextManager[HostClient]]


@pytest.fixture
async def fleet() -> AsyncIterator[FakeFleet]:
    fleet = FakeFleet()
    yield fleet
    await fleet.stop()


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "run" / "host.sock"


@pytest.fixture
async def server(fleet: FakeFleet, socket: Path) -> AsyncIterator[FleetServer]:
    server = FleetServer(fleet, stop=lambda: None)
    async with server.serve(socket):
        yield server


@pytest.fixture
def connect(server: FleetServer, socket: Path) -> Connect:
    @asynccontextmanager
    async def connected() -> AsyncGenerator[HostClient]:
        async def dial() -> ByteStream:
            return await connect_unix(socket)

        client = HostClient.create(dial, "test")
        try:
            yield client
        finally:
            await client.disconnect()

    return connected


@pytest.fixture(params=["in process", "through a socket"])
async def any_fleet(
    request: pytest.FixtureRequest, fleet: FakeFleet, connect: Connect
) -> AsyncIterator[Fleet]:
    """The same fleet, by both ways to it."""
    if request.param == "in process":
        yield fleet
    else:
        async with connect() as client:
            yield client
