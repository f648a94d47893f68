"""Sessions that do nothing, or that come and go: what they cost the process that owns them."""

import asyncio
import gc
import json
import os
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path

from quarterdeck.drivers.acp.link import AcpLink
from quarterdeck.drivers.agent_process import Launch
from quarterdeck.drivers.driver import DriverSessionOptions
from quarterdeck.drivers.open_session import start_session
from quarterdeck.drivers.session import LinkSession
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate
from quarterdeck.wire.events import Event
from quarterdeck.wire.ids import new_session_id


async def ignore(event: Event, **_: object) -> None:
    del event


async def open_one(command: list[str], directory: str) -> LinkSession:
    around = CallContext(cwd=directory)
    opening = DriverSessionOptions.of(cwd=directory)
    session = LinkSession(new_session_id(), "bare", opening, ignore, Gate(mode="ask"), around)
    await start_session(session, [lambda: AcpLink(Launch(agent="bare", command=tuple(command)))])
    return session


def resident() -> int:
    """Kilobytes of memory in use."""
    gc.collect()
    if sys.platform == "linux":
        return (
            int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") >> 10
        )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def holdings() -> dict[str, int]:
    """What could leak."""
    return {
        "kilobytes": resident(),
        "descriptors": sum(1 for _ in Path("/dev/fd").iterdir()),
        "threads": threading.active_count(),
        "tasks": len(asyncio.all_tasks()),
    }


async def idle(command: list[str], directory: str, count: int, seconds: float) -> None:
    first = await open_one(command, directory)
    before = holdings()
    sessions = [await open_one(command, directory) for _ in range(count)]
    after = holdings()
    cpu = time.process_time()
    await asyncio.sleep(seconds)
    cpu = time.process_time() - cpu
    await asyncio.gather(*(session.close() for session in [first, *sessions]))
    print(json.dumps({"before": before, "after": after, "cpu": cpu}))


async def come_and_go(command: list[str], directory: str, count: int, warm: int) -> None:
    for _ in range(warm):
        await (await open_one(command, directory)).close()
    before = holdings()
    for _ in range(count):
        await (await open_one(command, directory)).close()
    print(json.dumps({"before": before, "after": holdings()}))


what, number, more, *words = sys.argv[1:]
with tempfile.TemporaryDirectory() as place:
    if what == "idle":
        asyncio.run(idle(words, place, int(number), float(more)))
    else:
        asyncio.run(come_and_go(words, place, int(number), int(more)))
