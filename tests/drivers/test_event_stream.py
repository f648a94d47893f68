"""Listeners of a session hear everything, late ones too, or are told what they missed."""

import asyncio

from quarterdeck.drivers.connect import EventStream, StreamGap
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk, SessionEnded
from quarterdeck.wire.ids import SessionId, ToolCallId, TurnId
from quarterdeck.wire.record import decode_record, encode_record

END = SessionEnded(how="closed")


def chunk(number: int) -> MessageChunk:
    return MessageChunk(content=text(str(number)))


async def everything(stream: EventStream, after: int = 0) -> list[object]:
    return [one async for one in stream.follow(after)]


async def test_a_late_listener_hears_everything_from_the_start():
    stream = EventStream(SessionId("s"))
    for number in range(3):
        await stream(chunk(number), turn=TurnId("t"), parent=ToolCallId("c"))
    await stream(END)
    heard = [one async for one in stream.follow() if not isinstance(one, StreamGap)]
    assert [record.seq for record in heard] == [1, 2, 3, 4]
    assert [record.event for record in heard] == [chunk(0), chunk(1), chunk(2), END]
    assert (heard[0].session, heard[0].turn, heard[0].parent) == ("s", "t", "c")
    assert heard[0].time <= heard[3].time
    assert [decode_record(encode_record(record)) for record in heard] == heard


async def test_a_listener_that_comes_too_late_is_told_how_many_are_missing():
    stream = EventStream(SessionId("s"), capacity=3)
    for number in range(10):
        await stream(chunk(number))
    await stream(END)
    gap, *rest = await everything(stream)
    assert gap == StreamGap(8) and len(rest) == 3


async def test_a_slow_listener_delays_nobody_and_finds_its_gap():
    stream = EventStream(SessionId("s"), capacity=10)
    slow = stream.follow()
    await stream(chunk(0))
    assert not isinstance(await anext(slow), StreamGap)
    quick = asyncio.create_task(everything(stream))
    for number in range(1, 100):
        await stream(chunk(number))
        await asyncio.sleep(0)
    await stream(END)
    assert len(await quick) == 101
    assert await anext(slow) == StreamGap(90)
    assert len([one async for one in slow]) == 10


async def test_a_listener_hears_what_is_to_come():
    stream = EventStream(SessionId("s"))
    listening = asyncio.create_task(everything(stream))
    await asyncio.sleep(0)
    await stream(chunk(0))
    await stream(END)
    assert len(await listening) == 2


async def test_a_listener_that_holds_is_waited_for():
    stream = EventStream(SessionId("s"), capacity=2000)
    holding = stream.follow(holds=True)
    await stream(chunk(0))
    await anext(holding)

    async def flood() -> None:
        for number in range(3000):
            await stream(chunk(number))
        await stream(END)

    flooding = asyncio.create_task(flood())
    for _ in range(50):
        await asyncio.sleep(0)
    assert not flooding.done() and stream.last <= 1001
    assert not [one async for one in holding if isinstance(one, StreamGap)]
    await flooding


async def test_a_holder_that_leaves_holds_nobody():
    stream = EventStream(SessionId("s"))
    holding = stream.follow(holds=True)
    await stream(chunk(0))
    await anext(holding)
    flooding = asyncio.gather(*(stream(chunk(number)) for number in range(1500)))
    await asyncio.sleep(0)
    await holding.aclose()
    await asyncio.wait_for(flooding, 5)
