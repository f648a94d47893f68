"""Keys of vim in the input and in lists, for those who set them."""

from pathlib import Path

from quarterdeck.config.places import Places
from quarterdeck.wire.events import Prompted
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.preferences.store import load_workbench_settings
from quarterdeck.workbench.screens.dialogs import ReadingScreen
from quarterdeck.workbench.screens.help import HelpScreen
from quarterdeck.workbench.widgets.agent_table import AgentTable
from quarterdeck.workbench.widgets.chat_input import ChatInput
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, screen_text, until

TEXT = "one two.three\n  four five\nsix"

# Where the cursor is at first, keys after escape, the text then, the cursor then, the mode then.
CASES = [
    ((0, 0), "w", TEXT, (0, 4), "normal"),
    ((0, 0), "3w", TEXT, (0, 8), "normal"),
    ((0, 0), "4w", TEXT, (1, 2), "normal"),
    ((0, 4), "e", TEXT, (0, 6), "normal"),
    ((0, 12), "e", TEXT, (1, 5), "normal"),
    ((1, 2), "b", TEXT, (0, 8), "normal"),
    ((0, 5), "b", TEXT, (0, 4), "normal"),
    ((0, 4), "$", TEXT, (0, 13), "normal"),
    ((0, 4), "0", TEXT, (0, 0), "normal"),
    ((0, 4), "2l", TEXT, (0, 6), "normal"),
    ((0, 4), "9h", TEXT, (0, 0), "normal"),
    ((0, 4), "G", TEXT, (2, 0), "normal"),
    ((2, 0), "gg", TEXT, (0, 0), "normal"),
    ((0, 0), "2G", TEXT, (1, 2), "normal"),
    ((0, 0), "j", TEXT, (1, 0), "normal"),
    ((2, 0), "k", TEXT, (1, 0), "normal"),
    ((0, 0), "x", "ne two.three\n  four five\nsix", (0, 0), "normal"),
    ((0, 0), "4x", "two.three\n  four five\nsix", (0, 0), "normal"),
    ((0, 3), "D", "one\n  four five\nsix", (0, 3), "normal"),
    ((0, 0), "dd", "  four five\nsix", (0, 2), "normal"),
    ((1, 0), "2dd", "one two.three", (0, 0), "normal"),
    ((0, 0), "9dd", "", (0, 0), "normal"),
    ((2, 0), "dd", "one two.three\n  four five", (1, 2), "normal"),
    ((0, 0), "ddp", "  four five\none two.three\nsix", (1, 0), "normal"),
    ((2, 1), "yyP", f"{TEXT}\nsix", (2, 0), "normal"),
    ((0, 0), "xp", "noe two.three\n  four five\nsix", None, "normal"),
    ((0, 0), "dw", "two.three\n  four five\nsix", (0, 0), "normal"),
    ((1, 7), "dw", "one two.three\n  four \nsix", (1, 7), "normal"),
    ((0, 0), "d2w", ".three\n  four five\nsix", (0, 0), "normal"),
    ((0, 4), "d0", "two.three\n  four five\nsix", (0, 0), "normal"),
    ((0, 0), "cw", " two.three\n  four five\nsix", (0, 0), "insert"),
    ((1, 4), "cc", "one two.three\n\nsix", (1, 0), "insert"),
    ((0, 4), "A", TEXT, (0, 13), "insert"),
    ((1, 4), "I", TEXT, (1, 2), "insert"),
    ((0, 4), "i", TEXT, (0, 4), "insert"),
    ((0, 4), "a", TEXT, (0, 5), "insert"),
    ((0, 4), "o", "one two.three\n\n  four five\nsix", (1, 0), "insert"),
    ((0, 4), "O", "\none two.three\n  four five\nsix", (0, 0), "insert"),
    ((0, 0), "xu", TEXT, None, "normal"),
    ((0, 0), "Zq~", TEXT, (0, 0), "normal"),
    ((0, 0), "dG", TEXT, (0, 0), "normal"),
]


def set_vim(app: Workbench) -> ChatInput:
    app.preferences.vim = True
    app.main.chat.on_focus()
    return app.main.chat


async def test_keys_of_normal_mode_do_what_vim_does(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path) as (app, pilot):
        chat = set_vim(app)
        for start, keys, text, cursor, mode in CASES:
            chat._vim.mode = "normal"
            chat.load_text(TEXT)
            chat.move_cursor(start)
            await pilot.press(*keys)
            assert (chat.text, chat._vim.mode) == (text, mode), keys
            if cursor is not None:
                assert chat.cursor_location == cursor, keys


async def test_the_mode_is_shown_and_escape_changes_it(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        assert "insert" not in screen_text(app)
        chat = set_vim(app)
        await until(pilot, lambda: "insert" in screen_text(app))
        await pilot.press(*"hello", "escape")
        await until(pilot, lambda: "normal" in screen_text(app))
        assert chat.cursor_location == (0, 4)
        await pilot.press(*"A you", "escape", *"0i", *"> ")
        assert chat.text == "> hello you"
        await pilot.press("escape", "enter")
        await until(
            pilot,
            lambda: any(
                isinstance(r.event, Prompted) and "> hello you" in str(r.event.content)
                for r in fleet.records
            ),
        )
        await until(pilot, lambda: "insert" in screen_text(app))


async def test_escape_closes_the_list_of_offers_before_it_changes_the_mode(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path) as (app, pilot):
        chat = set_vim(app)
        await pilot.press(*"/he")
        await until(pilot, lambda: chat._offers is not None and chat._offers.chosen)
        await pilot.press("escape")
        assert chat.mode == "insert"
        await pilot.press("escape")
        assert chat.mode == "normal"
        await pilot.press(*"dd", "colon")
        assert (chat.text, chat.mode) == ("/", "insert")


async def test_help_opens_in_normal_mode_and_a_text_is_scrolled(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path) as (app, pilot):
        set_vim(app)
        await pilot.press("escape", "question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, HelpScreen))
        app.push_screen(ReadingScreen("text", [("rows", [(str(n), "words") for n in range(200)])]))
        await until(pilot, lambda: isinstance(app.screen, ReadingScreen))
        view = app.screen.query_one("#reading")
        await until(pilot, lambda: view.has_focus and view.virtual_size.height > 100)
        await pilot.press("G")
        await until(pilot, lambda: view.scroll_offset.y > 100)
        await pilot.press("g")
        await until(pilot, lambda: view.scroll_offset.y == 0)
        await pilot.press("ctrl+d")
        await until(pilot, lambda: view.scroll_offset.y > 2)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, ReadingScreen))


async def test_a_number_with_alt_goes_to_an_agent_in_both_modes(tmp_path: Path):
    fleet = FakeFleet()
    sessions = [await begin(fleet, name) for name in ("ann", "bob")]
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        await until(pilot, lambda: app.context.shown == sessions[0])
        chat = set_vim(app)
        await pilot.press("alt+2")
        assert app.context.shown == sessions[1] and chat.text == ""
        await pilot.press("escape", "alt+1", "x")
        assert app.context.shown == sessions[0] and chat.text == ""


async def test_lists_take_the_keys_of_vim_and_kill_stays_in_reach(tmp_path: Path):
    fleet = FakeFleet()
    for name in ("a", "b", "c"):
        await begin(fleet, name)
    async with opened(fleet, tmp_path) as (app, pilot):
        set_vim(app)
        table = app.screen.query_one(AgentTable)
        await until(pilot, lambda: len(table._rows) == 3)
        table.focus()
        await pilot.press("g")
        first = table.cursor
        await pilot.press("j", "j")
        third = table.cursor
        assert third not in (None, first)
        await pilot.press("k")
        assert table.cursor not in (first, third)
        await pilot.press("G")
        assert table.cursor == third
        assert len(app.screen_stack) == 1
        await pilot.press("K")
        await until(pilot, lambda: len(app.screen_stack) == 2)


async def test_without_the_setting_nothing_has_modes(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path) as (app, pilot):
        await pilot.press(*"hj", "escape", *"dd")
        assert app.main.chat.text == "hjdd"


def test_the_setting_is_read_from_the_persons_file(tmp_path: Path):
    places = Places(
        config=tmp_path, state=tmp_path / "s", cache=tmp_path / "c", runtime=tmp_path / "r"
    )
    assert load_workbench_settings(places, {}).keys == "default"
    (tmp_path / "config.toml").write_text('[workbench]\nkeys = "vim"\n')
    assert load_workbench_settings(places, {}).keys == "vim"
    (tmp_path / "config.toml").write_text('[workbench]\nkeys = "emacs"\n')
    assert load_workbench_settings(places, {}).keys == "default"
