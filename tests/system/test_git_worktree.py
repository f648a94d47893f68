"""Linked worktrees are what git itself would have made, and nothing of the repository runs."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.system.errors import GitError, GitUnsafeError
from quarterdeck.system.git.references import resolve_commit
from quarterdeck.system.git.repository import GitRepository, expect_repository
from quarterdeck.system.git.worktree import (
    RAW_ATTRIBUTES,
    add_worktree,
    branch_holders,
    delete_directory,
    find_worktree,
    list_worktrees,
    remove_worktree,
)
from tests.support.hostile_repository import make_hostile_repository
from tests.support.work_trees import git, new_repository, state_of


@pytest.fixture
def project(tmp_path: Path) -> Path:
    top = new_repository(tmp_path / "project", {"a.txt": "a\n", "src/b.py": "b = 1\n"})
    (top / "link").symlink_to("a.txt")
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    Path(os.fsdecode(os.fsencode(top) + b'/odd\n\xff".txt')).write_text("odd\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "second")
    return top


def add(
    project: Path, path: Path, branch: str | None = "quarterdeck/docs", **more: Any
) -> GitRepository:
    repository = expect_repository(str(project))
    commit = resolve_commit(repository, "HEAD")
    return add_worktree(repository, str(path), commit=commit, branch=branch, **more)


def test_git_takes_it_for_a_worktree_of_its_own(project, tmp_path):
    made = add(project, tmp_path / "trees" / "docs")
    top = Path(made.top)
    assert state_of(top) == state_of(project)
    assert git(top, "status", "--porcelain") == ""
    assert git(top, "branch", "--show-current").strip() == "quarterdeck/docs"
    listed = git(project, "worktree", "list", "--porcelain")
    assert f"worktree {top}\n" in listed and "branch refs/heads/quarterdeck/docs" in listed
    assert "locked" not in listed and "prunable" not in listed
    git(project, "fsck", "--strict")
    (top / "a.txt").write_text("changed\n")
    git(top, "commit", "-qam", "third")
    assert git(project, "log", "-1", "--format=%s", "quarterdeck/docs").strip() == "third"
    assert git(project, "status", "--porcelain") == ""
    git(project, "worktree", "remove", str(top))
    assert not top.exists()


def test_it_is_listed_and_removed_and_its_branch_stays(project, tmp_path):
    made = add(project, tmp_path / "docs")
    repository = expect_repository(str(project))
    (found,) = list_worktrees(repository)
    assert (found.path, found.branch, found.lock) == (made.top, "quarterdeck/docs", None)
    assert found.is_there
    assert branch_holders(repository)["quarterdeck/docs"] == made.top
    remove_worktree(found)
    assert list_worktrees(repository) == []
    assert not Path(made.top).exists()
    assert git(project, "worktree", "list").count("\n") == 1
    assert "quarterdeck/docs" in git(project, "branch")


def test_two_of_the_same_name_in_different_places_are_kept_apart(project, tmp_path):
    one = add(project, tmp_path / "x" / "docs", "one")
    two = add(project, tmp_path / "y" / "docs", "two")
    assert one.git_dir != two.git_dir
    assert len(list_worktrees(one)) == 2
    assert git(Path(two.top), "status", "--porcelain") == ""


def test_nothing_is_left_of_one_that_cannot_be_made(project, tmp_path):
    add(project, tmp_path / "docs")
    repository = expect_repository(str(project))
    with pytest.raises(GitError, match="is checked out in"):
        add(project, tmp_path / "other")
    git(project, "branch", "taken")
    with pytest.raises(GitError):
        add(project, tmp_path / "other", "taken")
    with pytest.raises(GitError, match="exists already"):
        add(project, tmp_path / "docs", "new")
    with pytest.raises(GitError):
        add_worktree(repository, str(tmp_path / "other"), commit="0" * 40, branch="none")
    assert not (tmp_path / "other").exists()
    assert len(list_worktrees(repository)) == 1
    assert "new" not in git(project, "branch") and "none" not in git(project, "branch")


def test_other_files_are_put_into_it_while_git_writes_its_own(project, tmp_path):
    top = tmp_path / "trees" / "docs"
    made = add(project, top, beside=lambda: (top / "more").write_text("more\n"))
    assert (top / "more").read_text() == "more\n"
    assert git(Path(made.top), "status", "--porcelain") == "?? more\n"


def test_nothing_is_left_if_other_files_cannot_be_put_into_it(project, tmp_path):
    top = tmp_path / "trees" / "docs"

    def fail() -> None:
        (top / "more").write_text("more\n")
        raise OSError(errno.ENOSPC, "no space left")

    with pytest.raises(OSError, match="no space left"):
        add(project, top, beside=fail)
    assert not top.exists()
    assert list_worktrees(expect_repository(str(project))) == []
    assert "docs" not in git(project, "branch")


def test_an_existing_branch_and_a_commit_without_one_can_be_checked_out(project, tmp_path):
    git(project, "branch", "kept")
    made = add(project, tmp_path / "kept", "kept", creates_branch=False)
    assert git(Path(made.top), "branch", "--show-current").strip() == "kept"
    made = add(project, tmp_path / "bare", None)
    assert git(Path(made.top), "status", "--porcelain=v2", "--branch").count("(detached)") == 1


def test_another_tree_can_be_laid_over_the_commit(project, tmp_path):
    (project / "a.txt").write_text("mine\n")
    (project / "new.txt").write_text("new\n")
    (project / "src" / "b.py").unlink()
    git(project, "add", "-A")
    tree = git(project, "write-tree").strip()
    made = Path(add(project, tmp_path / "docs", tree=tree).top)
    assert state_of(made) == state_of(project)
    status = git(made, "status", "--porcelain").splitlines()
    assert status == [" M a.txt", " D src/b.py", "?? new.txt"]


def test_files_can_be_written_byte_for_byte(project, tmp_path):
    (project / ".gitattributes").write_text("*.txt text eol=crlf\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "third")
    assert (Path(add(project, tmp_path / "one", "one").top) / "a.txt").read_bytes() == b"a\r\n"
    made = add(project, tmp_path / "two", "two", attributes=RAW_ATTRIBUTES)
    assert (Path(made.top) / "a.txt").read_bytes() == b"a\n"


@pytest.mark.parametrize("extended", [False, True])
def test_a_sparse_checkout_stays_sparse(project, tmp_path, extended):
    if extended:
        git(project, "config", "extensions.worktreeConfig", "true")
        git(project, "config", "--worktree", "user.nickname", "ada")
    git(project, "sparse-checkout", "set", "--no-cone", "/a.txt")
    made = Path(add(project, tmp_path / "docs").top)
    assert sorted(path.name for path in made.iterdir()) == [".git", "a.txt"]
    assert git(made, "status", "--porcelain") == ""
    if extended:
        assert git(made, "config", "--worktree", "user.nickname").strip() == "ada"


def test_a_worktree_of_a_worktree_of_a_bare_repository(project, tmp_path):
    git(tmp_path, "clone", "-q", "--bare", str(project), "store.git")
    git(tmp_path / "store.git", "worktree", "add", "-q", str(tmp_path / "first"))
    made = Path(add(tmp_path / "first", tmp_path / "docs").top)
    assert git(made, "status", "--porcelain") == ""
    assert git(tmp_path / "store.git", "worktree", "list").count("\n") == 3


def test_a_shallow_clone(project, tmp_path):
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{project}", "shallow")
    made = Path(add(tmp_path / "shallow", tmp_path / "docs").top)
    assert git(made, "status", "--porcelain") == ""
    assert git(made, "rev-list", "--count", "HEAD").strip() == "1"


def test_sha256_and_a_git_directory_behind_a_link(tmp_path):
    top = tmp_path / "project"
    top.mkdir()
    git(top, "init", "-q", "-b", "main", "--object-format=sha256")
    (top / "a.txt").write_text("a\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "first")
    (top / ".git").rename(tmp_path / "store")
    (top / ".git").symlink_to(tmp_path / "store")
    made = Path(add(top, tmp_path / "docs").top)
    assert git(made, "status", "--porcelain") == ""


def test_submodules_stay_empty(project, tmp_path):
    inner = new_repository(tmp_path / "inner", {"i.txt": "i\n"})
    git(project, "submodule", "--quiet", "add", str(inner), "sub")
    git(project, "commit", "-qm", "submodule")
    made = Path(add(project, tmp_path / "docs").top)
    assert list((made / "sub").iterdir()) == []
    assert git(made, "status", "--porcelain") == ""


def test_nothing_that_a_hostile_repository_names_is_run(tmp_path):
    hostile = make_hostile_repository(tmp_path / "hostile")
    before, outside = hostile.ran(), state_of(hostile.outside)
    made = add(hostile.top, tmp_path / "docs", "evil-twin")
    found = find_worktree(made, made.top)
    assert found is not None
    remove_worktree(found)
    assert hostile.ran() == before
    assert state_of(hostile.outside) == outside


def test_a_link_in_place_of_the_directory_of_worktrees_is_refused(project, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (project / ".git" / "worktrees").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GitUnsafeError, match="symbolic link"):
        add(project, tmp_path / "docs")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert not (tmp_path / "docs").exists()


def test_a_directory_that_is_anothers_by_now_is_not_deleted(project, tmp_path):
    made = add(project, tmp_path / "docs")
    found = find_worktree(made, made.top)
    assert found is not None
    Path(made.top).rename(tmp_path / "moved")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "precious").write_text("x")
    assert not found.is_there
    remove_worktree(found)
    assert (tmp_path / "docs" / "precious").exists()


def test_directories_that_may_not_be_written_to_are_deleted_and_links_not_followed(tmp_path):
    deep = tmp_path / "top" / "cache" / "module"
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("x")
    (tmp_path / "top" / "out").symlink_to(tmp_path / "outside")
    deep.chmod(0o500)
    deep.parent.chmod(0o500)
    delete_directory(str(tmp_path / "top"))
    assert not (tmp_path / "top").exists()
    assert (tmp_path / "outside" / "kept").exists()
    delete_directory(str(tmp_path / "top"))


def test_our_own_lock_keeps_git_from_pruning_one_that_is_being_made(project, tmp_path):
    made = add(project, tmp_path / "docs")
    Path(made.git_dir, "locked").write_text("quarterdeck is making it\n")
    delete_directory(made.top)
    git(project, "worktree", "prune")
    assert [one.lock for one in list_worktrees(expect_repository(str(project)))] == [
        "quarterdeck is making it"
    ]
