"""What an agent changed, as everybody is shown it."""

import os
from pathlib import Path

import pytest

from quarterdeck.fleet.review.api import ReviewSelection
from quarterdeck.fleet.review.errors import NoSuchChangeError, ReviewError
from quarterdeck.fleet.review.patch import parse_patch
from tests.support.review_project import git, make_repository, reviewed_agent

FILES = {
    b"kept.py": b"def f():\n    return 1\n",
    b"gone.txt": b"x\n",
    b"moved.txt": b"".join(b"%d\n" % n for n in range(30)),
    b"run.sh": b"#!/bin/sh\n",
    b"sub/same.txt": b"same\n",
    b"picture.bin": b"\0\1\2",
}


async def test_committed_uncommitted_and_untracked_changes_are_one(tmp_path: Path):
    async with reviewed_agent(tmp_path, FILES) as ann:
        ann.write("kept.py", "def f():\n    return 2\n")
        git(ann.tree, "commit", "-qam", "second")
        ann.write("new.txt", "one\ntwo\n")
        (ann.tree / "gone.txt").unlink()
        git(ann.tree, "mv", "moved.txt", "there.txt")
        (ann.tree / "run.sh").chmod(0o755)
        ann.write("picture.bin", b"\0\1\3")
        (ann.tree / "link").symlink_to("kept.py")
        found = await ann.fleet.changes("ann")
        assert [(file.path, file.kind, file.added, file.removed) for file in found.files] == [
            ("gone.txt", "deleted", 0, 1),
            ("kept.py", "changed", 1, 1),
            ("link", "new", 1, 0),
            ("new.txt", "new", 2, 0),
            ("picture.bin", "changed", 0, 0),
            ("run.sh", "mode", 0, 0),
            ("there.txt", "renamed", 0, 0),
        ]
        assert (found.count, found.added, found.removed) == (7, 4, 2)
        by_path = {file.path: file for file in found.files}
        assert by_path["there.txt"].old_path == "moved.txt"
        assert by_path["picture.bin"].is_binary
        assert by_path["run.sh"].new_mode == "100755"
        assert found.against.startswith("main (") and found.name == "ann"
        again = await ann.fleet.changes("ann")
        assert again == found


async def test_nothing_changed_is_an_empty_list(tmp_path: Path):
    async with reviewed_agent(tmp_path, FILES) as ann:
        found = await ann.fleet.changes("ann")
        assert found.files == () and found.count == 0 and not found.can_undo
        assert (await ann.fleet.patch_text("ann")).data == b""
        with pytest.raises(NoSuchChangeError, match=r"did not change 'kept\.py'"):
            await ann.fleet.patch("ann", "kept.py")
        with pytest.raises(NoSuchChangeError, match=r"kept\.py"):
            await ann.fleet.patch_text("ann", ["kept.py"])


NAMES = [b"new\nline", b'q"uote', b"tab\there", "snow ☃ 🙂".encode(), b"bad\xff\xfe", b"bad\\xff"]


async def test_any_name_is_found_by_its_id_and_shown_as_text(tmp_path: Path):
    files = dict.fromkeys(NAMES, b"old\n")
    async with reviewed_agent(tmp_path, files) as ann:
        for name in NAMES:
            ann.write(name, b"new of " + name.replace(b"\n", b"") + b"\n")
        found = await ann.fleet.changes("ann")
        assert len(found.files) == len(NAMES) == len({file.id for file in found.files})
        for file in found.files:
            got = await ann.fleet.patch("ann", file.id)
            (hunk,) = got.patch.hunks
            assert [line.sign for line in hunk.lines] == ["-", "+"]
            assert hunk.lines[0].text == "old" and got.changed.path == file.path
            file.path.encode()  # is text
        assert "bad\\xff\\xfe" in [file.path for file in found.files]
        data = (await ann.fleet.patch_text("ann")).data
        read = parse_patch(data.decode("utf-8", "surrogateescape"))
        assert sorted(os.fsencode(one.path) for one in read) == sorted(NAMES)


async def test_a_patch_comes_in_pages_whose_numbers_fit(tmp_path: Path):
    old = "".join(f"line {n}\n" for n in range(1, 2001))
    new = "".join(f"line {n}{' changed' if n % 3 == 0 else ''}\n" for n in range(1, 2001))
    async with reviewed_agent(tmp_path, {b"long.txt": old.encode()}) as ann:
        ann.write("long.txt", new)
        after, texts, numbers = 0, [], []
        while True:
            page = await ann.fleet.patch("ann", "long.txt", after=after, limit=70)
            for hunk in page.patch.hunks:
                number = hunk.new
                for sign, line in hunk.lines:
                    texts.append((sign, line))
                    if sign in " +":
                        numbers.append((number, line))
                        number += 1
            if page.next is None:
                break
            assert page.next == after + 70
            after = page.next
        assert len(texts) == page.lines
        whole = await ann.fleet.patch("ann", "long.txt", limit=5000)
        assert texts == [tuple(line) for hunk in whole.patch.hunks for line in hunk.lines]
        lines = new.splitlines()
        assert all(lines[number - 1] == text for number, text in numbers)


async def test_white_space_and_context(tmp_path: Path):
    async with reviewed_agent(tmp_path, {b"a": b"one\ntwo\nthree\nfour\n"}) as ann:
        ann.write("a", "one\ntwo\n  three\nFOUR\n")
        plain = await ann.fleet.patch("ann", "a", context=0)
        assert [line for hunk in plain.patch.hunks for line in hunk.lines] == [
            ("-", "three"),
            ("-", "four"),
            ("+", "  three"),
            ("+", "FOUR"),
        ]
        bare = await ann.fleet.patch("ann", "a", context=0, ignore_space=True)
        assert [line for hunk in bare.patch.hunks for line in hunk.lines] == [
            ("-", "four"),
            ("+", "FOUR"),
        ]


async def test_the_whole_patch_can_be_applied_by_git(tmp_path: Path):
    async with reviewed_agent(tmp_path, FILES) as ann:
        ann.write("kept.py", "def g():\n    return 2")
        ann.write("picture.bin", b"\0other")
        ann.write("new ☃", "x\n")
        (ann.tree / "gone.txt").unlink()
        (ann.tree / "moved.txt").rename(ann.tree / "there.txt")
        (ann.tree / "run.sh").chmod(0o755)
        data = (await ann.fleet.patch_text("ann", binary=True)).data
        project = tmp_path / "project"
        git(project, "apply", "--index", given=data)
        git(ann.tree, "add", "-A")
        assert git(project, "write-tree") == git(ann.tree, "write-tree")
        some = await ann.fleet.patch_text("ann", ["kept.py"])
        assert [one.path for one in parse_patch(some.data.decode())] == ["kept.py"]


async def test_nothing_that_the_repository_names_is_run(tmp_path: Path):
    async with reviewed_agent(tmp_path, FILES) as ann:
        trap = tmp_path / "trap"
        trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
        trap.chmod(0o755)
        names = ("diff.external", "core.fsmonitor", "diff.x.command", "diff.x.textconv")
        for name in (*names, "filter.x.clean", "filter.x.process", "filter.x.smudge"):
            git(tmp_path / "project", "config", name, str(trap))
        git(tmp_path / "project", "config", "core.hooksPath", str(tmp_path))
        ann.write(".gitattributes", "*.py diff=x filter=x\n*.txt -diff\n")
        ann.write("kept.py", "changed\n")
        ann.write("gone.txt", "changed\n")
        shown = await ann.fleet.patch("ann", "kept.py")
        assert shown.patch.added == 1
        hidden = await ann.fleet.patch("ann", "gone.txt")
        assert hidden.patch.added == 1 and not hidden.patch.is_binary
        both = [ReviewSelection(file="kept.py"), ReviewSelection(file="gone.txt")]
        await ann.fleet.accept_changes("ann", both)
        await ann.fleet.reject_changes("ann", both)
        await ann.fleet.undo_review("ann")
        assert not (tmp_path / "sprung").exists()


async def test_a_submodule_is_a_change_of_its_commit(tmp_path: Path):
    inner = tmp_path / "inner"
    make_repository(inner, {b"x": b"x\n"})
    async with reviewed_agent(tmp_path, {b"a.txt": b"a\n"}) as ann:
        module = ann.tree / "module"
        git(tmp_path, "clone", "-q", str(inner), str(module))
        git(ann.tree, "add", "module")
        (file,) = (await ann.fleet.changes("ann")).files
        assert (file.path, file.kind, file.is_submodule) == ("module", "new", True)
        git(module, "commit", "-q", "--allow-empty", "-m", "more")
        page = await ann.fleet.patch("ann", "module")
        head = git(module, "rev-parse", "HEAD").decode().strip()
        assert page.patch.hunks[0].lines == [("+", f"Subproject commit {head}")]
        await ann.fleet.accept_changes("ann", [ReviewSelection(file="module")])
        assert head in git(ann.tree, "ls-files", "-s", "module").decode()
        with pytest.raises(ReviewError, match="a submodule"):
            await ann.fleet.reject_changes("ann", [ReviewSelection(file="module")])


async def test_a_worktree_that_is_gone_is_an_error_with_the_name(tmp_path: Path):
    async with reviewed_agent(tmp_path, FILES) as ann:
        ann.write("kept.py", "x\n")
        ann.tree.rename(tmp_path / "elsewhere")
        with pytest.raises(ReviewError, match="of 'ann' is gone"):
            await ann.fleet.changes("ann")
        (tmp_path / "elsewhere").rename(ann.tree)
        assert len((await ann.fleet.changes("ann")).files) == 1
