"""Runs of plans on a screen: tasks, contenders, times and costs, as they change."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from textual.message import Message

from quarterdeck.config.places import Places
from quarterdeck.plans.progress import ProgressEntry
from quarterdeck.workbench.panels.panel import Panel
from tests.support.panel_app import alone, desk_in, shown, until_shown
from tests.support.plan_states import write_run


@pytest.fixture
def places(home: Path) -> Places:
    return Places.find()


async def test_tasks_contenders_times_and_costs_are_shown_and_change(
    tmp_path: Path, places: Places
):
    directory = await asyncio.to_thread(write_run, places, "tides")
    desk = desk_in(tmp_path)
    async with alone("plan", desk, size=(120, 30)) as (panel, app, pilot):
        panel.places = places
        await pilot.press("r")
        text = await until_shown(app, pilot, "tides", "stopped", "2 of 6 tasks")
        lines = {line.split()[1]: line for line in text.splitlines() if len(line.split()) > 2}
        assert "done" in lines["survey"] and "43s" in lines["survey"]
        assert "0.12 $" in lines["survey"]
        # A race has its contenders below it, and the sum of what they cost.
        assert "5m" in lines["fix"] and "0.86 $" in lines["fix"]
        assert "passed" in lines["claude"] and "won · 1 of 1 check · +41 −12" in lines["claude"]
        assert "failed" in lines["codex"] and "2 tests failed" in lines["codex"]
        assert "–" in lines["codex"]  # a cost that is not known is not 0
        assert "withdrawn" in lines["opencode"]
        assert "needs you" in lines["document.1"] and "1 turn repeated" in lines["document.1"]
        assert "\\x1b[31m" in lines["document.2"]
        assert "waiting" in lines["release"]
        assert "the plan was changed" in text
        entry = ProgressEntry(
            time=1, kind="task_ended", key="x", task="review", state="done", contender="codex"
        )
        with (directory / "progress.jsonl").open("ab") as file:
            file.write(msgspec.json.encode(entry) + b"\n")
        panel.look_now()
        await until_shown(app, pilot, "3 of 6 tasks")


async def test_enter_shows_the_agent_of_the_row(tmp_path: Path, places: Places):
    await asyncio.to_thread(write_run, places, "tides")
    async with alone("plan", desk_in(tmp_path)) as (panel, app, pilot):
        panel.places = places
        wanted: list[str] = []

        def catch(message: Message) -> bool:
            if isinstance(message, Panel.AgentWanted):
                wanted.append(message.session)
            return Panel.post_message(panel, message)

        panel.post_message = catch
        await pilot.press("r")
        await until_shown(app, pilot, "survey")
        await pilot.press("enter", "down", "enter", "down", "down", "enter")
        await pilot.pause()
    assert wanted == ["ses_s", "ses_claude", "ses_codex"]


async def test_other_runs_and_what_cannot_be_read(tmp_path: Path, places: Places):
    async with alone("plan", desk_in(tmp_path)) as (panel, app, pilot):
        panel.places = places
        await pilot.press("r")
        await until_shown(app, pilot, "Runs of plans appear here", "quarterdeck plan run FILE")
        await asyncio.to_thread(write_run, places, "old", is_over=True)
        await asyncio.to_thread(write_run, places, "new", at=5)
        await pilot.press("r")
        await until_shown(app, pilot, "new", "stopped", "n p other runs")
        await pilot.press("n")
        await until_shown(app, pilot, "old", "failed")
        assert panel.remember() == {"run": "old"}
        await pilot.press("n", "p")
        await until_shown(app, pilot, "new")
        damaged = places.state / "plans" / "new" / "progress.jsonl"
        damaged.write_text("{\n")
        await pilot.press("r")
        await until_shown(app, pilot, "cannot be read")
    async with alone("plan", desk_in(tmp_path), {"run": "gone"}) as (panel, app, pilot):
        panel.places = places
        await pilot.press("r")
        await until_shown(app, pilot, "no run 'gone'", "try again")


@pytest.mark.parametrize("size", [(20, 5), (34, 8), (400, 100)])
async def test_every_size_shows_the_names_and_the_signs(
    tmp_path: Path, places: Places, size: tuple[int, int]
):
    await asyncio.to_thread(write_run, places, "tides")
    async with alone("plan", desk_in(tmp_path), size=size) as (panel, app, pilot):
        panel.places = places
        await pilot.press("r")
        await until_shown(app, pilot, "✓ survey")
        assert "\x1b" not in shown(app)
