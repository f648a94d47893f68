"""The fleet: fifty agents that speak at once, and a long list of those that are put away."""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .acp import ENVIRONMENT, PEERS, peer
from .size import Size
from .table import Row, Table

__all__ = ["run"]


async def write_archived(log: Path, count: int) -> None:
    """Write a log with so many archived agents."""
    from quarterdeck.journal import Journal
    from quarterdeck.wire.events import SessionChanged, SessionEnded, SessionOpened, SessionSpawned
    from quarterdeck.wire.ids import new_session_id
    from quarterdeck.wire.session_options import SessionOptions

    log.parent.mkdir(parents=True, exist_ok=True)
    async with Journal.open(log) as journal:
        for number in range(count):
            id_ = new_session_id()
            events = (
                SessionSpawned(
                    options=SessionOptions(agent="paced", cwd="/"), name=f"old-{number}"
                ),
                SessionOpened(agent="paced", cwd="/"),
                SessionEnded(how="closed"),
                SessionChanged(archived=True),
            )
            for event in events:
                await journal.append(id_, event)


def measure_host(seconds: float, agents: int, archived: int) -> tuple[dict[str, float], float]:
    """What the clients saw, and how long ``quarterdeck ps`` takes."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        (home / "agents").mkdir()
        command = [sys.executable, "-S", str(PEERS / "agent_paced.py")]
        (home / "agents" / "paced.toml").write_text(
            f'title = "Paced"\n[transports.acp]\ncommand = {json.dumps(command)}\n'
        )
        asyncio.run(write_archived(home / "state" / "journal.db", archived))
        environment = {**ENVIRONMENT, "HOME": place, "QUARTERDECK_HOME": place}
        done = subprocess.run(
            [*peer("fleet_clients.py"), str(seconds), str(agents)],
            capture_output=True,
            text=True,
            env=environment,
            cwd=place,
            timeout=seconds * 4 + 120,
        )
        if done.returncode:
            raise RuntimeError(f"the clients failed: {done.stderr[-1500:]}")
        ps = [str(Path(sys.executable).with_name("quarterdeck")), "ps", "--json"]
        subprocess.run(ps, env=environment, capture_output=True, check=True, timeout=60)
        times: list[float] = []
        for _ in range(5):
            begun = time.perf_counter()
            subprocess.run(ps, env=environment, capture_output=True, check=True, timeout=60)
            times.append(time.perf_counter() - begun)
        stop = [ps[0], "host", "stop"]
        subprocess.run(stop, env=environment, capture_output=True, check=False, timeout=60)
        return json.loads(done.stdout), min(times)


def run(size: Size) -> Iterator[Table]:
    """All of it."""
    # The log's page cache of 16 MB is full after some 100 s; only then growth means something.
    seconds, agents = size.choose((150.0, 50), (10.0, 50), (0.5, 2))
    archived = size.choose(1000, 1000, 5)
    told, ps = measure_host(seconds, agents, archived)
    lost = 2 * told["expected"] - sum(told["heard"])  # type: ignore[arg-type]
    rows = [
        Row("messages lost, of both clients", str(lost), "", "none", lost == 0),
        Row("host CPU", f"{told['cpu'] * 100:.0f} % of a core", "", "< 50 %", told["cpu"] < 0.5),
        Row("written → received, median", f"{told['p50'] * 1000:.1f} ms"),
        Row(
            "written → received, p99",
            f"{told['p99'] * 1000:.1f} ms",
            "",
            "< 50 ms",
            told["p99"] < 0.05,
        ),
        Row("memory", f"{told['memory'] / 1024:.0f} MB"),
        Row(
            "growth in the last quarter",
            f"{told['growth']} kB",
            "",
            "none" if size is Size.FULL else "",
            told["growth"] < 1024 if size is Size.FULL else None,
        ),
        Row(
            f"list with {archived} archived, over the socket",
            f"{told['listing'] * 1000:.1f} ms",
            "",
            "≤ 100 ms",
            told["listing"] <= 0.1,
        ),
        Row("`quarterdeck ps`, whole program", f"{ps * 1000:.0f} ms"),
    ]
    spoken = f"{agents} agents × 20 messages a second for {seconds:g} s"
    yield Table(f"{spoken}, two clients attached", rows)
