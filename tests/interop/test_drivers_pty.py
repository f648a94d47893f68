"""Real agents, driven through their screens on the scripted model.

Two of them in every run; the others take longer and run with ``make interop``.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from quarterdeck.drivers.agent_description import make_launch
from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.pty.link import PtyLink
from quarterdeck.terminal.headless_terminal import neutralize_controls
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.events import MessageChunk, PermissionAsked, SessionEnded, ToolCallEnded
from tests.support import real_agents
from tests.support.contract import judge
from tests.support.deadlines import quick_once
from tests.support.driver_rig import Driven, Rig, drive

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
LONG = 60.0
AGENTS = [
    "codex",
    "opencode",
    *(pytest.param(name, marks=pytest.mark.long) for name in ("claude", "gemini", "aider")),
]
ASKS = {"codex": "scene:escalate go", "aider": "scene:suggest go"}
POLICY = frozenset(("accept-trust", "decline-update"))


@dataclass(frozen=True, slots=True)
class Live:
    """A session with one agent, and the model that it asks."""

    agent: str
    driven: Driven
    server: ModelServer

    @property
    def link(self) -> PtyLink:
        link = self.driven.session._link
        assert isinstance(link, PtyLink)
        return link

    async def asks(self, answer: str) -> str:
        """A turn that asks for leave to run a command; how it ends."""
        driven, known = self.driven, len(self.driven.all(PermissionAsked))
        prompt = ASKS.get(self.agent, "scene:shell go")
        turn = asyncio.create_task(driven.say(prompt, within=LONG))
        await driven.seen(
            PermissionAsked, lambda _: len(driven.all(PermissionAsked)) > known, within=LONG
        )
        asked = await driven.answer(answer)
        assert asked.kind == "execute" and "made-by-shell.txt" in asked.raw_input["command"]
        if self.agent == "aider" and answer == "allow_once":
            await driven.answer("reject_once")  # what to do with the output
        return (await turn).stop


@pytest.fixture(params=AGENTS)
async def live(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Live]:
    name: str = request.param
    real_agents.need(name)
    project = tmp_path / "project"
    project.mkdir()
    async with ModelServer() as server:
        environment = real_agents.environment(name, tmp_path / "home", server.url)
        agent = await asyncio.to_thread(find_agent, name)
        launch = replace(make_launch(agent, "pty"), quirks=POLICY)
        rig = Rig(name=name, make=lambda: PtyLink(launch), environment=environment)
        async with drive(rig, project, start_limit=120.0) as driven:
            yield Live(name, driven, server)
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


async def test_the_scenes_of_the_other_transports(live: Live):
    """One session for all of them: starting one takes these agents seconds."""
    driven = live.driven
    ended = await driven.say("scene:text hello\n\nof many\n  > lines", within=LONG)
    assert (ended.stop, driven.text.strip()) == ("end_turn", "Hello from the scripted model.")

    made = Path(driven.session.opening.options.cwd) / "made-by-shell.txt"
    assert await live.asks("reject_once") == "end_turn"
    assert not await asyncio.to_thread(made.exists)
    assert await live.asks("allow_once") == "end_turn"
    assert await asyncio.to_thread(made.exists)
    assert {end.status for end in driven.all(ToolCallEnded)} == {"failed", "completed"}

    turn = asyncio.create_task(driven.say("scene:slow", within=LONG))
    await driven.seen(MessageChunk, lambda one: "tick" in str(one.content), within=LONG)
    await driven.session.interrupt()
    assert (await turn).stop == "cancelled"
    if live.agent == "opencode":  # it takes long to draw long prompts
        before = len(driven.text)
        assert (await driven.say("scene:text again", within=LONG)).stop == "end_turn"
        assert driven.text[before:].strip() == "Hello from the scripted model."
    else:
        await pasted(live)

    os.kill(live.link.terminal.pid, signal.SIGKILL)
    ended = await driven.seen(SessionEnded, within=LONG)
    assert (ended.how, ended.signal) == ("broken", "SIGKILL")


async def pasted(live: Live) -> None:
    """A long prompt with all that could press a key, typed by hand: it arrives whole, and nothing
    in it does anything; a prompt of ours waits for that turn."""
    evil = "scene:text\x1b[201~\x1b[200~ \x00\x9b31m\x9d0;x\x9c\x03\x07\r\n你好 🦀 "
    prompt = (evil * 1000)[:10_000]
    terminal, clock = live.link.terminal, asyncio.get_running_loop().time

    async def paste() -> float:
        begun = clock()
        await terminal.paste(prompt)
        taken = clock() - begun
        await asyncio.sleep(1)  # agents take an enter for a part of the paste that it follows
        await terminal.press("enter")
        before = len(live.driven.text)
        assert (await live.driven.say("scene:text again", within=LONG)).stop == "end_turn"
        assert "Hello from the scripted model." in live.driven.text[before:]
        return taken

    await quick_once(paste, 1.0)
    asked = json.dumps([one.json for one in live.server.requests], ensure_ascii=False)
    assert json.dumps(neutralize_controls(prompt).strip(), ensure_ascii=False)[1:-1] in asked
