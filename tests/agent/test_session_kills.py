"""A process that is killed loses nothing of a session that was acknowledged."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests/agent/kill_sessions.py"


@pytest.fixture
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("killed")


def kill(folder: Path, kills: int, seed: int, timeout: float) -> list[int]:
    done = subprocess.run(
        [sys.executable, PROGRAM, folder, str(kills), str(seed)],
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [int(number) for number in re.findall(r"\d+", done.stdout)]


@pytest.mark.timeout(150)
def test_a_killed_process_leaves_a_session_that_goes_on(disk: Path):
    kills, acknowledged, calls = kill(disk, 26, seed=1, timeout=140)
    assert kills == 26
    assert acknowledged > 50
    assert calls > 10


@pytest.mark.stress
def test_two_hundred_killed_processes(disk: Path):
    kills, acknowledged, _ = kill(disk, 200, seed=2, timeout=800)
    assert kills == 200
    assert acknowledged > 500
