"""Staying with a terminal over what befalls the host, and what is typed meanwhile."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from quarterdeck.fleet.errors import AgentNotReadyError, HostError, NoSuchFleetTerminalError
from quarterdeck.terminal.viewer_events import (
    TerminalDrawn,
    TerminalEnded,
    TerminalWritten,
    ViewerEvent,
)
from quarterdeck.workbench.terminal.connection import TerminalFollower, TerminalInput
from tests.support.deadlines import SOON


class Scripted:
    """Terminals that show what a script says; an error in it is raised."""

    def __init__(self, *turns: list[ViewerEvent | Exception]) -> None:
        self.turns = list(turns)
        self.asked: list[str] = []
        self.written: list[bytes | str] = []
        self.fails: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def watch_terminal(self, terminal: str) -> AsyncGenerator[ViewerEvent]:
        self.asked.append(terminal)
        for seen in self.turns.pop(0):
            if isinstance(seen, Exception):
                raise seen
            yield seen

    async def write_terminal(self, terminal: str, data: bytes) -> None:
        await self.gate.wait()
        if self.fails is not None:
            raise self.fails
        self.written.append(data)

    async def paste_terminal(self, terminal: str, text: str) -> None:
        self.written.append(text)


async def followed(fleet: Any) -> tuple[TerminalFollower, list[str], list[ViewerEvent]]:
    seen: list[ViewerEvent] = []
    stood: list[str] = []

    async def take(one: ViewerEvent) -> None:
        seen.append(one)

    async def there() -> None:
        await asyncio.sleep(0)

    following = TerminalFollower(fleet, "t1", take, lambda: stood.append(following.state), there)
    async with asyncio.timeout(SOON):
        await following.run()
    return following, stood, seen


async def test_a_host_that_comes_back_is_asked_for_the_same_terminal():
    fleet = Scripted(
        [TerminalDrawn(8, 2, b"a"), HostError("cut")],
        [HostError("still away")],
        [TerminalDrawn(8, 2, b"b"), TerminalWritten(b"c"), TerminalEnded("exit code 0")],
    )
    following, stood, seen = await followed(fleet)
    assert fleet.asked == ["t1", "t1", "t1"]
    assert stood == ["live", "lost", "lost", "live", "ended"]
    assert following.reason == "exit code 0"
    assert seen[-1] == TerminalEnded("exit code 0")


async def test_a_terminal_that_nobody_knows_is_not_asked_for_again():
    fleet = Scripted([HostError("cut")], [NoSuchFleetTerminalError("t1")])
    following, stood, _ = await followed(fleet)
    assert stood == ["lost", "gone"] and "t1" in following.reason


async def test_an_agent_without_a_screen_is_gone():
    _, stood, _ = await followed(Scripted([AgentNotReadyError("it has no screen")]))
    assert stood == ["gone"]


async def settled() -> None:
    """Nothing here waits for anything but the loop."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_what_is_typed_arrives_in_order_and_together():
    fleet: Any = Scripted()
    told: list[str] = []
    typing = TerminalInput(fleet, "t1", told.append)
    fleet.gate.clear()
    running = asyncio.create_task(typing.run())
    typing.type(b"a")
    await settled()
    for data in (b"b", b"c"):
        typing.type(data)
    typing.paste("text")
    typing.type(b"d")
    fleet.gate.set()
    await settled()
    assert fleet.written == [b"a", b"bc", "text", b"d"]
    fleet.fails = AgentNotReadyError("it has left")
    typing.type(b"e")
    typing.type(b"f")
    await settled()
    assert len(told) == 1 and "it has left" in told[0]
    fleet.fails = None
    typing.type(b"g")
    await settled()
    assert fleet.written[-1] == b"g"
    fleet.gate.clear()
    for _ in range(40):
        typing.type(b"x" * 60_000)
    assert "does not read" in told[-1] and len(told) > 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
