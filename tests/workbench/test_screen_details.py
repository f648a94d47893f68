"""Details of screens that the pictures alone do not explain."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarterdeck.fleet.landing.api import LandingEntry
from quarterdeck.wire.events import NoticePosted, SessionOpened, SessionSpawned, TurnStarted
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.record import Record
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.workbench.panels.feed import activity_line
from quarterdeck.workbench.rendering.lines import text_of
from quarterdeck.workbench.screens.landing_queue import entry_span
from quarterdeck.workbench.stores.blocks import NoteBlock
from tests.support.all_states import STATES
from tests.support.memory_fleet import FakeFleet
from tests.support.staged_workbench import staged
from tests.support.workbench_app import begin, opened, say, screen_text, until


@pytest.fixture
def place() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="qd-", dir="/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.parametrize(
    ("severity", "sign", "in_ascii"),
    [("information", "·", "-"), ("warning", "!", "!"), ("error", "✗", "x")],
)
async def test_a_toast_says_by_a_sign_how_bad_it_is(
    tmp_path: Path, severity: str, sign: str, in_ascii: str
):
    async with opened(FakeFleet(), tmp_path, (100, 30)) as (app, pilot):
        app.notify("the disk is full", severity=severity, markup=False)  # pyright: ignore[reportArgumentType]
        await until(pilot, lambda: f"{sign} the disk is full" in screen_text(app))
        ((_, kept),) = app.context.notices.list_rows()
        assert kept == f"{sign} the disk is full"
        app.theme_control.draw_signs("ascii")
        app.refresh_css(animate=False)
        await until(pilot, lambda: f"{in_ascii} the disk is full" in screen_text(app))


async def test_a_chat_does_not_repeat_its_head_and_a_new_agent_says_what_to_do(tmp_path: Path):
    fleet = FakeFleet()
    session = await begin(fleet, "ann", "do it")
    await fleet.append(session, SessionOpened(agent="claude", cwd="/work/project"))
    await say(fleet, session, "Here I am.")
    async with opened(fleet, tmp_path, (100, 30)) as (app, pilot):
        await until(pilot, lambda: "Here I am." in screen_text(app))
        assert "started in" not in screen_text(app)
        store = app.context.pages.store(session)
        assert not any(isinstance(block, NoteBlock) for block in store.blocks)
        fresh = await fleet.spawn(spawn_options("bob"))
        app.main.show_agent(fresh.session)
        await until(pilot, lambda: "Ready. Type a task below" in screen_text(app))
        assert "No agent is selected" not in screen_text(app)
        await fleet.append(fresh.session, NoticePosted(title="come along"))
        await until(pilot, lambda: "come along" in screen_text(app))
        assert "Ready." not in screen_text(app)


def spawn_options(name: str):
    from quarterdeck.fleet.api import SpawnOptions

    options = SessionOptions(agent="claude", cwd="/work/project")
    return SpawnOptions(options=options, name=name)


def test_every_row_of_the_feed_has_a_sign_in_the_same_column():
    options = SessionOptions(agent="claude", cwd="/w")
    events = (
        SessionSpawned(options=options, name="ann"), SessionOpened(agent="claude", cwd="/w"),
        TurnStarted(), NoticePosted(title="note"),
    )  # fmt: skip
    rows = [
        text_of(activity_line(Record(seq=n, time=0, session=SessionId("s"), event=one), "ann", 90))
        for n, one in enumerate(events, 1)
    ]
    column = rows[0].index("+ spawned")
    assert [row[column + 1] for row in rows] == [" "] * 4
    assert [row[column] for row in rows][:3] == ["+", "·", "●"]


def test_agents_of_a_landing_stand_below_each_other():
    names = ("parser", "api")
    lines = [
        entry_span(at, LandingEntry(session=SessionId("s"), name=name, state="landed"), 6)[0]
        for at, name in enumerate(names, 1)
    ]
    assert lines[0].index("✓") == lines[1].index("✓")


async def test_a_short_list_is_in_a_box_as_high_as_it_and_a_long_one_fits(place: Path):
    async with staged(STATES["widget-to-approve"], place, (120, 40)) as stage:
        rows = screen_text(stage.app).splitlines()
        begin_, end = (next(n for n, row in enumerate(rows) if mark in row) for mark in "╭╰")
        assert end - begin_ < 14
    async with staged(STATES["help-of-everything"], place / "two", (120, 40)) as stage:
        rows = screen_text(stage.app).splitlines()
        begin_, end = (next(n for n, row in enumerate(rows) if mark in row) for mark in "╭╰")
        assert 30 < end - begin_ <= 36


async def test_choices_below_an_editor_are_not_broken(place: Path):
    async with staged(STATES["editor-in-conflict"], place, (80, 24)) as stage:
        rows = screen_text(stage.app).splitlines()
        assert any("s show the diff" in row for row in rows)
        assert any(row.startswith(" The file changed on disk.") for row in rows)


async def test_a_setting_lists_its_values_without_quotes(place: Path):
    async with staged(STATES["settings-list"], place, (120, 40)) as stage:
        words = "takes read-only, ask, accept-edits, plan, full-auto or deny-all"
        assert words in screen_text(stage.app)


async def test_a_terminal_that_runs_has_its_sign_and_word(place: Path):
    async with staged(STATES["terminals-to-choose-from"], place, (120, 40)) as stage:
        assert "● printf            running" in screen_text(stage.app)
