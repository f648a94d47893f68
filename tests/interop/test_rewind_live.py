"""Claude Code, Codex and pi go back in their own conversations: what the model then hears."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

import pytest

from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.errors import UnsupportedError
from quarterdeck.drivers.transports import make_links
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.events import MessageChunk
from tests.support import real_agents
from tests.support.driver_rig import Driven, Rig, drive

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
LONG = 60.0
AGENTS = {"claude": "pipe", "codex": "daemon", "pi": "pipe"}


@dataclass(frozen=True, slots=True)
class Lab:
    """A model, and a session of one agent with it."""

    server: ModelServer
    driven: Driven

    async def hears(self, prompt: str) -> str:
        """All that the model is asked in a turn."""
        before = len(self.server.requests)
        ended = await self.driven.say(prompt, within=LONG)
        assert ended.stop == "end_turn", ended
        return "".join(str(one.body) for one in list(self.server.requests)[before:])


@pytest.fixture(params=AGENTS)
async def lab(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Lab]:
    name: str = request.param
    real_agents.need(name)
    project = tmp_path / "project"
    project.mkdir()
    async with ModelServer() as server:
        environment = real_agents.environment(name, tmp_path / "home", server.url)
        (make,) = make_links(await asyncio.to_thread(find_agent, name), AGENTS[name])
        rig = Rig(name=name, make=make, environment=environment)
        async with drive(
            rig, project, model=real_agents.model_of(name), start_limit=LONG
        ) as driven:
            yield Lab(server, driven)


async def test_the_model_hears_nothing_of_what_was_taken_back(lab: Lab) -> None:
    for prompt in ("scene:text one", "scene:read two", "scene:text three"):
        await lab.hears(prompt)
    session = lab.driven.session
    first = session.agent_session
    await session.rewind(2)
    assert session.agent_session != first
    heard = await lab.hears("scene:text four")
    assert "text one" in heard and "read two" not in heard and "text three" not in heard
    await session.rewind(1)
    heard = await lab.hears("scene:text five")
    assert "text one" in heard and "text four" not in heard
    with pytest.raises(UnsupportedError, match="go back 9 turns"):
        await session.rewind(9)
    await session.rewind(2)
    assert "text one" not in await lab.hears("scene:text six")


@pytest.mark.parametrize("lab", ["claude", "codex"], indirect=True)
async def test_an_interrupted_turn_is_taken_back(lab: Lab) -> None:
    await lab.hears("scene:text one")
    turn = asyncio.create_task(lab.driven.say("scene:slow two", within=LONG))
    await lab.driven.seen(MessageChunk, lambda one: "tick 1" in str(one.content), within=LONG)
    await lab.driven.session.interrupt()
    assert (await turn).stop == "cancelled"
    await lab.hears("scene:text three")
    await lab.driven.session.rewind(1)
    heard = await lab.hears("scene:text four")
    assert "slow two" in heard and "text three" not in heard
    await lab.driven.session.rewind(2)
    heard = await lab.hears("scene:text five")
    assert "text one" in heard and "slow two" not in heard
