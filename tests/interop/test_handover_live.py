"""Real agents hand their work over to each other: each pair of three, on the scripted model."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.fleet.api import HandoverOptions, SpawnOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.models.script import load_script
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.events import MessageChunk, Prompted, SessionOpened, ToolCallEnded
from quarterdeck.wire.session_options import SessionOptions
from tests.support import real_agents
from tests.support.scripted_fleet import events_of, places_in

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
LONG = 120.0
SCRIPT = Path(__file__).parents[1] / "support" / "handover.toml"
TRANSPORTS = {"codex": "daemon", "opencode": "acp"}
MISSING = [name for name in TRANSPORTS if real_agents.find(name) is None]


def options_for(agent: str, folder: Path, url: str) -> dict[str, Any]:
    if agent == "native":
        return {}
    environment = real_agents.environment(agent, folder / agent, url)
    if agent == "codex":
        # With a model that it knows it hides tools behind a search, which no script speaks.
        settings = folder / agent / ".codex" / "config.toml"
        settings.write_text(settings.read_text().replace("gpt-5.5", "scripted-1"))
    return {"transport": TRANSPORTS[agent], "environment": environment}


async def rest(fleet: LocalFleet, name: str) -> None:
    (info,) = await fleet.wait([name], timeout=LONG)
    found = [str(event)[:300] for event in await events_of(fleet, name)]
    assert info.state == "idle", (info.state, info.reason, found)


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
@pytest.mark.parametrize(
    "chain",
    [("native", "codex", "opencode", "native"), ("native", "opencode", "codex", "native")],
    ids="-".join,
)
async def test_each_agent_continues_with_the_facts_and_the_transcript(
    tmp_path: Path, chain: tuple[str, ...]
):
    project = tmp_path / "project"
    project.mkdir()
    host = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    host["QUARTERDECK_MODEL"] = f"scripted/{SCRIPT}"
    script = await asyncio.to_thread(load_script, SCRIPT)
    first, *others = chain
    async with (
        ModelServer(script) as server,
        LocalFleet.open(places_in(tmp_path / "home"), host) as fleet,
    ):
        options = SessionOptions(cwd=str(project), agent=first)
        await fleet.spawn(SpawnOptions(options=options, name="n0", prompt="BEGIN the tide tables"))
        for number, agent in enumerate(others, start=1):
            old, new = f"n{number - 1}", f"n{number}"
            await rest(fleet, old)
            await fleet.send(old, (text("Say no more."),))
            await rest(fleet, old)
            given = await asyncio.to_thread(options_for, agent, tmp_path / new, server.url)
            request = HandoverOptions(to=agent, name=new, prompt="LOOK IT UP", **given)
            await fleet.hand_over(old, request)
            await rest(fleet, new)
            events = await events_of(fleet, new)
            (opened,) = [one for one in events if isinstance(one, SessionOpened)]
            assert opened.agent == agent
            prompted = next(one for one in events if isinstance(one, Prompted))
            assert isinstance(prompted.content[0], TextContent)
            brief = prompted.content[0].text
            assert "| BEGIN the tide tables" in brief
            assert "| - SQLite, not Postgres" in brief and "| - which port?" in brief
            assert "heron-17" not in brief  # it is in the transcript alone
            said = [one.content for one in events if isinstance(one, MessageChunk)]
            words = "".join(one.text for one in said if isinstance(one, TextContent))
            assert "FOUND: " in words and "heron-17" in words, words
            ended = [one for one in events if isinstance(one, ToolCallEnded)]
            assert [one.status for one in ended] == ["completed"]
            assert not (await fleet.agent(old)).is_live
