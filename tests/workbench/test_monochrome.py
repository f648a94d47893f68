"""Nothing is said by colour alone: without any colour, signs, words and weights tell it."""

import asyncio
import re
import shutil
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from rich.segment import Segment

from quarterdeck.fleet.agent_state import AgentStateName
from quarterdeck.fleet.api import AgentInfo
from quarterdeck.wire.ids import new_session_id
from quarterdeck.workbench.preferences.themes.apply import apply_theme
from quarterdeck.workbench.preferences.themes.files import find_theme
from quarterdeck.workbench.rendering import glyphs
from quarterdeck.workbench.rendering.lines import Line
from quarterdeck.workbench.stores.roster import state_symbol
from tests.support.all_states import STATES
from tests.support.monochrome import find_colour_alone
from tests.support.screen_strips import render_screen
from tests.support.staged_workbench import Stage, staged


@pytest.fixture
def place() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="qd-", dir="/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


async def without_colours(stage: Stage) -> None:
    mono = await asyncio.to_thread(find_theme, "mono", ())
    assert mono is not None
    apply_theme(stage.app, mono)
    await stage.pilot.pause()


def cells(stage: Stage) -> list[str]:
    """The lines of the screen with no colour at all: a text and, in marks, its weights."""
    return ["".join(_marked(segment) for segment in strip) for strip in render_screen(stage.app)]


def _marked(segment: Segment) -> str:
    style = segment.style
    weights = "" if style is None else "".join(
        sign for sign, is_on in (("*", style.bold), ("_", style.underline), ("~", style.reverse))
        if is_on
    )  # fmt: skip
    return f"{weights}{segment.text}"


def line_with(stage: Stage, words: str) -> str:
    found = [line for line in cells(stage) if words in line]
    assert found, f"{words!r} in\n" + "\n".join(cells(stage))
    return found[0]


_WRITTEN = {"·", "…"}
"""Punctuation between words of a sentence, where a name would be harder to read."""


def test_signs_are_written_by_their_names():
    room = Path(glyphs.__file__).parent.parent
    signs = {*glyphs.ASCII_SIGNS, glyphs.CARET} - _WRITTEN
    found = [
        f"{file.relative_to(room)}:{token.start[0]}: {token.string}"
        for file in sorted(room.rglob("*.py"))
        if file != Path(glyphs.__file__)
        for token in strings_of(file)
        if signs & set(token.string)
    ]
    assert not found, "use the names of rendering/glyphs.py:\n" + "\n".join(found)


def strings_of(file: Path) -> Iterator[tokenize.TokenInfo]:
    """The strings of a module; texts about the code, and ranges of characters, are none."""
    before = tokenize.NEWLINE
    with file.open(encoding="utf-8") as lines:
        for token in tokenize.generate_tokens(lines.readline):
            is_alone = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
            is_range = re.search(r"\[.*.-..*\]", token.string)
            if token.type == tokenize.STRING and not is_alone and not is_range:
                yield token
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                before = token.type


@pytest.mark.parametrize(
    ("line", "is_said"),
    [
        ((("parser.py", "bad"),), False),
        (((f"{glyphs.FAILED} ", "bad"), ("parser.py", "text")), True),
        ((("exit 1", "bad"),), True),
        ((("parser.py", "good"),), False),
        (((f"{glyphs.DONE} parser.py", "good"),), True),
        ((("parser.py", "asking"),), False),
        (((f"{glyphs.NEEDS_YOU} parser.py", "asking"),), True),
        ((("x = 1", "code-name/diff-line-added"),), False),
        (((" 7 + ", "diff-line-added"), ("x = 1", "code-name/diff-line-added")), True),
        ((("parser.py", "text"),), True),
    ],
)
def test_what_only_a_colour_says_is_found(line: Line, is_said: bool):
    assert bool(find_colour_alone([(), line, ()])) is not is_said
    assert not find_colour_alone([((f"{glyphs.FAILED} begun", "bad"),), (("goes on", "bad"),)])


def test_what_differs_by_its_ground_differs_in_weight_without_colours():
    """The roles that have a background of their own have a sign, or a weight in the theme."""
    sheet = Path(glyphs.__file__).parent.parent / "workbench.tcss"
    rules = re.findall(r"([^{}]*lined--[^{}]*)\{([^}]*)\}", sheet.read_text())
    grounds = {
        name
        for names, rule in rules
        for name in re.findall(r"lined--([a-z-]+)", names)
        if "background:" in rule
    }
    mono = find_theme("mono", ())
    assert mono is not None and mono.theme is not None
    weighed = set(re.findall(r"lined--([a-z-]+) \{[^}]*(?:reverse|underline)", mono.theme.css))
    signed = {"diff-added", "diff-removed", "diff-line-added", "diff-line-removed"}
    said = {"prompt", "hunk"}  # a sign stands before the first, numbers of lines in the second
    assert grounds - signed - said == weighed


def test_each_state_of_an_agent_has_a_sign_and_those_that_share_one_are_one_word():
    signs: dict[str, set[str]] = {}
    for state in get_args(AgentStateName):
        for needs_person in (False, True):
            agent = AgentInfo(
                session=new_session_id(), name="ann", agent="claude", cwd="/", state=state,
                needs_person=needs_person,
            )  # fmt: skip
            signs.setdefault(agent.state_word, set()).add(state_symbol(agent))
    assert all(len(of_a_word) == 1 for of_a_word in signs.values()), signs
    assert len(set.union(*signs.values())) == len(signs), signs
    assert {"needs you", "running", "failed", "stopped", "idle"} < set(signs)


async def test_agents_are_told_apart_and_the_chosen_one_is_seen(place: Path):
    async with staged(STATES["many-agents"], place, (120, 40)) as stage:
        await without_colours(stage)
        for sign, name in (("?", "dora"), ("✗", "bob"), ("●", "ann"), ("○", "cleo")):
            rows = [line.partition("│")[0] for line in cells(stage)]
            assert sign in next(row for row in rows if name in row).partition(name)[0]
        chosen = [line for line in cells(stage) if "~" in line.partition("│")[0]]
        assert any("dora" in line for line in chosen) and not any("bob" in line for line in chosen)
        assert "failed" in line_with(stage, "bob ") and "needs you" in "".join(cells(stage))


async def test_changes_have_their_signs_and_changed_words_are_underlined(place: Path):
    async with staged(STATES["review-with-comments"], place, (120, 40)) as stage:
        await without_colours(stage)
        text = cells(stage)
        assert any("- " in line for line in text) and any("+ " in line for line in text)
        assert any("*_" in line for line in text)
    async with staged(STATES["diff-of-a-file"], place / "two", (120, 40)) as stage:
        await without_colours(stage)
        assert "- " in line_with(stage, "return x + 7").replace("x + 70", "")
        assert "+ " in line_with(stage, "x + 70")


async def test_risks_are_marked_by_a_sign_with_the_reason(place: Path):
    async with staged(STATES["permission-for-a-command"], place, (120, 40)) as stage:
        await without_colours(stage)
        screen = "\n".join(cells(stage))
        assert "⚠" in screen or "!" in screen
        assert "y" in screen and "allow" in screen and "deny" in screen


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("agent-crashed", "✗"),
        ("host-lost", "lost"),
        ("something-went-wrong-is-told", "nowhere"),
        ("conflicts-of-agents", "⚠"),
        ("tree-of-files", "?"),
        ("feed-of-audit", "✓"),
        ("theme-without-colours", "●"),
        ("file-that-cannot-be-read", "✗"),
    ],
)
async def test_a_state_says_what_it_is_in_words_or_signs(name: str, words: str, place: Path):
    async with staged(STATES[name], place, (120, 40)) as stage:
        await without_colours(stage)
        assert any(words in line for line in cells(stage)), "\n".join(cells(stage))


async def test_the_panel_with_the_focus_is_seen(place: Path):
    async with staged(STATES["layout-of-four-chats"], place, (120, 40)) as stage:
        await without_colours(stage)
        before = cells(stage)
        await stage.press("f4")
        await stage.pilot.pause()
        assert cells(stage) != before  # a title or the cursor of the input, without any colour


@pytest.mark.parametrize("name", ["palette", "themes", "tree-of-files", "inbox-with-three"])
async def test_the_row_under_the_cursor_is_reversed(name: str, place: Path):
    async with staged(STATES[name], place, (120, 40)) as stage:
        await without_colours(stage)
        assert any("*~" in line for line in cells(stage)), "\n".join(cells(stage))
