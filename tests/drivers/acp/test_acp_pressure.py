"""Floods: order is kept, and an agent waits for whoever reads what it says."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from quarterdeck.wire.events import MessageChunk, PermissionAsked
from tests.drivers.rigs.acp import acp_rig
from tests.support.driver_rig import drive

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def resident() -> int:
    """Bytes of memory that this process has."""
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_a_flood_keeps_its_order(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        ended = await driven.say("stream 5000")
        assert ended.stop == "end_turn"
        assert driven.text.split("\n")[:-1] == [f"chunk {n}" for n in range(5000)]


@linux
async def test_an_agent_waits_while_its_events_are_not_taken(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say("echo warm")
        turn = asyncio.create_task(driven.say("stream 800 50000", within=50))
        while len(driven.all(MessageChunk)) < 2:
            await asyncio.sleep(0.001)
        driven.hold = asyncio.Event()
        await asyncio.sleep(0.1)
        heard, before = len(driven.heard), resident()
        await asyncio.sleep(0.7)
        assert len(driven.heard) == heard and not turn.done()
        assert resident() - before < 10_000_000
        driven.hold.set()
        driven.hold = None
        assert (await turn).stop == "end_turn"
        assert len(driven.all(MessageChunk)) == 801


async def test_a_permission_that_waits_lets_updates_flow(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("asks 2\nstream 100"))
        while len(driven.all(PermissionAsked)) < 2:
            await asyncio.sleep(0.001)
        await driven.answer("allow_once")
        await driven.seen(MessageChunk)
        await driven.answer("allow_once")
        assert (await turn).stop == "end_turn"
        assert len(driven.all(MessageChunk)) == 102


@pytest.mark.stress
async def test_a_long_flood_arrives_whole(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say("flood 200000", within=55)
        assert len(driven.all(MessageChunk)) == 200_000
