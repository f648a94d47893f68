"""Merge, squash and rebase come to what git makes of the same commits."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from quarterdeck.fleet.errors import LandingRefusedError
from quarterdeck.fleet.landing.plan import LandingPlan, plan_landing
from quarterdeck.fleet.landing.work import record_work
from quarterdeck.system.git.repository import expect_repository, find_identity
from quarterdeck.wire.worktrees import LandingMethod
from tests.support.landing_cases import AgentTree, make_agent_tree, tip_of
from tests.support.work_trees import git, state_of, untouched

METHODS: tuple[LandingMethod, ...] = ("merge", "squash", "rebase")


def plan(tree: AgentTree, method: LandingMethod, folder: Path) -> LandingPlan:
    work = record_work(tree.value, folder / "index")
    repository = expect_repository(str(tree.project))
    return plan_landing(
        work,
        tip_of(tree.project, "main"),
        method,
        b"Land it\n",
        repository=repository,
        identity=find_identity(repository),
    )


def commit(where: Path, message: str) -> None:
    git(where, "add", "-A")
    git(where, "commit", "-q", "-m", message)


def renames(tree: AgentTree) -> None:
    git(tree.worktree, "mv", "b.txt", "moved.txt")
    commit(tree.worktree, "move")
    text = (tree.project / "b.txt").read_text().splitlines(keepends=True)
    (tree.project / "b.txt").write_text("".join(["changed\n", *text]))
    commit(tree.project, "change what is moved")


def deletes(tree: AgentTree) -> None:
    (tree.worktree / "b.txt").unlink()
    (tree.worktree / "sub").mkdir()
    (tree.worktree / "sub" / "new.txt").write_text("new\n")
    commit(tree.worktree, "delete")
    (tree.project / "a.txt").write_text("a\nb\nc\nd\n")
    commit(tree.project, "more")


def modes_and_links(tree: AgentTree) -> None:
    (tree.worktree / "a.txt").chmod(0o755)
    (tree.worktree / "link").symlink_to("a.txt")
    commit(tree.worktree, "mode")
    (tree.project / "a.txt").write_text("A\nb\nc\n")
    commit(tree.project, "content")


def binaries(tree: AgentTree) -> None:
    (tree.worktree / "x.bin").write_bytes(bytes(range(256)) * 10)
    commit(tree.worktree, "binary")
    (tree.project / "y.bin").write_bytes(b"\0\1\2" * 99)
    commit(tree.project, "other binary")


def line_ends(tree: AgentTree) -> None:
    (tree.worktree / ".gitattributes").write_text("*.crlf text eol=crlf\n")
    (tree.worktree / "w.crlf").write_bytes(b"one\r\ntwo\r\n")
    commit(tree.worktree, "crlf")
    (tree.project / "c.txt").write_bytes(b"x\r\n")
    commit(tree.project, "other")


def submodule_pointer(tree: AgentTree) -> None:
    (tree.worktree / "sub").mkdir()
    git(tree.worktree, "update-index", "--add", "--cacheinfo", f"160000,{tree.base},sub")
    git(tree.worktree, "commit", "-q", "-m", "pointer")
    (tree.project / "c.txt").write_text("c\n")
    commit(tree.project, "other")


def odd_names(tree: AgentTree) -> None:
    for name in (b"new\nline", b"\xff\xfe", b"quote\"'", "☃".encode(), b"-rf", b":(top)x"):
        path = os.fsdecode(os.fsencode(tree.worktree) + b"/" + name)
        Path(path).write_text("odd\n")
    commit(tree.worktree, "odd")
    (tree.project / "c.txt").write_text("c\n")
    commit(tree.project, "other")


def file_becomes_directory(tree: AgentTree) -> None:
    (tree.worktree / "a.txt").unlink()
    (tree.worktree / "a.txt").mkdir()
    (tree.worktree / "a.txt" / "inner").write_text("inner\n")
    commit(tree.worktree, "directory")
    (tree.project / "c.txt").write_text("c\n")
    commit(tree.project, "other")


CASES = (
    renames,
    deletes,
    modes_and_links,
    binaries,
    line_ends,
    submodule_pointer,
    odd_names,
    file_becomes_directory,
)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_a_landing_is_what_git_makes_of_it(
    tmp_path: Path, case: Callable[[AgentTree], None], method: LandingMethod
):
    tree = make_agent_tree(tmp_path)
    case(tree)
    files = state_of(tree.worktree)
    found = plan(tree, method, tmp_path)
    assert found.conflicts == () and not found.is_empty
    assert state_of(tree.worktree) == files
    git(tree.project, "checkout", "-q", "-b", "theirs", "main")
    words = {
        "merge": ("merge", "-q", "--no-ff", "--no-edit", "quarterdeck/ann"),
        "squash": ("merge", "-q", "--squash", "quarterdeck/ann"),
        "rebase": ("cherry-pick", "main..quarterdeck/ann"),
    }[method]
    git(tree.project, *words)
    if method == "squash":
        git(tree.project, "commit", "-q", "-m", "Land it")
    assert found.tree == tip_of(tree.project, "theirs^{tree}")
    parents = git(tree.project, "log", "-1", "--format=%P", found.commit).split()
    expected = [found.before, tip_of(tree.project, "quarterdeck/ann")]
    assert parents == (expected if method == "merge" else expected[:1])
    assert git(tree.project, "fsck", "--strict", "--no-dangling") == ""


@pytest.mark.parametrize("method", METHODS)
def test_uncommitted_and_untracked_files_are_landed_and_stay_as_they_are(
    tmp_path: Path, method: LandingMethod
):
    tree = make_agent_tree(tmp_path)
    (tree.worktree / "a.txt").write_text("a\nb\nC\n")
    commit(tree.worktree, "first")
    (tree.worktree / "b.txt").unlink()
    (tree.worktree / "new ☃").write_text("new\n")
    before, index = state_of(tree.worktree), untouched(tree.worktree)[:5]
    found = plan(tree, method, tmp_path)
    listed = git(tree.project, "ls-tree", "-r", "-z", "--name-only", found.commit)
    assert listed.split("\0")[:-1] == ["a.txt", "new ☃"]
    assert git(tree.project, "cat-file", "blob", f"{found.commit}:a.txt") == "a\nb\nC\n"
    assert (state_of(tree.worktree), untouched(tree.worktree)[:5]) == (before, index)
    subjects = git(tree.project, "log", "--format=%s", f"main..{found.commit}").split("\n")[:-1]
    assert (
        subjects
        == {
            "merge": ["Land it", "Land it", "first"],
            "squash": ["Land it"],
            "rebase": ["Land it", "first"],
        }[method]
    )
    assert (found.rest is not None) == (method != "squash")


@pytest.mark.parametrize("method", METHODS)
def test_conflicts_are_named_by_file(tmp_path: Path, method: LandingMethod):
    tree = make_agent_tree(tmp_path)
    (tree.worktree / "a.txt").write_text("a\nMINE\nc\n")
    (tree.worktree / "b.txt").unlink()
    commit(tree.worktree, "mine")
    (tree.project / "a.txt").write_text("a\nYOURS\nc\n")
    (tree.project / "b.txt").write_text("b changed\n")
    commit(tree.project, "yours")
    found = plan(tree, method, tmp_path)
    assert [(one.path, one.kind) for one in found.conflicts] == [
        (b"a.txt", "contents"),
        (b"b.txt", "modify/delete"),
    ]
    assert found.commit == found.before
    assert found.stopped_at == ("mine" if method == "rebase" else "")
    merged = git(tree.project, "cat-file", "blob", f"{found.conflict_tree}:a.txt")
    assert "YOURS" in merged and "MINE" in merged and "<<<<<<<" in merged


def test_a_rebase_keeps_authors_dates_messages_and_encodings(tmp_path: Path):
    tree = make_agent_tree(tmp_path)
    message = "Grüße\n\nBody  \n\n# kept\n".encode("iso-8859-1")
    (tree.worktree / "n.txt").write_text("n\n")
    git(tree.worktree, "add", "-A")
    subprocess.run(
        [
            *("git", "-C", str(tree.worktree), "-c", "i18n.commitEncoding=iso-8859-1"),
            *("-c", "user.name=X", "-c", "user.email=x@y", "commit", "-q", "--cleanup=verbatim"),
            *("--author=Zoë <zoe@example.org>", "--date=2001-02-03T04:05:06+0700", "-F", "-"),
        ],
        input=message,
        check=True,
    )
    (tree.project / "c.txt").write_text("c\n")
    commit(tree.project, "other")
    found = plan(tree, "rebase", tmp_path)
    raw = subprocess.run(
        ["git", "-C", str(tree.project), "cat-file", "commit", found.commit],
        capture_output=True,
        check=True,
    ).stdout
    old = subprocess.run(
        ["git", "-C", str(tree.project), "cat-file", "commit", "quarterdeck/ann"],
        capture_output=True,
        check=True,
    ).stdout
    assert b"encoding iso-8859-1\n" in raw and raw.endswith(b"\n\n" + message)
    author = next(line for line in old.split(b"\n") if line.startswith(b"author "))
    assert author in raw.split(b"\n") and b"981147906 +0700" in author
    assert f"parent {found.before}\n".encode() in raw


def test_a_rebase_drops_what_the_branch_has_and_moves_forward_where_it_can(tmp_path: Path):
    tree = make_agent_tree(tmp_path)
    (tree.worktree / "n.txt").write_text("n\n")
    commit(tree.worktree, "one")
    assert plan(tree, "rebase", tmp_path).commit == tip_of(tree.worktree, "HEAD")
    (tree.project / "c.txt").write_text("c\n")
    commit(tree.project, "other")
    git(tree.project, "cherry-pick", "quarterdeck/ann")
    assert plan(tree, "rebase", tmp_path).is_empty
    (tree.worktree / "m.txt").write_text("m\n")
    commit(tree.worktree, "two")
    found = plan(tree, "rebase", tmp_path)
    assert git(tree.project, "log", "--format=%s", f"main..{found.commit}") == "two\n"


@pytest.mark.parametrize("method", METHODS)
def test_no_work_is_nothing_to_land(tmp_path: Path, method: LandingMethod):
    tree = make_agent_tree(tmp_path)
    assert plan(tree, method, tmp_path).is_empty


def test_carried_changes_are_not_landed(tmp_path: Path):
    tree = make_agent_tree(tmp_path)
    (tree.worktree / "carried.txt").write_text("of the person\n")
    git(tree.worktree, "add", "-A")
    start = git(tree.worktree, "write-tree").strip()
    git(tree.worktree, "reset", "-q")
    (tree.worktree / "own.txt").write_text("of the agent\n")
    work = record_work(replace(tree.value, start=start), tmp_path / "index")
    repository = expect_repository(str(tree.project))
    identity = find_identity(repository)
    tip = tip_of(tree.project, "main")
    found = plan_landing(work, tip, "squash", b"m\n", repository=repository, identity=identity)
    listed = git(tree.project, "diff", "--name-only", tip, found.commit)
    assert listed == "own.txt\n"
    for method in ("merge", "rebase"):
        with pytest.raises(LandingRefusedError, match="squash"):
            plan_landing(work, tip, method, b"m\n", repository=repository, identity=identity)


def test_uncommitted_files_behind_a_filter_are_refused_by_name(tmp_path: Path):
    tree = make_agent_tree(tmp_path, {".gitattributes": "*.big filter=lfs\n", "a.txt": "a\n"})
    (tree.worktree / "model.big").write_text("huge\n")
    with pytest.raises(LandingRefusedError, match=r"LFS.*model\.big.*commit them"):
        record_work(tree.value, tmp_path / "index")
    commit(tree.worktree, "by git")
    assert not record_work(tree.value, tmp_path / "index").is_dirty


def test_a_worktree_that_is_gone_is_named(tmp_path: Path):
    tree = make_agent_tree(tmp_path)
    git(tree.project, "worktree", "remove", str(tree.worktree))
    with pytest.raises(LandingRefusedError, match="is missing"):
        record_work(tree.value, tmp_path / "index")
