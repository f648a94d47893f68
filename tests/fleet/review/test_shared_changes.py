"""Changes by turn, and of agents that share a directory: what their checkpoints say."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.agent.checkpoints.errors import NothingToUndoError
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.fleet.review.api import ReviewSelection
from quarterdeck.fleet.review.errors import ChangedMeanwhileError
from quarterdeck.wire.content import text
from tests.support.deadlines import SOON
from tests.support.review_project import assign_worktree, git, make_repository
from tests.support.scripted_fleet import Casting, fleet_of
from tests.support.working_agents import at_work, prompt, workers


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "project"
    make_repository(tree, {b"a.txt": b"1\n2\n3\n", b"b.txt": b"b\n"})
    return tree


@pytest.fixture
def casting() -> Casting:
    return workers()


@pytest.fixture
async def fleet(tmp_path: Path, tree: Path, casting: Casting) -> AsyncIterator[LocalFleet]:
    async with fleet_of(tmp_path / "home", casting) as fleet:
        await at_work(fleet, casting, tree, "ann")
        yield fleet


async def test_all_turns_and_single_ones(fleet: LocalFleet, tree: Path):
    await prompt(fleet, "ann", "sed -i s/1/one/ a.txt")
    await prompt(fleet, "ann", "nothing")
    (tree / "b.txt").write_text("a person\n")
    await prompt(fleet, "ann", "echo 4 >> a.txt; printf 'new\\n' > new.txt")
    found = await fleet.changes("ann")
    assert [(one.path, one.kind, one.added, one.removed) for one in found.files] == [
        ("a.txt", "changed", 2, 1),
        ("new.txt", "new", 1, 0),
    ]
    assert (found.against, found.root) == ("before its first turn", str(tree))
    first = await fleet.changes("ann", turn="1")
    assert [(one.path, one.added, one.removed) for one in first.files] == [("a.txt", 1, 1)]
    assert first.against == "before turn 1"
    assert not (await fleet.changes("ann", turn="2")).files
    page = await fleet.patch("ann", "a.txt", turn="3", context=0)
    assert page.patch.hunks[0].lines == [("+", "4")]
    with pytest.raises(NothingToUndoError, match="no turn '9'"):
        await fleet.changes("ann", turn="9")


async def test_a_turn_in_a_worktree(tmp_path: Path, casting: Casting, tree: Path):
    work = tmp_path / "tree"
    git(tree, "worktree", "add", "-q", "-b", "quarterdeck/ann", str(work))
    async with fleet_of(tmp_path / "home", casting) as fleet:
        await at_work(fleet, casting, work, "ann")
        await assign_worktree(fleet, (await fleet.agent("ann")).session, tree, work)
        await prompt(fleet, "ann", "sed -i s/1/one/ a.txt; git add -A")
        await prompt(fleet, "ann", "sed -i s/2/two/ a.txt")
        (whole,) = (await fleet.changes("ann")).files
        (second,) = (await fleet.changes("ann", turn="2")).files
        assert (whole.added, second.added) == (2, 1)
        line = ReviewSelection(file="a.txt", old=((2, 2),), new=((2, 2),))
        await fleet.reject_changes("ann", [line], turn="2")
        assert (work / "a.txt").read_text() == "one\n2\n3\n"
        with pytest.raises(ChangedMeanwhileError, match=r"a\.txt"):
            await fleet.reject_changes("ann", [line], turn="2")


async def test_a_turn_that_was_undone_does_not_count(fleet: LocalFleet, tree: Path):
    await prompt(fleet, "ann", "echo x > a.txt")
    assert (await fleet.changes("ann")).count == 1
    await fleet.undo("ann")
    assert (tree / "a.txt").read_text() == "1\n2\n3\n"
    assert not (await fleet.changes("ann")).files
    assert (await fleet.changes("ann", turn="1")).files


async def test_what_others_may_have_changed_is_said(
    fleet: LocalFleet, casting: Casting, tree: Path
):
    bob = await at_work(fleet, casting, tree, "bob")
    await fleet.send("bob", (text("hold echo bob >> b.txt"),))
    async with asyncio.timeout(SOON):
        await bob.holds.wait()
    await prompt(fleet, "ann", "echo ann >> b.txt; echo ann >> a.txt")
    bob.go_on.set()
    await fleet.wait(["bob"], timeout=SOON)
    found = await fleet.changes("ann")
    by_path = {one.path: one.shared_with for one in found.files}
    assert by_path["b.txt"] == ("bob",) and found.shared_with == ("bob",)


async def test_a_shared_file_is_accepted_and_rejected(fleet: LocalFleet, tree: Path):
    await prompt(fleet, "ann", "sed -i s/1/one/ a.txt; echo 4 >> a.txt")
    line = ReviewSelection(file="a.txt", new=((4, 4),))
    await fleet.accept_changes("ann", [line])
    assert git(tree, "show", ":a.txt") == b"1\n2\n3\n4\n"
    await fleet.reject_changes("ann", [line])
    assert (tree / "a.txt").read_text() == "one\n2\n3\n"
    assert git(tree, "show", ":a.txt") == b"1\n2\n3\n"
    (left,) = (await fleet.changes("ann")).files
    assert (left.added, left.removed) == (1, 1)
    await fleet.reject_changes("ann", [ReviewSelection(file="a.txt")])
    assert (tree / "a.txt").read_text() == "1\n2\n3\n"
    assert not (await fleet.changes("ann")).files
    await fleet.undo_review("ann")
    await fleet.undo_review("ann")
    assert (tree / "a.txt").read_text() == "one\n2\n3\n4\n"
    assert (await fleet.changes("ann")).files[0].added == 2
    (tree / "a.txt").write_text("a person\n")
    with pytest.raises(ChangedMeanwhileError, match=r"a\.txt"):
        await fleet.reject_changes("ann", [ReviewSelection(file="a.txt")])
    assert (tree / "a.txt").read_text() == "a person\n"


async def test_an_agent_without_turns_has_no_changes(fleet: LocalFleet):
    found = await fleet.changes("ann")
    assert found.files == () and found.notes == ("no turn has run yet",)
