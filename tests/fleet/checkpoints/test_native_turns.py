"""Turns of our own agent in a fleet are recorded as those of every other."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.agent.checkpoints.errors import FilesChangedError, NothingToUndoError
from quarterdeck.fleet.checkpoints.result_text import describe_result, describe_turn
from quarterdeck.fleet.checkpoints.selective_restore import FilesKeptError
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.content import text
from quarterdeck.wire.events import Checkpointed, NoticePosted, SharedFile, TurnEnded
from quarterdeck.wire.worktrees import WorktreeOptions
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import Casting, events_of, places_in
from tests.support.work_trees import new_repository, state_of
from tests.support.working_agents import (
    OwnAgents,
    WorkingLink,
    at_work,
    begin_own,
    end_own,
    prompt,
    workers,
)

LINES = "one\ntwo\nthree\nfour\nfive\nsix\n"
FILES = {"a.txt": LINES, "b.txt": "b\n", ".gitignore": "*.flag\n*.log\n"}


@pytest.fixture
def casting() -> Casting:
    return workers()


@pytest.fixture
async def own(tmp_path: Path, casting: Casting) -> AsyncIterator[OwnAgents]:
    own = OwnAgents(tmp_path / "home", casting)
    async with LocalFleet.open(places_in(tmp_path / "home"), {}, open_session=own) as fleet:
        own.fleet = fleet
        yield own


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "work", FILES)


async def checkpoints(fleet: LocalFleet, name: str) -> list[Checkpointed]:
    return [one for one in await events_of(fleet, name) if isinstance(one, Checkpointed)]


async def overlap(own: OwnAgents, where: Path) -> None:
    """Two turns: what ann did alone, what both may have done, what bob did alone."""
    await begin_own(own.fleet, where, "ann", "echo ann > ann.txt; sed -i s/one/ANN/ a.txt")
    await begin_own(own.fleet, where, "bob", "echo bob > bob.txt; sed -i s/six/BOB/ a.txt")
    await end_own(own.fleet, where, "ann")
    await end_own(own.fleet, where, "bob")


async def check_overlap(fleet: LocalFleet, where: Path) -> None:
    (of_ann,) = await checkpoints(fleet, "ann")
    assert of_ann.shared == (
        SharedFile(path="a.txt", agents=("bob",)),
        SharedFile(path="bob.txt", agents=("bob",)),
    )
    assert "2 files shared with bob" in describe_turn((await fleet.turns("ann"))[0])
    before = (where / "a.txt").read_text()
    done = await fleet.undo("ann")
    assert [one.reason for one in done.kept] == ["may also have been changed by bob"] * 2
    assert (done.restored, done.conversation) == (1, "rewound")
    assert not (where / "ann.txt").exists()
    assert (where / "bob.txt").read_text() == "bob\n"
    assert (where / "a.txt").read_text() == before


async def test_undo_of_one_leaves_what_the_other_did_in_one_checkout(own: OwnAgents, work: Path):
    await own.start(work, "ann")
    await own.start(work, "bob")
    await overlap(own, work)
    await check_overlap(own.fleet, work)


async def test_undo_of_one_leaves_what_the_other_did_in_one_worktree(own: OwnAgents, work: Path):
    info = await own.start(work, "ann", worktree=WorktreeOptions())
    assert info.worktree is not None
    top = Path(info.worktree.path)
    await own.start(work, "bob", worktree=WorktreeOptions(path="ann"))
    await overlap(own, top)
    await check_overlap(own.fleet, top)


async def test_later_changes_of_another_are_merged(own: OwnAgents, work: Path):
    await own.start(work, "ann")
    await own.start(work, "bob")
    await prompt(own.fleet, "ann", "scene:run sed -i s/one/ANN/ a.txt; echo ann > ann.txt")
    await prompt(own.fleet, "bob", "scene:run sed -i s/six/BOB/ a.txt; echo bob > bob.txt")
    done = await own.fleet.undo("ann")
    assert (done.merged, done.kept, done.restored) == (("a.txt",), (), 2)
    assert (work / "a.txt").read_text() == LINES.replace("six", "BOB")
    assert ((work / "ann.txt").exists(), (work / "bob.txt").exists()) == (False, True)
    await own.fleet.redo("ann")
    assert (work / "a.txt").read_text() == LINES.replace("six", "BOB").replace("one", "ANN")


async def test_file_tools_say_whose_a_change_is(own: OwnAgents, work: Path):
    await own.start(work, "ann")
    await own.start(work, "bob")
    await begin_own(own.fleet, work, "ann", "true")
    await prompt(own.fleet, "bob", "scene:put n.txt")
    await end_own(own.fleet, work, "ann")
    (of_bob,) = await checkpoints(own.fleet, "bob")
    assert (of_bob.paths, of_bob.shared) == (("n.txt",), ())
    assert await checkpoints(own.fleet, "ann") == []
    assert (await own.fleet.undo("bob")).restored == 1
    assert not (work / "n.txt").exists()


async def test_beside_an_agent_of_another_vendor(own: OwnAgents, casting: Casting, work: Path):
    link: WorkingLink = await at_work(own.fleet, casting, work, "cat")
    await own.start(work, "ann")
    await own.fleet.send("cat", (text("hold true"),))
    await asyncio.wait_for(link.holds.wait(), SOON)
    await prompt(own.fleet, "ann", "scene:run echo ann > ann.txt")
    link.go_on.set()
    await own.fleet.wait(["cat"], timeout=SOON)
    for name, other in (("ann", "cat"), ("cat", "ann")):
        (one,) = await checkpoints(own.fleet, name)
        assert one.shared == (SharedFile(path="ann.txt", agents=(other,)),)
        with pytest.raises(FilesKeptError, match=f"may also have been changed by {other}"):
            await own.fleet.undo(name)
    assert (await own.fleet.undo("ann", force=True)).restored == 1
    assert not (work / "ann.txt").exists()


async def test_an_undo_of_another_is_no_change_of_its_turn(own: OwnAgents, work: Path):
    await own.start(work, "ann")
    await own.start(work, "bob")
    await prompt(own.fleet, "bob", "scene:run echo bob > bob.txt; echo more >> b.txt")
    await begin_own(own.fleet, work, "ann", "echo ann > ann.txt")
    await own.fleet.undo("bob")
    await end_own(own.fleet, work, "ann")
    (of_ann,) = await checkpoints(own.fleet, "ann")
    assert (of_ann.paths, of_ann.shared) == (("ann.txt",), ())


async def test_what_a_command_did_outside_of_git_is_undone(own: OwnAgents, tmp_path: Path):
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.txt").write_text("a\n")
    before = state_of(plain)
    await own.start(plain, "ann")
    await prompt(own.fleet, "ann", "scene:run echo more >> a.txt; mkdir d; echo n > d/n")
    after = state_of(plain)
    changes = await own.fleet.turn_changes("ann")
    assert any("more" in line for line in changes.diff)
    assert (await own.fleet.undo("ann")).restored == 2
    assert state_of(plain) == before
    await own.fleet.redo("ann")
    assert state_of(plain) == after


def big_directory(tmp_path: Path) -> Path:
    """A directory outside of git that has too many files for a snapshot."""
    settings = places_in(tmp_path / "home").config_file
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("[checkpoints]\nplain_files = 1\n")
    plain = tmp_path / "plain"
    plain.mkdir()
    for name in ("one", "two"):
        (plain / name).write_text("x\n")
    return plain


async def test_file_tools_are_covered_where_no_snapshot_can_be_taken(
    own: OwnAgents, tmp_path: Path
):
    plain = big_directory(tmp_path)
    await own.start(plain, "ann")
    await prompt(own.fleet, "ann", "scene:put n.txt")
    notices = [one for one in await events_of(own.fleet, "ann") if isinstance(one, NoticePosted)]
    assert any("commands in this turn cannot be undone" in one.title for one in notices)
    assert (await own.fleet.undo("ann")).restored == 1
    assert not (plain / "n.txt").exists()


async def test_undo_says_what_is_not_recorded(own: OwnAgents, tmp_path: Path):
    plain = big_directory(tmp_path)
    await own.start(plain, "ann")
    await prompt(own.fleet, "ann", "scene:run rm one; echo n > n.txt")
    done = await own.fleet.undo("ann")
    assert (done.restored, done.conversation) == (0, "rewound")
    said = describe_result(done)
    assert "Not recorded exactly: " in said and "is not in a git repository" in said
    assert (plain / "n.txt").exists()
    with pytest.raises(NothingToUndoError):
        await own.fleet.undo("ann")


HOST = """
import asyncio, sys
from pathlib import Path
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.content import text
from quarterdeck.wire.events import ToolCallEnded
from tests.support.scripted_fleet import Casting, events_of, places_in
from tests.support.working_agents import OwnAgents

async def main(home, work):
    own = OwnAgents(Path(home), Casting())
    async with LocalFleet.open(places_in(Path(home)), {}, open_session=own) as own.fleet:
        await own.start(Path(work), "ann")
        words = "scene:stay echo two >> a.txt; echo new > new.txt; echo x > x.log"
        await own.fleet.send("ann", (text(words),))
        while not any(isinstance(one, ToolCallEnded) for one in await events_of(own.fleet, "ann")):
            await asyncio.sleep(0.02)
        print("holds", flush=True)
        await asyncio.sleep(60)

asyncio.run(main(*sys.argv[1:]))
"""


def kill_host(home: Path, work: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    words = [sys.executable, "-c", HOST, str(home), str(work)]
    root = Path(__file__).parents[3]
    with subprocess.Popen(words, cwd=root, env=environment, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"holds\n"
        child.send_signal(signal.SIGKILL)
        assert child.wait(SOON) == -signal.SIGKILL


async def test_the_turn_of_a_killed_host_is_undone(tmp_path: Path, work: Path):
    before = state_of(work)
    await asyncio.to_thread(kill_host, tmp_path / "home", work)
    async with LocalFleet.open(places_in(tmp_path / "home"), {}) as fleet:
        async with asyncio.timeout(SOON):
            while (await fleet.turns("ann"))[0].files == "none":
                await asyncio.sleep(0.02)
        (turn,) = await fleet.turns("ann")
        assert "the host was killed" in turn.uncovered[0]
        done = await fleet.undo("ann")
        assert (done.restored, done.conversation) == (2, "rewound")
        left = state_of(work)
        assert left.pop(b"x.log") and left == before


async def test_an_ignored_file_that_its_tools_write_is_covered(own: OwnAgents, work: Path):
    await own.start(work, "ann")

    await prompt(own.fleet, "ann", "scene:put n.log")
    (turn,) = await own.fleet.turns("ann")
    assert (turn.paths, turn.created) == (("n.log",), 1)
    assert (await own.fleet.undo("ann")).restored == 1
    assert not (work / "n.log").exists()


async def test_the_checkpoint_comes_before_the_end_of_the_turn(own: OwnAgents, work: Path):
    await own.start(work, "ann")
    await prompt(own.fleet, "ann", "scene:run echo n > n.txt")
    kinds = [type(one) for one in await events_of(own.fleet, "ann")]
    assert kinds.index(Checkpointed) < kinds.index(TurnEnded)


async def test_a_turn_that_is_interrupted_can_be_undone(own: OwnAgents, work: Path):
    await own.start(work, "ann")
    await begin_own(own.fleet, work, "ann", "echo n > n.txt")
    await own.fleet.interrupt("ann")
    assert (await own.fleet.undo("ann")).restored == 1
    assert not (work / "n.txt").exists()


async def test_its_own_command_refuses_what_is_shared(own: OwnAgents, work: Path):
    await own.start(work, "ann")
    await own.start(work, "bob")
    await overlap(own, work)
    agent = own.fleet._supervisor.get((await own.fleet.agent("ann")).session)
    assert agent is not None and agent.session is not None
    with pytest.raises(FilesChangedError):
        await agent.session.checkpoints.undo()
    assert (work / "bob.txt").exists() and (work / "ann.txt").exists()
