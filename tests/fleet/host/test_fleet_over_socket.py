"""What is proved of a fleet in process holds through the socket, by the same tests."""

import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import pytest

from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.host.server import FleetServer
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.journal import Journal
from quarterdeck.wire.rpc import connect_unix
from tests.fleet import test_fleet_inbox, test_local_fleet
from tests.support.scripted_fleet import Casting, fleet_of


class Distant(HostClient):
    """A client that lets a test look at the log of its host."""

    journal: Journal

    @classmethod
    def of(cls, path: Path, fleet: LocalFleet) -> Self:
        client = cls.create(lambda: connect_unix(path))
        client.journal = fleet.journal
        return client


@pytest.fixture
def casting() -> Casting:
    return Casting()


@pytest.fixture
async def fleet(tmp_path: Path, casting: Casting) -> AsyncIterator[Distant]:
    path = tmp_path / "socket" / "s"
    async with (
        fleet_of(tmp_path / "home", casting) as local,
        FleetServer(local, stop=lambda: None).serve(path),
    ):
        client = Distant.of(path, local)
        try:
            yield client
        finally:
            await client.disconnect()


globals().update(
    (name, found)
    for module in (test_local_fleet, test_fleet_inbox)
    for name, found in vars(module).items()
    if name.startswith("test_") and "fleet" in inspect.signature(found).parameters
)
