"""A session of ``run`` is listed, searched, shown and continued by the host."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCRIPT = Path(sys.executable).with_name("quarterdeck")
FAKE = [sys.executable, "-m", "quarterdeck.testing.acp_agent"]
Deck = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def deck(home: Path, tmp_path: Path) -> Iterator[Deck]:
    """Run ``quarterdeck`` in a home with a fake agent that keeps its sessions."""
    folder = home / "quarterdeck"
    (folder / "agents").mkdir(parents=True)
    command = json.dumps([*FAKE, "--state", str(tmp_path / "fake")])
    (folder / "agents" / "fake.toml").write_text(
        f'title = "Fake"\ninstall = "it ships"\n[transports.acp]\ncommand = {command}\n'
    )
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "QUARTERDECK_HOME": str(folder),
        "LANG": "C.UTF-8",
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPT, *arguments],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            timeout=50,
        )

    yield run
    run("host", "stop", "--force")


def start(deck: Deck, *arguments: str) -> str:
    done = deck("run", "-a", "fake", "--format", "json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["session"]


def test_a_run_is_listed_searched_shown_and_continued(deck: Deck):
    run = start(deck, "echo Flößerei")
    listed = json.loads(deck("sessions", "--json").stdout)
    assert [one["id"] for one in listed["standalone"]] == [run]
    assert f"{run} " in deck("search", "Flößerei").stdout
    assert "Flößerei" in deck("logs", run).stdout

    sent = deck("send", run, "history")
    assert (sent.returncode, sent.stderr) == (0, "quarterdeck: resumed fake-1\n")
    assert deck("wait", run, "--timeout", "40").returncode == 0
    assert deck("logs", "fake-1").stdout.count("echo Flößerei") == 2
    listed = json.loads(deck("sessions", "--json").stdout)
    assert (listed["standalone"], [one["session"] for one in listed["agents"]]) == ([], [run])
    refused = deck("run", "-a", "fake", "--resume", run, "history")
    assert (refused.returncode, "quarterdeck send fake-1" in refused.stderr) == (1, True)

    assert deck("close", "fake-1").returncode == 0
    no = deck("send", "--no-resume", "fake-1", "echo no")
    assert (no.returncode, "resume it first" in no.stderr) == (1, True)
    assert deck("sessions", "pin", "fake-1").returncode == 0
    assert "pinned" in deck("sessions").stdout
    prune = deck("journal", "prune", "--session", run)
    assert (prune.returncode, f"sessions unpin {run}" in prune.stderr) == (2, True)
    assert deck("sessions", "unpin", run, run).stdout == f"{run} is not pinned\n"


def test_a_run_is_forked_and_attached_to(deck: Deck):
    runs = [start(deck, f"echo {word}") for word in ("one", "two")]
    forked = deck("fork", runs[0], "-n", "copy", "history")
    assert (forked.returncode, forked.stdout) == (0, "copy\n"), forked.stderr
    attached = deck("attach", runs[1])
    assert (attached.returncode, "echo two" in attached.stdout) == (0, True), attached.stderr
    assert deck("wait", "copy", "--timeout", "40").returncode == 0
    assert "echo one" in deck("logs", "copy").stdout
