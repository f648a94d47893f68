"""Sub-agents of our own agent in a fleet: in the host's log, asked about in its inbox."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.agent.tools.toolbox import shipped_tools
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.native_driver import _tools
from quarterdeck.wire.events import ChildEnded, ChildStarted
from quarterdeck.wire.session_options import SessionOptions
from tests.support.agent_tools import FakeTool, returns
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, places_in

SCRIPT = """
[scenes.lead]
when = {contains = "lead"}
[[scenes.lead.replies]]
[[scenes.lead.replies.parts]]
type = "call"
call = "spawn_agent"
arguments = {task = "change it", profile = "general"}
[[scenes.lead.replies]]
parts = [{type = "text", text = "All is done."}]

[scenes.change]
when = {contains = "change it"}
[[scenes.change.replies]]
parts = [{type = "call", call = "write", arguments = {path = "new.txt", content = "hello"}}]
[[scenes.change.replies]]
parts = [{type = "text", text = "Changed new.txt."}]
"""


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[LocalFleet]:
    async with LocalFleet.open(places_in(tmp_path / "home"), {}) as fleet:
        yield fleet


async def test_what_a_sub_agent_asks_is_in_the_inbox_of_its_parent(
    fleet: LocalFleet, tmp_path: Path
):
    script = tmp_path / "lead.toml"
    script.write_text(SCRIPT)
    request = SpawnOptions(
        options=SessionOptions(cwd=str(tmp_path), model=f"scripted/{script}"),
        prompt="lead",
        name="boss",
    )
    await fleet.spawn(request)
    (info,) = await fleet.wait(["boss"], timeout=SOON)
    assert (info.state, info.waits_for) == ("waiting", "permission")
    (item,) = await fleet.inbox()
    assert item.permission is not None
    assert item.permission.title.startswith("general ▸ ")
    assert item.permission.child is not None
    assert await fleet.answer(item.request, "allow_once")
    (info,) = await fleet.wait(["boss"], timeout=SOON)
    assert info.state == "idle"
    assert await fleet.inbox() == []
    assert (tmp_path / "new.txt").read_text() == "hello"
    assert [one.name for one in await fleet.agents()] == ["boss"]
    events = await events_of(fleet, "boss")
    (started,) = [one for one in events if isinstance(one, ChildStarted)]
    (ended,) = [one for one in events if isinstance(one, ChildEnded)]
    assert (ended.child, ended.answer) == (started.child, "Changed new.txt.")
    assert ended.usage is not None
    assert info.usage.total > ended.usage.total


class _Start:
    def __init__(self, *tools: FakeTool) -> None:
        self.tools = tools


def test_a_lead_starts_agents_by_the_fleets_tools_alone():
    fleets = FakeTool(returns("started"), name="spawn_agent")
    led = {tool.name: tool for tool in _tools(_Start(fleets))}  # type: ignore[arg-type]
    assert led["spawn_agent"] is fleets
    assert "children" not in led
    alone = [tool.name for tool in _tools(_Start())]  # type: ignore[arg-type]
    assert alone == [tool.name for tool in shipped_tools()]
