"""What an agent that is a real process did without leave waits in the inbox until it was seen."""

import asyncio
import os
from pathlib import Path

import pytest

from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.events import PermissionViolated
from tests.support.agent_files import write_agent_files
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, new_agent, places_in
from tests.support.work_trees import new_repository


@pytest.mark.parametrize(
    ("agent", "transport", "mode"),
    [
        ("fake-acp", "acp", "ask"),
        ("claude", "pipe", "ask"),
        ("gemini", "pipe", "ask"),
        ("codex", "daemon", "ask"),
        ("opencode", "daemon", "ask"),
        ("fake-tui", "pty", "read-only"),
    ],
)
async def test_it_is_in_the_inbox_and_in_the_log(
    tmp_path: Path, agent: str, transport: str, mode: str
):
    home, work = tmp_path / "home", tmp_path / "work"
    places = places_in(home)
    await asyncio.to_thread(write_agent_files, places.agents)
    await asyncio.to_thread(new_repository, work, {"kept.txt": "kept\n"})
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    async with asyncio.timeout(3 * SOON), LocalFleet.open(places, environment) as fleet:
        how = {"transport": transport, "mode": mode, "prompt": "sneak kept.txt changed"}
        await fleet.spawn(new_agent(work, agent, name="sly", **how))
        (rested,) = await fleet.wait(["sly"])
        assert rested.state == "idle"
        (item,) = await fleet.inbox()
        assert (item.name, item.permission) == ("sly", None)
        assert item.question is not None and "without permission" in item.question.text
        assert "kept.txt" in item.question.text
        (violation,) = await events_of(
            fleet, "sly", lambda event: isinstance(event, PermissionViolated)
        )
        assert isinstance(violation, PermissionViolated) and violation.request == item.request
        assert await fleet.reply(item.request, "accept", by="test")
        assert await fleet.inbox() == []
    assert await asyncio.to_thread((work / "kept.txt").read_text) == "changed"
