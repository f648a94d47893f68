"""``quarterdeck merge`` and ``land`` against a host whose agents have worktrees."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.deadlines import SOON
from tests.support.landing_cases import tip_of
from tests.support.work_trees import git, new_repository

ROOT = Path(__file__).parents[2]
SCRIPT = Path(sys.executable).parent / "quarterdeck"
HOST = """
import asyncio, os
from quarterdeck.config.places import Places
from quarterdeck.fleet.host.process import run_host
from quarterdeck.fleet.local import LocalFleet
from tests.support.scripted_fleet import Casting
def opened(places, environment):
    return LocalFleet.open(places, environment, open_session=Casting())
ready = lambda: print("ready", flush=True)
asyncio.run(run_host(Places.find(), dict(os.environ), open_fleet=opened, ready=ready))
"""
FAKE_GH = "#!/bin/sh\ncat > /dev/null\necho https://example.org/pull/7\n"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(work: Path) -> Path:
    new_repository(work, {"a.txt": "a\nb\nc\n", "b.txt": "b\n"})
    return work.resolve()


@pytest.fixture
def host(environ: dict[str, str], project: Path) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOST], cwd=ROOT, env=environ, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    with child, child.stdout:
        yield child
        child.terminate()
        child.wait(SOON)


@pytest.fixture
def spawn(run: Run, host: object) -> Callable[..., Path]:
    """Start an agent with a worktree, let it end its turn, write files; its worktree."""

    def spawn_agent(name: str, **files: str) -> Path:
        done = run("spawn", "-a", "claude", "-n", name, "--worktree", "--json", "say done")
        assert done.returncode == 0, done.stderr
        assert run("wait", name).returncode == 0
        agents = json.loads(run("ps", "--json").stdout)["agents"]
        top = Path(next(one["worktree"]["path"] for one in agents if one["name"] == name))
        for path, text in files.items():
            (top / path.replace("_", ".")).write_text(text)
        return top

    return spawn_agent


def test_a_merge_is_shown_refused_and_made(run: Run, spawn, project: Path):
    spawn("ann", a_txt="a\nB\nc\n", new_txt="new\n")
    shown = run("merge", "ann", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "ann would be landed on main by squash:\n  a.txt  +1 -1\n  new.txt  +1 -0\n" in (
        shown.stdout
    )
    assert f"main is checked out in {project}: clean; --checkout updates it" in shown.stdout
    refused = run("merge", "ann")
    assert refused.returncode == 6
    assert "--checkout" in refused.stderr and "--into" in refused.stderr
    done = run("merge", "ann", "--checkout", "-m", "Add new", "--trailer", "A=b", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "landed"
    assert git(project, "log", "-1", "--format=%B") == "Add new\n\nA: b\n\n"
    assert git(project, "status", "--porcelain") == ""
    again = run("merge", "ann", "--checkout")
    assert (again.returncode, again.stdout) == (0, "main has all of the work of ann already\n")


def test_a_repository_within_a_worktree_is_not_passed_over(run: Run, spawn):
    git(spawn("ann"), "init", "-q", "in2")
    words = "in2 is a repository within the worktree"
    assert f"note: {words}" in run("diff", "ann", "--stat").stderr
    assert f"note: {words}" in run("review", "ann").stderr
    assert words in run("merge", "ann", "--dry-run").stdout
    assert words in run("merge", "ann", "--checkout").stdout
    table = run("worktrees").stdout
    assert "repository within: in2" in table and "clean" not in table


def test_a_worktree_that_is_gone_is_named_with_the_command_that_makes_it_again(run: Run, spawn):
    top = spawn("ann", a_txt="ann\n")
    run("close", "ann")
    shutil.rmtree(top)
    words = f"the worktree '{top}' of 'ann' is gone; `quarterdeck worktrees recreate ann` makes it"
    for line in ("resume ann", "diff ann", "review ann", "merge ann", "merge ann --dry-run"):
        done = run(*line.split())
        assert done.returncode != 0 and words in done.stderr, line


def test_conflicts_are_listed_by_file(run: Run, spawn):
    spawn("ann", a_txt="ann\n")
    spawn("bob", a_txt="bob\n")
    assert run("merge", "ann", "--into", "topic").returncode == 0
    assert "landed, in use" in run("worktrees").stdout
    shown = run("merge", "bob", "--into", "topic", "--dry-run").stdout
    assert shown.startswith("bob would conflict with topic:\n") and "would be landed" not in shown
    assert "conflict: a.txt (contents)\n" in shown
    failed = run("merge", "bob", "--into", "topic")
    assert failed.returncode == 6 and "1 file conflicts" in failed.stderr
    assert "conflict: a.txt (contents)\n" in failed.stdout and "--hand-back" in failed.stdout
    handed = run("merge", "bob", "--into", "topic", "--hand-back")
    assert "bob was asked to fix it" in handed.stdout


def test_the_name_of_a_file_is_one_line(run: Run, spawn):
    odd = "x\n  forged.txt  +1 -0\x1b[2J"
    (spawn("ann") / odd).write_text("ann\n")
    (spawn("bob") / odd).write_text("bob\n")
    shown = run("merge", "ann", "--dry-run", "--into", "topic").stdout
    assert '  "x\\n  forged.txt  +1 -0\\033[2J"  +1 -0\n' in shown, shown
    assert "\n  forged" not in shown.partition("\n\n")[0] and "\x1b" not in shown
    assert run("merge", "ann", "--into", "topic").returncode == 0
    for more in ((), ("--dry-run",)):
        failed = run("merge", "bob", "--into", "topic", *more).stdout
        assert 'conflict: "x\\n  forged.txt  +1 -0\\033[2J" (' in failed, failed


def test_a_queue_is_waited_for_and_listed(run: Run, spawn, project: Path):
    spawn("ann", ann_txt="ann\n")
    spawn("bob", bob_txt="bad\n")
    done = run("land", "ann", "bob", "--checkout", "--check", "! grep -q bad *.txt")
    assert done.returncode == 6
    assert "ann landed on main as" in done.stdout and "bob was asked to fix it" in done.stdout
    assert (project / "ann.txt").exists() and not (project / "bob.txt").exists()
    listed = run("land", "--list").stdout.splitlines()
    assert listed[0].split() == ["QUEUE", "AGENT", "INTO", "STATE"]
    assert [line.split()[-1] for line in listed[1:2]] == ["landed"]
    assert "check failed" in listed[2]
    queue = listed[1].split()[0]
    assert run("land", "--cancel", queue).returncode == 0
    assert "no landing 'x'" in run("land", "--cancel", "x").stderr
    assert json.loads(run("land", "--list", "--json").stdout)["queues"][0]["id"] == queue


def test_a_pull_request_is_pushed_and_opened(
    run: Run, spawn, project: Path, tmp_path: Path, environ: dict[str, str]
):
    place = tmp_path / "programs"
    place.mkdir()
    (place / "gh").write_text(FAKE_GH)
    (place / "gh").chmod(0o755)
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "remote.git"))
    git(project, "remote", "add", "origin", str(tmp_path / "remote.git"))
    spawn("ann", new_txt="new\n")
    shown = run("merge", "ann", "--pr", "--dry-run")
    assert "to quarterdeck/ann, for main" in shown.stdout and "`new.txt` +1" in shown.stdout
    hook = project / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n: > {tmp_path}/hook-ran\n")
    hook.chmod(0o755)
    refused = run("merge", "ann", "--pr", PATH=f"{place}:{environ['PATH']}")
    assert refused.returncode == 1 and "not trusted" in refused.stderr
    assert f"quarterdeck config trust {project}" in refused.stderr
    assert not (tmp_path / "hook-ran").exists()
    assert run("config", "trust", str(project)).returncode == 0
    done = run("merge", "ann", "--pr", PATH=f"{place}:{environ['PATH']}")
    assert (done.returncode, done.stdout) == (0, "https://example.org/pull/7\n"), done.stderr
    assert (tmp_path / "hook-ran").exists()
    pushed = tip_of(tmp_path / "remote.git", "quarterdeck/ann")
    assert git(project, "cat-file", "blob", f"{pushed}:new.txt") == "new\n"
    assert tip_of(project, "main") != pushed


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("merge", "nobody"), "no agent 'nobody'"),
        (("merge", "x", "--check", "a", "--no-check"), "exclude each other"),
        (("merge", "x", "--hand-back", "--to", "y"), "exclude each other"),
        (("merge", "x", "--edit"), "needs a terminal"),
        (("land",), "at least one agent"),
    ],
)
def test_wrong_words_are_explained(run: Run, host: object, words: tuple[str, ...], told: str):
    done = run(*words)
    assert done.returncode != 0 and told in done.stderr


def test_help_names_the_options(run: Run):
    for command in ("merge", "land"):
        text = run(command, "--help").stdout
        assert "--method" in text and "--check CMD" in text and "Exit codes" in text


def test_at_a_terminal_the_checkout_is_asked_about(spawn, project: Path, environ: dict[str, str]):
    spawn("ann", new_txt="new\n")
    main, side = pty.openpty()
    variables = {**environ, "TERM": "dumb"}
    with subprocess.Popen(
        [str(SCRIPT), "merge", "ann"],
        cwd=project,
        env=variables,
        stdin=side,
        stdout=side,
        stderr=side,
        start_new_session=True,
    ) as child:
        os.close(side)
        said, end, is_answered = b"", time.monotonic() + SOON, False
        while time.monotonic() < end:
            if not select.select([main], [], [], 0.1)[0]:
                if child.poll() is not None:
                    break
                continue
            try:
                data = os.read(main, 4096)
            except OSError:
                break
            said += data
            if b"[y/N]" in said and not is_answered:
                is_answered = True
                os.write(main, b"y\n")
        child.wait(SOON)
    os.close(main)
    assert child.returncode == 0, said
    assert b"which is clean" in said and (project / "new.txt").read_text() == "new\n"
