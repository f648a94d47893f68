"""Real agents over ACP on the scripted model: what the fake promises, for real."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from quarterdeck.drivers.acp.link import AcpLink
from quarterdeck.drivers.agent_description import make_launch
from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.events import (
    MessageChunk,
    RateLimited,
    SessionEnded,
    SessionOpened,
    ToolCallEnded,
    ToolCallStarted,
)
from tests.support import real_agents
from tests.support.driver_rig import Driven, Rig, drive

pytestmark = [pytest.mark.interop, pytest.mark.timeout(150)]
LONG = 100.0
HELLO = "Hello from the scripted model."


def installed(*names: str) -> list[object]:
    """The agents to test with, by their programs; those that are not there count as skipped."""
    return [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                real_agents.find(name) is None, reason=f"{name} is not installed"
            ),
        )
        for name in names
    ]


AGENTS = installed("opencode", "claude-agent-acp", "codex-acp", "gemini")
LAUNCHES = {
    program: make_launch(find_agent(name), "acp")
    for program, name in {
        "opencode": "opencode",
        "claude-agent-acp": "claude",
        "codex-acp": "codex",
        "gemini": "gemini",
    }.items()
}


@dataclass(frozen=True, slots=True)
class Lab:
    """A model, a home and a project for one test."""

    name: str
    server: ModelServer
    rig: Rig
    project: Path

    def asked(self) -> list[str]:
        """What the model was asked, as text."""
        return [json.dumps(one.json) for one in self.server.requests if one.json]


@asynccontextmanager
async def lab_of(name: str, tmp_path: Path) -> AsyncGenerator[Lab]:
    project = tmp_path / "project"
    project.mkdir()
    launch = LAUNCHES[name]
    async with ModelServer() as server:
        environment = real_agents.environment(name, tmp_path / "home", server.url)
        rig = Rig(name=name, make=lambda: AcpLink(launch), environment=environment)
        yield Lab(name, server, rig, project)


@asynccontextmanager
async def open_(lab: Lab, **options: object) -> AsyncGenerator[Driven]:
    if lab.name == "gemini":
        options["model"] = "gemini-2.5-flash"
    async with drive(lab.rig, lab.project, **options) as driven:
        yield driven
    assert len(driven.all(SessionEnded)) == 1


def running(lab: Lab) -> list[str]:
    """The command lines of what runs with the home of this test."""
    home = f"HOME={lab.rig.environment['HOME']}\0".encode()
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if home in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
    return found


@pytest.mark.parametrize("name", AGENTS)
async def test_text_and_interruption(name: str, tmp_path: Path):
    async with lab_of(name, tmp_path) as lab:
        async with open_(lab) as driven:
            first = await driven.say("scene:text please", within=LONG)
            assert (first.stop, driven.text) == ("end_turn", HELLO)
            assert first.usage is not None and first.usage.total > 0
            assert driven.all(SessionOpened)[0].agent_session

            driven.heard.clear()
            turn = asyncio.create_task(driven.say("scene:slow please", within=LONG))
            await driven.seen(MessageChunk, lambda one: "tick" in str(one.content), within=LONG)
            await driven.session.interrupt()
            assert (await turn).stop == "cancelled"

            driven.heard.clear()
            assert (await driven.say("scene:text again", within=LONG)).stop == "end_turn"
            assert driven.text.endswith(HELLO)
        assert running(lab) == []


@pytest.mark.parametrize("name", AGENTS)
async def test_a_call_is_allowed_or_refused(name: str, tmp_path: Path):
    async with lab_of(name, tmp_path) as lab:
        file = lab.project / "hello.txt"
        async with open_(lab) as driven:
            turn = asyncio.create_task(driven.say("scene:write please", within=LONG))
            await driven.seen(ToolCallStarted, within=LONG)
            await driven.answer("reject_once")
            assert (await turn).stop in ("end_turn", "cancelled")
            assert not file.exists()
            assert driven.all(ToolCallEnded)[-1].status in ("failed", "cancelled")

            turn = asyncio.create_task(driven.say("scene:write please", within=LONG))
            await driven.answer("allow_once")
            assert (await turn).stop == "end_turn"
            assert file.read_text() == "hello from script\n"
            assert driven.all(ToolCallEnded)[-1].status == "completed"
            started = {event.call for event in driven.all(ToolCallStarted)}
            assert len(driven.all(ToolCallEnded)) == len(started)
        assert running(lab) == []


@pytest.mark.parametrize("name", installed("opencode", "claude-agent-acp", "codex-acp"))
async def test_the_next_process_goes_on_where_the_last_one_was(name: str, tmp_path: Path):
    async with lab_of(name, tmp_path) as lab:
        async with open_(lab) as driven:
            await driven.say("scene:text remember the turquoise whale", within=LONG)
            session = driven.session.agent_session
        async with open_(lab, resume=session) as driven:
            assert driven.session.agent_session == session
            assert driven.all(MessageChunk) == []
            assert (await driven.say("scene:text go on", within=LONG)).stop == "end_turn"
        last = [one for one in lab.asked() if "go on" in one][-1]
        assert "turquoise whale" in last
        assert running(lab) == []


@pytest.mark.parametrize("name", installed("claude-agent-acp", "codex-acp"))
@pytest.mark.parametrize(
    ("scene", "told"), [("e529", "529"), ("e429", "429"), ("drop", "lost|disconnected")]
)
async def test_a_failure_of_the_model_fails_the_turn(
    name: str, scene: str, told: str, tmp_path: Path
):
    async with lab_of(name, tmp_path) as lab:
        async with open_(lab) as driven:
            ended = await driven.say(f"scene:{scene} please", within=LONG)
            assert ended.stop == "failed"
            assert re.search(told, ended.reason or "")
            assert bool(driven.all(RateLimited)) is (scene == "e429")
            # Claude sends both prompts as one message, so its scene is played again.
            after = await driven.say("scene:text after it", within=LONG)
            assert after.stop == ("failed" if name == "claude-agent-acp" else "end_turn")
            assert any("after it" in one for one in lab.asked())
        assert running(lab) == []


@pytest.mark.parametrize("name", installed("claude-agent-acp", "codex-acp", "gemini"))
async def test_a_failure_that_passes_is_no_failure(name: str, tmp_path: Path):
    async with lab_of(name, tmp_path) as lab, open_(lab) as driven:
        ended = await driven.say("scene:e500once please", within=LONG)
        assert ended.stop == "end_turn"


@pytest.mark.parametrize("name", installed("opencode"))
async def test_what_opencode_says_of_a_limit_is_the_reason(name: str, tmp_path: Path):
    async with lab_of(name, tmp_path) as lab, open_(lab) as driven:
        ended = await driven.say("scene:e429 please", within=LONG)
        assert ended.stop == "failed" and "scripted failure" in (ended.reason or "")
        after = await driven.say("scene:text after it", within=LONG)
        assert after.stop == "end_turn" and driven.text.endswith(HELLO)
