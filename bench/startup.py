"""What it costs to start the command."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from .size import Size
from .table import Row, Table

SCRIPT = Path(sys.executable).with_name("quarterdeck")
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}


def cpu(*command: str) -> float:
    """CPU milliseconds of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=ENVIRONMENT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def run(size: Size) -> Iterator[Table]:
    rounds = size.choose(15, 5, 1)
    empty = min(cpu(sys.executable, "-c", "pass") for _ in range(rounds))
    version = min(cpu(str(SCRIPT), "--version") for _ in range(rounds))
    help_ = min(cpu(str(SCRIPT), "--help") for _ in range(rounds))
    bound = 2 * empty + 40
    yield Table(
        "Start, CPU, the least of all rounds",
        [
            Row("python -c pass", f"{empty:.0f} ms"),
            Row(
                "quarterdeck --version",
                f"{version:.0f} ms",
                f"{version / empty:.1f}×",
                f"≤ {bound:.0f} ms",
                version <= bound,
            ),
            Row("quarterdeck --help", f"{help_:.0f} ms", f"{help_ / empty:.1f}×"),
        ],
    )
