"""Real agents opened by their shipped files alone: what the files call proven, proven again."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.driver import DriverSessionOptions
from quarterdeck.drivers.open_session import open_session
from quarterdeck.drivers.probe import probe
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.events import PermissionAsked, SessionOpened, TurnEnded
from tests.support import real_agents
from tests.support.driver_rig import Driven

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
LONG = 90.0

CELLS = {
    ("claude", "pipe"): "claude",
    ("claude", "acp"): "claude-agent-acp",
    ("codex", "acp"): "codex-acp",
    ("codex", "pipe"): "codex",
    ("codex", "daemon"): "codex",
    ("gemini", "acp"): "gemini",
    ("gemini", "pipe"): "gemini",
    ("opencode", "acp"): "opencode",
    ("opencode", "pipe"): "opencode",
    ("opencode", "daemon"): "opencode",
    ("qwen", "acp"): "qwen",
    ("qwen", "pipe"): "qwen",
    ("kimi", "acp"): "kimi",
    ("goose", "acp"): "goose",
    ("vibe", "acp"): "vibe",
    ("pi", "pipe"): "pi",
}
"""What is installed of each transport that a file calls proven."""
SET_UP = ("claude-agent-acp", "qwen", "kimi", "goose", "vibe")
"""Agents whose model is chosen by their configuration here."""

every_cell = pytest.mark.parametrize(
    ("agent", "transport", "real"),
    [
        pytest.param(
            *cell,
            real,
            id="-".join(cell),
            marks=pytest.mark.skipif(
                real_agents.find(real) is None, reason=f"{real} is not installed"
            ),
        )
        for cell, real in CELLS.items()
    ],
)


@asynccontextmanager
async def session(
    agent: str, transport: str, real: str, folder: Path, server: ModelServer, **options: Any
) -> AsyncGenerator[Driven]:
    project = folder / "project"
    await asyncio.to_thread(project.mkdir, exist_ok=True)
    variables = await asyncio.to_thread(real_agents.environment, real, folder / "home", server.url)
    driven = Driven()
    # Some offer names of their own alone, and what is configured does as well.
    model = None if real in SET_UP else real_agents.model_of(real)
    opening = DriverSessionOptions.of(
        cwd=str(project), model=model, environment=variables, **options
    )
    driven.session = await open_session(agent, opening, driven.sink, transport=transport)
    try:
        yield driven
    finally:
        await driven.session.close()


@every_cell
async def test_it_answers_and_knows_what_was_said(
    agent: str, transport: str, real: str, tmp_path: Path
) -> None:
    async with ModelServer() as server:
        async with session(agent, transport, real, tmp_path, server) as driven:
            first = await driven.say("scene:text please", within=LONG)
            second = await driven.say("scene:text again", within=LONG)
        assert (first.stop, second.stop) == ("end_turn", "end_turn"), driven.all(TurnEnded)
        assert driven.text
        (opened,) = driven.all(SessionOpened)
        assert (opened.agent, opened.transport) == (agent, transport)
        asked = [one.body.decode() for one in server.requests]
        assert any("scene:text please" in one and "scene:text again" in one for one in asked)


@every_cell
async def test_in_ask_mode_nothing_is_written_that_nobody_allowed(
    agent: str, transport: str, real: str, tmp_path: Path
) -> None:
    async with ModelServer() as server:
        async with session(agent, transport, real, tmp_path, server) as driven:
            turn = asyncio.create_task(driven.say("scene:write please", within=LONG))
            denying = asyncio.create_task(_deny(driven))
            await asyncio.wait([turn])
            denying.cancel()
            await asyncio.wait([denying])
            await turn
        found = await asyncio.to_thread(_files, tmp_path / "project")
        assert found == [], (found, driven.all(PermissionAsked))
        assert bool(driven.all(PermissionAsked)) or not driven.session.capabilities.asks


@every_cell
async def test_the_installed_version_is_told(
    agent: str, transport: str, real: str, tmp_path: Path
) -> None:
    variables = await asyncio.to_thread(
        real_agents.environment, real, tmp_path / "home", "http://127.0.0.1:9"
    )
    described = await asyncio.to_thread(find_agent, agent)
    (state,) = await probe([described], environment=variables, limit=60)
    (reached,) = [one for one in state.transports if one.name == transport]
    assert reached.path
    if described.version:
        assert reached.version == described.transports[reached.name].verified.split()[1]


async def _deny(driven: Driven) -> None:
    while True:
        await driven.answer("reject_once")


def _files(project: Path) -> list[str]:
    return [str(one.relative_to(project)) for one in project.rglob("*") if one.is_file()]
