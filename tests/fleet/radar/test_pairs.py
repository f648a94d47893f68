"""Two worktrees are compared: what git cannot merge, which symbols and files both change."""

# ruff: noqa: ASYNC240

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from quarterdeck.fleet.radar import pairs
from quarterdeck.fleet.radar.merge_scratch import MergeScratch, can_merge_trees
from quarterdeck.fleet.radar.pairs import (
    BaseComparison,
    compare_with_base,
    compare_worktrees,
    may_conflict,
)
from quarterdeck.fleet.radar.worktree_state import WorktreeState
from quarterdeck.fleet.worktrees.snapshots import WorktreeSnapshots
from quarterdeck.system.git.repository import expect_repository
from quarterdeck.system.git.worktree import add_worktree as add_linked
from quarterdeck.wire.worktrees import ConflictFile, Worktree
from tests.support.agent_worktrees import add_worktree, read_state, write_files
from tests.support.hostile_repository import make_hostile_repository
from tests.support.work_trees import git, new_repository, state_of, untouched

TIDES = """\
import sea


def rise(moon):
    level = moon.mass
    return level


def fall(moon):
    level = -moon.mass
    return level


class Harbour:
    def open(self):
        return True

    def close(self):
        return False
"""
PLAIN = "".join(f"line {n}\n" for n in range(40))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "tides.py": TIDES,
        "notes.txt": PLAIN,
        "old/a.txt": "a\n" * 20,
        "old/b.txt": "b\n" * 20,
    }
    return new_repository(tmp_path / "project", files)


@pytest.fixture
def snapshots(tmp_path: Path) -> WorktreeSnapshots:
    return WorktreeSnapshots(tmp_path / "snapshots")


def compare(one: WorktreeState, other: WorktreeState) -> dict[str, ConflictFile]:
    with MergeScratch([one, other]) as scratch:
        found, back = compare_worktrees([(one, other), (other, one)], scratch)
    assert found == back  # who is named first makes no difference
    return {file.path: file for file in found}


async def compared(
    snapshots: WorktreeSnapshots, one: Worktree, other: Worktree
) -> dict[str, ConflictFile]:
    states = [await read_state(snapshots, tree) for tree in (one, other)]
    return await asyncio.to_thread(compare, *states)


async def test_changes_of_the_same_lines_are_a_conflict_before_any_commit(project, snapshots):
    ann, bob = add_worktree(project, "ann"), add_worktree(project, "bob")
    write_files(ann, {"tides.py": TIDES.replace("level = moon", "level = 2 * moon")})
    write_files(bob, {"tides.py": TIDES.replace("level = moon", "level = 3 * moon")})
    before = untouched(project)
    found = await compared(snapshots, ann, bob)
    assert found == {"tides.py": ConflictFile(path="tides.py", kind="text", symbols=("rise",))}
    assert untouched(project) == before


async def test_the_same_change_of_both_is_no_conflict(project, snapshots):
    ann, bob = add_worktree(project, "ann"), add_worktree(project, "bob")
    for tree in (ann, bob):
        write_files(tree, {"tides.py": "same = 1\n", "new.txt": "same\n"})
    assert await compared(snapshots, ann, bob) == {}


async def test_one_function_changed_in_two_places_is_a_shared_symbol(project, snapshots):
    long = (
        "def f():\n" + "".join(f"    step({n})\n" for n in range(30)) + "\n\ndef g():\n    pass\n"
    )
    new_repository(project, {"long.py": long})
    ann, bob, cy = (add_worktree(project, name) for name in ("ann", "bob", "cy"))
    write_files(ann, {"long.py": long.replace("step(1)", "leap(1)")})
    write_files(bob, {"long.py": long.replace("step(28)", "leap(28)")})
    write_files(cy, {"long.py": long.replace("pass", "return 1")})
    found = await compared(snapshots, ann, bob)
    assert found == {"long.py": ConflictFile(path="long.py", kind="symbol", symbols=("f",))}
    found = await compared(snapshots, ann, cy)
    assert found == {"long.py": ConflictFile(path="long.py", kind="file")}


async def test_of_a_class_the_member_is_named_that_both_change(project, snapshots):
    ann, bob, cy = (add_worktree(project, name) for name in ("ann", "bob", "cy"))
    write_files(ann, {"tides.py": TIDES.replace("return True", "return 1")})
    write_files(bob, {"tides.py": TIDES.replace("return True", "return 2")})
    write_files(cy, {"tides.py": TIDES.replace("return False", "return 0")})
    assert (await compared(snapshots, ann, bob))["tides.py"].symbols == ("Harbour.open",)
    assert (await compared(snapshots, ann, cy))["tides.py"].symbols == ("Harbour",)


async def test_worktrees_whose_changes_lie_apart_are_not_merged(project, snapshots, monkeypatch):
    ann, bob = add_worktree(project, "ann"), add_worktree(project, "bob")
    write_files(ann, {"tides.py": "x = 1\n"})
    write_files(bob, {"other/new.py": "x = 1\n", "notes.txt": "n\n"})
    states = [await read_state(snapshots, tree) for tree in (ann, bob)]
    assert not may_conflict(*states)
    assert await asyncio.to_thread(compare, *states) == {}


async def test_new_files_of_the_same_name(project, snapshots):
    ann, bob = add_worktree(project, "ann"), add_worktree(project, "bob")
    write_files(ann, {"new.md": "one\n"})
    write_files(bob, {"new.md": "two\n"})
    assert (await compared(snapshots, ann, bob))["new.md"].kind == "text"


async def test_a_file_that_one_changes_and_the_other_deletes_or_renames(project, snapshots):
    ann, bob, cy = (add_worktree(project, name) for name in ("ann", "bob", "cy"))
    write_files(ann, {"notes.txt": None})
    write_files(bob, {"notes.txt": PLAIN.replace("line 3\n", "line three\n")})
    write_files(cy, {"notes.txt": None, "memo.txt": PLAIN.replace("line 3\n", "line III\n")})
    assert {path: file.kind for path, file in (await compared(snapshots, ann, bob)).items()} == {
        "notes.txt": "text"
    }
    assert {path: file.kind for path, file in (await compared(snapshots, bob, cy)).items()} == {
        "memo.txt": "text"
    }


async def test_a_directory_in_the_place_of_a_file(project, snapshots):
    ann, bob = add_worktree(project, "ann"), add_worktree(project, "bob")
    write_files(ann, {"place": "a file\n"})
    write_files(bob, {"place/below.txt": "a directory\n"})
    states = [await read_state(snapshots, tree) for tree in (ann, bob)]
    assert may_conflict(*states)
    assert (await asyncio.to_thread(compare, *states))["place"].kind == "text"


async def test_a_file_added_to_a_directory_that_the_other_renames(project, snapshots):
    ann, bob = add_worktree(project, "ann"), add_worktree(project, "bob")
    for name in ("a.txt", "b.txt"):
        text = Path(ann.path, "old", name).read_text()
        write_files(ann, {f"old/{name}": None, f"fresh/{name}": text})
    write_files(bob, {"old/c.txt": "c\n"})
    assert {file.kind for file in (await compared(snapshots, ann, bob)).values()} == {"text"}


async def test_binary_files_and_modes(project, snapshots):
    ann, bob = add_worktree(project, "ann"), add_worktree(project, "bob")
    write_files(ann, {"picture.png": b"\0\1ann", "run.sh": "echo\n"})
    write_files(bob, {"picture.png": b"\0\1bob", "run.sh": "echo\n"})
    Path(bob.path, "run.sh").chmod(0o755)
    found = await compared(snapshots, ann, bob)
    assert {path: file.kind for path, file in found.items()} == {
        "picture.png": "text",
        "run.sh": "text",
    }


async def test_names_that_are_no_text(project, snapshots):
    ann, bob = add_worktree(project, "ann"), add_worktree(project, "bob")
    names = (b"new\nline.txt", b"\xff\xfe.txt", 'quote".txt', "ä ☃.py", b"-rf", b":(top)x", b"a~b")
    write_files(ann, dict.fromkeys(names, "one\n"))
    write_files(bob, dict.fromkeys(names, "two\n"))
    found = await compared(snapshots, ann, bob)
    assert sorted(found) == sorted(
        ["new\nline.txt", "\\xff\\xfe.txt", 'quote".txt', "ä ☃.py", "-rf", ":(top)x", "a~b"]
    )
    assert {file.kind for file in found.values()} == {"text"}


async def test_a_link_against_a_file(project, snapshots):
    ann, bob = add_worktree(project, "ann"), add_worktree(project, "bob")
    write_files(ann, {"x.py": "def f(): pass\n"})
    Path(bob.path, "x.py").symlink_to("/etc/passwd")
    found = await compared(snapshots, ann, bob)
    assert found["x.py"].kind == "text" and found["x.py"].symbols == ()


async def test_submodules_that_both_move(project, snapshots, tmp_path):
    inner = new_repository(tmp_path / "inner", {"i.txt": "1\n"})
    git(project, "submodule", "--quiet", "add", str(inner), "sub")
    git(project, "commit", "-qm", "sub")
    ann, bob = add_worktree(project, "ann"), add_worktree(project, "bob")
    for tree, word in ((ann, "ann"), (bob, "bob")):
        below = Path(tree.path, "sub")
        below.rmdir()
        git(tmp_path, "clone", "-q", str(inner), str(below))
        (below / "i.txt").write_text(word)
        git(below, "commit", "-qam", word)
    assert (await compared(snapshots, ann, bob))["sub"].kind == "text"


async def test_what_the_base_gained_meanwhile_is_not_blamed_on_the_other(project, snapshots):
    ann = add_worktree(project, "ann")
    (project / "notes.txt").write_text(PLAIN.replace("line 1\n", "base\n"))
    git(project, "commit", "-qam", "base")
    bob = add_worktree(project, "bob")
    write_files(ann, {"notes.txt": PLAIN.replace("line 1\n", "ann\n"), "tides.py": "a = 1\n"})
    write_files(bob, {"tides.py": "b = 1\n"})
    assert list(await compared(snapshots, ann, bob)) == ["tides.py"]


async def test_what_both_carried_along_is_common_ground(project, snapshots):
    carried = PLAIN.replace("line 5\n", "carried\n")
    trees = []
    for name in ("ann", "bob"):
        tree = add_worktree(project, name)
        write_files(tree, {"notes.txt": carried})
        git(Path(tree.path), "add", "-A")
        start = git(Path(tree.path), "write-tree").strip()
        fields = {key: getattr(tree, key) for key in tree.__struct_fields__}
        trees.append(Worktree(**{**fields, "start": start}))
    ann, bob = trees
    write_files(ann, {"notes.txt": carried.replace("carried\n", "ann\n")})
    write_files(bob, {"tides.py": "x = 1\n"})
    assert await compared(snapshots, ann, bob) == {}
    write_files(bob, {"notes.txt": carried.replace("line 30\n", "bob\n")})
    assert (await compared(snapshots, ann, bob))["notes.txt"].kind == "file"


async def test_large_files_are_compared_by_identity(project, snapshots, monkeypatch):
    monkeypatch.setattr(pairs, "_LARGEST_MERGED", 1_000)
    ann, bob = add_worktree(project, "ann"), add_worktree(project, "bob")
    write_files(ann, {"big.bin": b"a" * 2_000, "tides.py": "a = 1\n"})
    write_files(bob, {"big.bin": b"b" * 2_000, "tides.py": "b = 1\n"})
    found = await compared(snapshots, ann, bob)
    assert {path: file.kind for path, file in found.items()} == {
        "tides.py": "text",
        "big.bin": "file",
    }


async def test_many_files_are_cut_with_the_worst_first(project, snapshots, monkeypatch):
    monkeypatch.setattr(pairs, "MOST_FILES", 3)
    ann, bob = add_worktree(project, "ann"), add_worktree(project, "bob")
    for tree, word, line in ((ann, "ann", "line 1\n"), (bob, "bob", "line 39\n")):
        write_files(tree, {f"n{n}.txt": f"{word}\n" for n in range(2)})
        write_files(tree, {"notes.txt": PLAIN.replace(line, "x\n"), "old/a.txt": f"{word}\n"})
    kinds = [file.kind for file in (await compared(snapshots, ann, bob)).values()]
    assert kinds == ["text", "text", "text"]


async def test_a_repository_without_a_commit(tmp_path, snapshots):
    project = new_repository(tmp_path / "empty")
    git(project, "commit", "--allow-empty", "-qm", "empty")
    ann, bob = add_worktree(project, "ann"), add_worktree(project, "bob")
    write_files(ann, {"a.txt": "a\n"})
    write_files(bob, {"a.txt": "b\n"})
    assert (await compared(snapshots, ann, bob))["a.txt"].kind == "text"


# Against the base


async def against_base(snapshots: WorktreeSnapshots, tree: Worktree) -> BaseComparison:
    state = await read_state(snapshots, tree)

    def compare_() -> BaseComparison:
        with MergeScratch([state]) as scratch:
            return compare_with_base(state, scratch)

    return await asyncio.to_thread(compare_)


async def test_a_conflict_with_the_base_is_found_without_landing(project, snapshots):
    ann = add_worktree(project, "ann")
    write_files(ann, {"notes.txt": PLAIN.replace("line 1\n", "ann\n")})
    assert await against_base(snapshots, ann) == BaseComparison()
    (project / "notes.txt").write_text(PLAIN.replace("line 1\n", "base\n"))
    assert await against_base(snapshots, ann) == BaseComparison()  # not committed
    git(project, "commit", "-qam", "base")
    expected = (ConflictFile(path="notes.txt", kind="text"),)
    assert await against_base(snapshots, ann) == BaseComparison(conflicts=expected)


async def test_changes_that_the_base_has_are_landed(project, snapshots):
    ann = add_worktree(project, "ann")
    write_files(ann, {"tides.py": "x = 1\n"})
    (project / "tides.py").write_text("x = 1\n")
    (project / "more.txt").write_text("more\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "squashed")
    assert await against_base(snapshots, ann) == BaseComparison(is_landed=True)


# Safety


async def test_nothing_that_a_repository_names_is_run(tmp_path, snapshots):
    hostile = await asyncio.to_thread(make_hostile_repository, tmp_path / "hostile")
    top = Path(hostile.top)
    base = (top / ".git" / "refs" / "heads" / "main").read_text().strip()
    side = Worktree(
        path=str(top / "worktree"), repository=str(top), base=base, base_ref="main", branch="side"
    )
    repository = await asyncio.to_thread(expect_repository, str(top))
    other = tmp_path.resolve() / "other"
    await asyncio.to_thread(add_linked, repository, str(other), commit=base, branch="other")
    main = Worktree(path=str(other), repository=str(top), base=base, base_ref="main")
    (top / "worktree" / "a.txt").write_text("ann\n")
    (other / "a.txt").write_text("bob\n")
    (top / "worktree" / "src" / "kept.py").write_text("x = 2\n")
    (other / "src" / "kept.py").write_text("x = 3\n")
    outside = state_of(hostile.outside)
    found = await compared(snapshots, side, main)
    assert {"a.txt", "src/kept.py"} <= set(found)
    assert await against_base(snapshots, side) is not None
    assert hostile.ran() == []
    assert state_of(hostile.outside) == outside


def old_git(directory: Path) -> Path:
    """A directory with a git that says it is old, and cannot merge trees."""
    folder = directory / "bin"
    folder.mkdir()
    (folder / "git").write_text(
        '#!/bin/sh\nfor word in "$@"; do\n  case "$word" in\n'
        '    version) echo "git version 2.30.2"; exit 0;;\n'
        '    merge-tree) echo "fatal: unknown" >&2; exit 129;;\n  esac\ndone\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    (folder / "git").chmod(0o755)
    return folder


async def test_an_old_git_compares_files_and_merges_nothing(
    project, snapshots, tmp_path, monkeypatch
):
    folder = old_git(tmp_path)
    ann, bob = add_worktree(project, "ann"), add_worktree(project, "bob")
    write_files(ann, {"tides.py": TIDES.replace("moon.mass", "1")})
    write_files(bob, {"tides.py": TIDES.replace("moon.mass", "2")})
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    assert not await asyncio.to_thread(can_merge_trees)
    found = await compared(snapshots, ann, bob)
    assert found["tides.py"] == ConflictFile(
        path="tides.py", kind="symbol", symbols=("fall", "rise")
    )
    assert await against_base(snapshots, ann) == BaseComparison()
