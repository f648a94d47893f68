"""A git older than 2.38 merges too, file by file."""

import os
import shutil
from pathlib import Path

import pytest

from quarterdeck.fleet.landing.merge import git_version, has_merge_tree, merge_with_base
from quarterdeck.system.git.repository import GitRepository, expect_repository
from tests.support.landing_cases import tip_of
from tests.support.work_trees import git, new_repository


@pytest.fixture
def old_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let git be one that cannot merge without a checkout."""
    real = shutil.which("git")
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "git").write_text(
        "#!/bin/sh\n"
        'for word in "$@"; do case "$word" in\n'
        "version) echo git version 2.30.2; exit 0;;\n"
        "merge-tree) echo usage >&2; exit 129;;\n"
        f'esac; done\nexec {real} "$@"\n'
    )
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def trees(project: Path, **sides: dict[str, str | None]) -> tuple[GitRepository, list[str]]:
    """A repository, and the trees of a base and two sides; None: the file is deleted."""
    found: list[str] = []
    for name in ("base", "ours", "theirs"):
        git(project, "checkout", "-q", "-B", name, "main")
        for path, text in sides[name].items():
            if text is None:
                (project / path).unlink()
            else:
                (project / path).write_text(text)
        git(project, "add", "-A")
        git(project, "commit", "-q", "--allow-empty", "-m", name)
        found.append(tip_of(project, f"{name}^{{tree}}"))
    return expect_repository(str(project)), found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return new_repository(
        tmp_path / "project", {"a.txt": "1\n2\n3\n4\n5\n6\n7\n", "b.txt": "b\n", "c.txt": "c\n"}
    )


def test_both_ways_come_to_the_same_tree(project: Path, old_git: None, monkeypatch):
    repository, found = trees(
        project,
        base={},
        ours={"a.txt": "one\n2\n3\n4\n5\n6\n7\n", "b.txt": None, "same.txt": "s\n", "o.txt": "o\n"},
        theirs={"a.txt": "1\n2\n3\n4\n5\n6\nseven\n", "c.txt": None, "same.txt": "s\n"},
    )
    assert git_version(repository) == (2, 30) and not has_merge_tree(repository)
    old = merge_with_base(repository, *found)
    monkeypatch.setenv("PATH", os.environ["PATH"].partition(":")[2])
    assert has_merge_tree(repository)
    new = merge_with_base(repository, *found)
    assert old == new and not old.conflicts
    assert git(project, "cat-file", "blob", f"{old.tree}:a.txt") == "one\n2\n3\n4\n5\n6\nseven\n"


def test_modes_of_one_side_and_lines_of_the_other_are_merged(project: Path, old_git: None):
    repository, found = trees(project, base={}, ours={"a.txt": "x\n"}, theirs={})
    git(project, "checkout", "-q", "theirs")
    (project / "a.txt").chmod(0o755)
    (project / "a.txt").write_text("1\n2\n3\n4\n5\n6\n7\n")
    git(project, "commit", "-qam", "mode")
    found[2] = tip_of(project, "theirs^{tree}")
    merged = merge_with_base(repository, *found)
    assert not merged.conflicts
    listed = git(project, "ls-tree", merged.tree, "a.txt")
    assert listed.startswith("100755")
    assert git(project, "cat-file", "blob", f"{merged.tree}:a.txt") == "x\n"


def test_conflicts_are_named(project: Path, old_git: None):
    (project / "x.bin").write_bytes(b"\0" * 50)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "binary")
    repository, found = trees(
        project,
        base={},
        ours={"a.txt": "ours\n", "b.txt": None, "x.bin": "\0ours", "n.txt": "ours\n"},
        theirs={"a.txt": "theirs\n", "b.txt": "b2\n", "x.bin": "\0theirs", "n.txt": "theirs\n"},
    )
    merged = merge_with_base(repository, *found)
    kinds = {one.path.decode(): one.kind for one in merged.conflicts}
    assert kinds == {
        "a.txt": "contents",
        "b.txt": "modify/delete",
        "x.bin": "binary",
        "n.txt": "contents",
    }
    assert "<<<<<<< ours" in git(project, "cat-file", "blob", f"{merged.tree}:a.txt")
