"""``spawn``, ``run`` and others with agents that do not start."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(sys.executable).with_name("quarterdeck")
FAKE = [sys.executable, "-m", "quarterdeck.testing.acp_agent"]
AGENTS = {
    "fake": FAKE,
    "missing": ["no-such-program-anywhere"],
    "broken": ["sh", "-c", "echo the reason >&2; exit 7"],
    "locked": [*FAKE, "--needs-login"],
    "slow": [*FAKE, "--slow-start", "600"],
}


@pytest.fixture
def run(home: Path, tmp_path: Path) -> Iterator[object]:
    deck = home / "quarterdeck"
    (deck / "agents").mkdir(parents=True)
    for name, command in AGENTS.items():
        (deck / "agents" / f"{name}.toml").write_text(
            f'install = "get {name}"\n[login]\nhint = "run `{name} login`"\n'
            f"[transports.acp]\ncommand = {json.dumps(command)}\n"
        )
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "QUARTERDECK_HOME": str(deck),
        "LANG": "C.UTF-8",
    }

    def run(*arguments: str, within: float = 50):
        return subprocess.run(
            [SCRIPT, *arguments],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            timeout=within,
        )

    yield run
    run("host", "stop")


def test_a_missing_agent_fails_to_spawn(run):
    for arguments in (["hi"], []):
        done = run("spawn", "-a", "missing", *arguments)
        assert done.returncode == 5
        assert "no program 'no-such-program-anywhere'" in done.stderr
        assert "get missing" in done.stderr


def test_an_agent_that_leaves_at_once_is_told_with_code_and_words(run):
    for arguments in (["hi"], [], ["--json"], ["--wait", "hi"]):
        done = run("spawn", "-a", "broken", *arguments)
        assert done.returncode == 5
        assert "exit code 7" in done.stderr and "the reason" in done.stderr
    done = run("lead", "--detach", "-a", "broken", "hi")
    assert done.returncode == 5 and "the reason" in done.stderr


def test_an_agent_that_works_is_spawned_as_before(run):
    done = run("spawn", "-a", "fake", "-n", "ann", "wait 600")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ann\n", "")
    done = run("spawn", "-a", "fake", "-n", "bob")
    assert (done.returncode, done.stdout, done.stderr) == (0, "bob\n", "")


def test_run_tells_the_same(run):
    done = run("run", "-a", "broken", "hi")
    assert done.returncode == 1
    assert "exit code 7" in done.stderr and "the reason" in done.stderr
    done = run("run", "-a", "locked", "hi")
    assert done.returncode == 1
    assert "Pretend to log in" in done.stderr and "locked login" in done.stderr


def test_the_list_of_agents_stays_one_line_each(run):
    run("spawn", "-a", "broken", "hi")
    assert len(run("ps", "--all").stdout.splitlines()) == 2
