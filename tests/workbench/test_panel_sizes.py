"""Every panel lives at any size, through storms of resizes, with any text in it."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App

from quarterdeck.wire.content import text
from quarterdeck.wire.events import NoticePosted, Prompted
from quarterdeck.wire.ids import new_message_id
from quarterdeck.workbench.panels.components import draw_head, empty_lines, problem_lines
from quarterdeck.workbench.panels.kinds import KINDS
from quarterdeck.workbench.rendering.lines import text_of, width_of
from tests.support.memory_fleet import FakeFleet
from tests.support.panel_app import alone, desk_in, shown, until_shown
from tests.support.workbench_app import begin, until

SIZES = [(20, 5), (400, 100), (21, 6), (120, 40), (33, 7), (399, 9), (20, 100), (80, 24), (20, 5)]
HOSTILE = "👨‍👩‍👧 ☂️ ⚠️ e\u0301 שלום مرحبا 你好 \u202e\x1b[31m" + "🏳️‍🌈" * 30
OPTIONS: dict[str, dict[str, str]] = {
    "file": {"path": "odd.txt"},
    "editor": {"path": "odd.txt"},
    "tail": {"path": "odd.txt"},
    "markdown": {"path": "odd.md"},
    "notebook": {"path": "odd.ipynb"},
    "diff": {"patch": f"--- a/x\n+++ b/{HOSTILE[:20]}\n@@ -1 +1 @@\n-{HOSTILE}\n+{HOSTILE}\n"},
}
LEFT_OUT = {"missing", "chat", "transcript", "agents", "inbox", "terminal"}
"""Parts of the main screen, which have tests of their own."""


def make_files(folder: Path) -> None:
    (folder / "odd.txt").write_text(f"{HOSTILE}\n" * 30)
    (folder / "odd.md").write_text(f"# {HOSTILE}\n\n| {HOSTILE} | b |\n|---|---|\n| 1 | 2 |\n")
    (folder / "odd.ipynb").write_text('{"cells": [{"cell_type": "code", "source": ["1 / 0"]}]}')


def fills(app: App[None], width: int, height: int) -> bool:
    lines = shown(app).splitlines()
    return len(lines) == height and all(cell_len(line) == width for line in lines)


def describe(app: App[None], width: int, height: int) -> str:
    odd = [line for line in shown(app).splitlines() if cell_len(line) != width]
    sizes = f"app {app.size}, screen {app.screen.size}, wanted {width}x{height}"
    return "\n".join([sizes, f"{len(shown(app).splitlines())} lines, not as wide:", *odd])


@pytest.mark.parametrize("kind", sorted(set(KINDS) - LEFT_OUT))
async def test_a_panel_lives_through_a_storm_of_sizes(kind: str, tmp_path: Path):
    await asyncio.to_thread(make_files, tmp_path)
    fleet = FakeFleet()
    session = await begin(fleet, "ann")
    await fleet.append(session, Prompted(content=(text(HOSTILE),), message=new_message_id()))
    await fleet.append(session, NoticePosted(title=HOSTILE))
    async with alone(kind, desk_in(tmp_path, fleet), OPTIONS.get(kind)) as (panel, app, pilot):
        for width, height in SIZES * 2:
            await pilot.resize_terminal(width, height)
            try:
                await until(pilot, lambda w=width, h=height: fills(app, w, h))
            except TimeoutError:
                raise AssertionError(describe(app, width, height)) from None
        await pilot.press("down", "r", "end", "up")
        assert panel.is_mounted and "\x1b" not in shown(app) and "\u202e" not in shown(app)


@pytest.mark.parametrize("kind", ["tail", "markdown", "file"])
async def test_an_error_says_what_to_do_and_r_tries_again(kind: str, tmp_path: Path):
    path = tmp_path / "late.md"
    async with alone(kind, desk_in(tmp_path), {"path": "late.md"}) as (_, app, pilot):
        await until_shown(app, pilot, "r ")
        await asyncio.to_thread(path.write_text, "here it is\n")
        await pilot.press("r")
        await until_shown(app, pilot, "here it is")
        assert "loading" not in shown(app)


@given(
    name=st.text("ab/你👩‍", max_size=60),
    facts=st.lists(
        st.tuples(st.text("xy你 ", min_size=1, max_size=20), st.sampled_from(["faint", "bad"])),
        max_size=6,
    ),
    width=st.integers(1, 140),
)
@settings(deadline=None, max_examples=120)
def test_a_head_fits_and_important_facts_stay_longest(name, facts, width):
    line = draw_head(name, facts, width)
    assert width_of(line) <= max(1, width)
    shown_roles = [role for _, role in line]
    if any(role == "bad" for _, role in facts) and width > 60 and len(facts) > 1:
        assert "bad" in shown_roles


def test_facts_stand_at_the_right():
    line = draw_head("usage", [("3 agents", "faint"), ("1.84 $", "faint")], 40)
    assert text_of(line) == "usage" + " " * 18 + "3 agents · 1.84 $"
    assert text_of(draw_head("usage", [("3 agents", "faint"), ("all", "faint")], 17)) == (
        "usage    3 agents"
    )
    modes = ("1 audit 2 agents 3 notices 4 debug", "faint")
    assert text_of(draw_head("feed: audit", [modes], 32)) == "feed: audit"
    assert text_of(draw_head("feed: audit", [("✗ gone", "bad"), modes], 32)).split() == [
        "feed:", "audit", "✗", "gone",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [1, 2, 5, 20, 200])
def test_what_is_said_instead_of_content_fits(width: int):
    for lines in (
        problem_lines(f"cannot show {HOSTILE}", width),
        empty_lines("No file is open.", [("/open tree", "shows files")], width),
    ):
        assert lines and all(width_of(line) <= max(4, width) for line in lines)
