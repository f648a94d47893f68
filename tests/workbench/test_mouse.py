"""Clicks: on keys that are written somewhere, on choices of a request, on addresses."""

from pathlib import Path

import pytest
from textual.pilot import Pilot

from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk, PermissionAnswered
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.mouse import find_edge_key, find_key_at, make_key
from quarterdeck.workbench.rendering.lines import find_url_at
from quarterdeck.workbench.screens.dialogs import ConfirmScreen
from quarterdeck.workbench.screens.key_guard import KeyGuard
from quarterdeck.workbench.screens.permission import PermissionCard
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, screen_text, until

LINE = (("y ", "key"), ("allow once", "text"), ("   ", "text"), ("n ", "key"), ("deny", "bad"))


@pytest.mark.parametrize(
    ("x", "key"),
    [(0, "y"), (5, "y"), (11, "y"), (12, None), (14, None), (15, "n"), (20, "n"), (30, None)],
)
def test_a_key_is_clicked_by_its_name_or_its_words(x: int, key: str | None):
    assert find_key_at(LINE, x) == key


def test_hints_with_points_between_them_are_told_apart():
    line = ((" ", "faint"), ("j", "key"), (" next · old", "faint"), ("x", "text"))
    assert [find_key_at(line, x) for x in (1, 4, 8, 12)] == ["j", "j", None, None]
    hints = "enter send · 日本 x · esc cancel"
    assert [find_edge_key(hints, x) for x in (0, 9, 11, 13, 22, 60)] == [
        "enter", "enter", None, "日本", "esc", None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "key"),
    [("esc", "escape"), ("y", "y"), ("A", "A"), ("?", "question_mark"), ("ctrl+s", "ctrl+s")],
)
def test_names_of_keys_become_keys(name: str, key: str):
    made = make_key(name)
    assert made is not None
    assert made.key == key


@pytest.mark.parametrize("name", ["↑", "200", "lines", "", "rm -r"])
def test_other_words_are_no_keys(name: str):
    assert make_key(name) is None


def test_an_address_is_found_without_what_follows_it():
    line = (("see ", "text"), ("https://a.b/c?d=1", "link"), (").", "text"))
    assert find_url_at(line, 4) == "https://a.b/c?d=1"
    assert find_url_at(line, 20) == "https://a.b/c?d=1"
    assert find_url_at(line, 21) is None
    assert find_url_at(line, 0) is None


async def asking(fleet: FakeFleet) -> None:
    await begin(fleet, "ann")
    await fleet.send("ann", (text("ask"),))


def answers(fleet: FakeFleet) -> list[PermissionAnswered]:
    return [r.event for r in fleet.records if isinstance(r.event, PermissionAnswered)]


async def card_of(app: Workbench, pilot: Pilot[None]) -> PermissionCard:
    await until(pilot, lambda: "allow once" in screen_text(app))
    return app.screen.query_one(PermissionCard)


async def click_on(pilot: Pilot[None], app: Workbench, words: str) -> None:
    """Click on words where they stand on the screen."""
    for y, line in enumerate(screen_text(app).split("\n")):
        if (x := line.find(words)) >= 0:
            assert await pilot.click(offset=(x + 1, y))
            return
    raise AssertionError(f"{words!r} is not on the screen")


async def test_a_choice_is_clicked_but_not_one_that_came_just_now(tmp_path: Path):
    fleet = FakeFleet()
    await asking(fleet)
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        card = await card_of(app, pilot)
        now = [10.0]
        card._click_guard = KeyGuard(lambda: now[0])
        await click_on(pilot, app, "allow once")
        assert answers(fleet) == []
        now[0] += 0.2  # a click that was held back makes it longer
        await click_on(pilot, app, "allow once")
        assert answers(fleet) == []
        now[0] += 0.4
        await click_on(pilot, app, "allow once")
        await until(pilot, lambda: len(answers(fleet)) == 1)
        assert answers(fleet)[0].kind == "allow_once"


async def test_deny_is_clicked_and_what_is_asked_is_not(tmp_path: Path):
    fleet = FakeFleet()
    await asking(fleet)
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        card = await card_of(app, pilot)
        card._click_guard.open()
        assert await pilot.click("#details")
        assert answers(fleet) == []
        await click_on(pilot, app, "n deny")
        await until(pilot, lambda: len(answers(fleet)) == 1)
        assert answers(fleet)[0].kind == "reject_once"


async def test_keys_at_the_lower_edge_are_clicked(tmp_path: Path):
    given: list[bool | None] = []
    async with opened(FakeFleet(), tmp_path) as (app, pilot):
        asked = ConfirmScreen("remove it", "It is gone then.", "remove")
        await app.push_screen(asked, given.append)
        await until(pilot, lambda: "y remove" in screen_text(app))
        asked._guard = KeyGuard(lambda: 1.0)
        await click_on(pilot, app, "y remove")
        await pilot.pause()
        assert given == []  # too soon
        asked._guard.open()
        await click_on(pilot, app, "y remove")
        await until(pilot, lambda: given == [True])
        await app.push_screen(
            ConfirmScreen("remove it", "It is gone then.", "remove"), given.append
        )
        await until(pilot, lambda: "y remove" in screen_text(app))
        await click_on(pilot, app, "esc cancel")
        await until(pilot, lambda: given == [True, False])


async def test_the_offers_of_a_trouble_are_clicked(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await fleet.kill("ann")
        await until(pilot, lambda: "ctrl+t" in screen_text(app))
        await click_on(pilot, app, "ctrl+t")
        await until(pilot, lambda: len(app.screen_stack) == 2)


async def test_an_address_in_a_transcript_is_copied(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    said = MessageChunk(content=text("see https://example.org/page for more"))
    await fleet.append(ann, said)
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: "example.org" in screen_text(app))
        await click_on(pilot, app, "https://example.org")
        await until(pilot, lambda: app.clipboard == "https://example.org/page")
