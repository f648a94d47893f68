"""Three agents, a person and the fleet change the trees of a project in any order, and hosts are
killed: nothing that somebody wrote is lost.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = str(Path(__file__).parents[2])
PROGRAM = f"{ROOT}/tests/fleet/joint_sequences.py"
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
HAPPENS = {
    "turn",
    "overlap",
    "commit",
    "undo",
    "redo",
    "rewind",
    "land main",
    "land topic",
    "discard",
    "restore",
    "remove",
    "killed in the middle",
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="adopts orphans and reads /proc")


def play(first: int, count: int, longest: int, seconds: float) -> dict[str, int]:
    """Play sequences in a process of its own; how often what has happened."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        done = subprocess.run(
            [sys.executable, PROGRAM, folder, str(first), str(count), str(longest)],
            # What killed hosts leave in the directory for temporary files goes with the folder.
            env={"PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": folder, "PYTHONPATH": ROOT},
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    assert done.returncode == 0, done.stderr[-12_000:]
    return json.loads(done.stdout)


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.stress) for first in (10, 20))]
)
def test_nothing_is_lost_and_what_was_discarded_comes_back(first: int):
    counts = play(first, 10, longest=9, seconds=190)
    assert counts["sequences"] == 10
    assert {"turn", "undo", "killed in the middle"} <= counts.keys()


@pytest.mark.stress
def test_three_hundred_sequences():
    counts = play(1000, 300, longest=12, seconds=880)
    assert counts["sequences"] == 300
    assert counts.keys() >= HAPPENS
