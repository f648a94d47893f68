"""Agents that the host starts in a hostile repository: nothing that it names runs unasked.

Agents of others are fakes: a real one reads settings of its own there, which is beyond our reach.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec import structs

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.fleet.errors import NoHostError
from quarterdeck.fleet.host.launcher import stop_host
from quarterdeck.policy.modes import MODES, Mode
from quarterdeck.wire.content import text
from quarterdeck.wire.events import PermissionViolated
from quarterdeck.wire.session_options import SessionOptions
from tests.support.agent_files import write_agent_files
from tests.support.deadlines import SOON
from tests.support.hostile_repository import HostileRepository, make_hostile_repository

FOREIGN = (
    ("fake-acp", "acp"),
    ("claude", "pipe"),
    ("gemini", "pipe"),
    ("codex", "daemon"),
    ("opencode", "daemon"),
    ("fake-tui", "pty"),
)
SHORT_OF_FULL_AUTO = [mode for mode in MODES if mode != "full-auto"]
CHANGES = frozenset(("accept-edits",))
"""Modes in which an agent changes files unasked."""


@pytest.fixture
def hostile(tmp_path: Path) -> HostileRepository:
    return make_hostile_repository(tmp_path)


@pytest.fixture
async def client(home: Path) -> AsyncIterator[HostClient]:
    """A host of its own, with fakes as agents."""
    places = Places.find()
    await asyncio.to_thread(write_agent_files, places.agents)
    environ = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "QUARTERDECK_HOME": os.environ["QUARTERDECK_HOME"],
        "LANG": "C.UTF-8",
    }
    try:
        async with HostClient.connect(places, start=True, environ=environ) as client:
            yield client
    finally:
        with suppress(NoHostError):
            await stop_host(places, force=True)


async def refuse_all(client: HostClient, names: list[str]) -> int:
    """Say no to whatever is asked until all rest; how often."""
    count = 0
    async with asyncio.timeout(3 * SOON):
        while True:
            await client.wait(names)
            asked = [item for item in await client.inbox() if item.permission is not None]
            if not asked:
                return count
            for item in asked:
                count += await client.answer(item.request, "reject_once", by="test")


@pytest.mark.parametrize("mode", SHORT_OF_FULL_AUTO)
async def test_agents_of_others_in_every_mode_short_of_a_grant(
    client: HostClient, hostile: HostileRepository, mode: Mode
):
    prompt = f"do read a.txt\ndo run {hostile.trap('agent')}\ndo edit src/made.txt made"
    for name, transport in FOREIGN:
        request = SpawnOptions(
            options=SessionOptions(
                agent=name, cwd=str(hostile.top), transport=transport, mode=mode
            ),
            name=name,
        )
        await client.spawn(structs.replace(request, prompt=prompt))
    names = [name for name, _ in FOREIGN]
    refused = await refuse_all(client, names)
    states = {name: (await client.agent(name)).state for name in names}
    if mode == "deny-all":  # only one of them can be held to it
        held = {name for name, state in states.items() if state == "idle"}
        assert held == {"claude"}, states
    elif mode == "accept-edits":  # and one that never asks has no words for this
        assert {name for name, state in states.items() if state != "idle"} == {"gemini"}, states
    else:
        assert set(states.values()) == {"idle"}, states
    assert bool(refused) is (mode in ("ask", "plan", "accept-edits"))
    assert await asyncio.to_thread((hostile.top / "src/made.txt").exists) is (mode in CHANGES)
    for name in names:
        records = await client.read(name)
        assert not any(isinstance(one.event, PermissionViolated) for one in records), name
    assert await asyncio.to_thread(hostile.ran) == []


SCRIPT = """\
default = "work"

[scenes.work]
replies = [
  {{ parts = [
    {{ tool = "read", arguments = {{ path = "AGENTS.md" }} }},
    {{ tool = "read", arguments = {{ path = "link-file" }} }},
    {{ tool = "shell", arguments = {{ command = "git status" }} }},
    {{ tool = "shell", arguments = {{ command = {trap} }} }},
    {{ tool = "shell", arguments = {{ command = "make" }} }},
  ] }},
  {{ parts = [{{ tool = "write", arguments = {{ path = "src/made.txt", content = "made" }} }}] }},
  "done",
]
"""


@pytest.mark.parametrize("mode", SHORT_OF_FULL_AUTO)
async def test_our_own_agent_in_every_mode_short_of_a_grant_and_back(
    client: HostClient, hostile: HostileRepository, tmp_path: Path, mode: Mode
):
    script, made = tmp_path / "script.toml", hostile.top / "src" / "made.txt"
    words = SCRIPT.format(trap=json.dumps(hostile.trap("native")))
    await asyncio.to_thread(script.write_text, words)
    before = await asyncio.to_thread((hostile.outside / "secret.txt").read_bytes)
    request = SpawnOptions(
        options=SessionOptions(cwd=str(hostile.top), model=f"scripted/{script}", mode=mode),
        name="own",
    )
    await client.spawn(request)
    for prompt in ("work", "/changes", "/undo", "/redo", "/undo"):
        await client.send("own", (text(prompt),))
        asked = await refuse_all(client, ["own"])
        assert prompt != "work" or bool(asked) is (mode != "deny-all")
        if prompt in ("work", "/redo"):
            assert await asyncio.to_thread(made.exists) is (mode in CHANGES), prompt
    assert (await client.agent("own")).state == "idle"
    assert not await asyncio.to_thread(made.exists)
    assert await asyncio.to_thread((hostile.outside / "secret.txt").read_bytes) == before
    assert await asyncio.to_thread(hostile.ran) == []
