"""Processes that a server has lost are ended, and no others."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quarterdeck.drivers.daemon.codex.server import OrphanProcesses
from quarterdeck.system.api import CommandSpec
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.process import LocalProcess
from quarterdeck.system.process_guard import shared_guard
from quarterdeck.system.process_tree import find_processes
from tests.support.deadlines import SOON

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no sandbox loses any elsewhere")

SERVER = """
import subprocess, sys
for line in sys.stdin:
    what = line.strip()
    if what == "child":
        subprocess.Popen(["sleep", "600"])
    elif what == "stray":
        subprocess.run(["sh", "-c", "sleep 600 & sleep 600 &"])
    elif what == "session":
        subprocess.run(["setsid", "-f", "sh", "-c", "sleep 600; true"])
    print(what, flush=True)
"""


@asynccontextmanager
async def running(cwd: Path) -> AsyncGenerator[LocalProcess]:
    system = LocalSystem([str(cwd)], guard=shared_guard())
    try:
        process = await system.processes.spawn(
            CommandSpec(argv=(sys.executable, "-c", SERVER), cwd=str(cwd))
        )
        yield process
        await process.end()
    finally:
        await system.close()


async def tell(process: LocalProcess, what: str, count: int) -> set[int]:
    """Have it start something; returns the tree when it has so many processes."""
    await process.send(f"{what}\n".encode())
    async with asyncio.timeout(SOON):
        await process.receive()
        while len(found := await alive(process)) < count:
            await asyncio.sleep(0.01)
    return found


async def alive(process: LocalProcess) -> set[int]:
    found = await asyncio.to_thread(find_processes, [process.tree])
    return {one.pid for one in found}


async def test_what_was_lost_since_is_ended_and_the_rest_stays(tmp_path: Path):
    async with running(tmp_path) as process:
        await tell(process, "child", 2)
        before = await tell(process, "stray", 4)
        strays = OrphanProcesses(process.tree)
        await strays.remember()
        assert await strays.end() == 0
        await tell(process, "stray", 6)
        await tell(process, "session", 8)
        assert await strays.end() == 4
        async with asyncio.timeout(SOON):
            while await alive(process) != before:
                await asyncio.sleep(0.01)
