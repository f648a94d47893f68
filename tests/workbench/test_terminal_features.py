"""What a terminal can show: signs in ASCII, few colours, and a background that it tells."""

import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual import events
from textual.drivers import linux_driver

import quarterdeck.workbench
from quarterdeck.config.places import Places
from quarterdeck.workbench.preferences.store import load_preferences
from quarterdeck.workbench.rendering import glyphs
from quarterdeck.workbench.rendering.glyphs import ASCII_SIGNS, to_ascii
from quarterdeck.workbench.terminal_features import (
    BackgroundReply,
    choose_sign_level,
    has_few_colours,
    is_light_by_environment,
    listen_for_background,
    read_background,
)
from tests.support import agent_states, panel_states
from tests.support.all_states import STATES
from tests.support.real_terminals import PROGRAM, clean_environment, pty_of
from tests.support.staged_workbench import staged
from tests.support.workbench_app import screen_text, until

assert agent_states and panel_states  # they name the states

ROOT = Path(__file__).parents[2]
WHITE = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\"


def test_the_table_of_the_design_is_the_table_of_the_code():
    page = (ROOT / "docs/design.md").read_text()
    rows = re.findall(r"^\| (`[^|]+`) \| [^|]+ \| (.+) \|$", page.partition("## Signs")[2], re.M)
    told: dict[str, str] = {}
    for signs, plain in rows:
        left = "".join(re.findall(r"`([^`]+)`", signs))
        right = "".join(re.findall(r"`` (.) ``|`([^`]+)`", plain) and [
            one or other for one, other in re.findall(r"`` (.) ``|`([^`]+)`", plain)
        ])  # fmt: skip
        assert len(left) == len(right), (signs, plain)
        told |= {a: b for a, b in zip(left, right, strict=True) if not a.isascii()}
    assert told == ASCII_SIGNS


def test_each_sign_takes_a_cell_and_so_does_what_replaces_it():
    for sign, plain in ASCII_SIGNS.items():
        assert cell_len(sign) == 1 == len(plain) and plain.isascii()
    for name in glyphs.__all__:
        value: Any = getattr(glyphs, name)
        if isinstance(value, str):
            assert to_ascii(value, keeps_letters=True).isascii(), name


@given(st.text(max_size=60))
@settings(deadline=None, max_examples=60)
def test_a_text_keeps_its_cells_in_ascii(text: str):
    plain = to_ascii(text, keeps_letters=False)
    assert plain.isascii()
    assert len(plain) == sum(1 if one.isascii() else cell_len(one) for one in text)


SIGNS_IN = re.compile("[●○◌✓✗⊘⚠❯✻⎇◆◇❝☐◐☑▓░]")


def test_panels_take_their_signs_from_the_set():
    top = Path(quarterdeck.workbench.__file__).parent
    others = {"transcript.py", "chat.py"}  # what is said before the first agent
    files = [
        file
        for folder in ("panels", "layout", "stores")
        for file in (top / folder).rglob("*.py")
        if file.name not in others
    ]
    found = [
        f"{file.name}:{number}: {line.strip()}"
        for file in files
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if SIGNS_IN.search(line) and not line.lstrip().startswith(("#", '"""'))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("setting", "environ", "level"),
    [
        ("auto", {}, "unicode"),
        ("auto", {"LANG": "de_DE.UTF-8", "TERM": "xterm"}, "unicode"),
        ("auto", {"LANG": "C.utf8"}, "unicode"),
        ("auto", {"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, "ascii"),
        ("auto", {"LC_CTYPE": "de_DE.ISO-8859-1"}, "ascii"),
        ("auto", {"LANG": "en_US.UTF-8", "TERM": "linux"}, "signs"),
        ("auto", {"TERM": "dumb"}, "signs"),
        ("ascii", {"LANG": "en_US.UTF-8"}, "signs"),
        ("ascii", {"LANG": "POSIX"}, "ascii"),
        ("unicode", {"LC_ALL": "C", "TERM": "linux"}, "unicode"),
    ],
)
def test_signs_follow_the_locale_the_terminal_and_the_setting(setting, environ, level):
    assert choose_sign_level(setting, environ) == level


@pytest.mark.parametrize(
    ("environ", "few"),
    [
        ({}, False),
        ({"TERM": "xterm"}, True),
        ({"TERM": "linux"}, True),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, False),
        ({"TERM": "screen-256color"}, False),
        ({"TERM": "xterm-kitty"}, False),
        ({"TERM": "xterm-256color", "TEXTUAL_COLOR_SYSTEM": "standard"}, True),
        ({"TERM": "xterm", "TEXTUAL_COLOR_SYSTEM": "truecolor"}, False),
    ],
)
def test_a_terminal_with_16_colours_is_known(environ: dict[str, str], few: bool):
    assert has_few_colours(environ) is few


def test_the_first_theme_follows_the_terminal_until_one_is_chosen(tmp_path: Path):
    places = Places.find()

    def first(environ: dict[str, str]) -> str:
        return load_preferences(places, str(tmp_path), environ).chosen_theme

    assert first({}) == "dark" and first({"COLORFGBG": "15;0"}) == "dark"
    assert (
        first({"COLORFGBG": "0;15"}) == "light" and first({"COLORFGBG": "0;default;7"}) == "light"
    )
    assert first({"TERM": "xterm"}) == "sixteen"
    assert first({"TERM": "xterm", "NO_COLOR": "1"}) == "mono"
    looks = load_preferences(places, str(tmp_path), {})
    assert looks.wants_background
    looks.choose_theme("ember", here=False)
    looks.save()
    assert first({"COLORFGBG": "0;15"}) == first({"TERM": "linux"}) == "ember"
    assert not load_preferences(places, str(tmp_path), {}).wants_background


def test_colours_that_terminals_tell_are_read():
    assert is_light_by_environment({"COLORFGBG": "x"}) is None
    assert read_background("rgb:ffff/ffff/ffff") is True and read_background("rgb:ff/ff/f0") is True
    assert read_background("rgb:0000/2b2b/3636") is False
    assert read_background("rgba:1111/1111/1111/ffff") is False
    for nonsense in ("", "rgb:", "rgb:1/2", "rgb:xx/yy/zz", "rgb:12345/1/1", "red", "?"):
        assert read_background(nonsense) is None


@pytest.mark.parametrize("reply", [WHITE, WHITE.replace("\x1b\\", "\x07")])
@given(data=st.data())
@settings(deadline=None, max_examples=80)
def test_an_answer_never_becomes_keys_however_it_is_cut(reply: str, data: st.DataObject):
    before, after = (
        data.draw(st.text("ab\x1b[A", max_size=4)),
        data.draw(st.text("xy\r", max_size=4)),
    )
    stream = before + reply + after
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    told: list[bool] = []
    taken = BackgroundReply(told.append, clock=lambda: 0.0)
    keys = ""
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        keys += taken.take(stream[begin:end])
        keys += taken.release()  # the driver asks after each read
    keys += taken.release()
    assert keys == before + after and told == [True]


def test_an_escape_is_only_held_while_an_answer_is_awaited():
    now = [0.0]
    taken = BackgroundReply(lambda _: None, clock=lambda: now[0])
    assert taken.take("\x1b") == "" and taken.release() == "" and taken.release() == "\x1b"
    assert taken.take("\x1b[A") == "\x1b[A"
    now[0] = 5.0
    assert taken.take("\x1b") == "\x1b"
    assert taken.take("a" + WHITE + "b") == "ab"  # one that comes late
    assert taken.take("\x1b]11;" + "x" * 200) == "\x1b]11;" + "x" * 200


def test_the_parser_of_the_driver_gives_keys_and_no_answer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(linux_driver, "XTermParser", linux_driver.XTermParser)  # restored later
    told: list[bool] = []
    listen_for_background(told.append)
    parser = linux_driver.XTermParser()
    found = [*parser.feed("a\x1b]11;rgb:ff"), *parser.tick(), *parser.feed("ff/ffff/ffff\x07b")]
    found += [*parser.feed("\x1b[A"), *parser.tick()]
    keys = [event.key for event in found if isinstance(event, events.Key)]
    assert keys == ["a", "b", "up"] and told == [True]


async def test_a_light_terminal_gets_the_light_theme_and_only_if_none_was_chosen(tmp_path: Path):
    async with staged(STATES["welcome"], tmp_path, (80, 24)) as stage:
        control = stage.app.theme_control
        await control.take_background(False)
        assert stage.app.theme == "dark"
        await control.take_background(True)
        assert stage.app.theme == "light"
    async with staged(STATES["theme-without-colours"], tmp_path, (80, 24)) as stage:
        await stage.app.theme_control.take_background(True)
        assert stage.app.theme == "mono"


@pytest.mark.parametrize("name", ["many-agents", "permission-for-a-command", "usage-by-agent"])
async def test_everything_is_drawn_in_ascii_where_that_is_all_there_is(name: str, tmp_path: Path):
    async with staged(STATES[name], tmp_path, (100, 30)) as stage:
        before = screen_text(stage.app)
        assert not before.isascii()
        stage.app.theme_control.draw_signs("ascii")
        stage.app.refresh_css(animate=False)
        await until(stage.pilot, lambda: screen_text(stage.app).isascii())
        after = screen_text(stage.app)
        lines = zip(before.splitlines(), after.splitlines(), strict=True)
        assert all(cell_len(a) == len(b) for a, b in lines)
        stage.app.theme_control.draw_signs("unicode")
        stage.app.refresh_css(animate=False)
        await until(stage.pilot, lambda: screen_text(stage.app) == before)


async def test_a_file_of_the_person_can_ask_for_ascii(tmp_path: Path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text('[workbench]\nsigns = "ascii"\n')
    async with staged(STATES["many-agents"], tmp_path, (100, 30)) as stage:
        await until(stage.pilot, lambda: re.search(r"\* (\d )?ann", screen_text(stage.app)))
        assert "●" not in screen_text(stage.app)


def test_a_light_terminal_is_found_on_a_real_terminal_and_no_key_comes_of_it(tmp_path: Path):
    environment = clean_environment(tmp_path, COLORTERM="truecolor")
    with pty_of([PROGRAM], environment, cwd=tmp_path) as screen:
        screen.shows("\x1b]11;?")
        screen.write("before ")
        for part in ("\x1b]11;rgb:ff", "ff/ffff/ffff\x1b", "\\"):
            screen.write(part)
            time.sleep(0.02)  # three reads, if the program is quick
        screen.shows("48;2;251;252;253m")  # the background of the theme "light"
        screen.write("after")
        screen.shows("after")
        assert b"rgb" not in screen.read()
        screen.write("\x11")
        assert screen.ends() == 0 and screen.is_restored


def test_16_colours_are_all_that_is_sent_to_a_terminal_that_has_no_more(tmp_path: Path):
    environment = clean_environment(tmp_path, TERM="xterm", LC_ALL="C", LANG="C")
    with pty_of([PROGRAM], environment, cwd=tmp_path) as screen:
        screen.shows("Get started, step 1 of 4")
        screen.write("\x11")
        assert screen.ends() == 0
        shown = screen.read()
        assert b"8;2;" not in shown and b"8;5;" not in shown and b"\x1b]11;" not in shown
        assert shown.isascii()
