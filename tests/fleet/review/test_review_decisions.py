"""Accepting stages, rejecting reverts, and both can be undone; no byte is lost."""
# Names of files may be no text, and pathlib takes text alone.
# ruff: noqa: PTH114, PTH115, PTH116, PTH123

import os
import random
from pathlib import Path

import pytest

from quarterdeck.agent.checkpoints.errors import NothingToUndoError
from quarterdeck.fleet.review.api import ReviewSelection
from quarterdeck.fleet.review.errors import ChangedMeanwhileError, NoSuchChangeError, ReviewError
from quarterdeck.fleet.review.patch import PatchFile, PatchHunk, format_patch
from quarterdeck.fleet.review.selection import select_hunks
from tests.support.review_project import ReviewedAgent, git, reviewed_agent

OLD = "".join(f"line {n}\n" for n in range(1, 31))
NEW = OLD.replace("line 3\n", "three\n").replace("line 20\n", "twenty\nmore\n")


async def hunks_of(ann: ReviewedAgent, file: str) -> list[PatchHunk]:
    return (await ann.fleet.patch("ann", file)).patch.hunks


def files_in(tree: Path) -> dict[bytes, tuple[bytes, int]]:
    found: dict[bytes, tuple[bytes, int]] = {}
    for here, _, names in os.walk(os.fsencode(tree)):
        for name in names:
            path = here + b"/" + name
            if name == b".git":
                continue
            if os.path.islink(path):
                found[path] = (os.readlink(path), -1)
            else:
                with open(path, "rb") as file:
                    found[path] = (file.read(), os.stat(path).st_mode)
    return found


async def test_one_hunk_is_accepted_and_staged(tmp_path: Path):
    async with reviewed_agent(tmp_path, {b"a.txt": OLD.encode()}) as ann:
        ann.write("a.txt", NEW)
        first, second = await hunks_of(ann, "a.txt")
        await ann.fleet.accept_changes("ann", [select_hunks("a.txt", [first])])
        assert ann.staged("a.txt") == OLD.replace("line 3\n", "three\n").encode()
        assert ann.read("a.txt") == NEW.encode()
        (file,) = (await ann.fleet.changes("ann")).files
        assert (file.accepted, file.mark) == ("part", "none")
        assert (await ann.fleet.patch("ann", "a.txt")).accepted == ("whole", "none")
        rest = await ann.fleet.patch("ann", "a.txt", since="accepted")
        (hunk,) = rest.patch.hunks
        assert hunk.text.count("+twenty") == 1
        await ann.fleet.accept_changes("ann", [select_hunks("a.txt", [second])])
        (file,) = (await ann.fleet.changes("ann")).files
        assert (file.accepted, file.mark) == ("whole", "accepted")
        assert ann.staged("a.txt") == NEW.encode()
        assert not (await ann.fleet.changes("ann", since="accepted")).files
        undone = await ann.fleet.undo_review("ann")
        assert undone.is_undone and undone.action == "accept" and undone.files == ("a.txt",)
        assert ann.staged("a.txt") == OLD.replace("line 3\n", "three\n").encode()
        await ann.fleet.undo_review("ann")
        assert ann.staged("a.txt") == OLD.encode()
        (file,) = (await ann.fleet.changes("ann")).files
        assert (file.accepted, file.mark) == ("none", "none")
        with pytest.raises(NothingToUndoError, match="ann"):
            await ann.fleet.undo_review("ann")


async def test_one_hunk_is_rejected_and_comes_back(tmp_path: Path):
    async with reviewed_agent(tmp_path, {b"a.txt": OLD.encode()}) as ann:
        ann.write("a.txt", NEW)
        first, _ = await hunks_of(ann, "a.txt")
        await ann.fleet.reject_changes("ann", [select_hunks("a.txt", [first])])
        assert ann.read("a.txt") == NEW.replace("three\n", "line 3\n").encode()
        assert ann.staged("a.txt") == OLD.encode()
        await ann.fleet.undo_review("ann")
        assert ann.read("a.txt") == NEW.encode()


async def test_what_was_staged_is_unstaged_when_it_is_rejected(tmp_path: Path):
    async with reviewed_agent(tmp_path, {b"a.txt": OLD.encode()}) as ann:
        ann.write("a.txt", NEW)
        first, _ = await hunks_of(ann, "a.txt")
        await ann.fleet.accept_changes("ann", [select_hunks("a.txt", [first])])
        await ann.fleet.reject_changes("ann", [select_hunks("a.txt", [first])])
        assert ann.staged("a.txt") == OLD.encode()
        assert (await ann.fleet.changes("ann")).files[0].accepted == "none"
        await ann.fleet.undo_review("ann")
        assert ann.staged("a.txt") == OLD.replace("line 3\n", "three\n").encode()
        assert (await ann.fleet.changes("ann")).files[0].accepted == "part"


async def test_commits_stay_when_their_change_is_rejected(tmp_path: Path):
    async with reviewed_agent(tmp_path, {b"a.txt": OLD.encode()}) as ann:
        ann.write("a.txt", NEW)
        git(ann.tree, "commit", "-qam", "second")
        await ann.fleet.reject_changes("ann", [ReviewSelection(file="a.txt")])
        assert ann.read("a.txt") == OLD.encode() and ann.staged("a.txt") == NEW.encode()
        assert not (await ann.fleet.changes("ann")).files
        await ann.fleet.undo_review("ann")
        assert ann.read("a.txt") == NEW.encode()


MANY = {
    b"kept.txt": b"1\n2\n3\n",
    b"gone.txt": b"x\r\ny",
    b"moved.txt": b"".join(b"%d\n" % n for n in range(30)),
    b"run.sh": b"#!/bin/sh\n",
    b"picture.bin": b"\0\1\2",
    b"folder/a": b"a\n",
    b"bad\xff\nname": b"old\n",
}


def change_all(ann: ReviewedAgent) -> None:
    ann.write("kept.txt", "1\ntwo\n3")
    (ann.tree / "gone.txt").unlink()
    (ann.tree / "moved.txt").rename(ann.tree / "there.txt")
    ann.write("there.txt", (ann.read("there.txt") or b"") + b"end\n")
    (ann.tree / "run.sh").chmod(0o755)
    ann.write("picture.bin", b"\0\1\3")
    ann.write("deep/er/new.txt", "new\n")
    (ann.tree / "link").symlink_to("kept.txt")
    ann.write(b"bad\xff\nname", b"new\n")
    (ann.tree / "folder" / "a").unlink()
    (ann.tree / "folder").rmdir()
    ann.write("folder", "a file now\n")


async def test_everything_is_rejected_and_comes_back(tmp_path: Path):
    async with reviewed_agent(tmp_path, MANY) as ann:
        before = files_in(ann.tree)
        change_all(ann)
        after = files_in(ann.tree)
        found = await ann.fleet.changes("ann")
        everything = [ReviewSelection(file=one.id, content=one.content) for one in found.files]
        outcome = await ann.fleet.reject_changes("ann", everything)
        assert len(outcome.files) == len(found.files) == 10
        assert files_in(ann.tree) == before
        assert not (ann.tree / "deep").exists()
        assert not (await ann.fleet.changes("ann")).files
        assert git(ann.tree, "status", "--porcelain") == b""
        await ann.fleet.undo_review("ann")
        assert files_in(ann.tree) == after


async def test_everything_is_accepted_and_staged_as_git_does_it(tmp_path: Path):
    async with reviewed_agent(tmp_path, MANY) as ann:
        change_all(ann)
        found = await ann.fleet.changes("ann")
        before = git(ann.tree, "write-tree")
        await ann.fleet.accept_changes("ann", [ReviewSelection(file=one.id) for one in found.files])
        staged = git(ann.tree, "write-tree")
        marks = {one.mark for one in (await ann.fleet.changes("ann")).files}
        assert marks == {"accepted"}
        await ann.fleet.undo_review("ann")
        assert git(ann.tree, "write-tree") == before
        git(ann.tree, "add", "-A")
        assert git(ann.tree, "write-tree") == staged


async def test_random_lines_are_staged_and_rejected_as_git_applies_them(tmp_path: Path):
    chance = random.Random(7)
    old = [f"line {n}\n" for n in range(60)]
    async with reviewed_agent(tmp_path, {b"a.txt": "".join(old).encode()}) as ann:
        for round_ in range(6):
            new = [line for line in old if chance.random() > 0.1]
            for n in range(8):
                new.insert(chance.randrange(len(new)), f"new {round_} {n}\n")
            ann.write("a.txt", "".join(new))
            hunks = (await ann.fleet.patch("ann", "a.txt", context=1)).patch.hunks
            chosen = [hunk for hunk in hunks if chance.random() < 0.5] or hunks[:1]
            patch = format_patch([PatchFile(path="a.txt", hunks=chosen)]).encode()
            await ann.fleet.accept_changes("ann", [select_hunks("a.txt", chosen)])
            staged = ann.staged("a.txt")
            await ann.fleet.undo_review("ann")
            git(ann.tree, "apply", "--cached", "--unidiff-zero", given=patch)
            assert staged == ann.staged("a.txt")
            git(ann.tree, "reset", "-q")
            now = ann.read("a.txt")
            await ann.fleet.reject_changes("ann", [select_hunks("a.txt", chosen)])
            rejected = ann.read("a.txt")
            await ann.fleet.undo_review("ann")
            assert ann.read("a.txt") == now
            git(ann.tree, "apply", "-R", "--unidiff-zero", given=patch)
            assert ann.read("a.txt") == rejected


async def test_a_file_that_changed_meanwhile_is_refused_by_name(tmp_path: Path):
    async with reviewed_agent(tmp_path, {b"a.txt": OLD.encode(), b"b.txt": b"b\n"}) as ann:
        ann.write("a.txt", NEW)
        ann.write("b.txt", "B\n")
        seen = {one.path: one for one in (await ann.fleet.changes("ann")).files}
        ann.write("b.txt", "BB\n")
        both = [ReviewSelection(file=name, content=seen[name].content) for name in seen]
        for decide in (ann.fleet.accept_changes, ann.fleet.reject_changes):
            with pytest.raises(ChangedMeanwhileError, match=r"b\.txt"):
                await decide("ann", both)
        assert ann.read("a.txt") == NEW.encode() and ann.staged("a.txt") == OLD.encode()
        await ann.fleet.reject_changes("ann", [ReviewSelection(file="b.txt")])
        ann.write("b.txt", "somebody else\n")
        with pytest.raises(ChangedMeanwhileError, match=r"b\.txt"):
            await ann.fleet.undo_review("ann")
        assert ann.read("b.txt") == b"somebody else\n"


async def test_what_cannot_be_selected_is_refused(tmp_path: Path):
    async with reviewed_agent(tmp_path, {b"a.txt": OLD.encode(), b"p.bin": b"\0"}) as ann:
        ann.write("a.txt", NEW)
        ann.write("p.bin", b"\0\1")
        with pytest.raises(NoSuchChangeError, match="line 1 of"):
            await ann.fleet.reject_changes("ann", [ReviewSelection(file="a.txt", new=((1, 1),))])
        with pytest.raises(ReviewError, match="whole file"):
            await ann.fleet.reject_changes("ann", [ReviewSelection(file="p.bin", new=((1, 1),))])
        with pytest.raises(NoSuchChangeError, match=r"did you mean 'a\.txt'"):
            await ann.fleet.accept_changes("ann", [ReviewSelection(file="a.tx")])
        with pytest.raises(NoSuchChangeError, match="nothing"):
            await ann.fleet.accept_changes("ann", [])
        whole = ReviewSelection(file="a.txt")
        with pytest.raises(ReviewError, match="twice"):
            await ann.fleet.accept_changes("ann", [whole, whole])
        (ann.tree / ".git").read_text()
        lock = Path(git(ann.tree, "rev-parse", "--git-dir").decode().strip()) / "index.lock"
        lock.write_text("")
        with pytest.raises(ReviewError, match=r"index\.lock"):
            await ann.fleet.accept_changes("ann", [whole])
        lock.unlink()
        assert not (await ann.fleet.changes("ann")).can_undo


async def test_line_ends_on_the_disk_stay(tmp_path: Path):
    files = {b".gitattributes": b"*.txt text eol=crlf\n", b"a.txt": b"1\r\n2\r\n3\r\n4\r\n"}
    async with reviewed_agent(tmp_path, files) as ann:
        ann.write("a.txt", b"1\r\nzwei\r\n3\r\n4\r\n5\r\n")
        page = await ann.fleet.patch("ann", "a.txt", context=0)
        first, _ = page.patch.hunks
        assert first.lines == [("-", "2"), ("+", "zwei")]
        await ann.fleet.reject_changes("ann", [select_hunks("a.txt", [first])])
        assert ann.read("a.txt") == b"1\r\n2\r\n3\r\n4\r\n5\r\n"
        await ann.fleet.undo_review("ann")
        await ann.fleet.reject_changes("ann", [ReviewSelection(file="a.txt")])
        assert ann.read("a.txt") == b"1\r\n2\r\n3\r\n4\r\n"
        assert git(ann.tree, "status", "--porcelain") == b""
        (ann.tree / "a.txt").unlink()
        await ann.fleet.reject_changes("ann", [ReviewSelection(file="a.txt")])
        assert ann.read("a.txt") == b"1\r\n2\r\n3\r\n4\r\n"


async def test_single_lines_of_new_and_deleted_files(tmp_path: Path):
    async with reviewed_agent(tmp_path, {b"old.txt": b"1\n2\n3\n"}) as ann:
        ann.write("new.txt", "a\nb\nc\n")
        (ann.tree / "old.txt").unlink()
        some = [
            ReviewSelection(file="new.txt", new=((1, 1), (3, 3))),
            ReviewSelection(file="old.txt", old=((2, 2),)),
        ]
        await ann.fleet.accept_changes("ann", some)
        assert ann.staged("new.txt") == b"a\nc\n" and ann.staged("old.txt") == b"1\n3\n"
        await ann.fleet.undo_review("ann")
        assert ann.staged("new.txt") is None and ann.staged("old.txt") == b"1\n2\n3\n"
        await ann.fleet.reject_changes("ann", some)
        assert ann.read("new.txt") == b"b\n" and ann.read("old.txt") == b"2\n"
        await ann.fleet.undo_review("ann")
        assert ann.read("new.txt") == b"a\nb\nc\n" and ann.read("old.txt") is None
        every = [ReviewSelection(file="new.txt", new=((1, 3),))]
        await ann.fleet.reject_changes("ann", every)
        assert ann.read("new.txt") is None


async def test_a_rejection_that_was_cut_off_can_be_undone(tmp_path: Path):
    async with reviewed_agent(tmp_path, {b"a.txt": b"a\n", b"b.txt": b"b\n"}) as ann:
        ann.write("a.txt", "A\n")
        ann.write("b.txt", "B\n")
        both = [ReviewSelection(file="a.txt"), ReviewSelection(file="b.txt")]
        await ann.fleet.reject_changes("ann", both)
        ann.write("b.txt", "B\n")  # as if the process had died before the second file
        await ann.fleet.undo_review("ann")
        assert (ann.read("a.txt"), ann.read("b.txt")) == (b"A\n", b"B\n")


async def test_what_was_viewed_and_what_changed_since(tmp_path: Path):
    async with reviewed_agent(tmp_path, {b"a.txt": OLD.encode(), b"b.txt": b"b\n"}) as ann:
        ann.write("a.txt", NEW)
        ann.write("b.txt", "B\n")
        await ann.fleet.mark_files("ann", ["a.txt", "b.txt"])
        found = await ann.fleet.changes("ann")
        assert {one.mark for one in found.files} == {"viewed"}
        assert not (await ann.fleet.changes("ann", since="viewed")).files
        ann.write("a.txt", NEW + "last\n")
        ann.write("b.txt", "b\n")
        (now,) = (await ann.fleet.changes("ann")).files
        assert (now.mark, now.is_changed_since) == ("none", True)
        since = await ann.fleet.changes("ann", since="viewed")
        assert [one.path for one in since.files] == ["a.txt", "b.txt"]
        page = await ann.fleet.patch("ann", "a.txt", since="viewed", context=0)
        assert [line for hunk in page.patch.hunks for line in hunk.lines] == [("+", "last")]
        await ann.fleet.reject_changes(
            "ann", [select_hunks("a.txt", page.patch.hunks)], since="viewed"
        )
        assert ann.read("a.txt") == NEW.encode()
        await ann.fleet.mark_files("ann", ["a.txt"], "none")
        (now,) = (await ann.fleet.changes("ann")).files
        assert (now.mark, now.is_changed_since) == ("none", False)
