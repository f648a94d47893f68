"""Screens: calls reach the right workbench, and whatever it does harms nobody."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.fleet import attached_workbenches as bounds
from quarterdeck.fleet.api import Fleet, SpawnOptions
from quarterdeck.fleet.attached_workbenches import AttachedWorkbenches
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import (
    FleetLimitError,
    NoWorkbenchError,
    WorkbenchCallError,
    WorkbenchGoneError,
    WorkbenchRefusedError,
    WorkbenchTimeoutError,
)
from quarterdeck.fleet.host.client_handler import MOST_PER_CLIENT
from quarterdeck.fleet.host.server import FleetServer
from quarterdeck.wire.rpc import ByteStream, connect_unix
from quarterdeck.wire.session_options import SessionOptions
from tests.support.deadlines import SOON
from tests.support.memory_fleet import FakeFleet


class Played:
    """A screen that notes its calls and answers as told."""

    def __init__(self, name: str = "screen", answer: Any = None) -> None:
        self.answer = {"screen": name} if answer is None else answer
        self.calls: list[tuple[str, dict[str, Any], str]] = []
        self.begun = asyncio.Event()
        self.hold: asyncio.Event | None = None
        self.error: Exception | None = None
        self.given_up = asyncio.Event()

    async def __call__(self, name: str, arguments: dict[str, Any], by: str) -> Any:
        self.calls.append((name, arguments, by))
        self.begun.set()
        try:
            if self.hold is not None:
                await self.hold.wait()
        except asyncio.CancelledError:
            self.given_up.set()
            raise
        if self.error is not None:
            raise self.error
        return self.answer


async def test_a_call_is_carried_out_and_answered(any_fleet: Fleet, tmp_path: Path):
    screen = Played(answer={"tabs": ["one"], "n": 1})
    async with any_fleet.attach_screen(screen, cwd=str(tmp_path)):
        told = await any_fleet.call_screen("get_layout", {"deep": {"a": [1, None]}}, by="boss")
    assert told == {"tabs": ["one"], "n": 1}
    assert screen.calls == [("get_layout", {"deep": {"a": [1, None]}}, "boss")]


async def test_without_a_screen_the_error_says_what_to_do(any_fleet: Fleet, tmp_path: Path):
    with pytest.raises(NoWorkbenchError, match="no workbench is open"):
        await any_fleet.call_screen("get_layout", {})
    async with any_fleet.attach_screen(Played(), cwd=str(tmp_path)):
        pass
    with pytest.raises(NoWorkbenchError):
        await any_fleet.call_screen("get_layout", {})


async def test_the_screen_that_was_used_last_is_called(any_fleet: Fleet, tmp_path: Path):
    one, two = Played("one"), Played("two")
    async with (
        any_fleet.attach_screen(one, cwd=str(tmp_path)) as first,
        any_fleet.attach_screen(two, cwd=str(tmp_path)),
    ):
        assert await any_fleet.call_screen("x", {}) == {"screen": "two"}
        await first.active()
        assert await any_fleet.call_screen("x", {}) == {"screen": "one"}
        async with any_fleet.attach_screen(Played("three"), cwd=str(tmp_path), idle=3_600):
            assert await any_fleet.call_screen("x", {}) == {"screen": "one"}


async def test_a_screen_about_the_agents_directory_comes_first(any_fleet: Fleet, tmp_path: Path):
    project, other = tmp_path / "project", tmp_path / "other"
    (project / "part").mkdir(parents=True)
    other.mkdir()
    (tmp_path / "link").symlink_to(project)
    ann = await any_fleet.spawn(
        SpawnOptions(options=SessionOptions(cwd=str(project / "part")), name="ann")
    )
    async with (
        any_fleet.attach_screen(Played("project"), cwd=str(tmp_path / "link")) as about,
        any_fleet.attach_screen(Played("other"), cwd=str(other)),
    ):
        assert await any_fleet.call_screen("x", {}) == {"screen": "other"}
        assert await any_fleet.call_screen("x", {}, by=ann.session) == {"screen": "project"}
        await about.active(str(tmp_path / "elsewhere"))
        async with any_fleet.attach_screen(Played("last"), cwd=str(other)):
            assert await any_fleet.call_screen("x", {}, by=ann.session) == {"screen": "last"}


async def test_a_refusal_is_told_in_the_screens_words(any_fleet: Fleet, tmp_path: Path):
    screen = Played()
    async with any_fleet.attach_screen(screen, cwd=str(tmp_path)):
        screen.error = ValueError("there is no tab 'x'; yours are 'a'")
        with pytest.raises(WorkbenchRefusedError, match="no tab 'x'"):
            await any_fleet.call_screen("focus", {})
        screen.error = RuntimeError("a bug")
        with pytest.raises(WorkbenchCallError, match=r"a bug|internal"):
            await any_fleet.call_screen("focus", {})
        screen.error = None
        assert await any_fleet.call_screen("focus", {}) == {"screen": "screen"}


async def test_a_slow_screen_is_told_to_leave_it(
    any_fleet: Fleet, fleet: FakeFleet, tmp_path: Path
):
    fleet.screens = AttachedWorkbenches(seconds=0.05)
    screen = Played()
    screen.hold = asyncio.Event()
    async with asyncio.timeout(SOON), any_fleet.attach_screen(screen, cwd=str(tmp_path)):
        with pytest.raises(WorkbenchTimeoutError, match="'set_layout' within"):
            await any_fleet.call_screen("set_layout", {})
        await screen.given_up.wait()


async def test_a_screen_that_goes_away_fails_its_calls(any_fleet: Fleet, tmp_path: Path):
    screen = Played()
    screen.hold = asyncio.Event()
    async with asyncio.timeout(SOON):
        async with any_fleet.attach_screen(screen, cwd=str(tmp_path)):
            calling = asyncio.ensure_future(any_fleet.call_screen("set_layout", {}))
            await screen.begun.wait()
        with pytest.raises(WorkbenchGoneError, match="may or may not be done"):
            await calling
        await screen.given_up.wait()


async def test_a_caller_that_goes_away_takes_its_call_with_it(any_fleet: Fleet, tmp_path: Path):
    screen = Played()
    screen.hold = asyncio.Event()
    async with asyncio.timeout(SOON), any_fleet.attach_screen(screen, cwd=str(tmp_path)):
        calling = asyncio.ensure_future(any_fleet.call_screen("set_layout", {}))
        await screen.begun.wait()
        calling.cancel()
        await screen.given_up.wait()
        with pytest.raises(asyncio.CancelledError):
            await calling


@pytest.mark.parametrize("answer", ["x" * (bounds.MOST_BYTES + 1), object(), {1, object()}])
async def test_an_answer_that_cannot_be_used_is_an_error(
    any_fleet: Fleet, tmp_path: Path, answer: Any
):
    async with any_fleet.attach_screen(Played(answer=answer), cwd=str(tmp_path)):
        with pytest.raises(WorkbenchCallError):
            await any_fleet.call_screen("get_layout", {})


async def test_a_nest_of_answers_is_an_error(any_fleet: Fleet, tmp_path: Path):
    nest: list[Any] = []
    for _ in range(100_000):
        nest = [nest]
    async with any_fleet.attach_screen(Played(answer=nest), cwd=str(tmp_path)):
        with pytest.raises(WorkbenchCallError):
            await any_fleet.call_screen("get_layout", {})


async def test_arguments_are_bounded(any_fleet: Fleet, tmp_path: Path):
    screen = Played()
    async with any_fleet.attach_screen(screen, cwd=str(tmp_path)):
        with pytest.raises(WorkbenchCallError, match="the limit is"):
            await any_fleet.call_screen("x", {"source": "x" * (bounds.MOST_BYTES + 1)})
    assert screen.calls == []


async def test_calls_and_screens_are_bounded(fleet: FakeFleet, connect: Any, tmp_path: Path):
    screen = Played()
    screen.hold = asyncio.Event()
    async with connect() as client, client.attach_screen(screen, cwd=str(tmp_path)):
        calls = [
            asyncio.ensure_future(client.call_screen("x", {})) for _ in range(bounds.MOST_WAITING)
        ]
        async with asyncio.timeout(SOON):
            while len(screen.calls) < bounds.MOST_WAITING:
                await asyncio.sleep(0.005)
            with pytest.raises(WorkbenchCallError, match="wait for some"):
                await client.call_screen("x", {})
            screen.hold.set()
            assert await asyncio.gather(*calls) == [screen.answer] * len(calls)
        async with AsyncExitStack() as stack:
            for _ in range(MOST_PER_CLIENT - 1):
                await stack.enter_async_context(client.attach_screen(screen, cwd="/"))
            with pytest.raises(FleetLimitError, match=r"workbenches at a time"):
                await stack.enter_async_context(client.attach_screen(screen, cwd="/"))
    async with AsyncExitStack() as stack:
        for _ in range(bounds.MOST_SCREENS):
            await stack.enter_async_context(fleet.attach_screen(screen, cwd="/"))
        with pytest.raises(FleetLimitError):
            await stack.enter_async_context(fleet.attach_screen(screen, cwd="/"))
    assert len(fleet.screens) == 0


async def test_a_client_that_dies_during_a_call_is_gone(
    fleet: FakeFleet, connect: Any, socket: Path, server: FleetServer, tmp_path: Path
):
    streams: list[ByteStream] = []

    async def dial() -> ByteStream:
        streams.append(await connect_unix(socket))
        return streams[-1]

    bench, screen = HostClient.create(dial, "workbench"), Played()
    screen.hold = asyncio.Event()
    async with asyncio.timeout(SOON), connect() as lead:
        async with bench.attach_screen(screen, cwd=str(tmp_path)):
            calling = asyncio.ensure_future(lead.call_screen("set_layout", {}))
            await screen.begun.wait()
            await streams[0].close()
            with pytest.raises(WorkbenchGoneError):
                await calling
            assert len(fleet.screens) == 0
            # With the next connection it is there again, without being asked to.
            screen.hold.set()
            await bench.status()
            assert len(streams) == 2
            assert await lead.call_screen("get_layout", {}) == screen.answer
        assert len(fleet.screens) == 0
        await bench.disconnect()


async def test_a_host_that_comes_back_learns_which_screen_was_used_last(
    fleet: FakeFleet, socket: Path, tmp_path: Path
):
    async def dial() -> ByteStream:
        return await connect_unix(socket)

    used, unused = HostClient.create(dial, "used"), HostClient.create(dial, "unused")
    async with asyncio.timeout(SOON), AsyncExitStack() as stack:
        async with FleetServer(fleet, stop=lambda: None).serve(socket):
            one = await stack.enter_async_context(
                used.attach_screen(Played("used"), cwd=str(tmp_path))
            )
            await stack.enter_async_context(
                unused.attach_screen(Played("unused"), cwd=str(tmp_path), idle=60.0)
            )
        await one.active()  # nobody is there to be told
        async with FleetServer(fleet, stop=lambda: None).serve(socket):
            await used.status()
            await unused.status()
            # Both attach again in the background, in any order.
            while await unused.call_screen("x", {}) != {"screen": "used"}:
                await asyncio.sleep(0.01)
            await stack.aclose()
            await used.disconnect()
            await unused.disconnect()
