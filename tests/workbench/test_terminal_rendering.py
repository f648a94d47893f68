"""Rows of a terminal on a screen of cells: each character where the emulator has it."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style as RichStyle

from quarterdeck.terminal.emulator import GridRow, GridSpan, Style, open_emulator
from quarterdeck.terminal.viewer_events import (
    TerminalDrawn,
    TerminalEnded,
    TerminalResized,
    TerminalWritten,
)
from quarterdeck.workbench.terminal.command_line import format_command_line, parse_command_line
from quarterdeck.workbench.terminal.display import TerminalDisplay
from quarterdeck.workbench.terminal.rendering import RowRenderer, render_text
from quarterdeck.workbench.terminal.selection import CellSelection, cut_row, find_word
from tests.support.hostile_text import hostile_strings

POWERFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("plain │ text", "plain │ text"),
        ("你好", "你好"),
        ("e\u0301x", "e\u0301x"),
        ("a" + "\u0301" * 9 + "b", "a\u0301\u0301\u0301b"),
        ("👨\u200d👩\u200d👧x", "👨x"),
        ("☁\ufe0fx", "☁ x"),
        ("1\ufe0f\u20e3x", "1\u20e3 x"),
        ("🇩🇪x", "🇩🇪x"),
        ("🇩x", "🇩 x"),
        ("🇩🇪🇫x", "🇩🇪🇫 x"),
        ("a🏽x", "a  x"),
        ("👍🏽x", "👍x"),
        ("a\u202eb\u202c", "ab"),
        ("\u2800⣿", " ⣿"),
        ("a\u00adb", "a-b"),
        ("\ue0b0", "\ue0b0"),
    ],
)
def test_text_is_drawn_with_nothing_that_could_shift_or_turn_it(text: str, drawn: str):
    assert render_text(text) == drawn


def test_every_hostile_text_takes_the_cells_that_the_emulator_gave_it():
    for text in hostile_strings(400):
        screen = open_emulator(400, 60, backend="ghostty")
        screen.feed(text.encode("utf-8", "replace"))
        for place, row in enumerate(screen.rows()):
            shown = render_text(row.text)
            assert not {unicodedata.category(one) for one in shown} & POWERFUL
            if place == screen.cursor.row and len(row.text) > 2:
                assert cell_len(shown) <= max(screen.cursor.column, cell_len(row.text), 400)
        screen.close()


WIDTHS = [
    "a",
    "你",
    "é",
    "e\u0301",
    "👍",
    "👍🏽",
    "🇩🇪",
    "☁\ufe0f",
    "👩\u200d💻",
    "🇫",
    "1\ufe0f\u20e3",
    "│",
    "ｱ",
    "한",
    "\u200b",
    "✅",
]


@settings(deadline=None, max_examples=150)
@given(st.lists(st.sampled_from(WIDTHS), max_size=12))
def test_what_follows_stands_in_the_emulators_column(parts: list[str]):
    screen = open_emulator(200, 3)
    screen.feed("".join(parts).encode() + b"|")
    shown = render_text(screen.rows()[0].text)
    assert cell_len(shown) == screen.cursor.column and shown.endswith("|")


def test_colours_and_attributes_become_styles():
    drawer = RowRenderer(lambda: RichStyle.parse("white on black"))
    red = GridSpan("red", Style(foreground=1, bold=True, inverse=True))
    both = GridSpan("both", Style(foreground=(1, 2, 3), background=200, underline=True))
    hidden = GridSpan("你x", Style(invisible=True))
    made = drawer.segments(GridRow((red, both, hidden), "redboth你x"))
    assert [segment.text for segment in made] == ["red", "both", "   "]
    first, second = made[0].style, made[1].style
    assert first is not None and first.color is not None and first.color.number == 1
    assert first.bold and first.reverse and first.bgcolor is not None
    assert second is not None and second.color is not None and second.color.triplet == (1, 2, 3)
    assert second.bgcolor is not None and second.bgcolor.number == 200 and second.underline


def test_a_selection_cuts_at_cells():
    assert cut_row("ab你好cd", 1, 4) == "b你"
    assert cut_row("ab你好cd", 3, 5) == "你好"  # half of a wide one takes it
    assert cut_row("e\u0301x  ", 0, None) == "e\u0301x"
    selected = CellSelection((5, 3), (3, 8))
    assert selected.span(2) is None and selected.span(3) == (8, None)
    assert selected.span(4) == (0, None) and selected.span(5) == (0, 4)
    assert list(selected.rows) == [3, 4, 5]


def test_a_double_click_takes_a_path():
    assert find_word("see /tmp/a-b.py:3 now", 8) == (4, 16)
    assert find_word("你好 x", 1) == (0, 3)
    assert find_word("a  b", 1) is None


class Clock:
    """Each look at it is a millisecond later."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


def test_a_flood_is_fed_a_bounded_piece_at_a_time():
    display = TerminalDisplay(clock=Clock())
    display.give(TerminalDrawn(20, 3, b"first"))
    for _ in range(100):
        display.give(TerminalWritten(b"y\r\n" * 4_000))
    assert not display.has_room
    assert display.feed(0.005) and display.is_due
    assert display.screen is not None and display.screen.rows()[0].text == "y"
    display.give(TerminalDrawn(20, 3, b"anew"))
    assert display.has_room and display.feed(0.005) and not display.is_due
    assert display.screen.rows()[0].text == "anew"
    display.close()


def test_what_is_above_and_on_the_screen_is_one_page():
    display = TerminalDisplay()
    display.give(TerminalDrawn(20, 3, b""))
    display.give(TerminalWritten(b"".join(b"row %d\r\n" % n for n in range(10))))
    display.feed(1)
    assert display.above == 8
    assert [row.text for row in display.rows(6, 6)] == ["row 6", "row 7", "row 8", "row 9", "", ""]
    assert [row.text for row in display.rows(-2, 4)] == ["", "", "row 0", "row 1"]
    display.give(TerminalResized(20, 5))
    display.give(TerminalEnded("exit code 3"))
    display.feed(1)
    assert display.height == 5 and display.left == "exit code 3"
    display.close()
    assert [row.text for row in display.rows(0, 2)] == ["", ""]


def test_a_command_is_words_or_a_line_for_a_shell():
    assert parse_command_line("make test") == ("make", "test")
    assert parse_command_line("git commit -m 'a b'") == ("git", "commit", "-m", "a b")
    assert parse_command_line("make && ./run") == ("/bin/sh", "-c", "make && ./run")
    assert parse_command_line("echo 'x") == ("/bin/sh", "-c", "echo 'x")
    assert parse_command_line("  ") == () == parse_command_line(())
    assert [format_command_line(parse_command_line(one)) for one in ("", "a | b", "a 'b c'")] == [
        "shell",
        "a | b",
        "a 'b c'",
    ]
