"""How many keys the usual tasks take."""

from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.preferences.store import Preferences
from quarterdeck.workbench.screens.key_guard import QUIET
from quarterdeck.workbench.screens.permission import PermissionCard
from tests.support.agent_states import command_asked
from tests.support.memory_fleet import FakeFleet
from tests.support.staged_workbench import StagedFleet
from tests.support.workbench_app import begin, opened, screen_text, until

WIDE = (120, 40)


@dataclass
class Hands:
    """Presses keys as a person does, who looks before each, and counts them."""

    app: Workbench
    pilot: Pilot[None]
    count: int = 0

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.pause(QUIET + 0.05)
            await self.pilot.press(key)
            self.count += 1

    async def write(self, words: str) -> None:
        """Type words, which do not count."""
        await self.pilot.press(*words)


async def ten_waiting() -> StagedFleet:
    fleet = StagedFleet()
    for number in range(10):
        session = await fleet.agent_at_work(f"agent{number}", f"Task {number}")
        await fleet.ask(session, command_asked(number))
    return fleet


def is_asking(app: Workbench) -> bool:
    card = app.requests.current
    return isinstance(card, PermissionCard) and bool(card.summary.heading)


async def test_a_second_agent_takes_enter_alone(tmp_path: Path):
    fleet, looks = FakeFleet(), Preferences()
    looks.choices.spawns["/work/project"] = {"agent": "claude", "mode": "ask"}
    async with opened(fleet, tmp_path, WIDE, looks=looks) as (app, pilot):
        await until(pilot, lambda: app.main.panel.is_home)
        hands = Hands(app, pilot)
        await hands.write("do it")
        await hands.press("enter")
        await until(pilot, lambda: len(fleet.infos) == 1)
        assert hands.count == 1


async def test_ten_waiting_agents_take_a_key_each(tmp_path: Path):
    fleet = await ten_waiting()
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        await until(pilot, lambda: len(app.context.inbox.items) == 10)
        hands = Hands(app, pilot)
        if not is_asking(app):
            await hands.press("ctrl+g")
        for left in range(10, 0, -1):
            await until(pilot, lambda: is_asking(app))
            await hands.press("y")
            await until(pilot, lambda left=left: len(fleet.open) < left)
        assert hands.count <= 11


async def test_one_of_ten_waiting_agents_is_found_by_its_name(tmp_path: Path):
    fleet = await ten_waiting()
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        await until(pilot, lambda: len(app.context.inbox.items) == 10)
        wanted = next(one.session for one in fleet.infos.values() if one.name == "agent6")
        hands = Hands(app, pilot)
        await hands.press("f2", *["down"] * 6)
        await until(pilot, lambda: app.context.shown == wanted)
        await hands.press("ctrl+g")
        await until(pilot, lambda: is_asking(app))
        await hands.press("y")
        await until(pilot, lambda: len(fleet.open) == 9)
        assert all(one.session != wanted for one in fleet.open.values())
        assert hands.count <= 9


async def test_an_agent_that_is_seen_in_the_list_is_answered_in_two_keys(tmp_path: Path):
    fleet = await ten_waiting()
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        await until(pilot, lambda: len(app.context.inbox.items) == 10)
        wanted = next(one.session for one in fleet.infos.values() if one.name == "agent6")
        assert "? 7 agent6" in screen_text(app)
        hands = Hands(app, pilot)
        await hands.press("alt+7")
        assert app.context.shown == wanted
        await until(pilot, lambda: is_asking(app))
        await hands.press("y")
        await until(pilot, lambda: len(fleet.open) == 9)
        assert all(one.session != wanted for one in fleet.open.values())
        assert hands.count == 2


async def test_a_change_goes_back_with_a_comment_in_five_keys(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "parser")
    fleet.change("src/parser.py", "a = 1\nb = 2\n", "a = 1\nb = 3\n")
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        hands = Hands(app, pilot)
        await hands.press("alt+v")
        await until(pilot, lambda: "b = 3" in screen_text(app))
        await hands.press("j", "c")
        await until(pilot, lambda: "enter save" in screen_text(app))
        await hands.write("why 3?")
        await hands.press("enter")
        await until(pilot, lambda: "why 3?" in screen_text(app) and "not sent" in screen_text(app))
        await hands.press("s")
        await until(pilot, lambda: "not sent" not in screen_text(app))
        await until(pilot, lambda: any(kind == "sent" for kind, _ in fleet.calls))
        assert hands.count == 5
