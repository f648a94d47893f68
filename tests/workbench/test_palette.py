"""The palette, notices that can be read again, and help that begins where the person is."""

import asyncio
from pathlib import Path

from textual.notifications import Notification

from quarterdeck.config.places import Places
from quarterdeck.workbench.commands.registry import COMMANDS
from quarterdeck.workbench.context import NoticeStore
from quarterdeck.workbench.preferences.keymap import KeyBinding
from quarterdeck.workbench.preferences.store import load_preferences
from quarterdeck.workbench.screens.help import HelpScreen, collect_key_help
from quarterdeck.workbench.screens.palette import PaletteScreen, collect_entries, rank_entries
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, screen_text, until


def test_every_command_has_one_category_and_the_order_names_them_all():
    entries = collect_entries({"themes": "f9"})
    assert [entry.name for entry in entries] == [command.name for command in COMMANDS]
    by_name = {entry.name: entry for entry in entries}
    assert by_name["themes"].key == "f9" and by_name["kill"].category == "agents"
    assert by_name["review"].category == "review" and by_name["open"].category == "panels"
    assert by_name["search"].category == "conversation"


def test_the_best_name_comes_first():
    entries = collect_entries({})
    assert [one.name for one in rank_entries(entries, "mode")][:2] == ["mode", "model"]
    assert rank_entries(entries, "/themes")[0].name == "themes"
    assert rank_entries(entries, "lyt")[0].name == "layout"  # letters in their order
    assert "kill" in [one.name for one in rank_entries(entries, "its processes")]
    assert not rank_entries(entries, "zzzz")


async def test_a_chosen_command_runs_and_comes_first_from_then_on(tmp_path: Path):
    places = Places.find()
    looks = await asyncio.to_thread(load_preferences, places, "/work/project", {})
    looks.keymap.put(KeyBinding(key="f11", command="zoom"))
    async with opened(FakeFleet(), tmp_path, (120, 40), looks=looks) as (app, pilot):
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, PaletteScreen))
        await until(
            pilot, lambda: "agents" in screen_text(app) and "recent" not in screen_text(app)
        )
        await pilot.press(*"themes")
        await until(
            pilot, lambda: "choose a theme" in screen_text(app) and "f9" in screen_text(app)
        )
        await pilot.press("enter")
        await until(pilot, lambda: "solar-light" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: "recent" in screen_text(app))
        rows = screen_text(app).split("recent")[1].splitlines()
        assert "themes" in rows[1]
        await pilot.press(*"zoom")
        await until(pilot, lambda: "f11" in screen_text(app))
        for _ in range(4):
            await pilot.press("backspace")
        await pilot.press(*"zzzz")
        await until(pilot, lambda: "no command fits" in screen_text(app))
        await pilot.press("enter", "down", "escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)

        def is_kept() -> bool:
            return load_preferences(places, "/x", {}).choices.recent == ("themes",)

        async with asyncio.timeout(20):
            while not await asyncio.to_thread(is_kept):
                await pilot.pause(0.02)


async def test_the_palette_is_as_high_as_what_was_found_and_its_top_stays(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path, (120, 40)) as (app, pilot):
        await pilot.press("ctrl+p")
        await until(pilot, lambda: app.screen.query("#box") and "spawn" in screen_text(app))
        whole = app.screen.query_one("#box").region
        await pilot.press(*"layout")
        await until(pilot, lambda: app.screen.query_one("#box").region.height < 10)
        assert app.screen.query_one("#box").region.y == whole.y
        await pilot.resize_terminal(20, 5)
        await until(pilot, lambda: "layouts" in screen_text(app))


def test_recent_commands_are_bounded_and_each_is_there_once():
    looks = load_preferences(Places.find(), "/x", {})
    for number in range(40):
        assert looks.note_command(f"c{number % 20}")
    assert not looks.note_command("c19")
    recent = looks.choices.recent
    assert len(recent) == len(set(recent)) == 12 and recent[0] == "c19"


async def test_notices_can_be_read_again(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path, (100, 30)) as (app, pilot):
        await pilot.press("alt+n")
        await until(pilot, lambda: "no notices yet" in screen_text(app))
        await pilot.press("escape")
        app.show_message("theme [b]ember")
        app.show_message("cannot save\x1b[31m this", True)
        await pilot.pause()
        app.clear_notifications()
        await pilot.press(*"/notices", "enter")
        await until(pilot, lambda: "latest first" in screen_text(app))
        screen = screen_text(app)
        assert "✗ cannot save\\x1b[31m this" in screen and "theme [b]ember" in screen
        assert screen.index("cannot save") < screen.index("theme [b]ember")


def test_only_the_last_notices_are_kept():
    store = NoticeStore(lambda: 0)
    for number in range(500):
        store.add(Notification(f"notice {number}"))
    rows = store.list_rows()
    assert len(rows) == NoticeStore.MOST and rows[0][1] == "· notice 499"


async def test_help_begins_with_the_keys_of_what_has_the_focus(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path, (100, 30)) as (app, pilot):
        for key, title in (("f3", "In the transcript"), ("f2", "In the agent table")):
            await pilot.press(key)
            parts = collect_key_help(app.preferences, app.main)
            assert parts[0][0] == f"Here, {title[:1].lower()}{title[1:]}" and parts[0][1]
            assert [title for title, _ in parts].count(title) == 0
            assert "Everywhere" in [title for title, _ in parts]
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await until(pilot, lambda: "Here, in the agent table" in screen_text(app))
