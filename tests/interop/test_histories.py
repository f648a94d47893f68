"""What the agents themselves have just written: listed, read, searched, taken over, resumed."""

import asyncio
import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.history.history import AgentHistory
from quarterdeck.drivers.history.reader import ReadTally
from quarterdeck.drivers.history.session import HistorySession
from quarterdeck.drivers.transports import make_links
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import MessageChunk, Prompted, ToolCallEnded, TurnEnded
from quarterdeck.wire.usage import TokenUsage
from tests.support import real_agents
from tests.support.driver_rig import Rig, drive
from tests.support.history_homes import FIRST
from tests.support.scripted_fleet import fleet_of

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
LONG = 60.0


@pytest.mark.parametrize("name", ["codex", "opencode"])
async def test_one_prompt_is_listed_shown_taken_over_and_gone_on_with(name: str, tmp_path: Path):
    real_agents.need(name)
    project = tmp_path / "a project ü"
    project.mkdir()
    async with ModelServer() as server:
        environment = real_agents.environment(name, tmp_path / "home", server.url)
        agent = await asyncio.to_thread(find_agent, name)
        rig = Rig(name=name, make=make_links(agent, "pipe")[0], environment=environment)
        model = real_agents.model_of(name)
        async with drive(rig, project, model=model) as driven:
            first = await driven.say("remember the word grapefruit", within=LONG)
        history = AgentHistory.of(environment)
        (past,) = (await history.list(project)).sessions
        assert past.id == driven.session.agent_session
        tally = ReadTally()
        events = [one.event async for one in history.read(past, tally)]
        assert tally.skipped == 0
        (ended,) = [e for e in events if isinstance(e, TurnEnded)]
        assert plain(ended.usage) == plain(first.usage)
        assert [hit.past.id async for hit in history.search("grapefruit", [past])] == [past.id]
        homes = {"HOME": environment["HOME"]}
        async with fleet_of(tmp_path / "fleet") as fleet:
            done = await fleet.import_session(name, past.id, homes)
            assert (done.agent.agent_session, done.agent.can_resume) == (past.id, True)
            async with drive(rig, project, model=model, resume=past.id) as driven:
                await driven.say("what was it?", within=LONG)
            asked = json.dumps([one.json for one in server.requests][-3:])
            assert "grapefruit" in asked and "what was it?" in asked
            again = await fleet.import_session(name, past.id, homes)
            assert 0 < again.added <= done.added and again.agent.session == done.agent.session
            assert (await fleet.import_session(name, past.id, homes)).added == 0


WRITING = {"claude": "pipe", "codex": "daemon", "gemini": "acp", "opencode": "daemon"}
"""The transports over which the agents accept edits and ask about everything else."""


@pytest.mark.long
@pytest.mark.parametrize("name", FIRST)
async def test_a_session_that_was_just_written(name: str, tmp_path: Path):
    real_agents.need(name)
    project = tmp_path / "project"
    project.mkdir()
    async with ModelServer() as server:
        environment = real_agents.environment(name, tmp_path / "home", server.url)
        agent = await asyncio.to_thread(find_agent, name)
        make = make_links(agent, WRITING[name])[0]
        rig = Rig(name=name, make=make, environment=environment)
        model = real_agents.model_of(name)
        async with drive(rig, project, model=model, mode="accept-edits") as driven:
            first = await driven.say("scene:write a file", within=LONG)
            second = await driven.say("why so, my friend?", within=LONG)
            theirs = driven.session.agent_session
        history = AgentHistory.of(environment)
        (past,) = await prompted(history, project)
        assert (past.agent, past.id, past.cwd) == (name, theirs, str(project))
        assert (await history.list(tmp_path)).sessions == ()

        tally = ReadTally()
        events = [one.event async for one in history.read(past, tally)]
        assert (tally.skipped, tally.is_cut) == (0, False), tally
        prompts = [e.content[0] for e in events if isinstance(e, Prompted)]
        told = [one.text.strip('"') for one in prompts if isinstance(one, TextContent)]
        assert told == ["scene:write a file", "why so, my friend?"]
        said = [e.content.text for e in events if isinstance(e, MessageChunk)]  # type: ignore[union-attr]
        assert said[0] == "I will write a file." and "why so, my friend?" in said[-1]
        assert [e.status for e in events if isinstance(e, ToolCallEnded)] == ["completed"]
        ends = [e for e in events if isinstance(e, TurnEnded)]
        assert [plain(end.usage) for end in ends] == [plain(first.usage), plain(second.usage)]
        hits = [hit async for hit in history.search("my friend", [past])]
        assert [hit.past.id for hit in hits] == [theirs]

        async with fleet_of(tmp_path / "fleet") as fleet:
            done = await fleet.import_session(name, past.id, {"HOME": environment["HOME"]})
            assert (done.agent.agent_session, done.agent.can_resume) == (theirs, True)

        piped = Rig(name=name, make=make_links(agent, "pipe")[0], environment=environment)
        async with drive(piped, project, model=model, resume=past.id) as driven:
            assert (await driven.say("and further", within=LONG)).stop == "end_turn"
            assert driven.session.agent_session == past.id
        asked = json.dumps(list(server.requests)[-1].json)
        assert "scene:write a file" in asked and "why so, my friend?" in asked
        (grown,) = await prompted(history, project)
        assert grown.id == past.id
        async with fleet_of(tmp_path / "fleet") as fleet:
            again = await fleet.import_session(name, past.id, {"HOME": environment["HOME"]})
            assert 0 < again.added < done.added and again.agent.session == done.agent.session


async def prompted(history: AgentHistory, project: Path) -> list[HistorySession]:
    """The sessions that have a prompt: Gemini over ACP writes an empty one beside each."""
    return [one for one in (await history.list(project)).sessions if one.title]


def plain(usage: TokenUsage | None) -> tuple[int, int] | None:
    return None if usage is None else (usage.input, usage.output)


@pytest.mark.long
@pytest.mark.parametrize("name", ["opencode", "claude"])
async def test_an_imported_session_is_resumed_by_the_fleet(name: str, tmp_path: Path):
    real_agents.need(name)
    project = tmp_path / "project"
    project.mkdir()
    async with ModelServer() as server:
        environment = real_agents.environment(name, tmp_path / "home", server.url)
        agent = await asyncio.to_thread(find_agent, name)
        rig = Rig(name=name, make=make_links(agent, "pipe")[0], environment=environment)
        async with drive(rig, project, model=real_agents.model_of(name)) as driven:
            await driven.say("remember the word grapefruit", within=LONG)
            theirs = driven.session.agent_session or ""

        async def quarterdeck(*words: str) -> str:
            own = {**environment, "QUARTERDECK_HOME": str(tmp_path / "q")}
            made = [str(Path(sys.executable).with_name("quarterdeck")), *words]
            run = functools.partial(subprocess.run, made, env=own, cwd=project, timeout=LONG)
            done = await asyncio.to_thread(run, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return done.stdout

        try:
            assert theirs in await quarterdeck("history")
            assert (await quarterdeck("history", "import", theirs)).startswith(f"{name}-1: ")
            await quarterdeck("resume", f"{name}-1", "what was it?")
            await quarterdeck("wait", f"{name}-1", "--timeout", str(LONG))
            asked = json.dumps([one.json for one in server.requests][-3:])
            assert "remember the word grapefruit" in asked and "what was it?" in asked
            assert "You said: what was it?" in await quarterdeck("logs", f"{name}-1")
            assert ": 0 new events" in await quarterdeck("history", "import", theirs)
        finally:
            await quarterdeck("host", "stop")
