"""``/undo`` and its kin are typed in a chat, for any agent; the agent does not get them as text."""

from pathlib import Path

import pytest
from textual.pilot import Pilot

from quarterdeck.fleet.checkpoints.api import TurnInfo
from quarterdeck.wire.events import Prompted
from quarterdeck.wire.ids import TurnId
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.screens.dialogs import ReadingScreen
from quarterdeck.workbench.widgets.chat_input import ChatInput
from tests.support.memory_fleet import FakeFleet
from tests.support.scripted_fleet import new_agent
from tests.support.workbench_app import opened, until

TURN = TurnInfo(
    number=3, turn=TurnId("trn_3"), prompt="fix it", time=1_000_000, files="in place", changed=2
)


@pytest.fixture
async def fleet():
    fleet = FakeFleet()
    await fleet.spawn(new_agent(Path("/work/project"), "claude", name="ann"))
    fleet.done_turns.append(TURN)
    yield fleet
    await fleet.stop()


@pytest.mark.parametrize(
    ("typed", "move"),
    [
        ("/undo", ("undo", None, True, True, False)),
        ("/undo 2 files force", ("undo", "2", True, False, True)),
        ("/redo", ("redo", None, True, True, False)),
        ("/rewind 2 conversation", ("rewind", "2", False, True, False)),
    ],
)
async def test_a_command_goes_to_the_fleet(
    fleet: FakeFleet, tmp_path: Path, typed: str, move: tuple[object, ...]
):
    async with opened(fleet, tmp_path / "drafts") as (app, pilot):
        await until(pilot, lambda: app.context.agent is not None)
        await _type(app, pilot, typed)
        await until(pilot, lambda: fleet.moves == [move])
        assert not [one for one in fleet.records if isinstance(one.event, Prompted)]


@pytest.mark.parametrize(("typed", "shown"), [("/changes", "changes of"), ("/rewind", "turns of")])
async def test_what_is_long_is_shown_on_a_screen(
    fleet: FakeFleet, tmp_path: Path, typed: str, shown: str
):
    async with opened(fleet, tmp_path / "drafts") as (app, pilot):
        await until(pilot, lambda: app.context.agent is not None)
        await _type(app, pilot, typed)
        await until(pilot, lambda: isinstance(app.screen, ReadingScreen))
        box = app.screen.query_one("#box")
        assert f"{shown} ann" in str(box.border_title)


async def test_two_slashes_are_for_the_agent(fleet: FakeFleet, tmp_path: Path):
    async with opened(fleet, tmp_path / "drafts") as (app, pilot):
        await until(pilot, lambda: app.context.agent is not None)
        await _type(app, pilot, "//undo")
        await until(
            pilot,
            lambda: (
                [
                    one.event.content[0].text
                    for one in fleet.records
                    if isinstance(one.event, Prompted)
                ]
                == ["/undo"]
            ),
        )
        assert fleet.moves == []


async def test_a_refusal_is_shown(fleet: FakeFleet, tmp_path: Path):
    fleet.done_turns.clear()
    async with opened(fleet, tmp_path / "drafts") as (app, pilot):
        await until(pilot, lambda: app.context.agent is not None)
        await _type(app, pilot, "/undo")
        await until(
            pilot, lambda: any("no turn has run yet" in n.message for n in app._notifications)
        )


async def _type(app: Workbench, pilot: Pilot[None], typed: str) -> None:
    app.query_one(ChatInput).focus()
    await pilot.pause()
    app.query_one(ChatInput).insert(typed)
    await pilot.press("escape", "enter")
