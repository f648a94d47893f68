"""``quarterdeck turns|changes|undo|redo|rewind``, through a host and on the log."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.scripted_fleet import places_in
from tests.support.work_trees import git, new_repository, state_of


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    agents = places_in(home).agents
    agents.mkdir(parents=True)
    words = (sys.executable, "-m", "quarterdeck.testing.acp_agent")
    command = ", ".join(f'"{word}"' for word in words)
    (agents / "fake.toml").write_text(f"[transports.acp]\ncommand = [{command}]\n")
    return home


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "work", {"a.txt": "one\ntwo\nthree\nfour\n"})


@pytest.fixture
def deck(run, home: Path) -> Iterator:
    """Runs ``quarterdeck``; a host that it started is stopped."""

    def run_it(*arguments: str):
        return run(*arguments, QUARTERDECK_HOME=str(home))

    yield run_it
    run_it("host", "stop", "--force")


def worked(deck, work: Path) -> list[object]:
    """An agent with two turns made by its shell; the files before, between and after."""
    states = [state_of(work)]
    spawned = deck("spawn", "-a", "fake", "-n", "ann", "--mode", "full-auto", "--wait", "echo hi")
    assert spawned.returncode == 0, spawned
    for n, edit in ((2, "sed -i s/one/ONE/ a.txt"), (3, "sed -i s/four/FOUR/ a.txt; echo 3 > n")):
        assert deck("send", "ann", f"sneak-run {edit}").returncode == 0, n
        assert deck("wait", "ann").returncode == 0
        states.append(state_of(work))
    return states


def test_a_session_of_the_host_is_undone_while_it_is_live(deck, work: Path):
    states = worked(deck, work)
    listed = deck("turns", "ann").stdout
    assert "3. " in listed and ": 2 files" in listed
    assert deck("turns").stdout == listed  # the newest session of this directory
    assert deck("changes", "ann", "--stat").stdout == "M a.txt\nA n\n"
    assert "+ONE" in deck("changes", "ann", "--turn", "2").stdout
    done = deck("undo", "ann")
    assert (done.returncode, done.stderr) == (0, "")
    assert "turn 3" in done.stdout and "2 files restored" in done.stdout
    assert state_of(work) == states[1]
    assert deck("redo", "ann").returncode == 0
    assert state_of(work) == states[2]
    one = json.loads(deck("undo", "ann", "--turn", "2", "--json").stdout)
    assert (one["number"], one["merged"]) == (2, ["a.txt"])
    assert (work / "a.txt").read_text() == "one\ntwo\nthree\nFOUR\n"
    deck("redo", "ann")
    assert deck("rewind", "ann", "2").returncode == 0
    assert state_of(work) == states[0]
    again = deck("undo", "ann")
    assert again.returncode == 1 and "no turn to undo" in again.stderr
    assert deck("undo", "nobody").returncode == 1
    assert deck("undo", "ann", "--files-only", "--conversation-only").returncode == 2
    refused = deck("undo", "ann", "--conversation-only")
    assert refused.returncode == 1 and "own conversation" in refused.stderr


def test_without_a_host_it_is_done_on_the_log_also_after_a_kill(deck, work: Path):
    before = state_of(work)
    spawn = ("spawn", "-a", "fake", "-n", "ann", "--mode", "full-auto")
    assert deck(*spawn, "sneak-run echo x > x; echo y >> a.txt\nwait").returncode == 0
    for _ in range(200):
        if (work / "x").exists() and "y\n" in (work / "a.txt").read_text():
            break
        deck("wait", "ann", "--timeout", "0.1")
    pid = json.loads(deck("host", "status", "--json").stdout)["pid"]
    os.kill(pid, signal.SIGKILL)
    for _ in range(200):
        if subprocess.run(["kill", "-0", str(pid)], capture_output=True).returncode:
            break
    undone = deck("undo", "ann")
    assert undone.returncode == 0, undone
    assert "2 files restored; the next prompt tells the agent" in undone.stdout
    assert state_of(work) == before
    assert "files undone" in deck("turns", "ann").stdout
    assert deck("redo", "ann", "--json").returncode == 0
    (work / "a.txt").write_text("mine\n")
    part = deck("undo", "ann")
    assert "Not changed: a.txt: changed since in the same lines" in part.stdout
    assert (work / "a.txt").read_text() == "mine\n" and not (work / "x").exists()
    assert git(work, "status", "--porcelain") == " M a.txt\n"


@pytest.mark.parametrize("command", ["turns", "changes", "undo", "redo", "rewind"])
def test_every_command_has_help(run, command: str):
    shown = run(command, "--help")
    assert shown.returncode == 0 and "--json" in shown.stdout
