"""A lead learns where its agents get in each other's way, and of nobody else's."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.wire.content import text
from quarterdeck.wire.events import ConflictChanged, Prompted, TurnEnded, WorktreeAssigned
from quarterdeck.wire.worktrees import Worktree
from tests.support.agent_worktrees import add_worktree, write_files
from tests.support.deadlines import SOON
from tests.support.puppet_fleet import Led, leading
from tests.support.work_trees import new_repository


@pytest.fixture
async def led(tmp_path: Path) -> AsyncIterator[Led]:
    new_repository(tmp_path / "project", {"tides.py": "def rise(): pass\n", "b.txt": "b\n"})
    async with leading(tmp_path) as led:
        await led.lead()
        yield led


async def child(led: Led, name: str, *, notify: bool = False) -> Worktree:
    """A child of the lead in a worktree of its own."""
    await led.call("boss", "spawn_agent", name=name, task="say hi", notify=notify)
    await led.call("boss", "wait_for", agents=[name])
    return await assign(led, name)


async def assign(led: Led, name: str) -> Worktree:
    worktree = await asyncio.to_thread(add_worktree, led.folder, name)
    session = (await led.fleet.agent(name)).session
    await led.fleet.journal.append(session, WorktreeAssigned(worktree=worktree))
    return worktree


async def change(led: Led, name: str, tree: Worktree, words: str) -> None:
    """Change a file, and have a turn end so that it is seen."""
    await asyncio.to_thread(write_files, tree, {"tides.py": f"def rise(): return {words}\n"})
    session = (await led.fleet.agent(name)).session
    await led.fleet.journal.append(session, TurnEnded(stop="end_turn"))


async def notices(led: Led, number: int) -> list[str]:
    async with asyncio.timeout(SOON):
        while True:
            words = [one.content[0].text for one in await led.events("boss", Prompted)]
            found = [one for one in words if 'kind="conflict"' in one]
            if len(found) >= number:
                return found
            await asyncio.sleep(0.02)


async def conflict_of(led: Led, name: str) -> None:
    async with asyncio.timeout(SOON):
        while not (await led.fleet.agent(name)).conflicts:
            await asyncio.sleep(0.02)


async def test_a_lead_sees_the_conflicts_of_its_own_agents(led: Led):
    said = await led.call("boss", "conflicts")
    assert said.text == "No conflicts between your agents." and not said.is_error
    one, two = await child(led, "one"), await child(led, "two")
    await led.lead("chief")
    stranger = await assign(led, "chief")
    for name, tree in (("one", one), ("two", two), ("chief", stranger)):
        await change(led, name, tree, f"'{name}'")
    said = await led.call("boss", "conflicts")
    first, order = said.text.splitlines()
    assert first == "one and two: tides.py (cannot be merged: rise)"
    assert order == "Fewest conflicts if landed in this order: one, two"
    assert said.data["pairs"] == [
        {
            "agents": ["one", "two"],
            "shared_directory": False,
            "files": [{"path": "tides.py", "kind": "text", "symbols": ["rise"]}],
        }
    ]
    assert said.data["landing_order"] == ["one", "two"]
    assert "chief" not in said.text
    assert (await led.call("chief", "conflicts")).text == "No conflicts between your agents."


async def test_a_lead_that_wants_notices_is_told_once(led: Led):
    one, two = await child(led, "one", notify=True), await child(led, "two", notify=True)
    await change(led, "one", one, "1")
    await change(led, "two", two, "2")
    (told,) = await notices(led, 1)
    assert "change the same: tides.py (cannot be merged: rise)" in told
    assert told.startswith("From another agent, not from the user")
    await change(led, "two", two, "1")  # gone
    async with asyncio.timeout(SOON):
        while (await led.fleet.agent("one")).conflicts:
            await asyncio.sleep(0.02)
    await change(led, "two", two, "3")  # and back
    await conflict_of(led, "one")
    await led.fleet.conflicts()
    assert len(await notices(led, 1)) == 1


async def test_a_lead_that_does_not_is_not(led: Led):
    one, two = await child(led, "one"), await child(led, "two")
    await change(led, "one", one, "1")
    await change(led, "two", two, "2")
    await conflict_of(led, "one")
    await led.fleet.conflicts()
    assert await notices(led, 0) == []
    assert len(await led.events("two", ConflictChanged)) == 1


async def test_a_lead_that_gets_in_the_way_itself_is_told_so(led: Led):
    own = await assign(led, "boss")
    one = await child(led, "one", notify=True)
    await change(led, "one", one, "1")
    await asyncio.to_thread(write_files, own, {"tides.py": "def rise(): return 0\n"})
    await led.fleet.send("boss", (text("say done"),))
    (told,) = await notices(led, 1)
    assert "one and you change the same: tides.py" in told
