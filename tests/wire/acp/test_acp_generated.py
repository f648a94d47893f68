"""The committed tables are those that the generator makes of the pinned schema."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_schema_is_what_the_generator_writes():
    if not (ROOT / "build/node/.done").exists():
        pytest.skip("the official schema is not installed; run: make build/node/.done")
    done = subprocess.run(
        [sys.executable, "tools/generate_acp.py", "--check"],
        cwd=ROOT,
        env={"PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "up to date"), done.stderr
