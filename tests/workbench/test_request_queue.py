"""Several requests wait at once: each is followed by the next, and no stray key decides one."""

from pathlib import Path

from quarterdeck.wire.content import text
from quarterdeck.wire.events import PermissionAnswered
from quarterdeck.workbench.screens.key_guard import QUIET
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, until


def decided(fleet: FakeFleet) -> list[PermissionAnswered]:
    return [r.event for r in fleet.records if isinstance(r.event, PermissionAnswered)]


async def test_three_agents_that_wait_are_answered_one_after_the_other(tmp_path: Path):
    fleet = FakeFleet()
    for name in ("ann", "bob", "cleo"):
        await begin(fleet, name)
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        for name in ("ann", "bob", "cleo"):
            await fleet.send(name, (text("ask"),))
        await until(pilot, lambda: len(app.context.inbox.items) == 3)
        for number in (1, 2, 3):
            await until(pilot, lambda: app.requests.current is not None)
            await pilot.pause(QUIET + 0.05)
            await pilot.press("y")
            await until(pilot, lambda number=number: len(decided(fleet)) == number)
        assert {one.kind for one in decided(fleet)} == {"allow_once"}
        await until(pilot, lambda: app.requests.current is None)
        assert app.main.chat.text == "" and app.main.chat.has_focus
