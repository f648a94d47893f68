"""``quarterdeck spawn --worktree`` and ``quarterdeck worktrees``, through a host."""

import json
import shutil
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
    return new_repository(tmp_path / "work", {"a.txt": "one\n"})


@pytest.fixture
def deck(run, home: Path) -> Iterator:
    """Runs ``quarterdeck``; a host that it started is stopped."""

    def run_it(*arguments: str):
        return run(*arguments, QUARTERDECK_HOME=str(home))

    yield run_it
    run_it("host", "stop", "--force")


def listed(deck) -> list[dict]:
    done = deck("worktrees", "--json")
    assert done.returncode == 0, done
    return json.loads(done.stdout)["worktrees"]


def test_a_worktree_from_its_start_to_its_return_from_the_trash(deck, work: Path):
    assert "No worktrees." in deck("worktrees").stdout
    started = deck("spawn", "-a", "fake", "-n", "ann", "--mode", "full-auto", "-w", "--wait", "hi")
    assert started.returncode == 0, started
    assert deck("send", "ann", "sneak-run echo new > new.txt").returncode == 0
    assert deck("wait", "ann").returncode == 0
    (info,) = listed(deck)
    assert (info["name"], info["agents"], info["is_dirty"]) == ("ann", ["ann"], True)
    top = Path(info["worktree"]["path"])
    assert (top / "new.txt").read_text() == "new\n" and not (work / "new.txt").exists()
    table = deck("worktrees").stdout
    assert "quarterdeck/ann" in table and "uncommitted work, in use" in table
    refused = deck("worktrees", "remove", "ann")
    assert refused.returncode == 1 and "close it first" in refused.stderr
    deck("close", "ann")
    refused = deck("worktrees", "remove", "ann")
    assert refused.returncode == 1 and "worktrees discard ann" in refused.stderr
    before = state_of(top)
    discarded = deck("worktrees", "discard", "ann")
    assert discarded.returncode == 0 and "worktrees restore" in discarded.stdout
    assert not top.exists() and listed(deck) == []
    assert "ann" in deck("worktrees", "trash").stdout
    refused = deck("resume", "ann")
    assert refused.returncode == 1 and "was discarded" in refused.stderr
    assert "Restored ann" in deck("worktrees", "restore", "ann").stdout
    assert state_of(top) == before
    assert "The trash is empty." in deck("worktrees", "trash").stdout
    git(top, "add", "-A")
    git(top, "commit", "-qm", "work")
    shutil.rmtree(top)
    refused = deck("resume", "ann")
    assert refused.returncode == 1 and "worktrees recreate ann" in refused.stderr
    assert deck("worktrees", "recreate", "ann").returncode == 0
    assert state_of(top) == before
    removed = deck("worktrees", "remove", str(top))
    assert "its branch quarterdeck/ann is kept" in removed.stdout
    assert "Nothing to remove." in deck("worktrees", "prune").stdout


def test_a_worktree_that_is_joined_is_named_with_its_agents(deck):
    assert deck("spawn", "-a", "fake", "-n", "ann", "-w=docs", "--wait", "hi").returncode == 0
    words = "quarterdeck: joined the worktree docs of ann"
    joined = deck("spawn", "-a", "fake", "-n", "bob", "-w=docs", "hi")
    assert joined.returncode == 0 and words in joined.stderr
    assert f"{words}, bob" in deck("spawn", "-a", "fake", "-w=docs", "--wait", "hi").stderr
    refused = deck("spawn", "-a", "fake", "-w=docs", "--carry", "hi")
    assert refused.returncode == 1 and "'docs' exists already" in refused.stderr
    assert "joined" not in deck("spawn", "-a", "fake", "-w=other", "hi").stderr


def test_a_place_that_can_have_none_is_named(deck, tmp_path: Path):
    (tmp_path / "plain").mkdir()
    done = deck("spawn", "-a", "fake", "-C", str(tmp_path / "plain"), "--worktree", "hi")
    assert done.returncode == 1 and "not in a git repository" in done.stderr
    done = deck("worktrees", "restore", "nothing")
    assert done.returncode == 1 and "worktrees trash" in done.stderr
