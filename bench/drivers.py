"""Drivers: many messages, many sessions, sessions that come and go."""

import json
import subprocess

from .acp import COUNT, ENVIRONMENT, measure_client, peer
from .table import Row, show

__all__ = ["run"]


def throughput(rounds: int) -> None:
    """The driver with the log on against the SDKs' clients without any."""
    names = {
        "quarterdeck's driver, log on": "client_driver.py",
        "Python SDK, no log": "client_python_sdk.py",
        "TypeScript SDK, no log": "client_ts_sdk.mjs",
    }
    best = {
        who: min(measure_client(name) for _ in range(rounds)) / COUNT * 1e6
        for who, name in names.items()
    }
    ours, *theirs = best.values()
    rows = [Row(who, f"{cpu:.2f} µs/message") for who, cpu in best.items()]
    for who, cpu in zip(list(names)[1:], theirs, strict=True):
        rows.append(Row(f"{who} / ours", "", f"{cpu / ours:.1f}×", "≥ 2×", cpu / ours >= 2))
    show(f"(a) {COUNT} chunks through the ACP driver to a subscriber, client CPU", rows)


def sessions(what: str, count: int) -> dict[str, dict[str, int]]:
    """Run the program that holds sessions; what it says."""
    command = [*peer("idle_sessions.py"), what, str(count), *peer("agent_bare.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=900)
    if done.returncode:
        raise RuntimeError(f"{what} failed: {done.stderr[-800:]}")
    return json.loads(done.stdout)


def idle(count: int) -> None:
    """What sessions cost that do nothing."""
    told = sessions("idle", count)
    before, after, cpu = told["before"], told["after"], told["cpu"]
    each = (after["kilobytes"] - before["kilobytes"]) / count
    threads = after["threads"] - before["threads"]
    show(
        f"(b) {count} idle sessions in one process",
        [
            Row("CPU in 5 s", f"{float(cpu) * 1000:.0f} ms", "", "0", float(cpu) < 0.05),  # type: ignore[arg-type]
            Row("memory a session", f"{each:.0f} kB", "", "≤ 1,024 kB", each <= 1024),
            Row("threads more", str(threads), "", "none each", threads < 10),
        ],
    )


def come_and_go(count: int) -> None:
    """What is left of sessions that were opened and closed."""
    told = sessions("come-and-go", count)
    rows: list[Row] = []
    for name, before in told["before"].items():
        more = told["after"][name] - before
        allowed = 2048 if name == "kilobytes" else 2
        rows.append(
            Row(name, f"{before} → {told['after'][name]}", "", "no growth", more <= allowed)
        )
    show(f"(c) {count} sessions opened and closed", rows)


def run(quick: bool = False) -> None:
    """All of it."""
    throughput(2 if quick else 5)
    idle(20 if quick else 100)
    come_and_go(50 if quick else 1000)
