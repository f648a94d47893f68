"""``quarterdeck demo`` without a screen."""

import subprocess
from pathlib import Path

from tests.support.real_terminals import PROGRAM, clean_environment, stop_host


def test_there_is_nothing_to_clear_away_at_first(tmp_path: Path):
    environment = clean_environment(tmp_path)
    try:
        done = subprocess.run(
            [PROGRAM, "demo", "--end"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        assert done.stdout == "there is no demo\n"
    finally:
        stop_host(environment)
