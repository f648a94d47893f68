"""ACP against the official SDKs and against the least that could work."""

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .size import Size
from .table import Row, Table

PEERS = Path(__file__).parent / "peers"
NODE = Path(__file__).parent.parent / "build" / "node" / "bench"
PYTHON = sys.executable
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}


def peer(name: str) -> list[str]:
    if name.endswith(".mjs"):
        NODE.mkdir(parents=True, exist_ok=True)
        shutil.copy(PEERS / name, NODE / name)
        return ["node", str(NODE / name)]
    return [PYTHON, str(PEERS / name)]


def measure_client(name: str, count: int) -> float:
    """CPU microseconds of one client for each of so many messages."""
    command = [*peer(name), *peer("agent_raw.py"), str(count)]
    environment = {**ENVIRONMENT, "COUNT": str(count)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stderr[-500:]}")
    answer = json.loads(done.stdout)
    assert answer["received"] == count, answer
    return answer["cpu"] / count * 1e6


def measure_throughput(rounds: int, count: int) -> Table:
    names = {
        "bare asyncio + msgspec": "client_bare.py",
        "quarterdeck": "client_ours.py",
        "Python SDK": "client_python_sdk.py",
        "TypeScript SDK": "client_ts_sdk.mjs",
    }
    best = {
        who: min(measure_client(name, count) for _ in range(rounds)) for who, name in names.items()
    }
    ours, bare = best["quarterdeck"], best["bare asyncio + msgspec"]
    rows = [Row(who, f"{cpu:.2f} µs/message") for who, cpu in best.items()]
    rows.append(Row("ours / bare", "", f"{ours / bare:.2f}×", "≤ 2×", ours / bare <= 2))
    for who in ("Python SDK", "TypeScript SDK"):
        times = best[who] / ours
        rows.append(Row(f"{who} / ours", "", f"{times:.1f}×", "≥ 10×", times >= 10))
    return Table(f"(a) client CPU for {count} chunks of one turn", rows)


def handshake(name: str) -> tuple[float, float]:
    """Wall and CPU milliseconds from spawn to the answer to session/new."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    agent = subprocess.Popen(
        peer(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
    )
    assert agent.stdin is not None
    assert agent.stdout is not None
    for number, (method, params) in enumerate(
        (
            ("initialize", {"protocolVersion": 1}),
            ("session/new", {"cwd": "/", "mcpServers": []}),
        )
    ):
        frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        agent.stdin.write(json.dumps(frame).encode() + b"\n")
        agent.stdin.flush()
        assert b"result" in agent.stdout.readline()
    taken = time.perf_counter() - begin
    agent.kill()
    agent.wait()
    agent.stdin.close()
    agent.stdout.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return taken * 1000, cpu * 1000


def measure_handshakes(rounds: int) -> Table:
    names = {
        "bare asyncio + msgspec": "agent_bare.py",
        "quarterdeck": "agent_ours.py",
        "Python SDK": "agent_python_sdk.py",
        "TypeScript SDK": "agent_ts_sdk.mjs",
    }
    wall: dict[str, list[float]] = {who: [] for who in names}
    cpu: dict[str, list[float]] = {who: [] for who in names}
    for _ in range(rounds):
        for who, name in names.items():
            one, other = handshake(name)
            wall[who].append(one)
            cpu[who].append(other)
    rows = [
        Row(
            who,
            f"CPU {min(cpu[who]):.0f} ms; wall {min(wall[who]):.0f} ms, "
            f"median {statistics.median(wall[who]):.0f} ms",
        )
        for who in names
    ]
    for what, times in (("CPU", cpu), ("wall", wall)):
        ratio = min(times["quarterdeck"]) / min(times["bare asyncio + msgspec"])
        rows.append(Row(f"ours / bare, {what}", "", f"{ratio:.2f}×", "≤ 1.3×", ratio <= 1.3))
    return Table("(b) spawn → initialize → session/new of a minimal agent", rows)


def run(size: Size) -> Iterator[Table]:
    yield measure_throughput(size.choose(5, 2, 1), size.choose(20_000, 20_000, 200))
    yield measure_handshakes(size.choose(15, 4, 1))
