"""Codex, OpenCode and Gemini themselves, one process for each turn, on the scripted model."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.errors import UnsupportedError
from quarterdeck.drivers.transports import make_links
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.events import (
    MessageChunk,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    UnknownEvent,
)
from quarterdeck.wire.session_options import AgentMcpServer
from tests.support import real_agents
from tests.support.driver_rig import Driven, Rig, drive

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
LONG = 60.0
AGENTS = ["codex", "opencode", "gemini"]
MCP_ECHO = Path(__file__).parent / "peers" / "mcp_echo.py"


@dataclass(frozen=True, slots=True)
class Lab:
    """A model, a home and a project for one agent."""

    agent: str
    server: ModelServer
    rig: Rig
    project: Path

    def open(self, **options: Any) -> Any:
        """A session with the agent, by its file."""
        return drive(self.rig, self.project, model=real_agents.model_of(self.agent), **options)

    def asked(self) -> str:
        """What the model was asked last, as text."""
        return json.dumps(list(self.server.requests)[-1].json)

    def running(self) -> list[str]:
        """The command lines of what runs with the home of this test."""
        home = f"HOME={self.rig.environment['HOME']}".encode()
        found: list[str] = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if home in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        return found


@pytest.fixture(params=AGENTS)
async def lab(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Lab]:
    name: str = request.param
    real_agents.need(name)
    project = tmp_path / "project"
    project.mkdir()
    async with ModelServer() as server:
        environment = real_agents.environment(name, tmp_path / "home", server.url)
        agent = await asyncio.to_thread(find_agent, name)
        (make,) = make_links(agent, "pipe")
        lab = Lab(name, server, Rig(name=name, make=make, environment=environment), project)
        yield lab
        assert await asyncio.to_thread(lab.running) == []


async def say(driven: Driven, prompt: str) -> TurnEnded:
    return await driven.say(prompt, within=LONG)


async def goes_on(lab: Lab, driven: Driven) -> None:
    """The next prompt reaches the model and is answered.

    Gemini puts it into one message with the one that came to nothing, whose scene it then is.
    """
    if lab.agent != "gemini":
        assert (await say(driven, "scene:text and go on")).stop == "end_turn"
        assert "Hello from the scripted model." in driven.text
        return
    turn = asyncio.create_task(say(driven, "and go on"))
    async with asyncio.timeout(LONG):
        while "and go on" not in lab.asked():
            await asyncio.sleep(0.05)
    await driven.session.interrupt()
    assert (await turn).stop == "cancelled"


async def test_a_conversation_over_several_processes(lab: Lab):
    async with lab.open() as driven:
        ended = await say(driven, "scene:text first of all")
        assert (ended.stop, driven.text) == ("end_turn", "Hello from the scripted model.")
        assert ended.usage is not None and ended.usage.input > 1000 and ended.usage.output > 0
        theirs = driven.session.agent_session
        again = await say(driven, "--second, 🦀 ‮ and a \t tab")
        assert "You said: --second, 🦀 ‮ and a \t tab" in driven.text
        assert "scene:text first of all" in lab.asked()
        assert again.usage is not None and again.usage.input < 2 * ended.usage.input
        assert len(driven.all(SessionChanged)) == 1 and driven.session.agent_session == theirs
    assert not driven.all(UnknownEvent)
    async with lab.open(resume=theirs) as driven:
        assert (await say(driven, "third")).stop == "end_turn"
        assert driven.session.agent_session == theirs
    assert "scene:text first of all" in lab.asked() and "--second" in lab.asked()


async def test_a_mode_that_cannot_be_held_is_refused(lab: Lab):
    with pytest.raises(UnsupportedError, match="accept-edits"):
        async with lab.open(mode="accept-edits"):
            pass
    assert list(lab.project.iterdir()) == []


async def test_a_mode_of_the_agents_own_allows_a_file(lab: Lab):
    own = {"codex": "workspace-write", "opencode": "auto", "gemini": "auto_edit"}
    async with lab.open(agent_mode=own[lab.agent]) as driven:
        assert (await say(driven, "scene:write")).stop == "end_turn"
    assert (lab.project / "hello.txt").read_text() == "hello from script\n"
    (start,), (end,) = driven.all(ToolCallStarted), driven.all(ToolCallEnded)
    assert (start.kind, end.status) == ("edit", "completed")


@pytest.mark.parametrize("scene", ["write", "shell"])
async def test_the_mode_refuses(lab: Lab, scene: str):
    async with lab.open(mode="ask") as driven:
        assert (await say(driven, f"scene:{scene}")).stop == "end_turn"
    assert list(lab.project.iterdir()) == []
    assert all(end.status == "failed" for end in driven.all(ToolCallEnded))


async def test_it_is_interrupted_and_the_next_prompt_works(lab: Lab):
    async with lab.open() as driven:
        turn = asyncio.create_task(say(driven, "scene:slow please"))
        if driven.session.capabilities.streams:
            await driven.seen(MessageChunk, within=LONG)
        async with asyncio.timeout(LONG):  # the others have begun when the model is asked
            while not lab.server.requests:
                await asyncio.sleep(0.05)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        assert await asyncio.to_thread(lab.running) == []
        await goes_on(lab, driven)


async def test_a_rate_limit_is_told(lab: Lab):
    async with lab.open() as driven:
        turn = asyncio.create_task(say(driven, "scene:e429"))
        limit = await driven.seen(RateLimited, within=LONG)
        assert "429" in limit.reason or "scripted failure" in limit.reason
        if lab.agent == "gemini":  # it would try again for minutes
            await driven.seen(RetryScheduled, within=LONG)
            await driven.session.interrupt()
        assert (await turn).stop == ("cancelled" if lab.agent == "gemini" else "failed")
        await goes_on(lab, driven)


async def test_an_overloaded_model_is_told(lab: Lab):
    if lab.agent == "opencode":
        pytest.skip("opencode tries again for minutes, and says nothing")
    async with lab.open() as driven:
        turn = asyncio.create_task(say(driven, "scene:e529"))
        retry = await driven.seen(RetryScheduled, within=LONG)
        assert "529" in retry.reason
        if lab.agent == "gemini":
            await driven.session.interrupt()
            await turn
        else:
            ended = await turn
            assert ended.stop == "failed" and "529" in (ended.reason or "")
        await goes_on(lab, driven)


async def test_a_broken_stream_is_told(lab: Lab):
    async with lab.open() as driven:
        turn = asyncio.create_task(say(driven, "scene:drop"))
        if lab.agent == "opencode":  # it tries again for minutes, and mostly says nothing
            async with asyncio.timeout(LONG):
                while len(lab.server.requests) < 3:
                    await asyncio.sleep(0.05)
            await driven.session.interrupt()
            assert (await turn).stop == "cancelled"
        else:
            ended = await turn
            assert ended.stop == "failed" and ended.reason
        await goes_on(lab, driven)


async def test_a_megabyte_reaches_the_model(lab: Lab):
    if lab.agent != "codex":
        pytest.skip("one is enough: all of them read their standard input")
    words = "x" * 1_000_000 + " end of it"
    async with lab.open() as driven:
        assert (await say(driven, f"scene:text {words}")).stop == "end_turn"
    assert words in lab.asked()


async def test_a_tool_server_and_instructions_of_ours(lab: Lab):
    if lab.agent == "gemini":
        pytest.skip("gemini takes neither over a pipe")
    server = AgentMcpServer(name="lab", command=(sys.executable, str(MCP_ECHO)))
    options: dict[str, Any] = {"system_prompt": 'Say "aye".\n'} if lab.agent == "codex" else {}
    async with lab.open(mcp_servers=(server,), **options) as driven:
        assert (await say(driven, "scene:mcp")).stop == "end_turn"
    said = json.dumps([one.json for one in lab.server.requests])
    assert (lab.project / "mcp-started.txt").exists()
    assert lab.agent != "codex" or 'Say \\\\\\"aye\\\\\\".' in json.dumps(said)


async def test_a_fork_goes_its_own_way(lab: Lab):
    async with lab.open() as driven:
        if not driven.session.capabilities.forks:
            pytest.skip(f"{lab.agent} does not fork over a pipe")
        await say(driven, "scene:text the trunk")
        theirs = driven.session.agent_session
    async with lab.open(resume=theirs, fork=True) as driven:
        assert (await say(driven, "scene:text a branch")).stop == "end_turn"
        assert driven.session.agent_session not in (None, theirs)
    assert "the trunk" in lab.asked()
