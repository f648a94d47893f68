"""``quarterdeck demo``: without a screen, and killed at several moments."""

import signal
import subprocess
from pathlib import Path

import pytest

from quarterdeck.system.process_tree import ProcessTree, find_processes
from tests.support.real_terminals import PROGRAM, clean_environment, pty_of, soon

_DEMO = 45.0


def run(home: Path, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [PROGRAM, "demo", *words],
        env=clean_environment(home, **more),
        capture_output=True,
        text=True,
        timeout=_DEMO,
    )


def left_behind(home: Path) -> list[str]:
    return [entry.name for entry in (home / "tmp").iterdir() if "quarterdeck-demo" in entry.name]


def test_there_is_nothing_to_clear_away_at_first(tmp_path: Path):
    done = run(tmp_path, "--end")
    assert done.returncode == 0 and done.stdout == "nothing is left\n"


def test_without_a_screen_it_allows_everything_lands_both_and_is_removed(tmp_path: Path):
    done = run(tmp_path, "--yes", "--fast")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("= tide (native) and guard (fake) change ")
    for line in (
        "= tide needed permission, allowed by --yes: python3 -m unittest",
        "= tide and guard conflict: tides.py until_high",
        "= tide: landed on main, after its check",
        "= guard: conflict; the agent was asked to resolve it",
        "= guard: landed on main, after its check",
    ):
        assert line in lines
    assert lines[-1] == "= the demo is removed" and not left_behind(tmp_path)
    assert not (tmp_path / "qd").exists()  # nothing of it is in the person's own places


def test_what_is_kept_can_be_looked_at(tmp_path: Path):
    done = run(tmp_path, "--yes", "--fast", "--keep")
    assert done.returncode == 0, done.stderr
    (name,) = left_behind(tmp_path)
    project = tmp_path / "tmp" / name / "tides"
    assert f"= kept: {project}" in done.stdout
    log = subprocess.run(
        ["git", "-C", project, "log", "--format=%s"], capture_output=True, text=True, check=True
    )
    assert log.stdout.splitlines()[-1] == "Tides, with a test that fails"
    assert len(log.stdout.splitlines()) == 3
    assert not find_processes([ProcessTree(name)])


def test_without_git_it_says_what_to_do(tmp_path: Path):
    done = run(tmp_path, "--yes", PATH="/nowhere")
    assert done.returncode and "needs git" in done.stderr and "Traceback" not in done.stderr
    assert not left_behind(tmp_path)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGKILL, "host: connecting"),
        (signal.SIGKILL, "demo 1/7"),
        (signal.SIGKILL, "wants to run the tests"),
        (signal.SIGINT, "host: connecting"),
        (signal.SIGHUP, "wants to run the tests"),
    ],
)
def test_killed_at_some_moment_it_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals, words: str
):
    environment = clean_environment(tmp_path)
    # Without its pauses the first step may be over before it is drawn.
    pace = [] if words == "demo 1/7" else ["--fast"]
    with pty_of([PROGRAM, "demo", *pace], environment, cwd=tmp_path) as screen:
        screen.shows(words, _DEMO)
        (name,) = left_behind(tmp_path)
        screen.kill(number)
        screen.ends(_DEMO)
        soon(lambda: not left_behind(tmp_path), _DEMO, "removed")
        soon(lambda: not find_processes([ProcessTree(name)]), _DEMO, "ended")
