"""Every state that a person can be in looks as it is kept, at three sizes, and lives at 20×5;
nothing in it is said by colour alone.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual._context import visible_screen_stack

from tests.support import snapshots
from tests.support.all_states import STATES
from tests.support.memory_fleet import FakeFleet
from tests.support.monochrome import list_problems
from tests.support.staged_workbench import staged
from tests.support.workbench_app import SIZES, begin, opened, screen_text, until


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times of the day are the same everywhere."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory whose path is short and of the same length in each run."""
    made = Path(tempfile.mkdtemp(prefix="qd-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


@pytest.mark.parametrize("name", STATES)
async def test_a_state_looks_as_it_should_at_every_size(name: str, place: Path):
    async with staged(STATES[name], place, SIZES[0]) as stage:
        hides = str(place)
        await snapshots.check(stage.app, stage.pilot, name, SIZES[0], hides=hides)
        assert not list_problems(stage.app), "colour alone says this"
        for size in SIZES[1:]:
            await stage.pilot.resize_terminal(*size)
            await snapshots.check(stage.app, stage.pilot, name, size, hides=hides)
            assert not list_problems(stage.app), "colour alone says this"
        await stage.pilot.resize_terminal(20, 5)
        await stage.pilot.press("tab", "down", "escape")
        assert len(screen_text(stage.app).splitlines()) == 5


async def test_a_picture_before_a_frame_does_not_blank_the_screen_behind(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path, SIZES[1]) as (app, pilot):
        app.action_help()
        await until(pilot, lambda: "╭─ help" in screen_text(app))
        visible_screen_stack.set([])  # as in a task that has drawn nothing yet
        app.screen.refresh()
        assert "● ann" in screen_text(app)
        await pilot.pause()
        assert "● ann" in screen_text(app)


def test_every_picture_has_its_state():
    kept = {file.stem.rpartition("-")[0] for file in snapshots.FOLDER.glob("*.txt")}
    assert kept == set(STATES)
