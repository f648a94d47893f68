"""Codex and OpenCode themselves, driven through their screens on the scripted model."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.description import launch_of
from quarterdeck.drivers.pty.link import PtyLink
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.events import MessageChunk, ToolCallEnded
from tests.support import real_agents
from tests.support.contract import judge
from tests.support.driving import Driven, Rig, drive

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(240)]
LONG = 60.0
AGENTS = ["codex", "opencode", "claude", "gemini"]
ASKS = {"codex": "scene:escalate go"}
POLICY = frozenset(("accept-trust", "decline-update"))


@pytest.fixture(params=AGENTS)
async def session(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Driven]:
    name: str = request.param
    if real_agents.find(name) is None:
        pytest.skip(f"{name} is not installed")
    project = tmp_path / "project"
    project.mkdir()
    async with ModelServer() as server:
        environment = real_agents.environment(name, tmp_path / "home", server.url)
        agent = await asyncio.to_thread(find_agent, name)
        launch = replace(launch_of(agent, "pty"), quirks=POLICY)
        rig = Rig(name=name, make=lambda: PtyLink(launch), environment=environment)
        async with drive(rig, project, start_limit=120.0) as driven:
            yield driven
        judge(driven.heard)
        assert await asyncio.to_thread(running, environment["HOME"]) == []


def running(home: str) -> list[str]:
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"HOME={home}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


async def test_the_scenes_of_the_other_transports(session: Driven):
    """One session for all of them: starting one takes these agents seconds."""
    ended = await session.say("scene:text hello", within=LONG)
    assert (ended.stop, session.text.strip()) == ("end_turn", "Hello from the scripted model.")

    asks = ASKS.get(session.session.agent, "scene:shell go")
    made = Path(session.session.opening.cwd) / "made-by-shell.txt"
    for answer, is_made in (("reject_once", False), ("allow_once", True)):
        turn = asyncio.create_task(session.say(asks, within=LONG))
        asked = await asyncio.wait_for(session.answer(answer), LONG)
        assert asked.kind == "execute" and "made-by-shell.txt" in asked.raw_input["command"]
        assert (await turn).stop == "end_turn"
        assert await asyncio.to_thread(made.exists) == is_made
    assert {end.status for end in session.all(ToolCallEnded)} == {"failed", "completed"}

    turn = asyncio.create_task(session.say("scene:slow", within=LONG))
    await session.seen(MessageChunk, lambda one: "tick" in str(one.content), within=LONG)
    await session.session.interrupt()
    assert (await turn).stop == "cancelled"
    before = len(session.text)
    assert (await session.say("scene:text again", within=LONG)).stop == "end_turn"
    assert "Hello from the scripted model." in session.text[before:]
