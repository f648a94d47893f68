"""A process that is killed while it restores files: the next opening finishes what it began."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("kill_restores.py")
ROOT = Path(__file__).parents[3]


def kill(tmp_path: Path, kills: int, seed: int) -> str:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path), str(kills), str(seed)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_files_are_what_the_log_says_after_kills(tmp_path: Path):
    assert kill(tmp_path, 8, 1).startswith("8 kills")


@pytest.mark.stress
def test_files_are_what_the_log_says_after_many_kills(tmp_path: Path):
    said = kill(tmp_path, 300, 2)
    assert ", 0 caught" not in said, said
