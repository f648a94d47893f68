"""Agents behind the meter and one of ours never pass a budget together, hosts being killed."""

import random
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet.meter.kill_metered import DOLLARS, LIMIT

ROOT = Path(__file__).parents[3]
ALLOWANCE = 1.05


def run_host(folder: Path, seed: int, seconds: float | None) -> list[str]:
    """Run a host, killed after so many seconds from its opening; gives what it said."""
    command = [sys.executable, "-m", "tests.fleet.meter.kill_metered", str(folder), str(seed)]
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
        said = run_host(folder, seed + number, dice.uniform(0.0, 0.3))
        assert charged(folder) <= LIMIT * ALLOWANCE
        if any(one.startswith("over") for one in said):
            break
    said = run_host(folder, seed - 1, None)
    (over,) = [one.split() for one in said if one.startswith("over")]
    used, reserved, dollars = map(float, over[1:])
    # Nothing is open, nothing that was charged is missing, and no limit is passed.
    assert reserved == 0
    assert charged(folder) <= used <= LIMIT * ALLOWANCE
    assert dollars <= DOLLARS * ALLOWANCE + 1e-9
    assert used > LIMIT * 0.8 or dollars > DOLLARS * 0.8


@pytest.mark.parametrize("seed", [7, 107])
def test_agents_behind_the_meter_pass_no_budget_across_kills_of_the_host(tmp_path: Path, seed: int):
    check_kills(tmp_path, seed=seed, kills=2)


@pytest.mark.stress
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(200, 1200, 50))
def test_agents_behind_the_meter_pass_no_budget_across_many_kills(tmp_path: Path, seed: int):
    check_kills(tmp_path, seed=seed, kills=15)
