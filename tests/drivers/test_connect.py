"""An agent of any make in a few lines, as docs/drivers.md shows it."""

import asyncio
import json
import re
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

import quarterdeck
from quarterdeck.drivers.connect import StreamGap
from quarterdeck.drivers.errors import UnknownAgentError
from quarterdeck.wire.errors import LinkClosedError
from quarterdeck.wire.events import (
    MessageChunk,
    PermissionAsked,
    SessionEnded,
    SessionOpened,
    TurnEnded,
)

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(autouse=True)
def own_agents(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home in which ``claude`` is the fake, so that the documentation's words run."""
    monkeypatch.setenv("QUARTERDECK_HOME", str(home))
    agents = home / "agents"
    agents.mkdir(parents=True)
    command = json.dumps([sys.executable, "-m", "quarterdeck.testing.acp_agent"])
    for name in ("claude", "fake"):
        (agents / f"{name}.toml").write_text(
            f'order = ["acp"]\ntitle = "Fake"\n[transports.acp]\ncommand = {command}\n'
            '[transports.acp.permissions]\nmodes = ["ask", "plan"]\n'
        )


async def test_a_prompt_gives_its_events_up_to_the_turns_end(tmp_path: Path):
    async with quarterdeck.connect("fake", cwd=tmp_path) as agent:
        events = [event async for event in agent.prompt("echo hello")]
        assert isinstance(events[-1], TurnEnded) and agent.last_turn == events[-1]
        assert any(isinstance(event, MessageChunk) for event in events)
        assert await agent.ask("echo again") == "again"


async def test_the_documentations_program_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page = (DOCS / "drivers.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, object] = {}
    exec(code.replace("/work/project", str(tmp_path)), scope)
    await scope["explain"]()  # pyright: ignore[reportGeneralTypeIssues]
    assert "TurnEnded(stop='end_turn'" in capsys.readouterr().out


async def test_a_function_decides(tmp_path: Path):
    async with quarterdeck.connect(
        "fake", cwd=tmp_path, decide=lambda asked: "allow_once"
    ) as agent:
        assert "yes" in await agent.ask("ask make things")

    async def refuse(asked: PermissionAsked) -> str:
        return "reject_once"

    async with quarterdeck.connect("fake", cwd=tmp_path, decide=refuse) as agent:
        assert "no" in await agent.ask("ask make things")


async def test_the_reader_of_the_events_decides(tmp_path: Path):
    async with quarterdeck.connect("fake", cwd=tmp_path) as agent:
        said = ""
        async for event in agent.prompt("ask make things"):
            if isinstance(event, PermissionAsked):
                assert agent.answer(event, "yes")
                assert not agent.answer(event, "no")
            elif isinstance(event, MessageChunk):
                said += event.content.text
        assert said.startswith("permission: yes")


async def test_leaving_the_loop_interrupts_the_turn(tmp_path: Path):
    async with quarterdeck.connect("fake", cwd=tmp_path) as agent:
        async with aclosing(agent.prompt("wait 600")) as events:
            async for event in events:
                if isinstance(event, MessageChunk):
                    break
        assert agent.last_turn is not None and agent.last_turn.stop == "cancelled"
        assert await agent.ask("echo next") == "next"


async def test_all_events_can_be_had_late(tmp_path: Path):
    async with quarterdeck.connect("fake", cwd=tmp_path) as agent:
        await agent.ask("echo hello")
    records = [one async for one in agent.events() if not isinstance(one, StreamGap)]
    assert isinstance(records[0].event, SessionOpened)
    assert isinstance(records[-1].event, SessionEnded)
    with pytest.raises(LinkClosedError):
        await agent.ask("echo late")


async def test_a_slow_reader_holds_the_agent_back_and_loses_nothing(tmp_path: Path):
    async with quarterdeck.connect("fake", cwd=tmp_path) as agent:
        count = 0
        async for event in agent.prompt("stream 3000"):
            if isinstance(event, MessageChunk):
                count += 1
                if count % 500 == 0:
                    await asyncio.sleep(0.01)
        assert count == 3000


async def test_our_own_agent_is_one_of_them(tmp_path: Path, home: Path):
    environment = {"HOME": str(home), "QUARTERDECK_HOME": str(home)}
    async with quarterdeck.connect(
        "native", cwd=tmp_path, model="scripted/default", environment=environment
    ) as agent:
        assert await agent.ask("scene:text")


async def test_an_unknown_agent_is_refused(tmp_path: Path):
    with pytest.raises(UnknownAgentError, match="nobody"):
        async with quarterdeck.connect("nobody", cwd=tmp_path):
            pass


async def test_a_decision_that_raises_refuses_its_call_and_is_told_in_the_end(tmp_path: Path):
    def decide(asked: PermissionAsked) -> str:
        if "things" in asked.title:
            raise ValueError("undecided")
        return "allow_once"

    with pytest.raises(ValueError, match="undecided"):
        async with quarterdeck.connect("fake", cwd=tmp_path, decide=decide) as agent:
            assert "allowed" not in await agent.ask("ask make things")
            assert "allowed" in await agent.ask("ask make more")
