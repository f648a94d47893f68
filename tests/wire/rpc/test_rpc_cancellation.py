"""A cancelled request is told to the peer, and every request is answered all the same."""

import asyncio
from typing import Any

import pytest

from quarterdeck.wire.rpc import REQUEST_CANCELLED, RequestContext


async def test_cancelled_waiter_tells_the_peer(link: Any) -> None:
    asking = asyncio.create_task(link.peer.request("slow", {"a": 1}))
    asked = await link.bare.read()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await link.bare.read() == {
        "jsonrpc": "2.0",
        "method": "$/cancel_request",
        "params": {"requestId": asked["id"]},
    }


async def test_timeout_tells_the_peer_and_late_answer_is_counted(link: Any) -> None:
    with pytest.raises(TimeoutError):
        await link.peer.request("slow", timeout=0.01)
    asked = await link.bare.read()
    assert (await link.bare.read())["params"] == {"requestId": asked["id"]}
    await link.bare.send({"id": asked["id"], "result": 1})
    await link.settle()
    assert (link.peer.counters.late, link.peer.counters.unasked) == (1, 0)


async def test_answered_request_sends_no_cancellation(link: Any) -> None:
    asking = asyncio.create_task(link.peer.request("x", timeout=5))
    asked = await link.bare.read()
    await link.bare.send({"id": asked["id"], "result": 1})
    await asking
    await link.bare.send({"id": 9, "method": "echo"})
    assert (await link.bare.read())["id"] == 9


async def test_cancelled_handler_is_answered_with_its_code(link: Any) -> None:
    began = asyncio.Event()

    async def hang(_: Any, __: RequestContext) -> None:
        began.set()
        await asyncio.Event().wait()

    link.handler.requests["hang"] = hang
    await link.bare.send({"id": "a", "method": "hang"})
    await began.wait()
    await link.bare.send({"method": "$/cancel_request", "params": {"requestId": "a"}})
    answer = await link.bare.read()
    assert (answer["id"], answer["error"]["code"]) == ("a", REQUEST_CANCELLED)


async def test_cancellation_in_the_same_chunk_finds_the_request(link: Any) -> None:
    async def hang(_: Any, __: RequestContext) -> None:
        await asyncio.Event().wait()

    link.handler.requests["hang"] = hang
    await link.bare.send(
        {"id": 1, "method": "hang"},
        {"method": "$/cancel_request", "params": {"requestId": 1}},
    )
    assert (await link.bare.read())["error"]["code"] == REQUEST_CANCELLED


async def test_handler_that_swallows_the_cancellation_answers_its_own_way(link: Any) -> None:
    async def finish(_: Any, __: RequestContext) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "cancelled in good order"
        return "never"

    link.handler.requests["prompt"] = finish
    await link.bare.send(
        {"id": 1, "method": "prompt"},
        {"method": "$/cancel_request", "params": {"requestId": 1}},
    )
    assert (await link.bare.read())["result"] == "cancelled in good order"


@pytest.mark.parametrize("params", [None, {}, {"requestId": 99}, {"requestId": [1]}, "x", [1]])
async def test_cancellation_of_nothing_harms_nothing(link: Any, params: Any) -> None:
    await link.bare.send({"method": "$/cancel_request", "params": params})
    await link.settle()
    assert link.handler.seen == []


async def test_other_dollar_notifications_reach_the_handler(link: Any) -> None:
    await link.bare.send({"method": "$/progress", "params": 1})
    await link.settle()
    assert link.handler.seen == [("$/progress", 1)]


async def test_both_sides_cancel_through_a_chain(two_peers: Any) -> None:
    near, _, _, there = two_peers
    ended: list[str] = []
    began = asyncio.Event()

    async def hang(_: Any, __: RequestContext) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("handler")

    there.requests["hang"] = hang
    asking = asyncio.create_task(near.request("hang"))
    await began.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await near.request("echo")
    assert ended == ["handler"]
    assert near.counters.late == 1
