"""Sessions of other agents on a screen: listed, taken, gone on with."""

from pathlib import Path

from tests.support.alone import alone, desk_in, shown, until_shown
from tests.support.fleets import FakeFleet
from tests.support.pasts import recorded_home


async def test_sessions_are_listed_and_taken(tmp_path: Path):
    lab = tmp_path / "lab"
    lab.mkdir()
    home = recorded_home(tmp_path / "home", str(lab))
    fleet = FakeFleet()
    async with alone("history", desk_in(lab, fleet)) as (panel, app, pilot):
        panel.environment = {"HOME": str(home)}
        await pilot.press("r")
        await until_shown(
            app, pilot, "5 sessions", "codex", "scene:shell run it", "A scripted title"
        )
        first = panel.list.chosen
        await pilot.press("enter")
        await pilot.app.workers.wait_for_complete()
        (info,) = await fleet.agents()
        assert (info.agent, info.title) == (first.agent, first.id)
        await pilot.press("down", "g")
        await pilot.app.workers.wait_for_complete()
        assert len(await fleet.agents()) == 2


async def test_those_of_other_directories_only_on_demand(tmp_path: Path):
    home = recorded_home(tmp_path / "home")
    async with alone("history", desk_in(tmp_path)) as (panel, app, pilot):
        panel.environment = {"HOME": str(home)}
        await pilot.press("r")
        await until_shown(app, pilot, "nothing yet")
        await pilot.press("a")
        await until_shown(app, pilot, "every directory", "5 sessions", "/home/dev/lab")
        assert panel.remember() == {"everywhere": True}
        panel.environment = {}
        await pilot.press("r")
        await until_shown(app, pilot, "HOME")
        assert "5 sessions" not in shown(app)
