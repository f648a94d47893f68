"""A web server on loopback over a fleet in memory, and browsers without a window for tests."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection, connect

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.host.methods import WEB_CLIENT
from quarterdeck.fleet.host.server import FleetServer
from quarterdeck.web.devices import DeviceRole, DeviceStore
from quarterdeck.web.server import WebAddress, WebServerOptions, serve_web
from quarterdeck.wire.rpc import connect_unix

from .deadlines import SOON
from .memory_fleet import FakeFleet

__all__ = ["FakeTab", "WebRig", "serving_web"]


class WebRig:
    """What a test needs of the server."""

    def __init__(
        self, address: WebAddress, fleet: FakeFleet, store: DeviceStore, host: "RestartedHost"
    ) -> None:
        self.url, self.port = address
        self.fleet = fleet
        self.store = store
        self.host = host
        self.clients: list[httpx2.AsyncClient] = []

    def client(self, **headers: str) -> httpx2.AsyncClient:
        """A browser that is not paired; it names the origin of our page."""
        client = httpx2.AsyncClient(
            base_url=self.url, headers={"origin": self.url, **headers}, trust_env=False
        )
        self.clients.append(client)
        return client

    async def paired(
        self, role: DeviceRole = "operator", *, person: str = "ann", name: str = "phone"
    ) -> httpx2.AsyncClient:
        """A browser that has used a pairing code."""
        code = await asyncio.to_thread(self.store.start_pairing, role, person)
        client = self.client()
        answer = await client.post("/api/v1/pair", json={"code": code, "name": name})
        assert answer.status_code == 200, answer.text
        return client

    async def spawn(self, name: str, prompt: str | None = None, agent: str = "native") -> str:
        """An agent; returns its id."""
        options = SpawnOptions.of(agent=agent, cwd="/", name=name, prompt=prompt)
        return (await self.fleet.spawn(options)).session

    @asynccontextmanager
    async def tab(self, client: httpx2.AsyncClient, **options: Any) -> "AsyncGenerator[FakeTab]":
        """A live connection of a paired browser."""
        cookies = "; ".join(f"{one.name}={one.value}" for one in client.cookies.jar)
        address = self.url.replace("http", "ws", 1) + "/api/v1/live"
        headers = {"cookie": cookies, **options.pop("headers", {})}
        options = {"origin": self.url, "proxy": None, "max_size": None, **options}
        async with connect(address, additional_headers=headers, **options) as socket:
            yield FakeTab(socket)


class RestartedHost:
    """The socket of a host over one fleet, which can go away and come back."""

    def __init__(self, fleet: FakeFleet, path: Path) -> None:
        self._fleet = fleet
        self.path = path
        self._open = AsyncExitStack()

    async def start(self) -> None:
        server = FleetServer(self._fleet, stop=lambda: None)
        await self._open.enter_async_context(server.serve(self.path))

    async def stop(self) -> None:
        await self._open.aclose()


class FakeTab:
    """A tab that keeps what it was sent."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.messages: list[dict[str, Any]] = []

    async def send(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def until(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next message that is wanted."""
        async with asyncio.timeout(SOON):
            while True:
                message = json.loads(await self.socket.recv())
                self.messages.append(message)
                if is_wanted(message):
                    return message

    async def of_type(self, type_: str) -> dict[str, Any]:
        """The next message of a type."""
        return await self.until(lambda message: message["type"] == type_)

    async def records_until(self, seq: int) -> list[int]:
        """The sequence numbers of records, up to and including this one."""
        found: list[int] = []
        while not found or found[-1] < seq:
            message = await self.of_type("records")
            found += [record["seq"] for record in message["records"]]
        return found


@asynccontextmanager
async def serving_web(folder: Path, fleet: Any = None, **options: Any) -> AsyncGenerator[WebRig]:
    """A server over a fleet, through a host's socket; without one, over a fleet in memory."""
    places = Places.find({"QUARTERDECK_HOME": str(folder / "home"), "HOME": str(folder)})
    own = FakeFleet()
    fleet = own if fleet is None else fleet
    host = RestartedHost(fleet, folder / "socket" / "s")
    await host.start()
    client = HostClient.create(lambda: connect_unix(host.path), WEB_CLIENT)
    given = WebServerOptions(port=0, **options)
    try:
        async with serve_web(places, given, client) as address:
            rig = WebRig(address, fleet, DeviceStore.of(places), host)
            try:
                yield rig
            finally:
                for one in rig.clients:
                    await one.aclose()
    finally:
        await client.disconnect()
        await host.stop()
        await own.stop()
