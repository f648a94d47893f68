"""Our own agent leads: the fleet's tools in its own process, with a scripted model."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    PermissionAnswered,
    PermissionAsked,
    Prompted,
    QuestionAnswered,
    ToolCallEnded,
    ToolCallStarted,
)
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, places_in

SCRIPT = Path(__file__).parents[2] / "support" / "leading.toml"


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[LocalFleet]:
    async with LocalFleet.open(places_in(tmp_path / "home"), {}) as fleet:
        yield fleet


def new_agent(tmp_path: Path, prompt: str, **fields: Any) -> SpawnOptions:
    folder, script = tmp_path / "project", tmp_path / "script.toml"
    folder.mkdir(exist_ok=True)
    script.write_text(SCRIPT.read_text().replace("KIND", "native"))
    fields = {"name": "boss", "lead": True, "model": f"scripted/{script}"} | fields
    return SpawnOptions.of(cwd=str(folder), prompt=prompt, **fields)


async def all_of(fleet: LocalFleet, name: str, kind: type[Event]) -> list[Any]:
    return await events_of(fleet, name, lambda one: isinstance(one, kind))


async def said(fleet: LocalFleet, name: str) -> str:
    chunks = await all_of(fleet, name, MessageChunk)
    return "".join(c.content.text for c in chunks if isinstance(c.content, TextContent))


async def test_two_children_one_asks_one_needs_a_person_both_results_come_back(
    fleet: LocalFleet, tmp_path: Path
):
    await fleet.spawn(new_agent(tmp_path, "scene:lead"))
    async with asyncio.timeout(SOON):
        while not (items := await fleet.inbox()):
            await asyncio.sleep(0.01)
        assert (items[0].name, items[0].permission is not None) == ("writer", True)
        await fleet.answer(items[0].request, "allow_once", by="another client")
        await fleet.wait(["boss"])
    results = await said(fleet, "boss")
    assert "RESULTS:" in results and "WRITER: done" in results
    assert "ASKER: The orchestrator answers: blue" in results
    assert (tmp_path / "project" / "made.txt").read_text() == "made\n"
    (answered,) = await all_of(fleet, "asker", QuestionAnswered)
    assert answered.by.name == (await fleet.agent("boss")).session
    (prompted,) = await all_of(fleet, "boss", Prompted)
    assert prompted.origin == "person"
    # Nobody was asked whether a lead may use the fleet's tools; each decision is in the log.
    assert await all_of(fleet, "boss", PermissionAsked) == []
    decided = await all_of(fleet, "boss", PermissionAnswered)
    assert decided and all("mcp(quarterdeck)" in (one.by.name or "") for one in decided)
    ended = await all_of(fleet, "boss", ToolCallEnded)
    assert ended and all(one.status == "completed" for one in ended)
    started = await all_of(fleet, "boss", ToolCallStarted)
    assert started[0].title.startswith("spawn_agent: scene:asker")


async def test_a_lead_that_rests_is_woken_by_a_question(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, "scene:late"))
    async with asyncio.timeout(SOON):
        while len(prompts := await all_of(fleet, "boss", Prompted)) < 2:
            await asyncio.sleep(0.01)
    assert prompts[1].origin == "agent" and "Red or blue?" in prompts[1].content[0].text
    await fleet.close("boss")
    async with asyncio.timeout(SOON):
        await fleet.wait(["asker"])
    assert "ASKER: There is no answer" in await said(fleet, "asker")


async def test_a_person_can_forbid_a_tool_of_the_fleet(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, "scene:late", deny=("mcp(quarterdeck:spawn_agent)",)))
    await fleet.wait(["boss"], timeout=SOON)
    (ended,) = await all_of(fleet, "boss", ToolCallEnded)
    assert ended.status == "failed" and len(await fleet.agents()) == 1


async def test_a_lead_that_is_held_to_some_tools_keeps_the_fleets(
    fleet: LocalFleet, tmp_path: Path
):
    await fleet.spawn(new_agent(tmp_path, "scene:lead", tools=("read",)))
    async with asyncio.timeout(SOON):
        await fleet.wait(["boss"])
    # Its children have no more tools than it has, so the writer has none to write with.
    assert "asker" in await said(fleet, "boss")
    assert await fleet.inbox() == []
    assert not (tmp_path / "project" / "made.txt").exists()


async def test_who_does_not_lead_has_no_tools_of_the_fleet(fleet: LocalFleet, tmp_path: Path):
    await fleet.spawn(new_agent(tmp_path, "scene:late", lead=False))
    await fleet.wait(["boss"], timeout=SOON)
    assert len(await fleet.agents()) == 1
    # The agent's own tool of that name wants other arguments, and starts nothing in the fleet.
    (ended,) = await all_of(fleet, "boss", ToolCallEnded)
    assert ended.status == "failed"
