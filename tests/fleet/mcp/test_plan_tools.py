"""A lead proposes a plan: a person sees it drawn, and only then it runs."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from quarterdeck.fleet.mcp.tool_context import PlanDraft
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.tool_calls import ContentItem
from tests.support.deadlines import SOON
from tests.support.puppet_fleet import Led, leading


class FakeStarter:
    """Takes every file that is there."""

    def __init__(self) -> None:
        self.started: list[tuple[object, str]] = []

    def draft(self, file: Path, inputs: Mapping[str, str]) -> PlanDraft:
        if not file.exists():
            raise QuarterdeckError(f"{file.name}:1: there is no such file")
        content = (file.read_text(), dict(inputs))
        return PlanDraft(name="tides", tasks=2, text="└─ fix  claude", content=content)

    def start(self, draft: PlanDraft, request: str) -> str:
        self.started.append((draft.content, request))
        return "tides-2"


@pytest.fixture
def starter() -> FakeStarter:
    return FakeStarter()


@pytest.fixture
async def led(tmp_path: Path, starter: FakeStarter) -> AsyncIterator[Led]:
    async with leading(tmp_path, plans=starter) as led:
        yield led


@pytest.mark.parametrize("choice", ["allow", "deny"])
async def test_a_plan_runs_only_after_a_person_saw_it(led: Led, starter: FakeStarter, choice: str):
    (led.folder / "work.toml").write_text("plan")
    await led.lead()
    call = asyncio.create_task(
        led.call("boss", "propose_plan", file="work.toml", inputs={"a": "1"})
    )
    async with asyncio.timeout(SOON):
        while not (inbox := await led.fleet.inbox()):
            await asyncio.sleep(0.01)
    (item,) = inbox
    assert item.permission is not None
    assert item.permission.title == "Run the plan tides: 2 tasks"
    (shown,) = item.permission.content
    assert isinstance(shown, ContentItem) and isinstance(shown.content, TextContent)
    assert shown.content.text == "└─ fix  claude"
    assert starter.started == []
    (led.folder / "work.toml").write_text("something else")
    await led.fleet.answer(item.request, choice)
    async with asyncio.timeout(SOON):
        said = await call
    if choice == "deny":
        assert said.is_error and starter.started == []
        return
    # What was drawn is what runs.
    assert starter.started == [(("plan", {"a": "1"}), item.request)]
    assert said.data == {"run": "tides-2"} and "plan status tides-2" in said.text


async def test_a_plan_with_problems_is_not_put_to_a_person(led: Led):
    await led.lead()
    said = await led.call("boss", "propose_plan", file="nothing.toml")
    assert said.is_error and said.text == "Nothing.toml:1: there is no such file."
    assert await led.fleet.inbox() == []


@pytest.mark.parametrize("file", ["../secret.toml", "link.toml", "{outside}"])
async def test_a_file_elsewhere_is_not_read(led: Led, tmp_path: Path, file: str):
    outside = led.folder.parent / "secret.toml"
    outside.write_text("key = 1")
    (led.folder / "link.toml").symlink_to(outside)
    await led.lead()
    said = await led.call("boss", "propose_plan", file=file.format(outside=outside))
    assert said.is_error and "key" not in said.text
    assert await led.fleet.inbox() == []


async def test_a_fleet_without_plans_does_not_offer_the_tool(tmp_path: Path):
    async with leading(tmp_path) as led:
        await led.lead()
        url, token = await led.key("boss")
        answer = await led.post(url, token, "propose_plan", {"file": "work.toml"})
        assert "result" not in answer
