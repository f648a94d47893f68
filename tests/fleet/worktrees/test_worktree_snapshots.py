"""Snapshots hold what is in a worktree, and touch nothing of it."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from quarterdeck.fleet.worktrees.snapshots import WorktreeSnapshots
from quarterdeck.system.errors import GitError, GitUnavailableError
from quarterdeck.system.git.repository import expect_repository
from quarterdeck.system.git.tree_snapshot import ChangedNames, TreeRecorder
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


async def list_files(snapshots: WorktreeSnapshots, project: Path) -> list[str]:
    found = await snapshots.take(value(project))
    words = ("ls-tree", "-r", "-z", "--name-only", found.tree)
    change, others = found.repository.change, (found.objects,)
    listed = await asyncio.to_thread(change, words, alternates=others)
    return listed.data.decode().split("\0")[:-1]


async def test_files_behind_a_link_that_is_ignored_are_gone(tmp_path, project):
    (project / ".gitignore").write_text("/kept\n")
    (project / "kept" / "deep").mkdir(parents=True)
    (project / "kept" / "deep" / "b.txt").write_text("b\n")
    git(project, "add", "-A", "-f")
    git(project, "commit", "-qm", "second")
    snapshots = WorktreeSnapshots(tmp_path / "snapshots")
    files = [".gitignore", "a.txt", "gone.txt", "kept/deep/b.txt"]
    for _ in range(2):
        assert await list_files(snapshots, project) == files
    (project / "kept").rename(tmp_path / "elsewhere")
    (project / "kept").symlink_to(tmp_path / "elsewhere")
    assert await list_files(snapshots, project) == files[:-1]


async def test_files_with_other_times_only_are_not_read_for_ever(tmp_path, project):
    repository = await asyncio.to_thread(expect_repository, str(project))
    recorder = TreeRecorder(repository, tmp_path / "snapshots")
    await asyncio.to_thread(recorder.take)
    names = ChangedNames(recorder.run, bytes(project))
    assert await asyncio.to_thread(names.find) == set()
    os.utime(project / "a.txt", (1_000_000_000, 1_000_000_000))
    named = [await asyncio.to_thread(names.find) for _ in range(20)]
    assert {b"a.txt"} in named
    tree = await asyncio.to_thread(lambda: {recorder.take() for _ in range(20)})
    assert len(tree) == 1
    index = await asyncio.to_thread(recorder.run, "ls-files", "--debug", "a.txt")
    assert b"mtime: 1000000000:" in index


async def test_a_private_index_that_is_damaged_is_made_again(tmp_path, project):
    kept = tmp_path / "kept"
    first = await WorktreeSnapshots(kept).take(value(project))
    (index,) = kept.glob("*/index")
    index.write_bytes(b"DIRC nonsense")
    assert (await WorktreeSnapshots(kept).take(value(project))).tree == first.tree


async def test_a_directory_that_is_no_worktree_is_named(tmp_path):
    with pytest.raises(GitError, match="not in a git repository"):
        await WorktreeSnapshots(tmp_path / "kept").take(value(tmp_path))


async def test_what_is_kept_of_a_worktree_can_be_forgotten(tmp_path, project):
    snapshots = WorktreeSnapshots(tmp_path / "kept")
    await snapshots.take(value(project))
    await snapshots.forget(str(project))
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_large_file_is_given_more_time_and_a_slow_git_is_not_run_twice(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
):
    real, runs = shutil.which("git"), tmp_path / "runs"
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "git"
    program.write_text(
        f'#!/bin/sh\ncase " $* " in *" --replace "*) echo >> {runs}; sleep 6;; esac\n'
        f'exec {real} "$@"\n'
    )
    program.chmod(0o755)
    repository = expect_repository(str(project))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    (project / "new").write_text("small\n")
    with pytest.raises(GitUnavailableError, match="did not answer"):
        TreeRecorder(repository, tmp_path / "one", seconds=4.0).take()
    assert runs.read_text() == "\n"
    with (project / "large").open("wb") as file:
        file.truncate(300_000_000)
    assert TreeRecorder(repository, tmp_path / "two", seconds=4.0).take()
