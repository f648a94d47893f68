"""Drivers: many messages, many sessions, sessions that come and go."""

import json
import subprocess
from collections.abc import Iterator

from .acp import ENVIRONMENT, measure_client, peer
from .size import Size
from .table import Row, Table

__all__ = ["run"]


def measure_throughput(rounds: int, count: int) -> Table:
    """The driver with the log on against the SDKs' clients without any."""
    names = {
        "quarterdeck's driver, log on": "client_driver.py",
        "Python SDK, no log": "client_python_sdk.py",
        "TypeScript SDK, no log": "client_ts_sdk.mjs",
    }
    best = {
        who: min(measure_client(name, count) for _ in range(rounds)) for who, name in names.items()
    }
    ours, *theirs = best.values()
    rows = [Row(who, f"{cpu:.2f} µs/message") for who, cpu in best.items()]
    for who, cpu in zip(list(names)[1:], theirs, strict=True):
        rows.append(Row(f"{who} / ours", "", f"{cpu / ours:.1f}×", "≥ 2×", cpu / ours >= 2))
    return Table(f"(a) {count} chunks through the ACP driver to a subscriber, client CPU", rows)


def hold_sessions(what: str, count: int, more: float) -> dict[str, dict[str, int]]:
    """Run the program that holds sessions; what it says. ``more``: its second number."""
    command = [*peer("idle_sessions.py"), what, str(count), str(more), *peer("agent_bare.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=900)
    if done.returncode:
        raise RuntimeError(f"{what} failed: {done.stderr[-800:]}")
    return json.loads(done.stdout)


def measure_idle(count: int, seconds: float) -> Table:
    """What sessions cost that do nothing."""
    told = hold_sessions("idle", count, seconds)
    before, after, cpu = told["before"], told["after"], told["cpu"]
    each = (after["kilobytes"] - before["kilobytes"]) / count
    threads = after["threads"] - before["threads"]
    return Table(
        f"(b) {count} idle sessions in one process",
        [
            Row(f"CPU in {seconds:g} s", f"{float(cpu) * 1000:.0f} ms", "", "0", float(cpu) < 0.05),  # type: ignore[arg-type]
            Row("memory a session", f"{each:.0f} kB", "", "≤ 1,024 kB", each <= 1024),
            Row("threads more", str(threads), "", "none each", threads < 10),
        ],
    )


def measure_come_and_go(count: int, before: int) -> Table:
    """What is left of sessions that were opened and closed."""
    told = hold_sessions("come-and-go", count, before)
    rows: list[Row] = []
    for name, first in told["before"].items():
        more = told["after"][name] - first
        allowed = 2048 if name == "kilobytes" else 2
        rows.append(Row(name, f"{first} → {told['after'][name]}", "", "no growth", more <= allowed))
    return Table(f"(c) {count} sessions opened and closed", rows)


def run(size: Size) -> Iterator[Table]:
    """All of it."""
    yield measure_throughput(size.choose(5, 2, 1), size.choose(20_000, 20_000, 200))
    yield measure_idle(size.choose(100, 20, 2), size.choose(5.0, 5.0, 0.1))
    yield measure_come_and_go(size.choose(1000, 50, 2), size.choose(20, 20, 1))
