"""Snapshots hold what is in a worktree, and touch nothing of it."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from quarterdeck.fleet.worktrees.snapshots import WorktreeSnapshots
from quarterdeck.system.errors import NotARepositoryError
from quarterdeck.wire.worktrees import Worktree
from tests.support.agent_worktrees import add_worktree


def git(where: Path, *words: str) -> str:
    own = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    done = subprocess.run(
        ["git", "-C", str(where), *own, *words], check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / ".gitignore").write_text("*.log\n")
    (top / "a.txt").write_text("a\n")
    (top / "gone.txt").write_text("gone\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "first")
    return Path(add_worktree(top, "ann").path)


def read_index(worktree: Path) -> bytes:
    return Path(git(worktree, "rev-parse", "--git-dir").strip(), "index").read_bytes()


def value(path: Path) -> Worktree:
    return Worktree(path=str(path), repository=str(path.parent / "project"), base="")


async def test_a_snapshot_has_what_is_committed_changed_and_untracked(tmp_path, project):
    (project / "a.txt").write_text("b\n")
    (project / "new ☃.txt").write_text("new\n")
    (project / "x.log").write_text("ignored\n")
    (project / "gone.txt").unlink()
    index, objects = read_index(project), git(project, "count-objects")
    snapshots = WorktreeSnapshots(tmp_path / "kept")
    found = await snapshots.take(value(project))
    words = ("ls-tree", "-r", "-z", "--name-only", found.tree)
    change, others = found.repository.change, (found.objects,)
    listed = await asyncio.to_thread(change, words, alternates=others)
    assert listed.data.decode().split("\0")[:-1] == [".gitignore", "a.txt", "new ☃.txt"]
    assert read_index(project) == index
    assert git(project, "count-objects") == objects
    assert (await snapshots.take(value(project))).tree == found.tree
    (project / "a.txt").write_text("c\n")
    assert (await snapshots.take(value(project))).tree != found.tree


async def test_a_private_index_that_is_damaged_is_made_again(tmp_path, project):
    kept = tmp_path / "kept"
    first = await WorktreeSnapshots(kept).take(value(project))
    (index,) = kept.glob("*/index")
    index.write_bytes(b"DIRC nonsense")
    assert (await WorktreeSnapshots(kept).take(value(project))).tree == first.tree


async def test_a_directory_that_is_no_worktree_is_named(tmp_path):
    with pytest.raises(NotARepositoryError):
        await WorktreeSnapshots(tmp_path / "kept").take(value(tmp_path))


async def test_what_is_kept_of_a_worktree_can_be_forgotten(tmp_path, project):
    snapshots = WorktreeSnapshots(tmp_path / "kept")
    await snapshots.take(value(project))
    await snapshots.forget(str(project))
    assert list((tmp_path / "kept").iterdir()) == []
