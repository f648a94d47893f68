"""Real agents lead and are led, across makes, on the scripted model."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.host.server import FleetServer
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.models.script import Script, load_script
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    Prompted,
    QuestionAnswered,
    SessionOpened,
    ToolCallEnded,
)
from quarterdeck.wire.rpc import ByteStream, connect_unix
from quarterdeck.wire.session_options import SessionOptions
from tests.support import real_agents
from tests.support.scripted_fleet import events_of, places_in

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
LONG = 150.0
SCRIPT = Path(__file__).parents[1] / "support" / "leading.toml"
PROGRAMS = {
    ("claude", "pipe"): "claude",
    ("claude", "acp"): "claude-agent-acp",
    ("opencode", "acp"): "opencode",
    ("codex", "acp"): "codex-acp",
    ("codex", "pipe"): "codex",
    ("gemini", "acp"): "gemini",
}


@dataclass(frozen=True, slots=True)
class Lab:
    """A fleet of real agents, a person at another client, and a project."""

    fleet: LocalFleet
    person: HostClient
    project: Path
    server: ModelServer

    async def said(self, name: str) -> str:
        chunks = await self.all_of(name, MessageChunk)
        return "".join(c.content.text for c in chunks if isinstance(c.content, TextContent))

    async def all_of(self, name: str, kind: type[Event]) -> list[Any]:
        return await events_of(self.fleet, name, lambda one: isinstance(one, kind))

    async def story(self) -> str:
        """Everything that happened, for a test that fails."""
        lines: list[str] = []
        for info in await self.fleet.agents(archived=True):
            lines.append(f"{info.name}: {info.state} {info.reason}")
            lines += [f"  {r.event}"[:400] for r in await self.fleet.read(info.name, limit=500)]
        return "\n".join(lines)


def script_for(kind: str, folder: Path) -> tuple[Script, Path]:
    file = folder / "script.toml"
    file.write_text(SCRIPT.read_text().replace("KIND", kind))
    return load_script(file), file


def introduce(agent: str, transport: str, home: Path, folder: Path, url: str) -> None:
    """Tell the fleet where this agent is and what it needs, as its user would."""
    program = real_agents.find(PROGRAMS[agent, transport])
    if program is None:
        pytest.skip(f"{PROGRAMS[agent, transport]} is not installed")
    environment = real_agents.environment(PROGRAMS[agent, transport], folder / agent, url)
    if agent == "codex":
        # With a model that it knows it hides tools behind a search, which no script speaks.
        settings = folder / agent / ".codex" / "config.toml"
        settings.write_text(settings.read_text().replace("gpt-5.5", "scripted-1"))
    folder_of_agents = places_in(home).agents
    folder_of_agents.mkdir(parents=True, exist_ok=True)
    lines = [f'order = ["{transport}"]', f"[transports.{transport}.environment]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in environment.items()]
    (folder_of_agents / f"{agent}.toml").write_text("\n".join(lines))


@asynccontextmanager
async def lab_of(tmp_path: Path, kind: str, *agents: tuple[str, str]) -> AsyncGenerator[Lab]:
    project, home, socket = tmp_path / "project", tmp_path / "home", tmp_path / "s" / "host.sock"
    project.mkdir()
    script, file = await asyncio.to_thread(script_for, kind, tmp_path)
    async with ModelServer(script) as server:
        for agent, transport in agents:
            introduce(agent, transport, home, tmp_path, server.url)
        model = {"QUARTERDECK_MODEL": f"scripted/{file}"}
        async with (
            LocalFleet.open(places_in(home), model) as fleet,
            FleetServer(fleet, stop=lambda: None).serve(socket),
        ):

            async def dial() -> ByteStream:
                return await connect_unix(socket)

            person = HostClient.create(dial, "person")
            try:
                yield Lab(fleet, person, project, server)
            finally:
                await person.disconnect()


async def play(lab: Lab, request: SpawnOptions) -> None:
    """The lead starts two children; one asks it, one needs a person; both come back."""
    await lab.fleet.spawn(request)
    try:
        async with asyncio.timeout(LONG):
            while not (items := await lab.person.inbox()):
                info = await lab.fleet.agent("boss")
                assert info.state in ("starting", "running", "idle"), info.reason
                assert info.state != "idle" or info.queue or not await lab.said("boss")
                await asyncio.sleep(0.05)
            assert items[0].name == "writer"
            await lab.person.answer(items[0].request, "allow_once", by="person")
            await lab.person.wait(["boss"])
        results = await lab.said("boss")
        assert "RESULTS:" in results and "WRITER: done" in results, results
        assert "ASKER:" in results and "blue" in results, results
        assert (lab.project / "made.txt").read_text() == "made\n"
        (answered,) = await lab.all_of("asker", QuestionAnswered)
        assert answered.content == {"answer": "blue"}
        assert [one.origin for one in await lab.all_of("boss", Prompted)] == ["person"]
        assert all(one.status == "completed" for one in await lab.all_of("boss", ToolCallEnded))
    except BaseException:
        print(await lab.story())
        raise


@pytest.mark.parametrize(("agent", "transport"), [("opencode", "acp"), ("claude", "pipe")])
async def test_our_own_agent_leads_two_of_another_make(tmp_path: Path, agent: str, transport: str):
    async with lab_of(tmp_path, agent, (agent, transport)) as lab:
        await play(
            lab,
            SpawnOptions(
                options=SessionOptions(cwd=str(lab.project)),
                name="boss",
                prompt="scene:lead",
                lead=True,
            ),
        )
        (opened,) = await lab.all_of("asker", SessionOpened)
        assert (opened.agent, opened.transport) == (agent, transport)


@pytest.mark.parametrize(
    ("agent", "transport"),
    [
        ("claude", "pipe"),
        ("claude", "acp"),
        ("opencode", "acp"),
        ("codex", "acp"),
        ("codex", "pipe"),
    ],
)
async def test_another_make_leads_two_of_our_own(tmp_path: Path, agent: str, transport: str):
    async with lab_of(tmp_path, "native", (agent, transport)) as lab:
        fields = {"name": "boss", "cwd": str(lab.project), "lead": True, "agent": agent}
        await play(lab, SpawnOptions.of(prompt="scene:lead", **fields))


@pytest.mark.parametrize(
    ("agent", "transport"),
    [("claude", "pipe"), ("claude", "acp"), ("opencode", "acp"), ("codex", "acp")],
)
async def test_a_foreign_lead_arranges_the_screen(tmp_path: Path, agent: str, transport: str):
    calls: list[str] = []

    async def screen(name: str, arguments: dict[str, Any], by: str) -> Any:
        calls.append(name)
        return {"tabs": []} if name == "get_layout" else {"panel": "diff-1"}

    async with lab_of(tmp_path, "native", (agent, transport)) as lab:
        request = SpawnOptions(
            options=SessionOptions(agent=agent, cwd=str(lab.project)),
            name="boss",
            lead=True,
            prompt="scene:screen go",
        )
        async with lab.person.attach_screen(screen, cwd=str(lab.project)):
            await lab.fleet.spawn(request)
            await lab.fleet.wait(["boss"], timeout=LONG)
        assert await lab.fleet.inbox() == []
        assert "SHOWN:" in await lab.said("boss"), await lab.story()
        assert calls == ["get_layout", "set_layout", "open_diff"]
