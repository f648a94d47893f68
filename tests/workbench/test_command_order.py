"""Commands and prompts take effect in the order in which a person gave them."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from quarterdeck.fleet.api import AgentInfo
from quarterdeck.wire.content import ContentBlock, TextContent
from quarterdeck.wire.ids import MessageId
from quarterdeck.workbench.commands.runner import CommandQueue
from quarterdeck.workbench.screens.dialogs import AskLineScreen
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, until


class SlowFleet(FakeFleet):
    """A fleet that takes its time for one of its calls, until ``go`` is set."""

    def __init__(self, slow: str) -> None:
        super().__init__()
        self.slow = slow
        self.go = asyncio.Event()
        self.calls: list[str] = []
        self.begun: list[str] = []

    async def take(self, call: str) -> None:
        self.begun.append(call)
        if call == self.slow:
            await self.go.wait()
        self.calls.append(call)

    async def rename(self, agent: str, name: str) -> AgentInfo:
        await self.take(f"rename {name}")
        return await super().rename(agent, name)

    async def send(self, agent: str, content: tuple[ContentBlock, ...], **given: Any) -> MessageId:
        assert isinstance(content[0], TextContent)
        await self.take(content[0].text)
        return await super().send(agent, content, **given)


async def test_a_quick_command_does_not_overtake_a_slow_one(tmp_path: Path):
    fleet = SlowFleet("rename one")
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (_, pilot):
        await pilot.press(*"/rename one", "enter", *"/rename two", "enter")
        await until(pilot, lambda: fleet.begun)
        assert fleet.begun == ["rename one"]
        fleet.go.set()
        await until(pilot, lambda: len(fleet.calls) == 2)
        assert [info.name for info in fleet.infos.values()] == ["two"]


async def test_prompts_and_commands_arrive_as_they_were_written(tmp_path: Path):
    fleet = SlowFleet("first")
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await pilot.press(*"first", "enter", *"second", "enter", *"/rename bob", "enter")
        await pilot.press(*"third", "enter", *"fourth")
        await until(pilot, lambda: fleet.begun)
        assert app.main.chat.text == "fourth"  # what was sent is out of the input at once
        fleet.go.set()
        await until(pilot, lambda: len(fleet.calls) == 4)
        assert fleet.calls == ["first", "second", "rename bob", "third"]
        assert app.main.chat.text == "fourth"


async def test_a_command_is_for_the_agent_that_was_in_view(tmp_path: Path):
    fleet = SlowFleet("rename one")
    ann, bob = await begin(fleet, "ann"), await begin(fleet, "bob")
    async with opened(fleet, tmp_path) as (app, pilot):
        assert app.context.shown == ann
        await pilot.press(*"/rename one", "enter", *"/rename two", "enter", "ctrl+n")
        await until(pilot, lambda: app.context.shown == bob)
        fleet.go.set()
        await until(pilot, lambda: len(fleet.calls) == 2)
        assert (fleet.infos[ann].name, fleet.infos[bob].name) == ("two", "bob")


async def test_a_command_that_asks_for_something_holds_nothing_up(tmp_path: Path):
    fleet = SlowFleet("")
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        app.queue.patience = 3600
        app.action_command("rename")
        await until(pilot, lambda: isinstance(app.screen, AskLineScreen))
        app.action_command("rename", "given")
        await until(pilot, lambda: fleet.calls == ["rename given"])


async def test_an_interrupt_does_not_wait_for_a_prompt_that_hangs(tmp_path: Path):
    fleet = SlowFleet("first")
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await pilot.press(*"first", "enter")
        await until(pilot, lambda: fleet.begun)
        app.action_command("interrupt")
        await until(pilot, lambda: fleet.infos[ann].state == "interrupted")
        assert not fleet.calls


async def test_the_next_one_waits_only_for_so_long():
    done: list[str] = []

    async def wait_forever() -> None:
        done.append("slow")
        await asyncio.Event().wait()

    async def end() -> None:
        done.append("quick")

    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        running: list[asyncio.Task[object]] = []

        def work(coroutine: Coroutine[Any, Any, object]) -> None:
            running.append(tasks.create_task(coroutine))

        queue = CommandQueue(work, patience=0.01)
        queue.add(wait_forever)
        queue.add(end)
        await running[1]
        running[0].cancel()
    assert done == ["slow", "quick"]


async def test_one_that_fails_or_never_starts_holds_nothing_up():
    done: list[str] = []
    running: list[asyncio.Task[object]] = []

    async def fail() -> None:
        raise ValueError("no")

    async def wait() -> None:
        await asyncio.Event().wait()

    async def end() -> None:
        done.append("end")

    queue = CommandQueue(lambda work: running.append(asyncio.ensure_future(work)), patience=3600)
    for start in (fail, wait, wait, end):
        queue.add(start)
    await asyncio.sleep(0)
    running[2].cancel()  # it has not had its turn yet
    async with asyncio.timeout(10):
        await running[3]
    running[1].cancel()
    results = await asyncio.gather(*running, return_exceptions=True)
    assert [type(result).__name__ for result in results] == [
        "ValueError",
        "CancelledError",
        "CancelledError",
        "NoneType",
    ]
    assert done == ["end"]
