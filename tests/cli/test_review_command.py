"""``diff`` and ``review`` through a host, on an agent that has a worktree."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quarterdeck.cli.fleet.diff import PatchPrinter
from tests.support.deadlines import SOON
from tests.support.review_project import git, make_repository

ROOT = Path(__file__).parents[2]
HOST = """
import asyncio, os, sys
from contextlib import asynccontextmanager
from pathlib import Path
from quarterdeck.config.places import Places
from quarterdeck.fleet.host.process import run_host
from quarterdeck.fleet.local import LocalFleet
from tests.support.review_project import assign_worktree
from tests.support.scripted_fleet import Casting, new_agent

project, tree = map(Path, sys.argv[1:])

@asynccontextmanager
async def open_fleet(places, environment, **options):
    async with LocalFleet.open(places, environment, open_session=Casting(), **options) as fleet:
        info = await fleet.spawn(new_agent(tree, name="ann", prompt="say hello"))
        await fleet.wait(["ann"], timeout=30)
        await assign_worktree(fleet, info.session, project, tree)
        yield fleet

ready = lambda: print("ready", flush=True)
asyncio.run(run_host(Places.find(), dict(os.environ), open_fleet=open_fleet, ready=ready))
"""
OLD = "".join(f"line {n}\n" for n in range(1, 31))
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tree(tmp_path: Path, environ: dict[str, str]) -> Iterator[Path]:
    project, tree = tmp_path / "reviewed", tmp_path / "tree"
    make_repository(project, {b"a.txt": OLD.encode(), b"sub/b.txt": b"b\n", b"p.bin": b"\0"})
    git(project, "worktree", "add", "-q", "-b", "quarterdeck/ann", str(tree))
    child = subprocess.Popen(
        [sys.executable, "-c", HOST, str(project), str(tree)],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    with child, child.stdout:
        yield tree
        child.terminate()
        child.wait(SOON)


@pytest.fixture
def done(run: Run, tree: Path) -> Callable[..., str]:
    """Run a command that must succeed; its output."""

    def run_well(*arguments: str) -> str:
        result = run(*arguments)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    return run_well


def change(tree: Path) -> None:
    changed = OLD.replace("line 3\n", "three\n").replace("line 20\n", "twenty\x1b[2J\n")
    (tree / "a.txt").write_text(changed)
    (tree / "sub" / "b.txt").rename(tree / "sub" / "c.txt")
    (tree / "p.bin").write_bytes(b"\0\1")
    (tree / "new ☃\n.txt").write_text("new\n")


def test_a_diff_is_a_patch_a_summary_or_json(done, run: Run, tree: Path):
    assert done("diff", "ann") == ""
    assert done("diff", "ann", "--stat") == "no changes\n"
    change(tree)
    patch = done("diff", "ann", "--binary")
    git(tree.parent / "reviewed", "apply", "--index", given=patch.encode())
    git(tree, "add", "-A")
    written = git(tree.parent / "reviewed", "write-tree")
    assert written == git(tree, "write-tree")
    assert done("diff", "ann", "--name-only").splitlines() == [
        "a.txt", '"new ☃\\n.txt"', "p.bin", "sub/c.txt",
    ]  # fmt: skip
    assert [line.split() for line in done("diff", "ann", "--stat").splitlines()] == [
        ["M", "+2", "-2", "a.txt"],
        ["A", "+1", "-0", '"new', '☃\\n.txt"'],
        ["M", "+0", "-0", "p.bin", "(binary)"],
        ["R", "+0", "-0", "sub/b.txt", "=>", "sub/c.txt"],
        ["4", "files,", "+3", "-2"],
    ]
    assert done("diff", "ann", "sub").count("rename to sub/c.txt") == 1
    assert "a.txt" not in done("diff", "ann", "sub")
    told = json.loads(done("diff", "ann", "--json", "a.txt", "-U0"))
    assert len(told["changes"]["files"]) == 4
    (one,) = told["patches"]
    assert [hunk["lines"] for hunk in one["patch"]["hunks"]] == [
        [["-", "line 3"], ["+", "three"]],
        [["-", "line 20"], ["+", "twenty\x1b[2J"]],
    ]
    missing = run("diff", "ann", "a.tx")
    assert missing.returncode == 1
    assert missing.stderr == ("quarterdeck: 'ann' did not change 'a.tx'; did you mean 'a.txt'?\n")
    assert "there is no turn '7'" in run("diff", "ann", "--turn", "7").stderr
    assert "there is no agent" in run("diff", "bob").stderr


def test_a_review_is_shown_decided_and_undone(done, run: Run, tree: Path):
    assert done("review", "ann").startswith("no changes against main (")
    change(tree)
    assert "hunk 2, line 17: line 16" in done("review", "ann", "a.txt")
    assert done("review", "ann", "--accept", "a.txt:1") == "accepted: a.txt\n"
    assert git(tree, "show", ":a.txt").decode() == OLD.replace("line 3\n", "three\n")
    assert "hunk 1 (accepted), line 1" in done("review", "ann", "a.txt")
    assert "±" in done("review", "ann")
    assert done("review", "ann", "--reject", "a.txt:2", "--reject", "p.bin") == (
        "rejected: a.txt, p.bin\n"
    )
    assert (tree / "a.txt").read_text() == OLD.replace("line 3\n", "three\n")
    assert done("review", "ann", "--undo") == "undone, rejected before: a.txt, p.bin\n"
    assert "twenty" in (tree / "a.txt").read_text()
    assert done("review", "ann", "--viewed", "sub/c.txt") == "viewed: sub/c.txt\n"
    assert "renamed, viewed" in done("review", "ann")
    (tree / "sub" / "c.txt").write_text("b\nmore\n")
    assert "changed since you viewed it" in done("review", "ann")
    assert "+more" in done("diff", "ann", "--since", "viewed", "sub/c.txt")
    done("review", "ann", "--unviewed", "sub/c.txt")
    assert "since you viewed" not in done("review", "ann")
    wrong = run("review", "ann", "--accept", "a.txt:9")
    assert (wrong.returncode, "no hunk 9; it has 2 hunks" in wrong.stderr) == (2, True)
    nothing = run("review", "ann", "--reject", "none.txt")
    assert (nothing.returncode, "did not change 'none.txt'" in nothing.stderr) == (1, True)


def test_comments_are_made_sent_and_resolved(done, run: Run, tree: Path):
    change(tree)
    made = done("review", "ann", "--comment", "a.txt:3-4", "Why \x1b[31mthis?")
    id_ = made.split()[1]
    done("review", "ann", "--comment", "a.txt:3", "And that?", "--removed")
    shown = done("review", "ann")
    assert f"a.txt:3-4  {id_}  (open)\n  > three\n  > line 4\n" in shown
    told = json.loads(done("review", "ann", "--json"))
    assert [one["comment"]["text"] for one in told["comments"]] == [
        "Why \x1b[31mthis?", "And that?",
    ]  # fmt: skip
    assert done("review", "ann", "--send", "--note", "Hello.") == "sent\n"
    assert "I have reviewed your changes." in done("logs", "ann")
    assert done("review", "ann", "--resolve", id_[-6:]) == f"resolved: {id_}\n"
    assert id_ not in done("review", "ann") and id_ in done("review", "ann", "--all")
    assert done("review", "ann", "--reopen", id_) == f"open again: {id_}\n"
    (tree / "a.txt").write_text(OLD)
    assert "lines changed since" in done("review", "ann")
    assert id_ in done("review", "ann", "--resolve-changed")
    assert done("review", "ann", "--drop", id_) == f"deleted: {id_}\n"
    bad = run("review", "ann", "--comment", "a.txt", "x")
    assert (bad.returncode, "FILE:LINE" in bad.stderr) == (2, True)
    late = run("review", "ann", "--send")
    assert (late.returncode, "no open comments" in late.stderr) == (1, True)


def test_a_patch_for_a_terminal_is_coloured_and_harmless():
    patch = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-- \x1b[2Jold\r\n+new\xff\n"
    painter = PatchPrinter(has_colour=True)
    shown = "".join(painter.paint(patch[at : at + 7]) for at in range(0, len(patch), 7))
    shown += painter.finish()
    lines = shown.splitlines()
    assert lines[1] == "\x1b[1m--- a/x\x1b[0m"
    assert lines[4] == "\x1b[31m-- \\x1b[2Jold\\r\x1b[0m"
    assert lines[5] == "\x1b[32m+new\\xff\x1b[0m"
    plain = PatchPrinter(has_colour=False)
    assert "\x1b" not in plain.paint(patch) + plain.finish()
