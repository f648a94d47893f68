"""Patches, and what git says: read right, whatever the names and contents."""

import difflib
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.fleet.review.patch import PatchFile, parse_patch
from quarterdeck.workbench.panels.diff import ChangesQuery, file_row, patch_page, read_changes
from quarterdeck.workbench.panels.tree_model import parse_status, read_status_marks
from quarterdeck.workbench.rendering.lines import text_of, width_of
from quarterdeck.workbench.sanitize import sanitize_text
from quarterdeck.workbench.widgets.lines_view import ROLES
from tests.support.hostile_text import hostile_strings

LINES = st.lists(
    st.sampled_from(["a", "b", "", "--- a/x", "+++ b/x", "@@ -1 +1 @@", "diff --git a/x b/x", " "]),
    max_size=12,
)


def applied(file: PatchFile, old: list[str]) -> list[str]:
    """The new lines that a patch makes of old ones."""
    new: list[str] = []
    at = 0
    for hunk in file.hunks:
        begin = hunk.old - 1 if any(sign in " -" for sign, _ in hunk.lines) else hunk.old
        new += old[at:begin]
        at = begin
        for sign, line in hunk.lines:
            if sign in " -":
                assert old[at] == line
                at += 1
            if sign in " +":
                new.append(line)
    return new + old[at:]


@settings(deadline=None, max_examples=200)
@given(old=LINES, new=LINES, other=LINES)
def test_a_patch_is_read_as_it_was_made(old: list[str], new: list[str], other: list[str]):
    patch: list[str] = []
    pairs = [(old, new), (new, other)]
    for n, (before, after) in enumerate(pairs):
        patch += difflib.unified_diff(before, after, f"a/f{n}", f"b/f{n}", lineterm="", n=1)
    files = parse_patch("\n".join([*patch, ""]))
    changed = [(n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1]]
    assert [file.path for file in files] == [f"f{n}" for n, _ in changed]
    for file, (_, (before, after)) in zip(files, changed, strict=True):
        assert applied(file, before) == after
        again = f"--- a/x\n+++ b/x\n{''.join(hunk.text for hunk in file.hunks)}"
        assert parse_patch(again)[0].hunks == file.hunks


@settings(deadline=None, max_examples=200)
@given(text=st.text(max_size=200))
def test_any_text_is_some_patch(text: str):
    patch_page(parse_patch(text))
    patch_page(parse_patch("--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n" + text))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = tmp_path / "repo"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    (top / "kept.py").write_text("def f():\n    return 1\n")
    (top / "gone.txt").write_text("x\n")
    (top / "moved.txt").write_text("".join(f"{n}\n" for n in range(30)))
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "first")
    return top


def git(top: Path, *words: str) -> None:
    who = ["-c", "user.name=n", "-c", "user.email=e@x"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(top.parent)}
    subprocess.run(["git", *who, *words], cwd=top, check=True, env=environment)


def changed(top: Path) -> None:
    (top / "kept.py").write_text("def f():\n    return  2\n")
    (top / "gone.txt").unlink()
    git(top, "mv", "moved.txt", "there.txt")
    (top / "new\n\u202efile.py").write_text("print()\n")
    (top / "picture.bin").write_bytes(b"\0\1")
    (top / "sub").mkdir()
    (top / "sub" / 'näme "q".txt').write_text("a")
    git(top, "add", "sub")


def test_a_work_tree_against_its_last_commit(repository: Path):
    changed(repository)
    changes = read_changes(ChangesQuery(cwd=str(repository)))
    assert changes.problem is None and changes.against == "HEAD"
    assert {(file.path, file.kind) for file in changes.files} == {
        ("kept.py", "changed"),
        ("gone.txt", "deleted"),
        ("there.txt", "renamed"),
        ("new\n\u202efile.py", "new"),
        ("picture.bin", "new"),
        ('sub/näme "q".txt', "new"),
    }
    page = patch_page(changes.files)
    assert len(page.files) == len(changes.files) and len(page.places) == len(page.lines)
    whole = "\n".join(text_of(line) for line in page.lines)
    assert "new\\n\\u202efile.py" in whole and "binary" in whole and "\u202e" not in whole
    roles = {role for line in page.lines for _, role in line}
    assert {part for role in roles for part in role.split("/")} <= set(ROLES)


def test_one_file_another_base_and_white_space(repository: Path):
    (repository / "kept.py").write_text("def f():\n    return  1\n")
    wanted = ChangesQuery(cwd="/", path=str(repository / "kept.py"))
    (file,) = read_changes(wanted).files
    assert (file.path, file.added, file.removed) == ("kept.py", 1, 1)
    assert not read_changes(replace(wanted, ignores_space=True)).files
    git(repository, "commit", "-qam", "second")
    assert not read_changes(wanted).files
    base = ChangesQuery(cwd=str(repository), base="HEAD~1")
    assert [file.path for file in read_changes(base).files] == ["kept.py"]
    for bad in ("nothing", "--output=/tmp/x", "-h"):
        problem = read_changes(ChangesQuery(cwd=str(repository), base=bad)).problem
        assert problem is not None and "no branch or commit" in problem


def test_a_repository_without_a_commit_and_a_place_without_a_repository(tmp_path: Path):
    problem = read_changes(ChangesQuery(cwd=str(tmp_path))).problem
    assert problem is not None and "not in a git repository" in problem
    assert read_changes(ChangesQuery(cwd=str(tmp_path / "none"))).problem
    git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("x\n")
    git(tmp_path, "add", "a")
    changes = read_changes(ChangesQuery(cwd=str(tmp_path)))
    assert [(file.path, file.kind) for file in changes.files] == [("a", "new")]


def test_nothing_that_a_repository_names_is_run(repository: Path):
    trap = repository.parent / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {repository.parent}/sprung\n")
    trap.chmod(0o755)
    traps = ("diff.external", "core.fsmonitor", "diff.x.command", "diff.x.textconv")
    for name in (*traps, "filter.x.clean", "filter.x.process", "filter.x.smudge"):
        git(repository, "config", name, str(trap))
    git(repository, "config", "core.hooksPath", str(repository.parent))
    (repository / ".gitattributes").write_text("*.py diff=x filter=x\n")
    (repository / "kept.py").write_text("changed\n")
    changes = read_changes(ChangesQuery(cwd=str(repository)))
    assert "kept.py" in [file.path for file in changes.files]
    assert read_status_marks(str(repository))
    assert not (repository.parent / "sprung").exists()


def test_letters_of_git(repository: Path):
    changed(repository)
    top = str(repository)
    marks = read_status_marks(top)
    assert marks[f"{top}/kept.py"] == "M" and marks[f"{top}/gone.txt"] == "D"
    assert marks[f"{top}/there.txt"] == "R" and marks[f"{top}/new\n\u202efile.py"] == "?"
    assert parse_status(b"UU a\0AA b\0R  to\0from\0?? d/\0 M half", "/t") == {
        "/t/a": "U",
        "/t/b": "U",
        "/t/to": "R",
        "/t/d": "?",
    }


def test_hostile_names_and_lines_stay_literal():
    for hostile in hostile_strings(300):
        lines = hostile.split("\n")
        body = "".join(f"+{line}\n" for line in lines)
        patch = f"--- a/x\n+++ b/x\n@@ -0,0 +1,{len(lines)} @@ {lines[0]}\n{body}"
        files = parse_patch(patch)
        files.append(PatchFile(path=hostile, old_path=hostile + "x", notes=[hostile]))
        for line in [*patch_page(files).lines, *(file_row(file, 30) for file in files)]:
            shown = text_of(line)
            assert sanitize_text(shown) == shown and "\n" not in shown


def test_changed_lines_stand_on_the_ground_of_their_sign_and_counts_below_each_other():
    patch = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n a = 0\n-x = 1\n+x = 2\n"
    (file,) = parse_patch(patch)
    page = patch_page([file])
    grounds = [{role.partition("/")[2] for _, role in line[2:]} for line in page.lines[2:5]]
    assert grounds == [{""}, {"diff-line-removed"}, {"diff-line-added"}]
    assert width_of(file_row(file, 40)) == 40 and text_of(file_row(file, 40)).endswith(" +1 −1")
