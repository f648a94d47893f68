"""``quarterdeck run -a``: what was refused and what was done without leave, over every transport.

The rest over ACP is in ``test_headless_agents.py``.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.agent_files import write_agent_files
from tests.support.work_trees import new_repository

SCRIPT = Path(sys.executable).with_name("quarterdeck")
ASKING = [
    ("fake-acp", "acp"),
    ("claude", "pipe"),
    ("codex", "daemon"),
    ("opencode", "daemon"),
    ("fake-tui", "pty"),
]
TELLING = [*ASKING[:-1], ("codex", "pipe"), ("gemini", "pipe"), ("opencode", "pipe")]
SILENT = [("claude", "pipe"), ("gemini", "pipe"), ("codex", "daemon"), ("fake-tui", "pty")]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    new_repository(project, {"kept.txt": "kept\n"})
    return project


@pytest.fixture
def settings(home: Path) -> Path:
    write_agent_files(home / "quarterdeck" / "agents")
    return home / "quarterdeck" / "config.toml"


@pytest.fixture
def run(project: Path, home: Path, settings: Path) -> Run:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "QUARTERDECK_HOME": str(settings.parent),
        "LANG": "C.UTF-8",
    }

    def run(agent: tuple[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
        name, transport = agent
        return subprocess.run(
            [SCRIPT, "run", "-a", name, "--transport", transport, "-C", project, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            timeout=50,
        )

    return run


def named(agent: tuple[str, str]) -> str:
    return "-".join(agent)


@pytest.mark.parametrize("agent", ASKING, ids=named)
def test_exit_code_4_names_what_was_refused_and_the_rules_that_allow_it(
    run: Run, project: Path, agent: tuple[str, str]
):
    deeds = "do run touch made.txt\ndo edit new.txt text"
    done = run(agent, deeds)
    assert done.returncode == 4, done.stderr
    assert not (project / "made.txt").exists() and not (project / "new.txt").exists()
    lines = done.stderr.splitlines()
    refused = [line for line in lines if "denied, no person could be asked" in line]
    assert "touch made.txt" in refused[0] and "new.txt" in refused[1] and len(refused) == 2
    told = [word for line in lines for word in re.findall(r"to allow it: (--allow .*)", line)]
    allowing = shlex.split(" ".join(told))
    assert allowing == ["--allow", "bash(touch made.txt)", "--allow", "edit(new.txt)"]
    done = run(agent, *allowing, "--format", "json", deeds)
    assert done.returncode == 0, done.stderr
    assert (project / "made.txt").exists() and (project / "new.txt").read_text() == "text"
    assert json.loads(done.stdout)["refused"] == 0


@pytest.mark.parametrize("agent", TELLING, ids=named)
def test_exit_code_8_where_something_was_done_without_leave(
    run: Run, project: Path, agent: tuple[str, str]
):
    done = run(agent, "--format", "json", "sneak new.txt text\necho done")
    assert (done.returncode, (project / "new.txt").exists()) == (8, True), done.stderr
    answer = json.loads(done.stdout)
    assert (answer["violations"], answer["stop"]) == (1, "end_turn")
    assert "done without permission" in done.stderr and "new.txt" in done.stderr


@pytest.mark.parametrize("agent", SILENT, ids=named)
def test_exit_code_8_where_the_disk_alone_tells(run: Run, project: Path, agent: tuple[str, str]):
    mode = ("--mode", "read-only", "--format", "json")
    assert run(agent, *mode, "echo hello").returncode == 0
    done = run(agent, *mode, "hide kept.txt hidden\necho done")
    assert done.returncode == 8, done.stderr
    assert json.loads(done.stdout)["violations"] == 1
    assert "kept.txt" in done.stderr and "read-only" in done.stderr


@pytest.mark.parametrize("agent", SILENT, ids=named)
def test_by_setting_the_turn_ends(run: Run, settings: Path, project: Path, agent: tuple[str, str]):
    settings.write_text('[permissions]\non_violation = "stop"\n')
    if agent in TELLING:
        done = run(agent, "--format", "json", "sneak new.txt text\nwait 600")
    else:
        done = run(agent, "--mode", "plan", "--format", "json", "hide kept.txt x\necho done")
    assert done.returncode == 8, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["violations"], answer["stop"]) == (1, "failed")
    assert "without permission" in answer["reason"]
