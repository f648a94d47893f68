"""The plan: what the person sees is what the model wrote."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.agent.tools.plan import PlanTool
from quarterdeck.agent.tools.tool import ToolError
from quarterdeck.agent.tools.workspace import ToolWorkspace
from quarterdeck.system.local import LocalSystem
from quarterdeck.wire.events import PlanChanged
from quarterdeck.wire.settings import PlanEntry
from tests.support.tool_calls import FakeLive, prepared, run, told

PLAN = PlanTool()


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[ToolWorkspace]:
    async with LocalSystem([tmp_path]) as system:
        yield ToolWorkspace(system=system)


async def test_the_plan_is_shown_whole(workspace: ToolWorkspace):
    live = FakeLive()
    entries = [
        {"content": " read ", "status": "completed", "priority": "high"},
        {"content": "write", "status": "in_progress"},
        {"content": "test"},
    ]
    outcome = await run(PLAN, workspace, live, entries=entries)
    assert live.events == [
        PlanChanged(
            entries=(
                PlanEntry(content="read", priority="high", status="completed"),
                PlanEntry(content="write", priority="medium", status="in_progress"),
                PlanEntry(content="test", priority="medium", status="pending"),
            )
        )
    ]
    assert told(outcome) == "The plan is shown: 1 of 3 steps are completed."


async def test_two_steps_in_progress_are_taken_with_a_word(workspace: ToolWorkspace):
    entries = [{"content": name, "status": "in_progress"} for name in "ab"]
    outcome = await run(PLAN, workspace, entries=entries)
    assert "2 steps are in progress" in told(outcome)
    assert not outcome.is_error


async def test_an_empty_plan_clears_it(workspace: ToolWorkspace):
    live = FakeLive()
    await run(PLAN, workspace, live, entries=[])
    assert live.events == [PlanChanged(entries=())]


@pytest.mark.parametrize(
    "entries",
    [[{"content": "x", "status": "done"}], [{"content": " "}], [{"content": "x"}] * 101, "x"],
)
async def test_what_is_no_plan_is_refused(workspace: ToolWorkspace, entries: object):
    with pytest.raises(ToolError):
        await prepared(PLAN, workspace, entries=entries)


async def test_it_is_thinking_to_the_policy(workspace: ToolWorkspace):
    assert (await prepared(PLAN, workspace, entries=[])).call.kind == "think"
