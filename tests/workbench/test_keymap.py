"""Keys of a person's own: in the file and live, before ours, told when they cannot be."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.binding import Binding

from quarterdeck.config.places import Places
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.commands.registry import COMMANDS
from quarterdeck.workbench.keyboard import find_command_of_action
from quarterdeck.workbench.panels.kinds import KINDS
from quarterdeck.workbench.preferences.keymap import (
    KEY_PLACES,
    KeyBinding,
    KeyBindingError,
    Keymap,
    explain_unusable_key,
    load_keymap,
    normalize_key,
    save_key,
)
from quarterdeck.workbench.preferences.store import load_preferences
from quarterdeck.workbench.screens.help import HelpScreen, collect_key_help
from quarterdeck.workbench.screens.permission import PermissionCard
from quarterdeck.workbench.screens.pickers import ThemesScreen
from quarterdeck.workbench.screens.question import QuestionForm
from quarterdeck.workbench.widgets.agent_table import AgentTable
from quarterdeck.workbench.widgets.chat_input import ChatInput
from quarterdeck.workbench.widgets.transcript import TranscriptView
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, screen_text, until

NAMES = [command.name for command in COMMANDS]
WHERE = {"main", *KEY_PLACES}
KINDS_WITH_KEYS = [
    Workbench, ChatInput, TranscriptView, AgentTable, HelpScreen, PermissionCard,
    QuestionForm, ThemesScreen, *(kind.load() for kind in KINDS.values()),
]  # fmt: skip


def told(app: Workbench) -> str:
    return " ".join(one.message for one in app._notifications)  # pyright: ignore[reportPrivateUsage]


def load(path: Path, text: str) -> tuple[dict[str, KeyBinding], list[str]]:
    path.write_text(text)
    keymap, problems = load_keymap(path, NAMES, WHERE)
    return {bound.key: bound for bound in keymap}, problems


def test_a_file_binds_keys_to_commands_with_words(tmp_path: Path):
    text = (
        '"ctrl+x" = "mode plan"\n'
        'f12 = "/feed audit"\n'
        '"?" = { command = "end", when = "transcript" }\n'
        '"Ctrl+T" = ""\n'
    )
    bound, problems = load(tmp_path / "keys.toml", text)
    assert problems == []
    assert bound["ctrl+x"] == KeyBinding(key="ctrl+x", command="mode", words="plan")
    assert bound["f12"] == KeyBinding(key="f12", command="feed", words="audit")
    assert bound["question_mark"].when == "transcript"
    assert bound["ctrl+t"].shown == "nothing"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('"ctrl+i" = "end"', "the same for tab"),
        ('"ctrl+m" = "end"', "the same for enter"),
        ('"ctrl+1" = "end"', "letters only"),
        ('"ctrl+shift+x" = "end"', "without other modifiers"),
        ('"super+x" = "end"', "only report ctrl, alt and shift"),
        ('"shift+x" = "end"', "upper-case letter"),
        ('"x" = "end"', "needed for typing"),
        ('"enter" = "end"', "needed for typing"),
        ('"ctrl+x" = "nonsense"', "unknown command 'nonsense'"),
        ('"ctrl+x" = 5', "Expected `object`"),
        ('"ctrl+x" = { command = "end", wen = "chat" }', "wen"),
        ('"ctrl+x" = { command = "end", when = "moon" }', "unknown place 'moon'"),
    ],
)
def test_a_bad_line_is_told_with_its_number_and_the_others_count(
    tmp_path: Path, line: str, said: str
):
    bound, (problem,) = load(tmp_path / "keys.toml", f'# mine\n\n{line}\n"ctrl+y" = "end"\n')
    assert set(bound) == {"ctrl+y"}
    assert "line 3" in problem
    assert said in problem


@pytest.mark.parametrize("text", ['"ctrl+x = "end"', "\udcff", '"a" = "end"\n"a" = "end"'])
def test_a_file_that_cannot_be_read_leaves_our_keys(tmp_path: Path, text: str):
    path = tmp_path / "keys.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    keymap, (problem,) = load_keymap(path, NAMES, WHERE)
    assert list(keymap) == []
    assert "keys.toml" in problem


def test_changing_a_key_keeps_the_words_of_the_person(tmp_path: Path):
    path = tmp_path / "keys.toml"
    path.write_text('# what I like\n"Ctrl+X" = "mode plan"  # careful\n"ctrl+y" = "end"\n')
    save_key(path, KeyBinding(key="ctrl+x", command="kill"), "ctrl+x")
    save_key(path, KeyBinding(key="j", command="end", when="transcript"), "j")
    save_key(path, None, "ctrl+y")
    assert path.read_text() == (
        '# what I like\n"ctrl+x" = "kill"\n'
        '"j" = { command = "end", words = "", when = "transcript" }\n'
    )


def test_a_file_that_cannot_be_changed_safely_stays(tmp_path: Path):
    path = tmp_path / "keys.toml"
    for text in ("nonsense [", '["ctrl+x"]\ncommand = "end"\n'):
        path.write_text(text)
        with pytest.raises(KeyBindingError, match=r"by hand|fix it"):
            save_key(path, KeyBinding(key="ctrl+x", command="kill"), "ctrl+x")
        assert path.read_text() == text


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_no_file_makes_loading_raise(tmp_path_factory: pytest.TempPathFactory, text: str):
    path = tmp_path_factory.getbasetemp() / "fuzzed-keys.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    load_keymap(path, NAMES, WHERE)


async def test_a_key_goes_before_ours_and_one_bound_to_nothing_does_nothing(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        app.preferences.keymap = Keymap(
            [
                KeyBinding(key="ctrl+x", command="rename", words="zoe"),
                KeyBinding(key="ctrl+t", command=""),
                KeyBinding(key="j", command="rename", words="jim", when="transcript"),
            ]
        )
        await pilot.press(*"jo", "ctrl+x")
        await until(pilot, lambda: fleet.infos[next(iter(fleet.infos))].name == "zoe")
        assert app.main.chat.text == "jo"
        await pilot.press("ctrl+t")
        await pilot.pause()
        assert len(app.screen_stack) == 1
        await pilot.press("f3", "j")
        await until(pilot, lambda: fleet.infos[next(iter(fleet.infos))].name == "jim")


async def test_binding_live_is_kept_and_told(tmp_path: Path):
    places = Places.find()
    looks = await asyncio.to_thread(load_preferences, places, "/work/project", {})
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path, looks=looks) as (app, pilot):
        await pilot.press(*"/bind ctrl+t rename eve", "enter")
        await until(pilot, lambda: "was: start an agent" in told(app))
        await pilot.press("ctrl+t")
        await until(pilot, lambda: fleet.infos[next(iter(fleet.infos))].name == "eve")
        await pilot.press(*"/unbind ctrl+n", "enter")
        await until(pilot, lambda: "unbound ctrl+n" in told(app))
        await pilot.press(*"/bind ctrl+i end", "enter")
        await until(pilot, lambda: "the same for tab" in told(app))
        await pilot.press(*"/bind ctrl+x nonsense", "enter")
        await until(pilot, lambda: "unknown command 'nonsense'" in told(app))
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.press(*"rename eve")
        await until(pilot, lambda: "/rename eve" in screen_text(app))
        assert "interrupt" not in screen_text(app)
        await pilot.press("escape")
    again = await asyncio.to_thread(load_preferences, places, "/work/project", {})
    assert {bound.key: bound.shown for bound in again.keymap} == {
        "ctrl+t": "/rename eve",
        "ctrl+n": "nothing",
    }
    assert again.problems == []


async def test_a_bad_file_of_keys_is_told_and_the_workbench_works(tmp_path: Path):
    places = Places.find()
    places.config.mkdir(parents=True)
    await asyncio.to_thread((places.config / "keys.toml").write_text, '"ctrl+x" = [\n')
    looks = await asyncio.to_thread(load_preferences, places, "/work/project", {})
    async with opened(FakeFleet(), tmp_path, (120, 40), looks=looks) as (app, pilot):
        await until(pilot, lambda: "keys.toml" in told(app))
        await pilot.press("f1")
        await until(pilot, lambda: "Everywhere" in screen_text(app))


def bindings(kind: type) -> list[Binding]:
    return [one for one in vars(kind).get("BINDINGS", []) if isinstance(one, Binding)]


@pytest.mark.parametrize("kind", KINDS_WITH_KEYS, ids=lambda kind: kind.__name__)
def test_every_key_of_ours_can_be_sent_by_a_plain_terminal(kind: type):
    for binding in bindings(kind):
        keys = [normalize_key(key) for key in binding.key.split(",")]
        assert any(explain_unusable_key(key) is None for key in keys), binding


def test_every_key_of_the_application_is_a_command():
    for binding in bindings(Workbench):
        command = find_command_of_action(binding.action)
        assert command is not None, binding
        assert command.split()[0] in NAMES, binding


@pytest.mark.parametrize("kind", KINDS_WITH_KEYS, ids=lambda kind: kind.__name__)
def test_every_key_of_ours_says_what_it_does(kind: type):
    assert all(binding.description for binding in bindings(kind))


async def test_the_help_lists_the_keys_of_what_is_on_the_screen(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path) as (app, _):
        told = {
            words for _, rows in collect_key_help(app.preferences, app.main) for _, words in rows
        }
        shown = [Workbench, ChatInput, TranscriptView, AgentTable]
        for binding in [one for kind in shown for one in bindings(kind)]:
            assert binding.description in told


async def test_a_key_can_be_bound_for_a_panel_alone(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path, (160, 40)) as (app, pilot):
        bound = KeyBinding(key="w", command="rename", words="wim", when="feed")
        app.preferences.keymap = Keymap([bound])
        await pilot.press("w")
        assert app.main.chat.text == "w"
        app.action_command("feed")
        await until(pilot, lambda: "1 audit" in screen_text(app))
        await pilot.press("w")
        await until(pilot, lambda: fleet.infos[next(iter(fleet.infos))].name == "wim")
