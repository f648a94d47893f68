"""Messages are handled in the order they came and written in the order they were issued."""

import asyncio
from typing import Any

import pytest

from quarterdeck.wire.errors import LinkBusyError
from quarterdeck.wire.rpc import Peer, RequestContext


async def test_request_is_answered_in_both_directions_at_once(two_peers: Any) -> None:
    near, _, far, _ = two_peers
    results = await asyncio.gather(
        *(near.request("echo", {"n": n}) for n in range(50)),
        *(far.request("echo", {"n": n}) for n in range(50)),
    )
    assert [bytes(r) for r in results] == [b'{"n":%d}' % n for n in range(50)] * 2


async def test_slow_notification_handlers_keep_the_order(link: Any) -> None:
    done: list[int] = []

    async def slowly(n: int) -> None:
        await asyncio.sleep(0.002 if n % 2 else 0)
        done.append(n)

    link.handler.notifications["n"] = slowly
    await link.bare.send(*({"method": "n", "params": n} for n in range(40)))
    await link.settle()
    assert done == list(range(40))


async def test_answer_waits_for_the_notifications_before_it(link: Any) -> None:
    handled: list[str] = []

    async def slowly(_: Any) -> None:
        await asyncio.sleep(0.01)
        handled.append("notification")

    link.handler.notifications["n"] = slowly
    asking = asyncio.create_task(link.peer.request("x"))
    asked = await link.bare.read()
    await link.bare.send({"method": "n"}, {"id": asked["id"], "result": 1})
    await asking
    assert handled == ["notification"]


async def test_who_asked_goes_on_before_the_next_notification(link: Any) -> None:
    order: list[str] = []
    link.handler.notifications["n"] = lambda _: order.append("notification")

    async def ask() -> None:
        await link.peer.request("x")
        order.append("answer")

    asking = asyncio.create_task(ask())
    asked = await link.bare.read()
    await link.bare.send({"id": asked["id"], "result": 1}, {"method": "n"})
    await asking
    await link.settle()
    assert order == ["answer", "notification"]


async def test_request_has_begun_before_the_next_notification(link: Any) -> None:
    order: list[str] = []

    async def begin(_: Any, __: RequestContext) -> None:
        order.append("request")

    link.handler.requests["r"] = begin
    link.handler.notifications["n"] = lambda _: order.append("notification")
    await link.bare.send({"id": 1, "method": "r"}, {"method": "n"})
    await link.settle()
    assert order == ["request", "notification"]


async def test_slow_request_does_not_hold_up_what_follows(link: Any) -> None:
    gate = asyncio.Event()

    async def wait(_: Any, __: RequestContext) -> str:
        await gate.wait()
        return "late"

    link.handler.requests["wait"] = wait
    await link.bare.send({"id": 1, "method": "wait"}, {"id": 2, "method": "echo", "params": [2]})
    assert await link.bare.read() == {"jsonrpc": "2.0", "id": 2, "result": [2]}
    gate.set()
    assert await link.bare.read() == {"jsonrpc": "2.0", "id": 1, "result": "late"}


async def test_notifications_of_a_handler_leave_before_its_answer(link: Any) -> None:
    async def stream(_: Any, context: RequestContext) -> str:
        for n in range(2000):
            await context.peer.notify("update", {"n": n, "text": "x" * 100})
        return "end"

    link.handler.requests["prompt"] = stream
    await link.bare.send({"id": 7, "method": "prompt"})
    numbers = [(await link.bare.read())["params"]["n"] for _ in range(2000)]
    assert numbers == list(range(2000))
    assert (await link.bare.read())["result"] == "end"


async def test_answer_of_another_request_can_be_awaited_in_a_request_handler(
    two_peers: Any,
) -> None:
    near, _, _, there = two_peers

    async def ask_back(value: Any, context: RequestContext) -> Any:
        return await context.peer.request("echo", value)

    there.requests["ask"] = ask_back
    assert bytes(await near.request("ask", ["permission"], timeout=5)) == b'["permission"]'


async def test_request_in_a_notification_handler_is_refused(link: Any) -> None:
    raised: list[Exception] = []

    async def ask(_: Any) -> None:
        try:
            await link.peer.request("x")
        except LinkBusyError as error:
            raised.append(error)

    link.handler.notifications["n"] = ask
    await link.bare.send({"method": "n"})
    await link.settle()
    assert "Start a task" in str(raised[0])


async def test_task_started_by_a_notification_handler_may_ask(link: Any) -> None:
    tasks: list[asyncio.Task[Any]] = []
    link.handler.notifications["n"] = lambda _: tasks.append(
        asyncio.create_task(link.peer.request("x"))
    )
    await link.bare.send({"method": "n"})
    asked = await link.bare.read()
    await link.bare.send({"id": asked["id"], "result": 3})
    assert bytes(await tasks[0]) == b"3"


async def test_flood_of_one_peer_leaves_turns_to_others(link: Any) -> None:
    def burn(_: Any) -> None:
        for _ in range(20_000):
            pass

    link.handler.notifications["n"] = burn
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    await link.bare.send(*({"method": "n"} for _ in range(200)))
    counting = asyncio.create_task(count())
    await link.settle()
    counting.cancel()
    # 200 handlers of some 0.3 ms and a turn for others every 16 of them once 5 ms are over.
    assert turns >= 5


@pytest.mark.parametrize("count", [1, 2000])
async def test_notifications_arrive_once_and_in_order(two_peers: Any, count: int) -> None:
    near: Peer
    near, _, _, there = two_peers
    for n in range(count):
        await near.notify("n", n)
    await near.request("echo")
    assert there.seen == [("n", n) for n in range(count)]
