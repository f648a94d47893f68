"""However the link ends, nothing waits forever and nothing is left behind."""

import asyncio
import logging
from typing import Any

import pytest

from quarterdeck.wire.errors import LinkBrokenError, LinkClosedError, LinkEndedError
from quarterdeck.wire.rpc import (
    ByteStream,
    Peer,
    RequestContext,
    RpcLimits,
    join_streams,
    memory_pair,
)


class BrokenSink:
    """Reads for ever; every write fails."""

    async def receive(self) -> bytes:
        await asyncio.Event().wait()
        return b""

    async def send(self, data: bytes) -> None:
        raise LinkBrokenError("the peer takes no more bytes")

    async def close(self) -> None:
        pass


async def test_close_resolves_what_is_pending(link: Any, no_pending_tasks: Any) -> None:
    asking = [asyncio.create_task(link.peer.request("x")) for _ in range(3)]
    await link.bare.read()
    await link.peer.close()
    for task in asking:
        with pytest.raises(LinkClosedError, match="'bare' was closed"):
            await task
    assert isinstance(link.peer.ending, LinkClosedError)
    assert no_pending_tasks() == []


async def test_close_may_be_called_again_and_by_many(link: Any) -> None:
    await asyncio.gather(*(link.peer.close() for _ in range(5)))
    await link.peer.close()
    assert isinstance(await link.peer.wait_closed(), LinkClosedError)


async def test_use_after_close_raises(link: Any) -> None:
    await link.peer.close()
    with pytest.raises(LinkClosedError):
        await link.peer.request("x")
    with pytest.raises(LinkClosedError):
        await link.peer.notify("x")


async def test_close_without_start_closes_the_stream(recorder: Any) -> None:
    near, far = memory_pair()
    peer = Peer(near, recorder)
    await peer.close()
    assert await far.receive() == b""
    await far.close()


async def test_end_of_the_stream_ends_what_is_pending(link: Any) -> None:
    asking = asyncio.create_task(link.peer.request("x"))
    await link.bare.read()
    await link.bare.stream.close()
    with pytest.raises(LinkEndedError, match="'bare' closed the connection"):
        await asking
    assert isinstance(await link.peer.wait_closed(), LinkEndedError)
    with pytest.raises(LinkEndedError):
        await link.peer.request("x")


async def test_failed_write_breaks_pending_and_later_requests(
    recorder: Any, no_pending_tasks: Any
) -> None:
    async with Peer(BrokenSink(), recorder) as peer:
        with pytest.raises(LinkBrokenError, match="no more bytes"):
            await peer.request("x", timeout=5)
        with pytest.raises(LinkBrokenError, match="no more bytes"):
            await peer.request("x", timeout=5)
        with pytest.raises(LinkBrokenError):
            await peer.notify("x")
        assert isinstance(await peer.wait_closed(), LinkBrokenError)
    assert no_pending_tasks() == []


async def test_unexpected_error_of_a_stream_is_broken(
    recorder: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd(BrokenSink):
        async def receive(self) -> bytes:
            raise ZeroDivisionError("odd")

    async with Peer(Odd(), recorder, name="odd") as peer:
        ending = await peer.wait_closed()
    assert isinstance(ending, LinkBrokenError)
    assert "'odd' failed: odd" in str(ending)
    assert "Traceback" in caplog.text


async def test_handlers_are_cancelled_by_close(link: Any, no_pending_tasks: Any) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def hang(_: Any, __: RequestContext) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    link.handler.requests["hang"] = hang
    await link.bare.send({"id": 1, "method": "hang"})
    await began.wait()
    await link.peer.close()
    assert ended.is_set()
    assert no_pending_tasks() == []


async def test_handler_that_ignores_its_cancellation_is_left_after_the_deadline(
    link: Any, caplog: pytest.LogCaptureFixture
) -> None:
    began, release = asyncio.Event(), asyncio.Event()

    async def stubborn(_: Any, __: RequestContext) -> None:
        began.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    link.handler.requests["stubborn"] = stubborn
    await link.bare.send({"id": 1, "method": "stubborn"})
    await began.wait()
    with caplog.at_level(logging.WARNING):
        await link.peer.close()
    assert "request stubborn ignored its cancellation" in caplog.text
    release.set()


async def test_requests_before_the_end_are_still_answered(recorder: Any) -> None:
    """As in ``agent < requests.jsonl > answers.jsonl``."""

    async def slowly(_: Any, __: RequestContext) -> str:
        await asyncio.sleep(0.02)
        return "done"

    recorder.requests["slow"] = slowly
    questions, questions_in = memory_pair()
    answers_out, answers = memory_pair()
    async with Peer(join_streams(questions_in, answers_out), recorder) as peer:
        await questions.send(b'{"id":1,"method":"slow"}\n{"id":2,"method":"echo"}')
        await questions.close()
        assert isinstance(await peer.wait_closed(), LinkEndedError)
    received = b""
    while chunk := await answers.receive():
        received += chunk
    assert received == (
        b'{"jsonrpc":"2.0","id":2,"result":null}\n{"jsonrpc":"2.0","id":1,"result":"done"}\n'
    )
    await answers.close()


async def test_handler_that_outlasts_the_end_is_cancelled(recorder: Any) -> None:
    ended: list[str] = []

    async def hang(_: Any, __: RequestContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    recorder.requests["hang"] = hang
    near, far = memory_pair()
    async with Peer(near, recorder, limits=RpcLimits(grace_seconds=0.02)) as peer:
        await far.send(b'{"id":1,"method":"hang"}\n')
        await far.close()
        assert isinstance(await peer.wait_closed(), LinkEndedError)
    assert ended == ["cancelled"]


async def test_frames_issued_before_close_are_written(link: Any) -> None:
    for n in range(10):
        await link.peer.notify("n", n)
    await link.peer.close()
    assert [(await link.bare.read())["params"] for _ in range(10)] == list(range(10))
    assert await link.bare.read() is None


async def test_close_ends_in_time_when_the_peer_does_not_read(open_link: Any) -> None:
    limits = RpcLimits(grace_seconds=0.05, high_water_bytes=10)
    async with open_link(limits=limits, capacity=10) as link:
        telling = [asyncio.create_task(link.peer.notify("n", "x" * 100)) for _ in range(3)]
        await asyncio.sleep(0)
        async with asyncio.timeout(45):
            await link.peer.close()
        outcomes = await asyncio.gather(*telling, return_exceptions=True)
        assert all(isinstance(outcome, LinkClosedError) for outcome in outcomes)


async def test_handler_may_close_its_own_peer(link: Any) -> None:
    async def close(_: Any, context: RequestContext) -> str:
        await context.peer.close()
        return "bye"

    link.handler.requests["close"] = close
    await link.bare.send({"id": 1, "method": "close"})
    assert isinstance(await link.peer.wait_closed(), LinkClosedError)


async def test_notification_handler_may_close_its_own_peer(link: Any) -> None:
    link.handler.notifications["close"] = lambda _: link.peer.close()
    await link.bare.send({"method": "close"})
    assert isinstance(await link.peer.wait_closed(), LinkClosedError)


async def test_each_waiter_gets_an_error_of_its_own(link: Any) -> None:
    asking = [asyncio.create_task(link.peer.request("x")) for _ in range(2)]
    await link.bare.read()
    await link.peer.close()
    first, second = await asyncio.gather(*asking, return_exceptions=True)
    assert first is not second


async def test_broken_keeps_what_the_stream_said(recorder: Any) -> None:
    class Child(BrokenSink):
        async def receive(self) -> bytes:
            raise LinkBrokenError("agent crashed", exit_code=3, stderr="last words")

    stream: ByteStream = Child()
    async with Peer(stream, recorder) as peer:
        ending = await peer.wait_closed()
    assert isinstance(ending, LinkBrokenError)
    assert (ending.exit_code, ending.stderr) == (3, "last words")
