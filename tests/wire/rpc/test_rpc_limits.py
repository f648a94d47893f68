"""A peer cannot make us hold more than the limits say."""

import asyncio
import resource
import sys
from typing import Any

import pytest

from quarterdeck.wire.errors import LinkBrokenError, LinkBusyError
from quarterdeck.wire.rpc import INTERNAL_ERROR, FrameTooLargeError, Peer, RequestContext, RpcLimits

MIB = 1024 * 1024


class Endless:
    """A peer that sends one frame without end."""

    def __init__(self) -> None:
        self.sent = 0

    async def receive(self) -> bytes:
        self.sent += 256 * 1024
        return b"x" * (256 * 1024)

    async def send(self, data: bytes) -> None:
        pass

    async def close(self) -> None:
        pass


async def test_frame_over_the_limit_breaks_the_link_in_bounded_memory(recorder: Any) -> None:
    stream = Endless()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with Peer(stream, recorder) as peer:
        ending = await peer.wait_closed()
    unit = 1 if sys.platform == "darwin" else 1024
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit
    assert isinstance(ending, LinkBrokenError)
    assert f"limit of {32 * MIB} bytes" in str(ending)
    assert stream.sent <= 33 * MIB
    assert grown < 120 * MIB


async def test_frame_of_the_limit_is_read_and_one_byte_more_is_not(open_link: Any) -> None:
    frame = b'{"id":1,"method":"echo","params":"%s"}'
    fits = frame % (b"x" * (1000 - len(frame) + 2))
    assert len(fits) == 1000
    async with open_link(limits=RpcLimits(max_frame_bytes=1000)) as link:
        await link.bare.send(fits + b"\n")
        assert (await link.bare.read())["id"] == 1
        await link.bare.send({"method": "before"}, fits + b" \n", {"method": "after"})
        assert "limit of 1000 bytes" in (await link.bare.read())["error"]["message"]
        assert isinstance(await link.peer.wait_closed(), LinkBrokenError)
        assert link.handler.seen == [("before", None)]


async def test_pending_requests_break_with_the_link(open_link: Any) -> None:
    async with open_link(limits=RpcLimits(max_frame_bytes=100)) as link:
        asking = asyncio.create_task(link.peer.request("x"))
        await link.bare.read()
        await link.bare.send(b"x" * 101)
        with pytest.raises(LinkBrokenError, match="max_frame_bytes"):
            await asking


async def test_message_of_ours_over_the_limit_raises_and_is_not_sent(open_link: Any) -> None:
    async with open_link(limits=RpcLimits(max_frame_bytes=100)) as link:
        with pytest.raises(FrameTooLargeError, match="limit of 100"):
            await link.peer.request("x", "y" * 100)
        with pytest.raises(FrameTooLargeError):
            await link.peer.notify("x", "y" * 100)
        await link.settle()


async def test_answer_over_the_limit_becomes_an_error(open_link: Any) -> None:
    async def much(_: Any, __: RequestContext) -> str:
        return "y" * 400

    async with open_link(limits=RpcLimits(max_frame_bytes=300)) as link:
        link.handler.requests["much"] = much
        await link.bare.send({"id": 1, "method": "much"})
        assert (await link.bare.read())["error"]["code"] == INTERNAL_ERROR
        await link.settle()


async def test_requests_over_the_limit_are_answered_at_once(open_link: Any) -> None:
    gate = asyncio.Event()

    async def wait(_: Any, __: RequestContext) -> None:
        await gate.wait()

    async with open_link(limits=RpcLimits(max_in_flight=3)) as link:
        link.handler.requests["wait"] = wait
        await link.bare.send(*({"id": n, "method": "wait"} for n in range(5)), {"method": "n"})
        refused = [await link.bare.read() for _ in range(2)]
        assert [answer["id"] for answer in refused] == [3, 4]
        assert "too many requests" in refused[0]["error"]["message"]
        gate.set()
        assert sorted([(await link.bare.read())["id"] for _ in range(3)]) == [0, 1, 2]
        assert link.handler.seen == [("n", None)]


async def test_own_requests_over_the_limit_are_busy(open_link: Any) -> None:
    async with open_link(limits=RpcLimits(max_pending=2)) as link:
        asking = [asyncio.create_task(link.peer.request("x")) for _ in range(2)]
        asked = [await link.bare.read() for _ in range(2)]
        with pytest.raises(LinkBusyError, match="max_pending"):
            await link.peer.request("x")
        await link.bare.send(*({"id": request["id"], "result": 1} for request in asked))
        await asyncio.gather(*asking)
        again = asyncio.create_task(link.peer.request("x"))
        request = await link.bare.read()
        await link.bare.send({"id": request["id"], "result": 1})
        await again
