"""A process that is killed while it compacts leaves a session that goes on."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests/agent/kill_compactions.py"


def kill(folder: Path, kills: int, seed: int, timeout: float = 55) -> list[int]:
    done = subprocess.run(
        [sys.executable, PROGRAM, folder, str(kills), str(seed)],
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [int(number) for number in re.findall(r"\d+", done.stdout)]


def test_a_kill_in_the_middle_of_a_compaction(tmp_path: Path):
    kills, begun, cut = kill(tmp_path, 12, seed=1)
    assert kills == 12
    assert begun >= 12
    assert cut >= 1


@pytest.mark.stress
@pytest.mark.timeout(1300)
def test_a_hundred_kills_in_the_middle_of_compactions(tmp_path: Path):
    kills, _, cut = kill(tmp_path, 100, seed=2, timeout=1200)
    assert kills == 100
    assert cut >= 10
