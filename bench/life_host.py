"""A host with simulated time, as a process of its own, and what can be seen of it from outside."""

import contextlib
import json
import mmap
import os
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .acp import ENVIRONMENT, PYTHON, peer

__all__ = ["LifeHost", "life_host", "measure_memory"]

_HOUR = 3_600 * 1_000_000
_PATIENCE = 60.0
_MOMENT, _RESTING = 0.2, 0.05
"""Seconds for which it must use no more than this part of a core."""
_SETTINGS = "[host]\nsession_days = {days}\n"


@dataclass(frozen=True, slots=True)
class LifeHost:
    """The host: its process, its home, its time."""

    process: subprocess.Popen[str]
    home: Path
    environment: dict[str, str]
    _time: mmap.mmap

    @property
    def project(self) -> Path:
        """A directory for agents to work in."""
        return self.home / "project"

    def advance(self, hours: float) -> None:
        """Let simulated time pass."""
        (now,) = struct.unpack("<q", self._time[:8])
        self._time[:8] = struct.pack("<q", now + round(hours * _HOUR))

    def read_cpu(self) -> float:
        """CPU seconds of the host so far."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def wait_for_rest(self) -> None:
        """Until it does next to nothing, such as deleting old sessions; raises if it never does."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            before = self.read_cpu()
            time.sleep(_MOMENT)
            if self.read_cpu() - before < _RESTING * _MOMENT:
                return
        raise RuntimeError(f"the host does not come to rest: {self.read_log()}")

    def look(self) -> dict[str, float]:
        """What it holds now: memory in MB, descriptors, threads, tasks, objects, files in MB."""
        counts = self.read_counts()
        pid = self.process.pid
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        threads = next(line.split()[1] for line in status if line.startswith("Threads:"))
        return {
            **measure_memory(pid),
            "descriptors": float(sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())),
            "threads": float(threads),
            "tasks": float(counts["tasks"]),
            "objects": float(counts["objects"]),
            "log": self._megabytes("journal.db"),
            "search": self._megabytes("journal.db.search"),
            "write-ahead logs": self._megabytes("journal.db-wal", "journal.db.search-wal"),
        }

    def read_counts(self) -> dict[str, Any]:
        """Ask it what it has in memory; see ``peers/life_host.py``."""
        answer = self.home / "counts.json"
        answer.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR2)
        deadline = time.monotonic() + _PATIENCE
        while not answer.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the host does not answer: {self.read_log()}")
            time.sleep(0.01)
        return json.loads(answer.read_text())

    def read_log(self) -> str:
        """The end of what it wrote about itself."""
        files = self.home.rglob("host.log")
        return next((file.read_text()[-2000:] for file in files), "it wrote no log")

    def _megabytes(self, *names: str) -> float:
        sizes = (file.stat().st_size for name in names for file in self.home.rglob(name))
        return sum(sizes) / 1e6


def measure_memory(pid: int) -> dict[str, float]:
    """Memory of a process in MB: resident; shared parts divided by their users; its own data."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    found = {line.split(":")[0]: int(line.split()[1]) / 1000 for line in lines}
    return {"RSS": found["Rss"], "PSS": found["Pss"], "own memory": found["Anonymous"]}


@contextlib.contextmanager
def life_host(days: float) -> Generator[LifeHost]:
    """Run a host in a home of its own that keeps sessions for so many simulated days.

    An agent ``day`` is known there, which works as its prompt says (``peers/agent_day.py``).
    """
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        (home / "project").mkdir()
        (home / "qd" / "agents").mkdir(parents=True)
        command = json.dumps([PYTHON, "-S", *peer("agent_day.py")[1:]])
        words = f'title = "Day"\n[transports.acp]\ncommand = {command}\n'
        (home / "qd" / "agents" / "day.toml").write_text(words)
        (home / "qd" / "config.toml").write_text(_SETTINGS.format(days=days))
        environment = {**ENVIRONMENT, "HOME": place, "QUARTERDECK_HOME": f"{place}/qd"}
        clock = home / "time"
        clock.write_bytes(struct.pack("<q", time.time_ns() // 1000))
        with (
            clock.open("r+b") as file,
            mmap.mmap(file.fileno(), 8) as memory,
            _started(home, environment) as process,
        ):
            yield LifeHost(process, home, environment, memory)


@contextlib.contextmanager
def _started(home: Path, environment: dict[str, str]) -> Generator[subprocess.Popen[str]]:
    command = [*peer("life_host.py"), str(home / "time"), str(home / "counts.json")]
    with (home / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"the host did not start: {(home / 'stderr').read_text()[-2000:]}")
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()
