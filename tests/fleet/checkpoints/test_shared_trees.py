"""Several agents in one directory: each turn has its own changes, and doubts are said."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.fleet.checkpoints.result_text import describe_turn
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.content import text
from quarterdeck.wire.events import Checkpointed, SharedFile
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import Casting, events_of, fleet_of
from tests.support.work_trees import new_repository, state_of
from tests.support.working_agents import WorkingLink, at_work, prompt, workers

FILES = {"a.txt": "one\ntwo\nthree\nfour\nfive\nsix\n", "b.txt": "b\n"}


@pytest.fixture
def casting() -> Casting:
    return workers()


@pytest.fixture
async def fleet(tmp_path: Path, casting: Casting) -> AsyncIterator[LocalFleet]:
    async with fleet_of(tmp_path / "home", casting) as fleet:
        yield fleet


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "work", FILES)


async def begin(fleet: LocalFleet, link: WorkingLink, name: str, words: str) -> None:
    await fleet.send(name, (text(words),))
    await asyncio.wait_for(link.holds.wait(), SOON)


async def end(fleet: LocalFleet, link: WorkingLink, name: str) -> None:
    link.go_on.set()
    await fleet.wait([name], timeout=SOON)


async def checkpoints(fleet: LocalFleet, name: str) -> list[Checkpointed]:
    return [one for one in await events_of(fleet, name) if isinstance(one, Checkpointed)]


async def test_later_changes_of_another_agent_stay(fleet: LocalFleet, casting: Casting, work: Path):
    await at_work(fleet, casting, work, "ann")
    await at_work(fleet, casting, work, "bob")
    await prompt(fleet, "ann", "sed -i s/one/ANN/ a.txt; echo ann > ann.txt")
    await prompt(fleet, "bob", "sed -i s/six/BOB/ a.txt; echo bob > bob.txt")
    done = await fleet.undo("ann")
    assert (done.merged, done.kept) == (("a.txt",), ())
    assert (work / "a.txt").read_text() == FILES["a.txt"].replace("six", "BOB")
    assert ((work / "ann.txt").exists(), (work / "bob.txt").exists()) == (False, True)
    await fleet.undo("bob")
    assert (work / "a.txt").read_text() == FILES["a.txt"]
    await fleet.redo("bob")
    await fleet.redo("ann")
    both = FILES["a.txt"].replace("six", "BOB").replace("one", "ANN")
    assert (work / "a.txt").read_text() == both


async def test_turns_that_overlap_have_what_each_did_alone(
    fleet: LocalFleet, casting: Casting, work: Path
):
    ann = await at_work(fleet, casting, work, "ann")
    bob = await at_work(fleet, casting, work, "bob")
    await begin(fleet, ann, "ann", "hold echo ann > alone.txt")
    await begin(fleet, bob, "bob", "hold echo both > shell.txt")
    await end(fleet, ann, "ann")
    await end(fleet, bob, "bob")
    (of_ann,), (of_bob,) = await checkpoints(fleet, "ann"), await checkpoints(fleet, "bob")
    assert of_ann.paths == ("alone.txt", "shell.txt")
    assert of_ann.shared == (SharedFile(path="shell.txt", agents=("bob",)),)
    assert of_bob.paths == ("shell.txt",)
    assert of_bob.shared == (SharedFile(path="shell.txt", agents=("ann",)),)
    done = await fleet.undo("ann")
    (kept,) = done.kept
    assert (kept.path, kept.reason) == ("shell.txt", "may also have been changed by bob")
    assert not (work / "alone.txt").exists()
    assert (work / "shell.txt").read_text() == "both\n"
    assert "1 file shared with bob" in describe_turn((await fleet.turns("ann"))[0])
    await fleet.undo("bob", force=True)
    assert not (work / "shell.txt").exists()


async def test_tool_calls_say_whose_a_change_is(fleet: LocalFleet, casting: Casting, work: Path):
    ann = await at_work(fleet, casting, work, "ann")
    await at_work(fleet, casting, work, "bob")
    await begin(fleet, ann, "ann", "hold true")
    await prompt(fleet, "bob", "edit b.txt bob\\n")
    await end(fleet, ann, "ann")
    (of_bob,) = await checkpoints(fleet, "bob")
    assert (of_bob.paths, of_bob.shared) == (("b.txt",), ())
    assert await checkpoints(fleet, "ann") == []
    await fleet.undo("bob")
    assert (work / "b.txt").read_text() == "b\n"


async def test_an_undo_is_no_change_of_a_turn_that_runs(
    fleet: LocalFleet, casting: Casting, work: Path
):
    ann = await at_work(fleet, casting, work, "ann")
    await at_work(fleet, casting, work, "bob")
    await prompt(fleet, "bob", "echo bob > bob.txt; echo more >> b.txt")
    await begin(fleet, ann, "ann", "hold echo ann > ann.txt")
    await fleet.undo("bob")
    await end(fleet, ann, "ann")
    (of_ann,) = await checkpoints(fleet, "ann")
    assert of_ann.paths == ("ann.txt",)
    await fleet.undo("ann")
    assert await asyncio.to_thread(state_of, work) == {
        name.encode(): ("file", words.encode(), False) for name, words in FILES.items()
    }


async def test_many_agents_in_one_directory_share_snapshots(
    fleet: LocalFleet, casting: Casting, work: Path
):
    names = [f"agent-{number}" for number in range(12)]
    for name in names:
        await at_work(fleet, casting, work, name)
    for name in names:
        await fleet.send(name, (text(f"edit {name}.txt {name}"),))
    await fleet.wait(names, timeout=4 * SOON)
    for name in names:
        (one,) = await checkpoints(fleet, name)
        assert (one.paths, one.shared) == ((f"{name}.txt",), ())
    await asyncio.gather(*(fleet.undo(name) for name in names))
    assert sorted(await asyncio.to_thread(state_of, work)) == [b"a.txt", b"b.txt"]


async def test_what_is_kept_keeps_what_it_stands_in_the_way_of(
    fleet: LocalFleet, casting: Casting, work: Path
):
    ann = await at_work(fleet, casting, work, "ann")
    bob = await at_work(fleet, casting, work, "bob")
    await begin(fleet, ann, "ann", "hold rm b.txt; echo ann > own.txt")
    await begin(fleet, bob, "bob", "hold mkdir b.txt; echo bob > b.txt/in")
    await end(fleet, ann, "ann")
    await end(fleet, bob, "bob")
    done = await fleet.undo("ann")
    assert [one.path for one in done.kept] == ["b.txt", "b.txt/in"]
    assert not (work / "own.txt").exists()
    assert (work / "b.txt" / "in").read_text() == "bob\n"
