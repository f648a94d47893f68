"""Who sends waits for who reads; the reader itself waits for nobody."""

import asyncio
from typing import Any

import pytest

from quarterdeck.wire.errors import LinkBrokenError
from quarterdeck.wire.rpc import RpcLimits


async def test_notify_waits_while_the_peer_does_not_read(open_link: Any) -> None:
    issued = 0

    async def flood() -> None:
        nonlocal issued
        for _ in range(1000):
            await link.peer.notify("n", "x" * 100)
            issued += 1

    async with open_link(limits=RpcLimits(high_water_bytes=1000), capacity=1000) as link:
        flooding = asyncio.create_task(flood())
        for _ in range(50):
            await asyncio.sleep(0)
        # what the stream holds, what the writer has in hand, what waits behind it
        assert 5 < issued < 50
        for _ in range(1000):
            await link.bare.read()
        await flooding


async def test_reading_stops_while_a_notification_handler_waits(open_link: Any) -> None:
    gate = asyncio.Event()
    sent = 0

    async def flood() -> None:
        nonlocal sent
        for _ in range(200):
            await link.bare.send({"method": "n", "params": "x" * 100})
            sent += 1

    async def wait(_: Any) -> None:
        await gate.wait()

    async with open_link(capacity=1000) as link:
        link.handler.notifications["n"] = wait
        flooding = asyncio.create_task(flood())
        for _ in range(50):
            await asyncio.sleep(0)
        assert sent < 40
        gate.set()
        await flooding
        await link.settle()
        assert len(link.handler.seen) == 200


async def test_two_peers_that_flood_each_other_from_handlers_do_not_deadlock(
    two_peers: Any,
) -> None:
    near, here, far, there = two_peers

    async def answer(_: Any) -> None:
        await far.notify("pong", "x" * 1000)

    async def take(_: Any) -> None:
        await asyncio.sleep(0)

    there.notifications["ping"] = answer
    here.notifications["pong"] = take
    async with asyncio.timeout(45):
        for _ in range(1000):
            await near.notify("ping", "x" * 1000)
        await near.request("echo")
    assert len(here.seen) == 1000


async def test_peer_that_floods_and_does_not_read_breaks_its_link(open_link: Any) -> None:
    limits = RpcLimits(max_unsent_bytes=10_000, grace_seconds=0.05)
    async with open_link(limits=limits, capacity=1000) as link:
        with pytest.raises(LinkBrokenError):
            for _ in range(10_000):
                await link.bare.send(b"garbage\n" * 10)
        ending = await link.peer.wait_closed()
        assert "does not read" in str(ending)


async def test_cancelled_notify_is_sent_all_the_same(open_link: Any) -> None:
    async with open_link(limits=RpcLimits(high_water_bytes=10), capacity=10) as link:
        telling = [asyncio.create_task(link.peer.notify("n", n)) for n in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        telling[2].cancel()
        assert [(await link.bare.read())["params"] for _ in range(3)] == [0, 1, 2]
        await asyncio.gather(*telling, return_exceptions=True)
