"""The form for a new agent offers what there is here, and remembers what was chosen."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Input

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import AgentInfo, SpawnOptions
from quarterdeck.fleet.errors import AgentNotReadyError
from quarterdeck.policy.modes import MODE_MEANINGS
from quarterdeck.wire.events import OptionsChanged
from quarterdeck.wire.session_options import SessionLimits, SessionOptions
from quarterdeck.wire.settings import ConfigChoice, ConfigOption
from quarterdeck.wire.worktrees import WorktreeOptions
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.preferences.store import Preferences, load_preferences
from quarterdeck.workbench.screens.spawn import SpawnScreen
from quarterdeck.workbench.screens.spawn_lookup import SpawnLookup
from quarterdeck.workbench.screens.spawn_model import (
    SpawnAgent,
    list_agent_options,
    list_remembered,
    parse_limits,
    recall_options,
)
from quarterdeck.workbench.widgets.select import SelectField
from tests.support.choice_states import AGENTS, FixedSource
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import opened, screen_text, until

WIDE = (120, 40)


class Form:
    """The form with the same choices everywhere, and what it starts."""

    def __init__(self, app: Workbench, pilot: Pilot[None], **chosen: str) -> None:
        self.app, self.pilot = app, pilot
        self.given: list[SpawnOptions] = []
        self.screen = SpawnScreen("/w", "go", FixedSource(), start=self._start, chosen=chosen)

    async def _start(self, options: SpawnOptions) -> None:
        self.given.append(options)

    def field(self, name: str) -> SelectField:
        return self.screen.query_one(f"#{name}", SelectField)

    async def shows(self, words: str) -> None:
        await until(self.pilot, lambda: words in screen_text(self.app))

    async def start(self) -> SessionOptions:
        await self.pilot.press("ctrl+s")
        await until(self.pilot, lambda: self.given)
        return self.given[0].options


@asynccontextmanager
async def form(home: Path, size: tuple[int, int] = WIDE, **chosen: str) -> AsyncGenerator[Form]:
    async with opened(FakeFleet(), home / "drafts", size) as (app, pilot):
        made = Form(app, pilot, **chosen)
        app.push_screen(made.screen)
        await until(pilot, lambda: app.screen is made.screen and made.screen.query("#hint"))
        await until(pilot, lambda: made.field("model").options)
        yield made


async def test_another_agent_brings_its_own_models_and_loses_what_it_cannot_do(tmp_path: Path):
    async with form(tmp_path, model="ollama/qwen4-coder", mode="deny-all", effort="high") as at:
        await at.shows(MODE_MEANINGS["deny-all"])
        await at.pilot.press(*"codex", "enter")
        await until(at.pilot, lambda: at.field("effort").disabled)
        assert [at.field(name).value for name in ("model", "mode", "effort")] == ["", "", ""]
        await at.shows("Codex takes no effort from here")
        assert at.screen.query_one("#limit-cost", Input).disabled
        assert not at.screen.query_one("#limit-seconds", Input).disabled
        await until(at.pilot, lambda: at.field("model").options[0].value == "opus")
        options = await at.start()
    assert options == SessionOptions(agent="codex", cwd="/w")


async def test_an_agent_that_is_not_installed_says_how_to_install_it(tmp_path: Path):
    async with form(tmp_path) as at:
        await at.pilot.press(*"gemini", "enter")
        await at.shows("✗ gemini: Gemini CLI · install: npm install -g @google/gemini-cli")
        assert at.field("agent").value == "native"


async def test_a_mode_that_the_agent_cannot_be_held_to_is_refused(tmp_path: Path):
    async with form(tmp_path, agent="codex") as at:
        await at.pilot.press("tab", "tab", "tab", *"deny", "enter")
        await at.shows("✗ deny-all: not with Codex: it reads files without asking")
        assert at.field("mode").value == ""


async def test_what_was_chosen_last_is_offered_again_and_what_is_gone_is_not(tmp_path: Path):
    async with form(tmp_path, agent="claude", model="sonnet", mode="plan", worktree="new") as at:
        options = await at.start()
    assert options == SessionOptions(
        agent="claude", cwd="/w", model="sonnet", mode="plan", worktree=WorktreeOptions()
    )
    async with form(tmp_path, agent="gemini", model="gemini-4") as at:
        await until(at.pilot, lambda: at.field("agent").value == "native")
        assert at.field("model").value == ""


async def test_limits_have_fields_of_their_own(tmp_path: Path):
    async with form(tmp_path) as at:
        at.screen.query_one("#limit-cost", Input).value = "much"
        await at.pilot.press("ctrl+s")
        await at.shows("✗ limits.cost: must be a number, not 'much'")
        assert at.app.focused is at.screen.query_one("#limit-cost")
        at.screen.query_one("#limit-cost", Input).value = "2"
        at.screen.query_one("#limit-seconds", Input).value = "60"
        await at.pilot.pause()
        options = await at.start()
    assert options.limits == SessionLimits(cost=2.0, seconds=60.0)


async def test_a_low_screen_shows_four_fields_and_opens_the_others_where_an_error_is(
    tmp_path: Path,
):
    async with form(tmp_path, (80, 24)) as at:
        assert "limits" not in screen_text(at.app) and "▸ directory /w" in screen_text(at.app)
        await at.pilot.press("ctrl+o")
        await at.shows("limits")
        await at.pilot.press("ctrl+o")
        await at.shows("▸ directory /w")
        at.screen.query_one("#more", Input).value = "nonsense"
        await at.pilot.pause()
        await at.pilot.press("ctrl+s")
        await at.shows("✗ options: write 'nonsense'")
        assert at.app.focused is at.screen.query_one("#more")


async def test_escape_closes_the_list_and_then_the_form(tmp_path: Path):
    async with form(tmp_path) as at:
        await at.pilot.press("down", "escape")
        assert at.app.screen is at.screen and not at.field("agent").is_open
        await at.pilot.press("escape")
        await until(at.pilot, lambda: at.app.screen is not at.screen)


async def test_the_workbench_remembers_choices_for_each_directory(tmp_path: Path):
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    fleet = FakeFleet()
    looks = Preferences(places=places)
    async with opened(fleet, tmp_path / "drafts", WIDE, looks=looks) as (app, pilot):
        for is_first in (True, False):
            await pilot.press("ctrl+t")
            await until(pilot, lambda: isinstance(app.screen, SpawnScreen))
            screen = app.screen
            agent = screen.query_one("#agent", SelectField)
            await until(pilot, lambda agent=agent: agent.options)
            field = screen.query_one("#mode", SelectField)
            if is_first:
                field.value = "plan"
                await pilot.pause()
                await pilot.press("ctrl+s")
                await until(pilot, lambda: looks.choices.spawns)
            else:
                assert field.value == "plan"
                await pilot.press("escape")
            await until(pilot, lambda screen=screen: app.screen is not screen)
    kept = await asyncio.to_thread(load_preferences, places, "/work/project", {})
    assert kept.choices.spawns == {"/work/project": {"agent": "native", "mode": "plan"}}
    assert kept.choices.directories == ("/work/project",)


class ChoosyFleet(FakeFleet):
    """Notes what it is to start; refuses to while it has a reason."""

    def __init__(self) -> None:
        super().__init__()
        self.spawned: list[SpawnOptions] = []
        self.reason = ""

    async def spawn(self, request: SpawnOptions) -> AgentInfo:
        if self.reason:
            raise AgentNotReadyError(self.reason)
        self.spawned.append(request)
        return await super().spawn(replace(request, name=f"agent{len(self.spawned)}"))


async def test_the_second_agent_of_a_project_starts_with_enter_as_the_last_one(tmp_path: Path):
    fleet, looks = ChoosyFleet(), Preferences()
    async with opened(fleet, tmp_path / "drafts", WIDE, looks=looks) as (app, pilot):
        await until(pilot, lambda: app.main.panel.is_home)
        assert "enter:" not in screen_text(app)
        await pilot.press(*"first", "enter")  # there is no last one: the form asks
        await until(pilot, lambda: isinstance(app.screen, SpawnScreen))
        app.screen.query_one("#mode", SelectField).value = "plan"
        await pilot.pause()
        await pilot.press("ctrl+s")
        await until(pilot, lambda: len(fleet.infos) == 1 and len(app.screen_stack) == 1)
        app.action_command("home", "")
        await until(pilot, lambda: "enter: native · plan" in screen_text(app))
        await pilot.press(*"second", "enter")
        await until(pilot, lambda: len(fleet.infos) == 2)
        assert len(app.screen_stack) == 1
        given = fleet.spawned[-1]
        assert (given.prompt, given.options.agent, given.options.mode) == (
            "second", "native", "plan",
        )  # fmt: skip
        await until(pilot, lambda: app.context.shown == list(fleet.infos)[-1])
        app.action_command("home", "")
        await until(pilot, lambda: app.main.panel.is_home)
        assert app.main.chat.text == ""
        fleet.reason = "no model key is set"
        await pilot.press(*"third", "enter")  # refused: the form has the text and the reason
        await until(pilot, lambda: "✗ no model key is set" in screen_text(app))
        assert isinstance(app.screen, SpawnScreen) and "third" in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        assert app.main.chat.text == "third" and len(fleet.infos) == 2


async def test_enter_twice_starts_one_agent(tmp_path: Path):
    fleet, looks = ChoosyFleet(), Preferences()
    looks.choices.spawns["/work/project"] = {"agent": "native"}
    async with opened(fleet, tmp_path / "drafts", WIDE, looks=looks) as (app, pilot):
        await until(pilot, lambda: app.main.panel.is_home)
        fleet.spawn_gate.clear()  # starting takes long, as for a worktree
        await pilot.press(*"once", "enter", "enter")
        await until(pilot, lambda: "starting …" in screen_text(app))
        await pilot.pause(1.3)  # longer than a command holds up the next one
        await pilot.press("enter")
        fleet.spawn_gate.set()
        await until(pilot, lambda: len(fleet.infos) == 1 and app.context.shown is not None)
        await pilot.pause(0.2)
        assert len(fleet.spawned) == 1


async def test_enter_in_the_task_starts_and_another_line_has_a_key_of_its_own(tmp_path: Path):
    fleet = ChoosyFleet()
    async with opened(fleet, tmp_path / "drafts", WIDE, looks=Preferences()) as (app, pilot):
        await pilot.press("ctrl+t")
        await until(pilot, lambda: isinstance(app.screen, SpawnScreen))
        await pilot.press("a", "ctrl+j", "b", "enter")
        await until(pilot, lambda: len(fleet.infos) == 1)
        assert fleet.spawned[-1].prompt == "a\nb"


def test_what_is_remembered_is_how_the_next_one_starts():
    for tree in (None, WorktreeOptions(), WorktreeOptions(is_off=True)):
        options = SessionOptions(agent="a", model="m", mode="plan", cwd="/w", worktree=tree)
        assert recall_options(list_remembered(options), "/w") == options


def test_what_is_remembered_of_a_start():
    options = SessionOptions(agent="a", model="m", worktree=WorktreeOptions(name="x"))
    assert list_remembered(options) == {"agent": "a", "model": "m", "worktree": "new"}
    off = SessionOptions(worktree=WorktreeOptions(is_off=True))
    assert list_remembered(off) == {"agent": "native", "worktree": "none"}
    assert list_remembered(SessionOptions(worktree=WorktreeOptions(path="/x")))["agent"] == "native"
    assert parse_limits({"cost": None}, SessionLimits(tokens=3)) == SessionLimits(tokens=3)


def test_installed_agents_come_first_with_version_and_login():
    options = list_agent_options((AGENTS[3], *AGENTS[:3], SpawnAgent(name="x", is_here=True)))
    assert [(one.value, one.group) for one in options][-1] == ("gemini", "not installed")
    words = {one.value: one.words or one.problem for one in options}
    assert words["claude"] == "Claude Code · 2.1.325 · logged in"
    assert words["codex"] == "0.166.0 · not logged in"
    assert words["x"] == "login unknown"
    broken = SpawnAgent(name="aider", is_here=True, problem="use it in a terminal")
    assert list_agent_options([broken])[0].problem == "use it in a terminal"


async def test_models_have_prices_and_an_agents_own_come_first(tmp_path: Path):
    fleet = FakeFleet()
    model = ConfigOption(
        id="model", name="Model", type="select", current_value="opus", category="model",
        options=(
            ConfigChoice(name="Group", group="g", options=(
                ConfigChoice(name="Opus", value="opus", description="large"),
            )),
            ConfigChoice(name="claude-sonnet-5-5", value="claude-sonnet-5-5"),
        ),
    )  # fmt: skip
    async with opened(fleet, tmp_path) as (app, pilot):
        lookup = SpawnLookup(app.context)
        claude = SpawnAgent(name="claude", vendor="anthropic")
        found = {one.value: one for one in await lookup.models(claude)}
        assert found["claude-sonnet-5-5"].words == "2 $ in · 10 $ out per million"
        assert found["claude-fable-5-2"].words == "price unknown" and "gpt-5.5" not in found
        options = SessionOptions(agent="claude", cwd="/w", model="my-own")
        info = await fleet.spawn(SpawnOptions(options=options, name="ann"))
        await fleet.append(info.session, OptionsChanged(options=(model,)))
        await until(pilot, lambda: app.context.roster.everyone)
        first = await lookup.models(claude)
        assert [one.value for one in first[:3]] == ["opus", "claude-sonnet-5-5", "my-own"]
        assert first[0].words == "large · price unknown"
        assert first[1].words == "2 $ in · 10 $ out per million"
        native = await lookup.models(SpawnAgent(name="native"))
        groups = {one.value.partition("/")[0]: one.group for one in native}
        assert groups["anthropic"] == "no key is set for them"
        assert groups["ollama"] == "can be used here" == native[0].group


async def test_directories_are_those_of_agents_and_paths_complete(tmp_path: Path):
    for name in ("one", "other", ".hidden", "\x1b[31m"):
        (tmp_path / "top" / name).mkdir(parents=True)
    (tmp_path / "top" / "open.txt").touch()
    fleet = FakeFleet()
    async with opened(fleet, tmp_path / "drafts") as (app, pilot):
        app.context.preferences.choices.directories = ("/recent",)
        await fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/repo"), name="ann"))
        await until(pilot, lambda: app.context.roster.everyone)
        lookup = SpawnLookup(app.context)
        values = [one.value for one in await lookup.directories("")]
        assert values == ["/work/project", "/recent", "/repo"]
        top = f"{tmp_path}/top"
        assert [one.value for one in await lookup.directories(f"{top}/o")] == [
            f"{top}/one", f"{top}/other",
        ]  # fmt: skip
        assert [one.value for one in await lookup.directories(f"{top}/.")] == [f"{top}/.hidden"]
        assert await lookup.directories("/none/such") == []
        assert len(await lookup.directories(f"{top}/")) == 2


async def test_agents_are_found_without_starting_any(tmp_path: Path):
    program = tmp_path / "bin" / "codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ntouch started\n")
    program.chmod(0o755)
    async with opened(FakeFleet(), tmp_path / "drafts") as (app, _):
        app.context.discovery.environment = {"PATH": str(program.parent), "HOME": str(tmp_path)}
        found = {one.name: one for one in await SpawnLookup(app.context).agents(with_versions=True)}
    assert found["native"].is_here and found["codex"].is_here and not found["gemini"].is_here
    assert found["codex"].explain("effort") == "Codex takes no effort from here"
    assert not found["codex"].explain("limits.seconds") and found["codex"].explain("limits.cost")
    assert found["native"].explain("effort") == "" and found["claude"].install
