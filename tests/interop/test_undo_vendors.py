"""Agents of four vendors change files by their shell, on the scripted model: undone."""

import asyncio
import os
from pathlib import Path

import pytest

from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.content import text
from quarterdeck.wire.session_options import SessionOptions
from tests.support import real_agents
from tests.support.scripted_fleet import events_of, places_in
from tests.support.work_trees import new_repository, state_of, untouched

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
LONG = 100.0
MADE = b"made-by-shell.txt"
VENDORS = {
    "claude": ("pipe", "rewound"),
    "codex": ("daemon", "rewound"),
    "opencode": ("daemon", "noted"),
    "pi": ("pipe", "rewound"),
}
OWN_MODES = {"pi": "all-tools"}
"""It never asks: no mode of ours gives it a shell."""


@pytest.mark.parametrize("name", VENDORS)
async def test_a_change_by_its_shell_is_undone(name: str, tmp_path: Path):
    real_agents.need(name)
    transport, conversation = VENDORS[name]
    work = await asyncio.to_thread(new_repository, tmp_path / "work", {"a.txt": "one\n"})
    before, repository = state_of(work), (await asyncio.to_thread(untouched, work))[:5]
    host = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    async with (
        ModelServer() as server,
        LocalFleet.open(places_in(tmp_path / "fleet"), host) as fleet,
    ):
        options = SessionOptions(
            agent=name,
            transport=transport,
            cwd=str(work),
            mode=None if name in OWN_MODES else "full-auto",
            agent_mode=OWN_MODES.get(name),
            model=real_agents.model_of(name),
            environment=real_agents.environment(name, tmp_path / "agent-home", server.url),
        )
        await fleet.spawn(SpawnOptions(options=options, name=name, prompt="scene:text"))
        await _rest(fleet, name)
        await fleet.send(name, (text("scene:shell please"),))
        await _rest(fleet, name)
        after = await asyncio.to_thread(state_of, work)
        assert MADE in after, await events_of(fleet, name)
        done = await fleet.undo(name)
        assert (done.number, done.conversation) == (2, conversation)
        left = await asyncio.to_thread(state_of, work)
        assert MADE not in left and left.items() >= before.items()
        asked = len(server.requests)
        await fleet.send(name, (text("scene:text again"),))
        await _rest(fleet, name)
        heard = "".join(str(one.body) for one in list(server.requests)[asked:])
        assert ("scene:shell please" in heard) == (conversation == "noted")
        assert ("were undone" in heard) == (conversation == "noted")
    # An agent may keep notes of its own there.
    assert (await asyncio.to_thread(untouched, work))[:5] == repository


async def _rest(fleet: LocalFleet, name: str) -> None:
    """Wait until the agent is idle, and allow what it asks for."""
    while True:
        (info,) = await fleet.wait([name], timeout=LONG)
        if info.state != "waiting":
            break
        for item in await fleet.inbox():
            await fleet.answer(item.request, "allow_once")
        await asyncio.sleep(0.1)
    assert info.state == "idle", (info, await events_of(fleet, name))
