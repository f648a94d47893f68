"""A host whose time is simulated: a file has the time, in microseconds since the epoch.

Records are stamped with that time, and what looks after the log now and then (a sleep of a minute
or more) wakes by it. Everything that waits for a process or a socket waits in real time.

SIGUSR2: write how many tasks and objects there are, as JSON, to the second file.
"""

import asyncio
import gc
import json
import mmap
import os
import signal
import struct
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from functools import partial
from pathlib import Path
from typing import Any

from quarterdeck.config.loader import load_config
from quarterdeck.config.places import Places
from quarterdeck.fleet.host.lock import log_file
from quarterdeck.fleet.host.process import log_to_file, run_host
from quarterdeck.fleet.local import LocalFleet

LONG = 60.0
"""Seconds from which on a sleep is one of maintenance."""
LOOK = 0.05


class SimulatedTime:
    """Reads the time that the bench has set."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._memory = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)

    def read(self) -> int:
        """Microseconds since the epoch."""
        return struct.unpack("<q", self._memory[:8])[0]


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop in which long sleeps follow simulated time."""

    def __init__(self, time: SimulatedTime) -> None:
        super().__init__()
        self._simulated = time
        self._sleepers: list[tuple[float, asyncio.TimerHandle]] = []

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if delay < LONG:
            return super().call_later(delay, callback, *args, context=context)
        due = self._simulated.read() + delay * 1e6
        handle = asyncio.TimerHandle(float("inf"), callback, args, self, context)
        if not self._sleepers:
            super().call_later(LOOK, self._wake)
        self._sleepers.append((due, handle))
        return handle

    def _wake(self) -> None:
        now = self._simulated.read()
        left: list[tuple[float, asyncio.TimerHandle]] = []
        for due, handle in self._sleepers:
            if handle.cancelled():
                continue
            if due <= now:
                self.call_soon(handle._run)  # type: ignore[attr-defined]
            else:
                left.append((due, handle))
        self._sleepers = left
        if left:
            super().call_later(LOOK, self._wake)


def count(path: Path) -> None:
    """Write what could leak; the file is complete when it appears."""
    gc.collect()
    kinds = Counter(type(one).__qualname__ for one in gc.get_objects())
    found = {
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "objects": sum(kinds.values()),
        "kinds": dict(kinds.most_common(40)),
        "names": dict(Counter(task.get_name() for task in asyncio.all_tasks()).most_common(20)),
    }
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(found))
    temporary.replace(path)


async def main(time: SimulatedTime, counts: Path) -> None:
    environment = dict(os.environ)
    places = Places.find(environment)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, count, counts)
    settings = (await asyncio.to_thread(load_config, places, environ=environment)).settings
    await run_host(
        places,
        environment,
        idle_seconds=None,
        notifications=settings.notifications,
        open_fleet=partial(LocalFleet.open, clock=time.read),
        ready=lambda: print("ready", flush=True),
    )


clock = SimulatedTime(Path(sys.argv[1]))
with (
    log_to_file(log_file(Places.find()), dict(os.environ)),
    asyncio.Runner(loop_factory=lambda: SimulatedLoop(clock)) as runner,
):
    runner.run(main(clock, Path(sys.argv[2])))
