"""Tabs of the browser interface: agents speak at a pace, each tab follows one of them."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.web.devices import DeviceStore
from quarterdeck.web.server import WebServerOptions, launch_server, stop_server
from quarterdeck.wire.content import text

RATE = 20


def cpu_of(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> int:
    """Kilobytes resident."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") >> 10


class Tab:
    """What one tab was sent."""

    def __init__(self) -> None:
        self.bytes = 0
        self.heard = 0
        self.taken: list[float] = []
        """Seconds that messages were under way; only of those written since the tab is open."""
        self.opened = 0
        self.is_open = asyncio.Event()

    async def watch(self, url: str, key: str, agent: str, expected: int) -> None:
        """Until so many messages of the agent have arrived."""
        address = url.replace("http", "ws", 1) + "/api/v1/live"
        headers = {"authorization": f"Bearer {key}"}
        async with connect(address, additional_headers=headers, proxy=None, max_size=None) as live:
            self.opened = time.time_ns()
            await live.send(json.dumps({"type": "show", "agents": [agent]}))
            await live.send(json.dumps({"type": "watch", "agent": agent}))
            self.is_open.set()
            while self.heard < expected:
                self.take(await live.recv())

    def take(self, data: str | bytes) -> None:
        self.bytes += len(data)
        message: dict[str, Any] = json.loads(data)
        now = time.time_ns()
        for record in message.get("records", ()):
            event = record["event"]
            if event["type"] != "message_chunk":
                continue
            self.heard += 1
            written = int(event["content"]["text"])
            if written >= self.opened:
                self.taken.append((now - written) / 1e9)


async def main(seconds: float, agents: int, count: int) -> None:
    places = Places.find()
    async with HostClient.connect(places, start=True) as fleet:
        server = await launch_server(places, WebServerOptions(port=0), os.environ)
        store = DeviceStore.of(places)
        _, key = await asyncio.to_thread(store.add_device, "bench", "bench", "viewer")
        request = {"agent": "paced", "cwd": str(Path.cwd())}
        ids = [
            (await fleet.spawn(SpawnOptions.of(name=f"paced-{number}", **request))).session
            for number in range(agents)
        ]
        tabs = [Tab() for _ in range(count)]
        expected = int(seconds * RATE)
        async with asyncio.TaskGroup() as group:
            for number, tab in enumerate(tabs):
                agent = ids[number * agents // count]
                group.create_task(tab.watch(server.url, str(key), agent, expected))
            for tab in tabs:
                await tab.is_open.wait()
            begun, cpu = time.monotonic(), cpu_of(server.pid)
            for agent in ids:
                await fleet.send(agent, (text(f"{seconds} {RATE}"),))
        lasted = time.monotonic() - begun
        share, memory = (cpu_of(server.pid) - cpu) / lasted, memory_of(server.pid)
        await stop_server(places)
        await fleet.stop_host()
    taken = sorted(one for tab in tabs for one in tab.taken)
    told = {
        "heard": sum(tab.heard for tab in tabs),
        "expected": expected * count,
        "cpu": share,
        "memory": memory,
        "bytes": sum(tab.bytes for tab in tabs) / count / lasted,
        "p50": taken[len(taken) // 2],
        "p99": taken[int(len(taken) * 0.99)],
    }
    print(json.dumps(told))


asyncio.run(main(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
