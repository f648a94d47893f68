"""Two clients of a host: one spawns agents that speak at a pace, both hear everything they say."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.client import HostClient
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import MessageChunk

RATE = 20


def cpu_of(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> int:
    """Kilobytes resident."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") >> 10


async def hear(fleet: HostClient, after: int, expected: int) -> list[float]:
    """How long each chunk was under way, in seconds."""
    taken: list[float] = []
    async for record in fleet.follow(after):
        event = record.event
        if isinstance(event, MessageChunk) and isinstance(event.content, TextContent):
            taken.append((time.time_ns() - int(event.content.text)) / 1e9)
            if len(taken) == expected:
                break
    return taken


async def main(seconds: float, agents: int) -> None:
    places = Places.find()
    async with (
        HostClient.connect(places, start=True) as one,
        HostClient.connect(places) as other,
    ):
        status = await one.status()
        expected = int(seconds * RATE) * agents
        listening = [
            asyncio.create_task(hear(fleet, status.last_seq, expected)) for fleet in (one, other)
        ]
        request = {"agent": "paced", "cwd": str(Path.cwd()), "prompt": f"{seconds} {RATE}"}
        for number in range(agents):
            await one.spawn(SpawnOptions.of(name=f"paced-{number}", **request))
        await asyncio.sleep(seconds * 0.7)  # until the log's page cache is full
        cpu, memory, begun = cpu_of(status.pid), memory_of(status.pid), time.monotonic()
        await asyncio.sleep(seconds * 0.25)
        share = (cpu_of(status.pid) - cpu) / (time.monotonic() - begun)
        growth = memory_of(status.pid) - memory
        heard = [await listener for listener in listening]
        listing = []
        for _ in range(20):
            begun = time.perf_counter()
            found = await one.agents()
            listing.append(time.perf_counter() - begun)
        for info in found:
            if info.name.startswith("paced"):
                await one.close(info.name)
        await one.stop_host()
    told = {
        "heard": [len(taken) for taken in heard],
        "expected": expected,
        "cpu": share,
        "growth": growth,
        "memory": memory,
        "p50": sorted(heard[0])[len(heard[0]) // 2],
        "p99": max(sorted(taken)[int(len(taken) * 0.99)] for taken in heard),
        "listing": sorted(listing)[len(listing) // 2],
        "live": len(found),
    }
    print(json.dumps(told))


asyncio.run(main(float(sys.argv[1]), int(sys.argv[2])))
