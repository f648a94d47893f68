"""A file of 2 GB in a worktree: everything that reads files stays within bounds, and says so."""

import asyncio
import resource
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.events import Checkpointed
from quarterdeck.wire.worktrees import WorktreeOptions
from tests.support.deadlines import SOON
from tests.support.scripted_fleet import events_of, fleet_of, new_agent
from tests.support.work_trees import new_repository
from tests.support.working_agents import prompt, workers

SIZE = 2 * 1024**3
OWN = 200_000
"""Kilobytes that our own process may grow by: a tenth of the file."""
GIT = 700_000
"""Kilobytes that one git may take."""
SLOW = 300.0
"""Seconds for one step on a busy machine; most are far below."""


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[LocalFleet]:
    async with fleet_of(tmp_path / "home", workers()) as fleet:
        yield fleet


class Bounds:
    """Time and memory since it was made."""

    def __init__(self) -> None:
        self.start = self.last = time.monotonic()
        self.memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def check(self, step: str) -> None:
        took, self.last = time.monotonic() - self.last, time.monotonic()
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self.memory
        git = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        print(f"{step}: {took:.1f} s, own +{own} kB, largest child {git} kB")  # with -s
        assert took < SLOW, (step, took)
        assert own < OWN, (step, own)
        assert git < GIT, (step, git)


async def spawn(fleet: LocalFleet, project: Path, name: str) -> Path:
    wanted = new_agent(project, name=name, mode="full-auto", worktree=WorktreeOptions())
    info = await fleet.spawn(wanted)
    await fleet.wait([name], timeout=SOON)
    assert info.worktree is not None
    return Path(info.worktree.path)


@pytest.mark.stress
@pytest.mark.timeout(900)
async def test_a_file_of_two_gigabytes_is_bounded_everywhere(fleet: LocalFleet, tmp_path: Path):
    project = new_repository(tmp_path / "project", {"a.txt": "a\n"})
    ann, bob = await spawn(fleet, project, "ann"), await spawn(fleet, project, "bob")
    bounds = Bounds()

    # A turn makes it; what is recorded of the turn says that it is not kept.
    await prompt(fleet, "ann", f"truncate -s {SIZE} big.bin; echo more >> a.txt")
    assert (ann / "big.bin").stat().st_size == SIZE
    bounds.check("a turn with its checkpoints")
    done = [one for one in await events_of(fleet, "ann") if isinstance(one, Checkpointed)][-1]
    assert done.uncovered == ("big.bin: too large",)

    changes = await fleet.changes("ann")
    bounds.check("changes")
    large = next(one for one in changes.files if one.path == "big.bin")
    assert large.kind == "new"

    page = await fleet.patch("ann", large.id, limit=50)
    bounds.check("patch")
    assert sum(len(hunk.lines) for hunk in page.patch.hunks) <= 50
    assert page.patch.notes  # why nothing is shown

    await prompt(fleet, "bob", f"truncate -s {SIZE} big.bin; printf x >> big.bin; echo b >> a.txt")
    bounds.check("another one")
    report = await fleet.conflicts()
    bounds.check("radar")
    (found,) = report.repositories
    assert {file.path for pair in found.pairs for file in pair.files} == {"a.txt", "big.bin"}

    undone = await fleet.undo("ann")
    bounds.check("undo")
    assert (ann / "a.txt").read_text() == "a\n"
    # It stays, with the reason, since it could not be brought back.
    (kept,) = undone.kept
    assert kept.path == "big.bin" and "too large" in kept.reason
    assert (ann / "big.bin").stat().st_size == SIZE

    await fleet.close("bob")
    await fleet.discard_worktree("bob")
    bounds.check("discard")
    assert not await asyncio.to_thread(bob.exists)
    (trash,) = await fleet.trash()
    restored = await fleet.restore_worktree(trash.id)
    bounds.check("restore")
    assert (Path(restored.worktree.path) / "big.bin").stat().st_size == SIZE + 1
