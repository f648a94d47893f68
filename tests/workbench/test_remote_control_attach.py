"""The workbench as a screen of the fleet: calls are done in it, and nothing is taken away."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Label

from quarterdeck.fleet.errors import WorkbenchRefusedError
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.remote_control.attach import WorkbenchAttachment
from tests.support.deadlines import SOON
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import LostFleet, begin, opened, until


class Hand:
    """Does to the application what a test wants."""

    def __init__(self, app: Workbench) -> None:
        self.app = app
        self.done: list[str] = []
        self.hold = asyncio.Event()
        self.hold.set()
        self.now = 0
        self.most = 0

    async def __call__(self, name: str, arguments: dict[str, Any], by: str) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self.hold.wait()
            await getattr(self, f"do_{name}")(**arguments)
            self.done.append(name)
        finally:
            self.now -= 1
        return {"by": by}

    async def do_nothing(self) -> None:
        await asyncio.sleep(0)

    async def do_set_layout(self) -> None:
        extra = Input(id="extra")
        await self.app.main.mount(extra, Label("more"))
        self.app.main.set_focus(extra)

    async def do_focus(self) -> None:
        self.app.main.set_focus(self.app.main.transcript)


@pytest.fixture
async def fleet() -> LostFleet:
    return LostFleet()


@pytest.fixture
async def seen(
    fleet: LostFleet, tmp_path: Path
) -> AsyncIterator[tuple[Workbench, Pilot[None], Hand, WorkbenchAttachment]]:
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: len(fleet.screens) == 1)
        hand = Hand(app)
        attached = WorkbenchAttachment(app, app.context, hand)
        app.keyboard.on_use = attached.used
        app.run_worker(attached.run(), name="test")
        await until(pilot, lambda: len(fleet.screens) == 2)
        yield app, pilot, hand, attached


async def call(fleet: FakeFleet, name: str) -> Any:
    async with asyncio.timeout(SOON):
        return await fleet.call_screen(name, {}, by="boss")


async def test_a_call_is_done_in_the_application_and_the_focus_stays(fleet: LostFleet, seen: Any):
    app, pilot, hand, _ = seen
    await pilot.press(*"half a pro")
    hand.hold.clear()
    calling = asyncio.ensure_future(call(fleet, "set_layout"))
    await until(pilot, lambda: hand.now)
    await pilot.press(*"mpt")
    hand.hold.set()
    assert await calling == {"by": "boss"}
    await pilot.pause()
    assert app.focused is app.main.chat and app.main.query("#extra")
    await pilot.press(*" is kept")
    assert app.main.chat.text == "half a prompt is kept"


async def test_a_focus_that_is_asked_for_waits_for_nobody_who_types(fleet: LostFleet, seen: Any):
    app, pilot, _, attached = seen
    await call(fleet, "focus")
    assert app.focused is app.main.transcript
    app.main.chat.focus()
    await pilot.press("x")
    with pytest.raises(WorkbenchRefusedError, match="typing"):
        await call(fleet, "focus")
    assert app.focused is app.main.chat
    attached._last = 0.0  # pyright: ignore[reportPrivateUsage] - seconds later
    await call(fleet, "focus")
    assert app.focused is app.main.transcript


async def test_what_is_open_over_the_main_screen_stays(fleet: LostFleet, seen: Any):
    app, pilot, _, attached = seen
    await pilot.press("f1")
    await until(pilot, lambda: len(app.screen_stack) == 2)
    attached._last = 0.0  # pyright: ignore[reportPrivateUsage] - seconds later
    over, focused = app.screen, app.focused
    await call(fleet, "set_layout")
    assert (app.screen, app.focused) == (over, focused)
    with pytest.raises(WorkbenchRefusedError, match="typing"):
        await call(fleet, "focus")
    await pilot.press("escape")
    await until(pilot, lambda: len(app.screen_stack) == 1)
    assert app.focused is app.main.chat


async def test_calls_are_done_one_after_the_other(fleet: LostFleet, seen: Any):
    _, _, hand, _ = seen
    await asyncio.gather(*(call(fleet, "nothing") for _ in range(8)))
    assert (len(hand.done), hand.most) == (8, 1)


async def test_a_call_that_nobody_waits_for_any_more_is_left(fleet: LostFleet, seen: Any):
    _, pilot, hand, _ = seen
    hand.hold.clear()
    calling = asyncio.ensure_future(call(fleet, "set_layout"))
    await until(pilot, lambda: hand.now)
    calling.cancel()
    await until(pilot, lambda: not hand.now)
    assert hand.done == []
    hand.hold.set()
    await call(fleet, "nothing")


async def test_a_call_that_fails_harms_nothing(fleet: LostFleet, seen: Any):
    app, pilot, _, _ = seen
    with pytest.raises(Exception, match="do_unknown"):
        await call(fleet, "unknown")
    await pilot.press("x")
    assert app.is_running and app.main.chat.text == "x"


async def test_the_fleet_hears_where_the_person_is(fleet: LostFleet, seen: Any, tmp_path: Path):
    app, pilot, _, _ = seen
    mine = fleet.screens._attached[-1]  # pyright: ignore[reportPrivateUsage]
    before = mine.used
    await pilot.press("x")
    await until(pilot, lambda: mine.used > before)
    app.context.move(str(tmp_path))
    await until(pilot, lambda: mine.cwd == str(tmp_path.resolve()))


async def test_leaving_takes_the_screen_away(fleet: LostFleet, tmp_path: Path):
    async with opened(fleet, tmp_path) as (_, pilot):
        await until(pilot, lambda: len(fleet.screens) == 1)
    assert len(fleet.screens) == 0
