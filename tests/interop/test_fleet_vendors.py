"""Agents of several vendors in one fleet, on the scripted model: one list, one inbox."""

import asyncio
import os
from pathlib import Path

import pytest

from quarterdeck.fleet.api import InboxItem, SpawnOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.events import PermissionAnswered
from quarterdeck.wire.session_options import SessionOptions
from tests.support import real_agents
from tests.support.scripted_fleet import events_of, places_in

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
LONG = 100.0
VENDORS = {"claude": "pipe", "opencode": "acp", "codex": "acp"}
PROGRAMS = {"claude": "claude", "opencode": "opencode", "codex": "codex-acp"}
MADE = "hello.txt"


MISSING = [program for program in PROGRAMS.values() if real_agents.find(program) is None]


@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
async def test_three_vendors_and_our_own_ask_in_one_inbox_and_are_answered_once(tmp_path: Path):
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    names = [*VENDORS, "native"]
    async with (
        ModelServer() as server,
        LocalFleet.open(places_in(tmp_path / "fleet"), environment) as fleet,
    ):
        for name in names:
            (tmp_path / name).mkdir()
            await fleet.spawn(new_agent_of(name, tmp_path, server.url))
        waiting = await fleet.wait(names, timeout=LONG)
        assert {one.name: (one.state, one.waits_for) for one in waiting} == dict.fromkeys(
            names, ("waiting", "permission")
        ), [(one.name, one.state, one.reason) for one in await fleet.agents()]
        items = await fleet.inbox()
        assert sorted(item.name for item in items) == sorted(names)
        for item in items:
            assert item.permission is not None and MADE in str(item.permission)
        told = await asyncio.gather(answer_all(fleet, items), answer_all(fleet, items[::-1]))
        assert [a + b for a, b in zip(told[0], told[1][::-1], strict=True)] == [1] * 4
        rested = await fleet.wait(names, timeout=LONG)
        assert [one.state for one in rested] == ["idle"] * 4, rested
        for name in names:
            assert (tmp_path / name / MADE).exists()
            events = await events_of(fleet, name)
            assert sum(isinstance(event, PermissionAnswered) for event in events) == 1
        await asyncio.gather(*(fleet.kill(name) for name in names))
        assert {one.state for one in await fleet.agents()} == {"killed"}


def new_agent_of(name: str, folder: Path, url: str) -> SpawnOptions:
    if name == "native":
        return SpawnOptions(
            options=SessionOptions(cwd=str(folder / name), model="scripted/default"),
            name=name,
            prompt="scene:write",
        )
    return SpawnOptions(
        options=SessionOptions(
            agent=name,
            transport=VENDORS[name],
            cwd=str(folder / name),
            environment=real_agents.environment(PROGRAMS[name], folder / f"{name}-home", url),
        ),
        name=name,
        prompt="scene:write",
    )


async def answer_all(fleet: LocalFleet, items: list[InboxItem]) -> list[bool]:
    return [await fleet.answer(item.request, "allow_once") for item in items]
