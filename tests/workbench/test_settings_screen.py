"""Settings are changed on the screen: with a scope, checked, and nothing wrong is written."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from quarterdeck.config.places import Places
from quarterdeck.config.trust import TrustStore
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.screens.settings import (
    SettingsFiles,
    SettingsScreen,
    format_setting_value,
)
from quarterdeck.workbench.widgets.select import SelectField
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import opened, screen_text, until

WIDE = (120, 40)


class Office:
    """A workbench over the settings of a project."""

    def __init__(self, app: Workbench, pilot: Pilot[None], files: SettingsFiles) -> None:
        self.app, self.pilot, self.files = app, pilot, files

    @property
    def text(self) -> str:
        return " ".join(screen_text(self.app).replace("│", " ").split())

    async def search(self, words: str) -> None:
        self.app.push_screen(SettingsScreen(self.files, words))
        await until(self.pilot, lambda: "takes effect" in self.text or "✗" in self.text)

    async def edit(self, words: str) -> SelectField:
        await self.search(words)
        await self.pilot.press("enter")
        field = self.app.screen.query_one("#value", SelectField)
        await until(self.pilot, lambda: field.has_focus)
        return field

    async def shows(self, *words: str) -> None:
        try:
            await until(self.pilot, lambda: all(one in self.text for one in words))
        except TimeoutError:
            missing = [one for one in words if one not in self.text]
            raise AssertionError(f"{missing} in\n{screen_text(self.app)}") from None


@asynccontextmanager
async def office(
    home: Path, text: str = "", environment: dict[str, str] | None = None
) -> AsyncGenerator[Office]:
    places = Places.find({"QUARTERDECK_HOME": str(home / "home")})
    places.config.mkdir(parents=True)
    if text:
        places.config_file.write_text(text)
    project = home / "project"
    (project / ".git").mkdir(parents=True)
    variables = {"HOME": str(home / "home"), **(environment or {})}
    files = SettingsFiles(places=places, directory=project, environment=variables)
    async with opened(FakeFleet(), home / "drafts", WIDE) as (app, pilot):
        yield Office(app, pilot, files)


async def test_a_setting_is_chosen_from_its_values_and_keeps_comments(tmp_path: Path):
    async with office(tmp_path, '# mine\nmode = "ask" # why\n') as at:
        await at.edit("may do without asking")
        await at.pilot.press(*"full", "enter", "enter")
        await at.shows("✓ set in", "takes effect for agents that start from now on")
        file = at.files.places.config_file
        assert file.read_text() == '# mine\nmode = "full-auto" # why\n'
        await at.shows("mode full-auto your file")


async def test_a_bad_value_is_explained_in_place_and_nothing_is_written(tmp_path: Path):
    async with office(tmp_path) as at:
        field = await at.edit("limits.cost")
        await at.pilot.press(*"much", "enter")
        await at.shows("✗ expected a number of US dollars, found 'much'")
        assert not at.files.places.config_file.exists() and field.has_focus
        await at.pilot.press("backspace")
        await until(at.pilot, lambda: "✗" not in at.text)
        field.value = "2"
        await at.pilot.press("enter")
        await at.shows("✓ set in")
        assert at.files.places.config_file.read_text() == "[limits]\ncost = 2.0\n"


async def test_a_rule_that_cannot_be_read_is_refused(tmp_path: Path):
    async with office(tmp_path) as at:
        field = await at.edit("permissions.allow")
        await until(at.pilot, lambda: field.value == "[]")
        field.value = '["bash("]'
        await at.pilot.press("ctrl+s")
        await at.shows("✗")
        assert not at.files.places.config_file.exists()


async def test_a_list_that_files_add_to_is_edited_for_one_file(tmp_path: Path):
    async with office(tmp_path, '[permissions]\nallow = ["read"]\n') as at:
        field = await at.edit("permissions.allow")
        await until(at.pilot, lambda: field.value == '["read"]')
        await at.pilot.press("tab", *"local", "enter")
        await until(at.pilot, lambda: field.value == "[]")


async def test_a_project_that_is_not_trusted_says_that_nothing_changes(tmp_path: Path):
    async with office(tmp_path) as at:
        field = await at.edit("sandbox.network")
        await at.pilot.press(*"true", "enter", "tab", *"project", "enter")
        await at.shows("has no effect until you trust this workspace")
        assert field.value == "true"
        await at.pilot.press("enter")
        await at.shows("! set in")
        path = at.files.directory / ".quarterdeck" / "config.toml"
        assert path.read_text() == "[sandbox]\nnetwork = true\n"
        store = TrustStore(at.files.places.trust_file)
        await asyncio.to_thread(store.trust, at.files.directory)
        assert (await asyncio.to_thread(at.files.load)).settings.sandbox.network


async def test_a_reset_takes_the_setting_out_of_its_file(tmp_path: Path):
    async with office(tmp_path, "[host]\nidle_minutes = 3 # short\nresume_agents = true\n") as at:
        await at.search("host.idle")
        await at.shows("after a restart of the host")
        await at.pilot.press("ctrl+r")
        await at.shows("✓ reset in")
        assert at.files.places.config_file.read_text() == "[host]\nresume_agents = true\n"
        await at.pilot.press("ctrl+r")
        await at.shows("nothing to reset: it has its default")


async def test_a_variable_that_counts_more_is_named(tmp_path: Path):
    async with office(tmp_path, environment={"QUARTERDECK_MODE": "plan"}) as at:
        await at.edit("may do without asking")
        await at.pilot.press(*"ask", "enter", "enter")
        await at.shows("! set in ~/config.toml, but QUARTERDECK_MODE counts")


async def test_a_file_that_cannot_be_read_is_named_and_read_again(tmp_path: Path):
    async with office(tmp_path, "mode = [\n") as at:
        await at.search("")
        await at.shows("✗", "not TOML", "Fix the file")
        at.files.places.config_file.write_text('mode = "plan"\n')
        await at.pilot.press("ctrl+r")
        await at.shows("mode plan your file")


async def test_what_only_a_person_can_write_says_where(tmp_path: Path):
    async with office(tmp_path) as at:
        await at.search("hooks.prompt")
        await at.pilot.press("enter")
        await at.shows("can only be changed in a file")


async def test_escape_goes_back_a_step_at_a_time(tmp_path: Path):
    async with office(tmp_path) as at:
        await at.edit("limits.model_calls")
        screen = at.app.screen
        await at.pilot.press("down")
        await at.pilot.press("escape")
        assert screen.query_one("#value", Input).has_focus
        await at.pilot.press("escape")
        assert screen.query_one("#search", Input).has_focus
        await at.pilot.press("escape")
        assert screen.query_one("#search", Input).value == ""
        await at.pilot.press("escape")
        assert at.app.screen is not screen


async def test_the_command_opens_it(tmp_path: Path):
    async with office(tmp_path) as at:
        at.app.context.discovery.places = at.files.places
        at.app.action_command("settings", "mode")
        await until(at.pilot, lambda: isinstance(at.app.screen, SettingsScreen))


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), ("a", "a"), (True, "true"), (2.5, "2.5"), (("a", "b"), '["a", "b"]'), ((), "[]")],
)
def test_values_are_written_as_they_are_typed(value: object, text: str):
    assert format_setting_value(value) == text
