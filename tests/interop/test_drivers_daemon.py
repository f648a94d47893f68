"""Codex and OpenCode themselves as servers, on the scripted model."""

import asyncio
import base64
import json
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.agent_description import make_launch
from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.daemon.opencode.link import OpencodeLink
from quarterdeck.drivers.errors import OpenFailedError
from quarterdeck.drivers.transports import make_links
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.events import (
    MessageChunk,
    RateLimited,
    RetryScheduled,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    UnknownEvent,
)
from quarterdeck.wire.session_options import AgentMcpServer
from tests.support import real_agents
from tests.support.contract import judge
from tests.support.driver_rig import Driven, Rig, drive

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
LONG = 60.0
HELLO = "Hello from the scripted model."
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
        """What the model was asked, as text."""
        return "\n".join(json.dumps(one.json) for one in self.server.requests)

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


@pytest.fixture(params=["codex", "opencode"])
async def lab(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Lab]:
    name: str = request.param
    real_agents.need(name)
    project = tmp_path / "project"
    project.mkdir()
    async with ModelServer() as server:
        environment = real_agents.environment(name, tmp_path / "home", server.url)
        make, *_ = make_links(await asyncio.to_thread(find_agent, name), "daemon")
        lab = Lab(name, server, Rig(name=name, make=make, environment=environment), project)
        yield lab
        assert await asyncio.to_thread(lab.running) == []


async def say(driven: Driven, prompt: str) -> TurnEnded:
    return await driven.say(prompt, within=LONG)


async def test_the_contract_in_one_session(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    """All that every run must see; the rest of this file takes minutes."""
    async with lab.open() as one:
        ended = await say(one, "scene:text first of all")
        assert (ended.stop, one.text) == ("end_turn", HELLO)
        assert ended.usage is not None and ended.usage.output > 0
        turn = asyncio.create_task(say(one, "scene:shell no"))
        await one.answer("reject_once", feedback="not today", within=LONG)
        assert (await turn).stop == "end_turn"
        assert list(lab.project.iterdir()) == []
        turn = asyncio.create_task(say(one, "scene:shell yes"))
        await one.answer("allow_once", within=LONG)
        assert (await turn).stop == "end_turn"
        assert (lab.project / "made-by-shell.txt").exists()
        turn = asyncio.create_task(say(one, "scene:slow please"))
        await one.seen(MessageChunk, lambda chunk: "tick" in str(chunk.content), within=LONG)
        beside = await another(lab, one, monkeypatch)
        async with beside() as two:
            assert (await say(two, "scene:text")).stop == "end_turn"
        await one.session.interrupt()
        assert (await turn).stop == "cancelled"
        theirs = one.session.agent_session
        if lab.agent == "opencode":
            three = await resumed(beside, theirs)
    if lab.agent == "codex":  # a thread has one writer among its processes
        three = await resumed(beside, theirs)
    assert two.text == HELLO
    assert [end.status for end in one.all(ToolCallEnded)] == ["failed", "completed"]
    assert "scene:text first of all" in json.dumps(list(lab.server.requests)[-1].json)
    for driven in (one, two, three):
        assert not driven.all(UnknownEvent)
        judge(driven.heard)


async def resumed(open_: Any, theirs: str | None) -> Driven:
    async with open_(resume=theirs) as driven:
        assert (await say(driven, "scene:text at last")).stop == "end_turn"
        assert (driven.session.agent_session, driven.text) == (theirs, HELLO)
    return driven


async def another(lab: Lab, host: Driven, monkeypatch: pytest.MonkeyPatch) -> Any:
    """How one more session is opened: with opencode on the same server, with codex beside it."""
    if lab.agent != "opencode":
        return lab.open
    link: Any = host.session._link
    launch = make_launch(await asyncio.to_thread(find_agent, "opencode"), "daemon")
    address = f"http://127.0.0.1:{link._api._origin.port}"
    there = replace(launch, url=address, password="THE_PASSWORD")
    monkeypatch.setenv("THE_PASSWORD", _password_of(link))
    rig = Rig(name="opencode", make=lambda: OpencodeLink(there))
    return partial(drive, rig, lab.project, model=real_agents.model_of("opencode"))


@pytest.mark.long
async def test_a_conversation_goes_on_in_another_process(lab: Lab):
    async with lab.open(title="A title of ours", system_prompt="Be brief, turquoise whale.") as one:
        ended = await say(one, "scene:text first of all")
        assert (ended.stop, one.text) == ("end_turn", HELLO)
        assert ended.usage is not None and ended.usage.input > 1000 and ended.usage.output > 0
        again = await say(one, "--second, 🦀 ‮ and a \t tab")
        assert "You said: --second, 🦀 ‮ and a \t tab" in one.text
        assert again.usage is not None and again.usage.input < 2 * ended.usage.input
        theirs = one.session.agent_session
        assert theirs in str(await one.session.list_sessions())
    assert not one.all(UnknownEvent) and "turquoise whale" in lab.asked()
    judge(one.heard)
    async with lab.open(resume=theirs, replay=True) as two:
        assert (await say(two, "third")).stop == "end_turn"
        assert two.session.agent_session == theirs
        assert HELLO in two.text
    async with lab.open(resume=theirs, fork=True) as three:
        assert (await say(three, "fourth")).stop == "end_turn"
        assert three.session.agent_session not in (None, theirs)
    assert "scene:text first of all" in json.dumps(list(lab.server.requests)[-1].json)


@pytest.mark.long
@pytest.mark.parametrize(
    ("scene", "made"), [("write", "hello.txt"), ("shell", "made-by-shell.txt")]
)
async def test_it_asks_before_it_acts(lab: Lab, scene: str, made: str):
    async with lab.open() as driven:
        turn = asyncio.create_task(say(driven, f"scene:{scene} no"))
        await driven.answer("reject_once", feedback="not today", within=LONG)
        assert (await turn).stop == "end_turn"
        assert list(lab.project.iterdir()) == []
        turn = asyncio.create_task(say(driven, f"scene:{scene} yes"))
        asked = await driven.answer("allow_once", within=LONG)
        assert (await turn).stop == "end_turn"
        assert (lab.project / made).exists()
    assert [end.status for end in driven.all(ToolCallEnded)] == ["failed", "completed"]
    assert driven.all(ToolCallStarted)[1].call == asked.call
    judge(driven.heard)


@pytest.mark.long
async def test_a_mode_of_ours_allows_edits_without_asking(lab: Lab):
    async with lab.open(mode="accept-edits") as driven:
        assert (await say(driven, "scene:write")).stop == "end_turn"
    assert (lab.project / "hello.txt").read_text() == "hello from script\n"


@pytest.mark.long
async def test_a_text_is_interrupted(lab: Lab):
    async with lab.open() as driven:
        turn = asyncio.create_task(say(driven, "scene:slow please"))
        await driven.seen(MessageChunk, within=LONG)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        assert (await say(driven, "scene:text and go on")).stop == "end_turn"
        assert driven.text.endswith(HELLO)
    judge(driven.heard)


@pytest.mark.long
async def test_a_command_is_interrupted_and_does_not_run_on(lab: Lab):
    async with lab.open(mode="full-auto") as driven:
        turn = asyncio.create_task(say(driven, "scene:longcmd please"))
        await driven.seen(ToolCallStarted, within=LONG)
        async with asyncio.timeout(LONG):
            while not any("sleep 60" in one for one in await asyncio.to_thread(lab.running)):
                await asyncio.sleep(0.05)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        assert (await say(driven, "scene:text and go on")).stop == "end_turn"
        left = [one for one in await asyncio.to_thread(lab.running) if "sleep 60" in one]
        assert left == []
    assert driven.all(ToolCallEnded)
    judge(driven.heard)


@pytest.mark.long
async def test_a_limit_of_the_model_is_told(lab: Lab):
    async with lab.open() as driven:
        ended = await say(driven, "scene:e429")
        assert ended.stop == "failed" and re.search("429|scripted failure", ended.reason or "")
        assert driven.all(RateLimited) and driven.all(RetryScheduled)
        assert (await say(driven, "scene:text and go on")).stop == "end_turn"


@pytest.mark.long
async def test_a_broken_stream_is_told(lab: Lab):
    async with lab.open() as driven:
        turn = asyncio.create_task(say(driven, "scene:drop"))
        await driven.seen(RetryScheduled, within=LONG)
        if lab.agent == "opencode":  # it tries again for minutes
            await driven.session.interrupt()
        assert (await turn).stop == ("cancelled" if lab.agent == "opencode" else "failed")
        assert (await say(driven, "scene:text and go on")).stop == "end_turn"


@pytest.mark.long
async def test_a_megabyte_reaches_the_model(lab: Lab):
    words = "x" * 1_000_000 + " end of it"
    async with lab.open() as driven:
        assert (await say(driven, f"scene:text {words}")).stop == "end_turn"
    assert words in lab.asked()


@pytest.mark.long
async def test_a_tool_server_of_ours_is_used(lab: Lab):
    server = AgentMcpServer(name="echoer", command=(sys.executable, str(MCP_ECHO)), is_ours=True)
    async with lab.open(mcp_servers=(server,)) as driven:
        turn = asyncio.create_task(say(driven, "scene:text with tools"))
        assert (await turn).stop == "end_turn"
    assert "echoer" in lab.asked()


@pytest.mark.long
async def test_a_killed_server_is_told(lab: Lab):
    async with lab.open() as driven:
        assert (await say(driven, "scene:text")).stop == "end_turn"
        link: Any = driven.session._link
        child = link._server._child
        turn = asyncio.create_task(say(driven, "scene:slow"))
        await driven.seen(MessageChunk, lambda one: "tick" in str(one.content), within=LONG)
        os.kill(child.process.pid, signal.SIGKILL)
        assert (await turn).stop == "failed"
        assert (await driven.session.wait()).how == "broken"


@pytest.mark.long
@pytest.mark.parametrize("lab", ["opencode"], indirect=True)
async def test_two_clients_on_one_opencode(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    async with lab.open() as host:
        beside = await another(lab, host, monkeypatch)
        password = _password_of(host.session._link)
        async with beside() as guest:
            one = asyncio.create_task(say(host, "scene:slow"))
            await host.seen(MessageChunk, within=LONG)
            two = asyncio.create_task(say(guest, "scene:shell"))
            await guest.answer("allow_once", within=LONG)
            assert (await two).stop == "end_turn"
            await host.session.interrupt()
            assert (await one).stop == "cancelled"
            assert "tick" not in guest.text and "Command" not in host.text
        monkeypatch.setenv("THE_PASSWORD", "wrong")
        with pytest.raises(OpenFailedError, match="'THE_PASSWORD' is wrong"):
            async with beside():
                pass
        assert (await say(host, "scene:text")).stop == "end_turn"
        commands = "\n".join(await asyncio.to_thread(lab.running))
        assert "serve" in commands and password not in commands
    for driven in (host, guest):
        judge(driven.heard)


def _password_of(link: Any) -> str:
    return base64.b64decode(link._api._login).decode().partition(":")[2]
