"""Themes: what is built in fits, what is bad is told and changes nothing."""

import asyncio
import time
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.color import Color

from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.workbench.preferences.store import Preferences, load_preferences
from quarterdeck.workbench.preferences.themes.apply import ThemeError, apply_theme
from quarterdeck.workbench.preferences.themes.files import (
    DEFAULT,
    FoundTheme,
    find_theme,
    find_themes,
)
from quarterdeck.workbench.screens.pickers import ThemesScreen
from quarterdeck.workbench.widgets.chat_input import ChatInput
from tests.support.memory_fleet import FakeFleet
from tests.support.screen_strips import render_screen
from tests.support.workbench_app import opened, screen_text, until

PALETTE = '[palette]\nprimary = "#336699"\n'
BAD = {
    "toml": "palette = [",
    "unknown-key": PALETTE + 'primray = "#fff"\n',
    "unknown-top": "colour = 1\n" + PALETTE,
    "no-palette": "dark = true\n",
    "bad-colour": '[palette]\nprimary = "blurple"\n',
    "clear-colour": '[palette]\nprimary = "transparent"\n',
    "unreadable": PALETTE + 'foreground = "#101010"\nbackground = "#101010"\n',
    "bad-variable": PALETTE + '[variables]\nprimary = "not a colour"\n',
    "unknown-variable": PALETTE + '[variables]\nprimry = "#fff"\n',
    "broken-css": 'css = "Screen { color: "\n' + PALETTE,
    "no-rule": 'css = "}}}{{{"\n' + PALETTE,
    "no-property": 'css = "Screen { colr: red; }"\n' + PALETTE,
    "no-value": 'css = "Screen { color: blurple; }"\n' + PALETTE,
    "no-css-variable": 'css = "Screen { color: $nothing; }"\n' + PALETTE,
    "hides-all": 'css = "* { display: none; }"\n' + PALETTE,
    "invisible": 'css = "* { visibility: hidden; }"\n' + PALETTE,
    "pushes-away": 'css = "Screen { offset-x: 500; }"\n' + PALETTE,
    "swollen": 'css = "* { padding: 100; }"\n' + PALETTE,
    "same-ink": 'css = "* { color: #000; background: #000; }"\n' + PALETTE,
    "same-ink-apart": 'css = "* { color: #000; }\\n* { background: #000; }"\n' + PALETTE,
    "no-ink": 'css = "* { text-opacity: 0%; }"\n' + PALETTE,
    "not-text": "\udcff",
}


class Tiny(App[None]):
    def compose(self) -> ComposeResult:
        yield ChatInput(list, id="chat")


def shelve(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_bytes(text.encode("utf-8", "surrogateescape"))


def worn(app: App[None]) -> tuple[str, Color, Color]:
    _, _, ground, ink = app.query_one(ChatInput).colors
    return app.theme, ground, ink


@pytest.fixture
def places() -> Places:
    return Places.find()


@pytest.mark.parametrize("name", [one.name for one in find_themes(())])
async def test_every_theme_of_ours_can_be_worn(name: str):
    async with Tiny().run_test() as pilot:
        shelved = await asyncio.to_thread(find_theme, name, ())
        assert shelved is not None and shelved.theme is not None and shelved.theme.help
        apply_theme(pilot.app, shelved)
        assert pilot.app.theme == name


def test_there_are_enough_themes_of_our_own():
    found = {one.name: one for one in find_themes(())}
    assert {"dark", "light", "contrast", "mono", "solar", "ember"} <= set(found)
    mono = found["mono"].theme
    assert mono is not None
    for field in mono.palette.__struct_fields__:
        value = getattr(mono.palette, field)
        assert value is None or len(set(Color.parse(value).rgb)) == 1


@pytest.mark.parametrize("name", list(BAD))
async def test_a_bad_theme_changes_nothing_and_says_why(name: str, tmp_path: Path):
    await asyncio.to_thread(shelve, tmp_path, name, BAD[name])
    async with Tiny().run_test() as pilot:
        before = worn(pilot.app)
        (shelved,) = [
            one for one in await asyncio.to_thread(find_themes, [("user", tmp_path)])
            if one.scope == "user"
        ]  # fmt: skip
        with pytest.raises(ThemeError, match=repr(name)) as failure:
            apply_theme(pilot.app, shelved)
        assert len(str(failure.value)) > len(name) + 12
        await pilot.pause()
        assert worn(pilot.app) == before


@pytest.mark.parametrize("name", ["toml", "bad-colour", "bad-variable", "broken-css", "hides-all"])
async def test_a_bad_theme_never_prevents_the_start(name: str, tmp_path: Path, places: Places):
    def make() -> Preferences:
        shelve(places.config / "themes", name, BAD[name])
        looks = load_preferences(places, str(tmp_path), {})
        looks.choose_theme(name, here=False)
        looks.save()
        return load_preferences(places, str(tmp_path), {})

    looks = await asyncio.to_thread(make)
    async with opened(FakeFleet(), tmp_path / "drafts", looks=looks) as (app, pilot):
        await until(pilot, lambda: app.theme == DEFAULT)
        await until(pilot, lambda: any(repr(name) in n.message for n in app._notifications))
        await pilot.press("h", "i")
        await until(pilot, lambda: "hi" in screen_text(app))


async def test_css_of_a_theme_is_worn_and_taken_off(tmp_path: Path):
    css = 'css = "ChatInput { background: #010203; color: #fefefe; }"\n'
    await asyncio.to_thread(shelve, tmp_path, "mine", css + PALETTE)
    async with Tiny().run_test() as pilot:
        mine = await asyncio.to_thread(find_theme, "mine", [("user", tmp_path)])
        dark = await asyncio.to_thread(find_theme, "dark", ())
        assert mine is not None and dark is not None
        apply_theme(pilot.app, mine)
        assert worn(pilot.app)[1:] == (Color.parse("#010203"), Color.parse("#fefefe"))
        apply_theme(pilot.app, dark)
        assert worn(pilot.app)[1] != Color.parse("#010203")


async def test_the_list_shows_each_theme_and_escape_brings_back_the_first(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path) as (app, pilot):
        await pilot.press("f9")
        await until(pilot, lambda: isinstance(app.screen, ThemesScreen))
        await until(pilot, lambda: "ember" in screen_text(app))
        await pilot.press("end")
        await until(pilot, lambda: app.theme != DEFAULT)
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert app.theme == DEFAULT


async def test_a_theme_is_kept_for_all_or_for_a_directory(tmp_path: Path, places: Places):
    looks = await asyncio.to_thread(load_preferences, places, "/work/project", {})
    async with opened(FakeFleet(), tmp_path, looks=looks) as (app, pilot):
        await pilot.press(*"/theme ember", "enter")
        await until(pilot, lambda: app.theme == "ember")
        await until(pilot, lambda: "theme ember" in screen_text(app))
        await pilot.press(*"/theme light here", "enter")
        await until(pilot, lambda: "for this directory" in screen_text(app))
        await pilot.press(*"/theme nothing", "enter")
        await until(pilot, lambda: "no theme 'nothing'" in screen_text(app))
    here = await asyncio.to_thread(load_preferences, places, "/work/project", {})
    there = await asyncio.to_thread(load_preferences, places, "/elsewhere", {})
    assert (here.chosen_theme, there.chosen_theme) == ("light", "ember")


def test_a_project_has_themes_only_where_it_is_trusted(tmp_path: Path, places: Places):
    (tmp_path / ".git").mkdir()
    shelve(tmp_path / ".quarterdeck" / "themes", "ours", PALETTE)
    looks = load_preferences(places, str(tmp_path), {})
    assert find_theme("ours", looks.theme_folders) is None
    TrustStore(places.trust_file).trust(tmp_path)
    looks = load_preferences(places, str(tmp_path), {})
    found = find_theme("ours", looks.theme_folders)
    assert found is not None and found.scope == "project"


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
async def test_no_colour_is_shown_where_none_is_wanted(environ, tmp_path: Path, places: Places):
    looks = await asyncio.to_thread(load_preferences, places, str(tmp_path), environ)
    async with opened(FakeFleet(), tmp_path / "drafts", looks=looks) as (app, _):
        assert app.theme == "mono"
        for strip in render_screen(app):
            for _, style, _ in strip.apply_filter(app._filters[-1], Color.parse("#000")):  # pyright: ignore[reportPrivateUsage]
                if style and style.color and style.color.triplet:
                    assert len(set(style.color.triplet)) == 1


def test_a_file_of_choices_that_cannot_be_read_is_told(tmp_path: Path, places: Places):
    path = places.state / "workbench" / "looks.json"
    path.parent.mkdir(parents=True)
    path.write_text("{nonsense")
    looks = load_preferences(places, str(tmp_path), {})
    assert looks.chosen_theme == DEFAULT
    assert any("looks.json" in problem for problem in looks.problems)


def test_a_name_cannot_lead_elsewhere(tmp_path: Path):
    shelve(tmp_path, "x", PALETTE)
    assert find_theme("../x", [("user", tmp_path / "themes")]) is None
    assert isinstance(find_theme("x", [("user", tmp_path)]), FoundTheme)


def test_reading_the_choices_takes_no_time(tmp_path: Path, places: Places):
    load_preferences(places, str(tmp_path), {})
    began = time.process_time()
    load_preferences(places, str(tmp_path), {})
    assert time.process_time() - began < 0.01
