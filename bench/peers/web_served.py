"""The workbench in browsers by textual-serve: agents speak at a pace, each viewer shows one.

Arguments: seconds, agents, viewers, the interpreter that has textual-serve.
"""

import asyncio
import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.client import HostClient

RATE, SPEECH = 20, 900
PATIENCE = 90.0
OPEN = "from quarterdeck.workbench.launch import open_workbench; open_workbench()"
SERVE = """
import sys
from textual_serve.server import Server
Server(sys.argv[1], host="127.0.0.1", port=int(sys.argv[2])).serve()
"""


def find_descendants(pid: int) -> list[int]:
    """A process and all that it has started."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def cpu_of(pids: list[int]) -> float:
    """CPU seconds of these so far."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_of(pids: list[int]) -> int:
    """Kilobytes that these alone hold; what they share counts in parts."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += sum(map(int, re.findall(r"^Pss:\s+(\d+)", words, re.M)))
    return total


@contextlib.contextmanager
def serving(python: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """textual-serve over our workbench; it and all workbenches are killed at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = shlex.join([sys.executable, "-P", "-c", OPEN])
    process = subprocess.Popen(
        [python, "-c", SERVE, command, str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process, port
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Viewer:
    """A browser, as far as the server sees one."""

    def __init__(self) -> None:
        self.bytes = 0
        self.seen = bytearray()
        self.is_shown = asyncio.Event()

    async def watch(self, port: int) -> None:
        """Read until cancelled; ``is_shown`` once an agent's conversation is."""
        async with await open_viewer(port) as live:
            await live.send(json.dumps(["resize", {"width": 120, "height": 40}]))
            with contextlib.suppress(ConnectionClosed):
                while True:
                    self.take(await live.recv())

    def take(self, data: str | bytes) -> None:
        self.bytes += len(data)
        if not self.is_shown.is_set():
            self.seen += data.encode() if isinstance(data, str) else data
            if b"paced" in self.seen and re.search(rb"\d{19}", self.seen):
                self.is_shown.set()
                self.seen.clear()


async def open_viewer(port: int) -> ClientConnection:
    """Connect; the server needs a moment to begin."""
    address = f"ws://127.0.0.1:{port}/ws?width=120&height=40"
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await connect(address, proxy=None, max_size=None)
            except OSError:
                await asyncio.sleep(0.1)


async def main(seconds: float, agents: int, count: int, python: str) -> None:
    places = Places.find()
    async with HostClient.connect(places, start=True) as fleet:
        request = {"agent": "paced", "cwd": str(Path.cwd()), "prompt": f"{SPEECH} {RATE}"}
        for number in range(agents):
            await fleet.spawn(SpawnOptions.of(name=f"paced-{number}", **request))
        with serving(python) as (server, port):
            viewers = [Viewer() for _ in range(count)]
            tasks = [asyncio.create_task(one.watch(port)) for one in viewers]
            async with asyncio.timeout(PATIENCE + 10 * count):
                for one in viewers:
                    await one.is_shown.wait()
            pids = find_descendants(server.pid)
            begun, cpu = time.monotonic(), cpu_of(pids)
            before = sum(one.bytes for one in viewers)
            await asyncio.sleep(seconds)
            lasted = time.monotonic() - begun
            told = {
                "cpu": (cpu_of(pids) - cpu) / lasted,
                "memory": memory_of(pids),
                "bytes": (sum(one.bytes for one in viewers) - before) / count / lasted,
            }
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await fleet.stop_host()
    print(json.dumps(told))


asyncio.run(main(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
