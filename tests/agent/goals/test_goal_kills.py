"""A process that is killed while it pursues a goal with sub-agents loses one step at the most."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests/agent/goals/kill_goals.py"


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
def test_a_goal_with_sub_agents_goes_on_after_every_kill(tmp_path: Path):
    kills, acknowledged, parts = kill(tmp_path, 12, seed=1, timeout=140)
    assert kills == 12
    assert acknowledged >= 10  # how many more is the machine's
    assert parts >= 16


@pytest.mark.stress
@pytest.mark.timeout(1300)
def test_three_hundred_killed_processes(tmp_path: Path):
    kills, acknowledged, _ = kill(tmp_path, 300, seed=2, timeout=1200)
    assert kills >= 300
    assert acknowledged > 3000
