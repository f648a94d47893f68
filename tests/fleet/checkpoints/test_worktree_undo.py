"""Undo in worktrees that are in the default place, below our own state directory."""
# Looking at a file for a moment is fine in a test.

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.fleet.api import AgentInfo, SpawnOptions
from quarterdeck.fleet.errors import AgentNotReadyError
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.worktrees import WorktreeOptions
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import Casting, fleet_of, new_agent, places_in
from tests.support.work_trees import new_repository, state_of, untouched
from tests.support.working_agents import prompt, workers


@pytest.fixture
def casting() -> Casting:
    return workers()


@pytest.fixture
async def fleet(tmp_path: Path, casting: Casting) -> AsyncIterator[LocalFleet]:
    async with fleet_of(tmp_path / "home", casting) as fleet:
        yield fleet


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "project", {"a.txt": "a\n", "b/c.txt": "c\n"})


async def spawn(fleet: LocalFleet, project: Path, name: str) -> Path:
    """The top of the worktree of a new agent."""
    wanted = new_agent(project, name=name, mode="full-auto", worktree=WorktreeOptions())
    info = await fleet.spawn(wanted)
    await fleet.wait([name], timeout=SOON)
    assert info.worktree is not None
    return Path(info.worktree.path)


async def test_what_an_agent_did_in_its_worktree_is_undone_and_redone(
    fleet: LocalFleet, project: Path, tmp_path: Path
):
    top = await spawn(fleet, project, "ann")
    assert top.is_relative_to(places_in(tmp_path / "home").state)
    before, checkout = await asyncio.to_thread(state_of, top), state_of(project)
    await prompt(fleet, "ann", "echo new > n.txt; rm b/c.txt; echo more >> a.txt; mkdir .x; >.x/y")
    after, repository = state_of(top), await asyncio.to_thread(untouched, top)
    done = await fleet.undo("ann")
    assert (done.restored, done.kept) == (4, ())
    assert state_of(top) == before
    await fleet.redo("ann")
    assert state_of(top) == after
    assert state_of(project) == checkout
    assert await asyncio.to_thread(untouched, top) == repository


async def test_a_state_directory_within_a_work_tree_is_no_part_of_it(
    casting: Casting, tmp_path: Path
):
    work = await asyncio.to_thread(new_repository, tmp_path / "work", {"a.txt": "a\n"})
    async with fleet_of(work / "home", casting) as fleet:
        await fleet.spawn(new_agent(work, name="ann", mode="full-auto"))
        await fleet.wait(["ann"], timeout=SOON)
        inside = await spawn(fleet, work, "bob")
        assert inside.is_relative_to(work)
        state = places_in(work / "home").state
        await prompt(fleet, "ann", f"echo b > b.txt; echo ours > {state}/ours; echo x > {inside}/x")
        (turn,) = await fleet.turns("ann")
        assert turn.paths == ("b.txt",)
        await prompt(fleet, "bob", "echo new > n.txt")
        (turn,) = await fleet.turns("bob")
        assert turn.paths == ("n.txt",)
        await fleet.undo("ann")
        assert not (work / "b.txt").exists()
        assert (state / "ours").read_text() == "ours\n" and (inside / "x").exists()
        await fleet.undo("bob")
        assert not (inside / "n.txt").exists() and (inside / "x").exists()


async def spawn_native(fleet: LocalFleet, cwd: Path, **fields: object) -> AgentInfo:
    """Our own agent, whose shell has written a file that no tool call names."""
    options = {"model": "scripted/default", "mode": "full-auto", "prompt": "scene:shell"}
    await fleet.spawn(SpawnOptions.of(cwd=str(cwd), name="nat", **options, **fields))
    (info,) = await fleet.wait(["nat"], timeout=SOON)
    assert info.state == "idle"
    return info


async def test_our_own_agent_can_undo_in_its_worktree(project: Path, tmp_path: Path):
    places = places_in(tmp_path / "home")
    checkout = await asyncio.to_thread(state_of, project)
    async with LocalFleet.open(places, {}) as fleet:
        info = await spawn_native(fleet, project, worktree=WorktreeOptions())
        assert info.worktree is not None
        top = Path(info.worktree.path)
        assert top.is_relative_to(places.state)
        after, repository = state_of(top), await asyncio.to_thread(untouched, top)
        assert after.keys() - checkout.keys() == {b"made-by-shell.txt"}
        assert (await fleet.undo("nat")).restored == 1
        assert state_of(top) == checkout
        await fleet.redo("nat")
        assert state_of(top) == after
        assert await asyncio.to_thread(untouched, top) == repository
    assert state_of(project) == checkout


async def test_our_own_agent_sees_no_state_directory_within_its_work_tree(tmp_path: Path):
    work = await asyncio.to_thread(new_repository, tmp_path / "work", {"a.txt": "a\n"})
    async with LocalFleet.open(places_in(work / "home"), {}) as fleet:
        await spawn_native(fleet, work)
        (turn,) = await fleet.turns("nat")
        assert turn.paths == ("made-by-shell.txt",)
        assert (await fleet.undo("nat")).restored == 1
        assert not (work / "made-by-shell.txt").exists()


async def test_nothing_is_undone_where_a_discarded_worktree_was(fleet: LocalFleet, project: Path):
    top = await spawn(fleet, project, "ann")
    await prompt(fleet, "ann", "rm a.txt")
    await fleet.close("ann")
    await fleet.discard_worktree("ann")
    with pytest.raises(AgentNotReadyError, match="was discarded; `quarterdeck worktrees restore"):
        await fleet.undo("ann")
    assert not top.exists()
    await fleet.restore_worktree("ann")
    await fleet.undo("ann")
    assert (top / "a.txt").exists()
