"""A lead of our own make arranges a workbench: from its model's words to what a person sees."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import markdown_it  # noqa: F401 - imported by two threads at once it counts as blocking
import pytest

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.content import text
from quarterdeck.wire.events import ToolCallEnded
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.workbench.preferences.store import load_preferences
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, places_in
from tests.support.workbench_app import opened, screen_text, until

if TYPE_CHECKING:
    from tests.support.memory_fleet import FakeFleet

LAYOUT = {
    "tabs": [
        {
            "title": "lookout",
            "root": {
                "type": "vertical",
                "children": [
                    {"type": "panel", "id": "agents", "widget": "agents", "size": "25%"},
                    {"type": "panel", "id": "chat", "widget": "chat"},
                ],
            },
        },
        {"title": "numbers", "root": {"type": "panel", "id": "usage", "widget": "usage"}},
    ]
}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    asked = {"server": "quarterdeck", "tool": tool, "arguments": arguments}
    return {"parts": [{"tool": "mcp", "arguments": asked}]}


def script(*calls: dict[str, Any]) -> str:
    """A model that says many lines, then calls these, one after the other."""
    lines = "\n\n".join(f"line {n}" for n in range(60))
    talk = [{"parts": [{"text": lines}]}]
    work = [*calls, {"parts": [{"text": "ALL DONE"}]}]
    return json.dumps(
        {"default": "talk", "scenes": {"talk": {"replies": talk}, "work": {"replies": work}}}
    )


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[LocalFleet]:
    async with LocalFleet.open(places_in(tmp_path / "home"), {}) as fleet:
        yield fleet


async def lead(fleet: LocalFleet, tmp_path: Path, *calls: dict[str, Any]) -> None:
    folder, file = tmp_path / "project", tmp_path / "script.json"
    folder.mkdir()
    (folder / "seen.txt").write_text("what the lead wants to show\n")
    file.write_text(script(*calls))
    request = SpawnOptions(
        options=SessionOptions(cwd=str(folder), model=f"scripted/{file}"),
        name="boss",
        lead=True,
        prompt="hello",
    )
    await fleet.spawn(request)
    async with asyncio.timeout(SOON):
        await fleet.wait(["boss"])


async def work(fleet: LocalFleet, pilot: Any) -> list[str | None]:
    """Let the lead make its calls; how each of them ended."""
    await fleet.send("boss", (text("scene:work"),))
    async with asyncio.timeout(SOON):
        await fleet.wait(["boss"])
    await pilot.pause()
    ended = await events_of(fleet, "boss", lambda one: isinstance(one, ToolCallEnded))
    return [one.status for one in ended if isinstance(one, ToolCallEnded)]


async def test_a_layout_is_set_and_what_a_person_types_and_reads_stays(
    fleet: LocalFleet, tmp_path: Path
):
    await lead(fleet, tmp_path, call("screen_layout", action="set", layout=LAYOUT))
    async with opened(cast("FakeFleet", fleet), tmp_path / "drafts") as (app, pilot):
        await until(
            pilot,
            lambda: "line 59" in screen_text(app),
        )
        await pilot.press(*"a half")
        app.main.transcript.scroll_to(y=10, animate=False)
        await pilot.pause()
        at, input_ = app.main.transcript.scroll_offset.y, app.main.chat
        assert await work(fleet, pilot) == ["completed"]
        await until(pilot, lambda: "numbers" in screen_text(app))
        assert app.main.chat is input_ and app.focused is input_
        assert app.main.transcript.scroll_offset.y == at
        await pilot.press(*" sentence")
        assert app.main.chat.text == "a half sentence"


async def test_a_file_is_shown_and_a_tab_opened_and_a_theme_chosen(
    fleet: LocalFleet, tmp_path: Path
):
    await lead(
        fleet,
        tmp_path,
        call("screen_show", what="file", path="seen.txt"),
        call("screen_tabs", action="rename", tab="1", title="shown"),
        call("screen_tabs", action="open", title="mine"),
        call("screen_tabs", action="show", tab="1"),
        call("screen_theme", name="no-such-theme"),
        call("screen_layout", action="get"),
    )
    async with opened(cast("FakeFleet", fleet), tmp_path / "drafts", (120, 40)) as (app, pilot):
        assert await work(fleet, pilot) == [
            *["completed"] * 4,
            "failed",
            "completed",
        ]
        await until(pilot, lambda: "what the lead wants to show" in screen_text(app))
        assert "mine" in screen_text(app) and "shown" in screen_text(app)


async def test_a_key_is_bound_and_given_back_and_a_widget_waits_for_the_person(
    fleet: LocalFleet, tmp_path: Path
):
    source = "raise SystemExit('never run before it is approved')"
    await lead(
        fleet,
        tmp_path,
        call("screen_keys", action="bind", key="f11", command="unfold"),
        call("screen_keys", action="bind", key="ctrl+x", command="layouts"),
        call("screen_keys", action="unbind", key="f11"),
        call("screen_keys", action="bind", key="x", command="unfold"),
        call("screen_widgets", action="offer", name="clock", source=source),
        call("screen_widgets", action="offer", name="../clock", source=source),
        call("screen_widgets", action="list"),
    )
    looks = await asyncio.to_thread(
        load_preferences, places_in(tmp_path / "home"), str(tmp_path), {}
    )
    drafts = tmp_path / "drafts"
    async with opened(cast("FakeFleet", fleet), drafts, looks=looks) as (app, pilot):
        done, bad = "completed", "failed"
        assert await work(fleet, pilot) == [done, done, done, bad, done, bad, done]
        assert [one.key for one in looks.keymap] == ["ctrl+x"]
        assert looks.library is not None and looks.library.names == ["clock"]
        assert looks.library.outcome("clock")[0] == "needs approval"
        told = [one.message for one in app._notifications]  # pyright: ignore[reportPrivateUsage]
        assert "· boss offers a widget; review it with /widget approve clock" in told
