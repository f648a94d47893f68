"""Terminals of a host that is a process, of agents that run in one, and of an older host."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from quarterdeck.config.places import Places
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import (
    AgentNotReadyError,
    HostError,
    NoHostError,
    NoSuchFleetTerminalError,
)
from quarterdeck.fleet.host.launcher import stop_host
from quarterdeck.fleet.host.methods import HELLO, PROTOCOL, Welcome
from quarterdeck.fleet.host.process import run_host
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.terminals.api import FleetTerminalOptions
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import LinkBrokenError
from quarterdeck.wire.rpc import MethodNotFoundError, Peer, RequestContext, memory_pair
from tests.support.deadlines import SOON
from tests.support.memory_fleet import open_fake
from tests.support.processes import is_running
from tests.support.scripted_fleet import new_agent, places_in
from tests.support.terminal_viewer import Viewer

STUBBORN = ("/bin/sh", "-c", "trap '' HUP TERM; sleep 600 & echo child $!; wait; sleep 600")


@pytest.fixture
async def places() -> AsyncIterator[Places]:
    places = Places.find()
    yield places
    with suppress(NoHostError):
        await stop_host(places, force=True)


@asynccontextmanager
async def connected(places: Places, home: Path) -> AsyncGenerator[HostClient]:
    environ = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "QUARTERDECK_HOME": os.environ["QUARTERDECK_HOME"],
        "SHELL": "/bin/sh",
        "SOME_TOKEN": "very-secret-value",
    }
    async with (
        asyncio.timeout(SOON * 2),
        HostClient.connect(places, start=True, environ=environ) as client,
    ):
        yield client


async def gone(*pids: int) -> None:
    async with asyncio.timeout(SOON):
        while any([await asyncio.to_thread(is_running, pid) for pid in pids]):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_nothing_is_left_of_terminals_when_a_host_is(places: Places, home: Path, how: str):
    async with connected(places, home) as client:
        opened = await client.open_terminal(FleetTerminalOptions(cwd="/", command=STUBBORN))
        async with Viewer(client, opened.id) as viewer:
            await viewer.shows("child ")
            child = int(viewer.text.split()[1])
            if how == "stopped":
                await stop_host(places)
            else:
                os.kill((await client.status()).pid, signal.SIGKILL)
            with pytest.raises(LinkBrokenError, match="the host disconnected"):
                await viewer.until(lambda: False)
    await gone(opened.pid, child)


async def test_a_shell_gets_what_every_child_gets_and_outlives_its_client(
    places: Places, home: Path
):
    async with connected(places, home) as client:
        opened = await client.open_terminal(
            FleetTerminalOptions(cwd=str(home), columns=90, rows=20)
        )
        assert (opened.name, opened.command) == ("sh", ("/bin/sh",))
        pid = (await client.status()).pid
    async with connected(places, home) as client:
        assert (await client.status()).pid == pid
        async with Viewer(client, opened.id) as viewer:
            await client.write_terminal(opened.id, b"echo $((6*7)) $TERM; pwd; stty size\r")
            await viewer.shows(f"42 xterm-256color\n{home}\n20 90")
            await client.write_terminal(opened.id, b"env; echo $((7*7))\r")
            await viewer.shows("\n49\n")
            assert "HOME=" in viewer.text and "very-secret-value" not in viewer.text


async def test_a_host_with_a_terminal_is_not_idle(places: Places):
    hosting = asyncio.create_task(run_host(places, {}, idle_seconds=1, open_fleet=open_fake))
    try:
        async with asyncio.timeout(SOON):
            while True:
                with suppress(NoHostError):
                    async with HostClient.connect(places) as client:
                        wanted = FleetTerminalOptions(cwd="/", command=("/bin/cat",))
                        opened = await client.open_terminal(wanted)
                    break
        await asyncio.sleep(1.2)
        assert not hosting.done()
        async with HostClient.connect(places) as client:
            await client.write_terminal(opened.id, b"\x04")
        assert "no terminal" in await asyncio.wait_for(hosting, SOON)
    finally:
        hosting.cancel()
        await asyncio.wait([hosting])


class OldHost:
    """One that knows how to say hello."""

    async def on_request(self, method: str, params: Raw | None, context: RequestContext) -> Any:
        if method != HELLO.name:
            raise MethodNotFoundError(method)
        return Welcome(version="0", protocol=PROTOCOL, pid=1)

    def on_notification(self, method: str, params: Raw | None) -> None:
        raise MethodNotFoundError(method)


async def test_an_older_host_is_named_as_such():
    ours, theirs = memory_pair()

    async def dial() -> Any:
        return ours

    async with Peer(theirs, OldHost(), name="old"):
        client = HostClient.create(dial, "test")
        with pytest.raises(HostError, match=r"older than this program.*host stop"):
            await client.terminals()
        with pytest.raises(HostError, match="watch_terminal"):
            await anext(client.watch_terminal("x"))
        await client.disconnect()


def describe(home: Path, name: str, *options: str) -> None:
    agents = places_in(home).agents
    agents.mkdir(parents=True, exist_ok=True)
    words = (sys.executable, "-m", "quarterdeck.testing.tui", *options)
    command = ", ".join(f'"{word}"' for word in words)
    (agents / f"{name}.toml").write_text(
        f'[transports.pty]\ncommand = [{command}]\ndialect = "fake"\n'
    )


async def test_an_agent_in_a_terminal_is_seen_and_answered_there(tmp_path: Path):
    describe(tmp_path, "fake")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    async with LocalFleet.open(places_in(tmp_path), environment) as fleet:
        ann = await fleet.spawn(new_agent(tmp_path, "fake", name="ann", transport="pty"))
        await fleet.wait(["ann"], timeout=SOON)
        (info,) = await fleet.terminals()
        assert (info.id, info.name, info.session) == (ann.session, "ann", ann.session)
        async with Viewer(fleet, "ann") as viewer:
            await viewer.shows("ready · fake")
            await fleet.send("ann", (text("ask make"),))
            await viewer.shows("Run this command?")
            await fleet.write_terminal("ann", b"1\r")
            await viewer.shows("allowed")
            with pytest.raises(AgentNotReadyError, match="its size is fixed"):
                await fleet.resize_terminal("ann", 10, 10)
            await fleet.close("ann")
            await viewer.leaves()
        with pytest.raises(NoSuchFleetTerminalError, match="not live"):
            await fleet.write_terminal("ann", b"x")
        assert await fleet.terminals() == []


async def test_an_agent_is_seen_from_its_start_on(tmp_path: Path):
    describe(tmp_path, "fake", "--dialog", "trust")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    async with LocalFleet.open(places_in(tmp_path), environment) as fleet:
        await fleet.spawn(new_agent(tmp_path, "fake", name="ann", transport="pty"))
        async with asyncio.timeout(SOON):
            while not await fleet.terminals():
                await asyncio.sleep(0.005)
        assert (await fleet.agent("ann")).state == "starting"
        async with Viewer(fleet, "ann") as viewer:
            await viewer.shows("trust")
            await viewer.leaves()
        (info,) = await fleet.wait(["ann"], timeout=SOON)
        assert info.state == "failed"
