"""A landing with a checkout: files, index and branch move together, or nothing moves."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from quarterdeck.fleet.errors import LandingRefusedError
from quarterdeck.fleet.landing.checkout import BranchCheckout, find_checkouts
from quarterdeck.fleet.landing.intent import (
    LandingIntent,
    LandingStepName,
    ReferencesMovedError,
    carry_out,
    recover_landings,
)
from quarterdeck.system.errors import GitError
from quarterdeck.system.git.command import GitIdentity
from quarterdeck.system.git.repository import expect_repository
from tests.support.landing_cases import tip_of
from tests.support.work_trees import git, new_repository, state_of

ADA = GitIdentity(name="Ada", email="ada@example.org")
STEPS: tuple[str, ...] = get_args(LandingStepName)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """``main`` is checked out; ``next`` changes, adds, removes, links and nests."""
    top = new_repository(
        tmp_path.resolve() / "project",
        {
            ".gitignore": "*.log\n",
            "a.txt": "a\n",
            "gone.txt": "gone\n",
            "d": "a file\n",
            "e/f.txt": "f\n",
            "same.txt": "same\n",
        },
    )
    git(top, "checkout", "-q", "-b", "next")
    (top / "a.txt").write_text("changed\n" * 1000)
    (top / "gone.txt").unlink()
    (top / "d").unlink()
    (top / "d").mkdir()
    (top / "d" / "inner ☃").write_text("inner\n")
    (top / "e" / "f.txt").unlink()
    (top / "e").rmdir()
    (top / "e").symlink_to("a.txt")
    (top / "run").write_text("#!/bin/sh\n")
    (top / "run").chmod(0o755)
    (top / "deep" / "er").mkdir(parents=True)
    (top / "deep" / "er" / "x.txt").write_text("x\n")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "next")
    git(top, "checkout", "-q", "main")
    return top


def intent_for(project: Path, new: str = "next", key: str = "one") -> LandingIntent:
    repository = expect_repository(str(project))
    (checkout,) = find_checkouts(repository, "refs/heads/main")
    return LandingIntent(
        id=key,
        session="s",
        repository=str(project),
        into="refs/heads/main",
        old=tip_of(project, "main"),
        new=tip_of(project, new),
        method="squash",
        checkout=checkout,
    )


def land(project: Path, folder: Path, **options) -> None:
    carry_out(intent_for(project), folder / "intents", identity=ADA, **options)


def leftovers(project: Path, folder: Path) -> list[str]:
    inside = [p.name for p in (project / ".git").iterdir() if "quarterdeck" in p.name]
    locks = [p.name for p in (project / ".git").glob("*.lock")]
    return [*inside, *locks, *(p.name for p in folder.glob("intents/*"))]


def test_files_index_and_branch_follow(project: Path, tmp_path: Path):
    (project / "x.log").write_text("ignored\n")
    (project / "own.txt").write_text("untracked\n")
    land(project, tmp_path)
    assert git(project, "status", "--porcelain") == "?? own.txt\n"
    assert tip_of(project, "HEAD") == tip_of(project, "next")
    assert git(project, "symbolic-ref", "HEAD") == "refs/heads/main\n"
    assert (project / "x.log").read_text() == "ignored\n"
    assert (project / "d" / "inner ☃").read_text() == "inner\n"
    assert leftovers(project, tmp_path) == []
    assert "quarterdeck squash" in git(project, "reflog", "-1", "main")
    assert "quarterdeck squash" in git(project, "reflog", "-1", "HEAD")
    assert git(project, "fsck", "--no-dangling") == ""


def break_checkout(project: Path, how: str) -> str:
    match how:
        case "edited":
            (project / "same.txt").write_text("edited\n")
            return "uncommitted changes: same.txt"
        case "staged":
            (project / "staged.txt").write_text("staged\n")
            git(project, "add", "staged.txt")
            return "uncommitted changes: staged.txt"
        case "assumed unchanged":
            git(project, "update-index", "--assume-unchanged", "a.txt")
            (project / "a.txt").write_text("hidden edit\n")
            return "uncommitted changes: a.txt"
        case "untracked in the way":
            (project / "run").write_text("mine\n")
            return "in the way: run"
        case "untracked directory in the way":
            (project / "run").mkdir()
            (project / "run" / "mine").write_text("mine\n")
            return "in the way: run/mine"
        case "untracked file where a directory goes":
            (project / "deep").write_text("mine\n")
            return "in the way: deep"
        case "untracked beside a file that goes":
            (project / "e" / "mine.log").write_text("mine\n")
            return "in the way: e/mine.log"
        case "locked":
            (project / ".git" / "index.lock").write_text("")
            return "index.lock' exists"
        case "merging":
            (project / ".git" / "MERGE_HEAD").write_text(tip_of(project, "main"))
            return "a merge is under way"
        case _:
            raise AssertionError(how)


@pytest.mark.parametrize(
    "how",
    [
        "edited",
        "staged",
        "assumed unchanged",
        "untracked in the way",
        "untracked directory in the way",
        "untracked file where a directory goes",
        "untracked beside a file that goes",
        "locked",
        "merging",
    ],
)
def test_a_checkout_that_is_not_clean_is_refused_and_untouched(
    project: Path, tmp_path: Path, how: str
):
    words = break_checkout(project, how)
    files, refs = state_of(project), git(project, "for-each-ref")
    index = (project / ".git" / "index").read_bytes()
    with pytest.raises(LandingRefusedError, match=words):
        land(project, tmp_path)
    assert (state_of(project), git(project, "for-each-ref")) == (files, refs)
    assert (project / ".git" / "index").read_bytes() == index
    left = ["index.lock"] if how == "locked" else []
    assert leftovers(project, tmp_path) == left


def test_an_ignored_file_in_the_way_is_not_overwritten(project: Path, tmp_path: Path):
    git(project, "checkout", "-q", "next")
    (project / "x.log").write_text("committed\n")
    git(project, "add", "-f", "x.log")
    git(project, "commit", "-q", "-m", "log")
    git(project, "checkout", "-q", "main")
    (project / "x.log").write_text("mine\n")
    with pytest.raises(LandingRefusedError, match=r"in the way: x\.log"):
        land(project, tmp_path)
    assert (project / "x.log").read_text() == "mine\n"


def test_files_behind_a_filter_are_not_written(project: Path, tmp_path: Path):
    (project / ".git" / "info").mkdir(exist_ok=True)
    (project / ".git" / "info" / "attributes").write_text("a.txt filter=lfs\n")
    before = state_of(project)
    with pytest.raises(LandingRefusedError, match=r"filter.*a\.txt"):
        land(project, tmp_path)
    assert state_of(project) == before


def test_a_branch_that_moves_meanwhile_leaves_everything_as_it_was(project: Path, tmp_path: Path):
    before = state_of(project)
    other: list[str] = []

    def commit_beside(step: str) -> None:
        if step == "written":
            tree = tip_of(project, "main^{tree}")
            made = git(project, "commit-tree", tree, "-p", "main", "-m", "beside").strip()
            git(project, "update-ref", "refs/heads/main", made)
            other.append(made)

    with pytest.raises(ReferencesMovedError):
        land(project, tmp_path, on_step=commit_beside)
    assert (state_of(project), tip_of(project, "main")) == (before, other[0])
    assert git(project, "status", "--porcelain") == "" and leftovers(project, tmp_path) == []


def test_while_it_happens_no_other_git_commits(project: Path, tmp_path: Path):
    failed: list[int] = []

    def try_to_commit(step: str) -> None:
        if step in ("locked", "written", "landed"):
            done = subprocess.run(
                ["git", "-C", str(project), "add", "-A"], capture_output=True, check=False
            )
            failed.append(done.returncode)

    land(project, tmp_path, on_step=try_to_commit)
    assert len(failed) == 3 and all(failed)


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file of this process and its children grow beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_is_full_in_the_middle_changes_nothing(project: Path, tmp_path: Path):
    git(project, "checkout", "-q", "next")
    (project / "zz-large.txt").write_text("large\n" * 4000)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "large")
    git(project, "checkout", "-q", "main")
    before, refs = state_of(project), git(project, "for-each-ref")
    with full_disk(20_000), pytest.raises(GitError):
        land(project, tmp_path)
    assert (state_of(project), git(project, "for-each-ref")) == (before, refs)
    assert git(project, "status", "--porcelain") == "" and leftovers(project, tmp_path) == []
    land(project, tmp_path)
    assert git(project, "status", "--porcelain") == ""


_KILLED = """
import os, signal, sys
from pathlib import Path
import msgspec
from quarterdeck.fleet.landing.intent import LandingIntent, carry_out
from quarterdeck.system.git.command import GitIdentity
intent = msgspec.json.decode(sys.argv[1], type=LandingIntent)
def on_step(step):
    if step == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)
carry_out(intent, Path(sys.argv[2]), identity=GitIdentity(name="A", email="a@b"), on_step=on_step)
"""


def run_and_kill(intent: LandingIntent, folder: Path, step: str) -> int:
    words = [msgspec.json.encode(intent).decode(), str(folder / "intents"), step]
    return subprocess.run(
        [sys.executable, "-c", _KILLED, *words], check=False, env={**os.environ}
    ).returncode


@pytest.mark.parametrize("step", STEPS)
def test_killed_after_any_step_it_is_before_or_after_at_the_next_start(
    project: Path, tmp_path: Path, step: str
):
    (project / "x.log").write_text("ignored\n")
    before = state_of(project)
    intent = intent_for(project)
    assert run_and_kill(intent, tmp_path, step) == -signal.SIGKILL
    recovered = recover_landings(tmp_path / "intents")
    has_landed = STEPS.index(step) >= STEPS.index("landed")
    if step != "done":
        (found,) = recovered
        assert (found.has_landed, found.note) == (has_landed, "")
    assert tip_of(project, "main") == (intent.new if has_landed else intent.old)
    assert git(project, "status", "--porcelain") == ""
    assert leftovers(project, tmp_path) == []
    if not has_landed:
        assert state_of(project) == before
        land(project, tmp_path)
        assert git(project, "status", "--porcelain") == ""


@pytest.mark.parametrize("round_", range(6))
def test_killed_at_any_moment_it_is_before_or_after_at_the_next_start(tmp_path: Path, round_: int):
    project = new_repository(
        tmp_path.resolve() / "project", {f"f{n}.txt": f"{n}\n" for n in range(400)}
    )
    git(project, "checkout", "-q", "-b", "next")
    for n in range(400):
        (project / f"f{n}.txt").write_text(f"{n}\n" * 50)
    git(project, "commit", "-qam", "next")
    git(project, "checkout", "-q", "main")
    before, intent = state_of(project), intent_for(project)
    words = [msgspec.json.encode(intent).decode(), str(tmp_path / "intents"), "never"]
    with subprocess.Popen([sys.executable, "-c", _KILLED, *words]) as child:
        deadline = time.monotonic() + 20
        while not (project / ".git" / "index.lock").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(random.Random(round_).uniform(0, 0.25))
        child.kill()
    recovered = recover_landings(tmp_path / "intents")
    has_landed = tip_of(project, "main") == intent.new
    assert all(one.has_landed == has_landed and one.note == "" for one in recovered)
    assert git(project, "status", "--porcelain") == "" and leftovers(project, tmp_path) == []
    assert has_landed or state_of(project) == before


def test_after_a_crash_what_a_person_edited_is_kept(project: Path, tmp_path: Path):
    intent = intent_for(project)
    run_and_kill(intent, tmp_path, "written")
    (project / "a.txt").write_text("a person's own words\n")
    (project / "run").write_text("another program\n")
    (found,) = recover_landings(tmp_path / "intents")
    assert not found.has_landed and "a.txt" in found.note and "run" in found.note
    assert (project / "a.txt").read_text() == "a person's own words\n"
    assert git(project, "status", "--porcelain") == " M a.txt\n?? run\n"


def test_a_file_that_was_half_written_is_put_back(project: Path, tmp_path: Path):
    intent = intent_for(project)
    run_and_kill(intent, tmp_path, "written")
    whole = (project / "a.txt").read_bytes()
    (project / "a.txt").write_bytes(whole[:100])
    (project / "gone.txt").unlink(missing_ok=True)
    recover_landings(tmp_path / "intents")
    assert (project / "a.txt").read_text() == "a\n"
    assert git(project, "status", "--porcelain") == ""


def test_a_note_that_cannot_be_read_is_left(tmp_path: Path):
    (tmp_path / "intents").mkdir()
    (tmp_path / "intents" / "x.json").write_text("{")
    assert recover_landings(tmp_path / "intents") == []
    assert recover_landings(tmp_path / "none") == []


def test_a_branch_is_found_where_it_is_checked_out_or_being_rebased(project: Path, tmp_path: Path):
    side = tmp_path.resolve() / "side"
    git(project, "worktree", "add", "-q", "-b", "topic", str(side))
    repository = expect_repository(str(project))
    (found,) = find_checkouts(repository, "refs/heads/topic")
    assert (found.top, found.under_way) == (str(side), "")
    assert find_checkouts(expect_repository(str(side)), "refs/heads/main")[0].top == str(project)
    assert find_checkouts(repository, "refs/heads/other") == []
    (side / "a.txt").write_text("topic\n")
    git(side, "commit", "-qam", "topic")
    subprocess.run(
        ["git", "-C", str(side), "-c", "user.name=A", "-c", "user.email=a@b", "rebase", "next"],
        capture_output=True,
        check=False,
    )
    (found,) = find_checkouts(repository, "refs/heads/topic")
    assert found.under_way == "a rebase"


def test_a_moved_work_tree_is_not_written(project: Path, tmp_path: Path):
    checkout = BranchCheckout(top=str(tmp_path), git_dir=str(project / ".git"))
    with pytest.raises(GitError):
        checkout.open()


def test_the_note_is_json_that_names_its_version(project: Path, tmp_path: Path):
    run_and_kill(intent_for(project), tmp_path, "noted")
    (path,) = (tmp_path / "intents").iterdir()
    assert json.loads(path.read_text())["format"] == 1
    assert path.stat().st_mode & 0o077 == 0
