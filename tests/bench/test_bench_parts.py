"""Every part of the bench still works: each is run with the least that it can measure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.parts import PARTS, find_missing_programs

ROOT = Path(__file__).parents[2]
LONG = {
    "acp",
    "drivers",
    "emulators",
    "fleet",
    "life",
    "radar",
    "rest",
    "review",
    "traffic",
    "web",
    "workbench",
}
"""Parts that take seconds however little they measure."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.stress) if name in LONG else name for name in PARTS],
)
def test_a_part_of_the_bench_measures_something(name: str, tmp_path: Path):
    if missing := find_missing_programs(PARTS[name]):
        pytest.skip(f"needs {', '.join(missing)}")
    done = run_bench("--tiny", name, home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\n") > 3
    assert "is left out" not in done.stdout


def test_a_part_that_does_not_exist_is_named(tmp_path: Path):
    done = run_bench("nonsense", home=tmp_path)
    assert done.returncode == 2
    assert "no such part: nonsense" in done.stderr


def run_bench(*words: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run ``python -m bench`` in a process of its own, as people do."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    return subprocess.run(
        [sys.executable, "-m", "bench", *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=58,
    )
