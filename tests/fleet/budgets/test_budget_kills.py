"""Twenty agents at once never use more than a budget and its allowance, hosts being killed."""

import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fleet.budgets.kill_budgets import DOLLARS, LIMIT, PRICE

ROOT = Path(__file__).parents[3]
ALLOWANCE = 1.05


def run_host(folder: Path, seed: int, seconds: float | None) -> list[str]:
    """Run a host, killed after so many seconds from its opening; gives what it said."""
    command = [sys.executable, "-m", "tests.fleet.budgets.kill_budgets", str(folder), str(seed)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        try:
            said = [host.stdout.readline().strip()]
            assert said == ["open"]
            if seconds is not None:
                select.select([host.stdout], [], [], seconds)
                host.send_signal(signal.SIGKILL)
            said += host.stdout.read().split("\n")
        finally:
            host.kill()
        return said


def charged(folder: Path) -> int:
    path = folder / "charged"
    return sum(map(int, path.read_text().split())) if path.exists() else 0


def check_kills(folder: Path, seed: int, kills: int) -> None:
    dice = random.Random(seed)
    for number in range(kills):
        said = run_host(folder, seed + number, dice.uniform(0.0, 0.25))
        assert charged(folder) <= LIMIT * ALLOWANCE
        if any(one.startswith("over") for one in said):
            break
    said = run_host(folder, seed - 1, None)
    (over,) = [one.split() for one in said if one.startswith("over")]
    used, reserved, dollars = map(float, over[1:])
    total = charged(folder)
    # Nothing is open, nothing that was charged is missing, and no limit is passed.
    assert reserved == 0
    assert total <= used <= LIMIT * ALLOWANCE
    assert total * PRICE / 1e6 <= dollars + 1e-9
    assert dollars <= DOLLARS * ALLOWANCE + 1e-9
    assert used > LIMIT * 0.9


def test_no_budget_is_passed_across_kills_of_the_host(tmp_path: Path):
    check_kills(tmp_path, seed=7, kills=3)


@pytest.mark.stress
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 2600, 50))
def test_no_budget_is_passed_across_many_kills_of_the_host(tmp_path: Path, seed: int):
    begun = time.monotonic()
    check_kills(tmp_path, seed=seed, kills=20)
    assert time.monotonic() - begun < 3600
