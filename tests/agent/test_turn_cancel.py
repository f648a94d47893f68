"""A turn that is cancelled, wherever it is, ends as cancelled within a second."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from quarterdeck.agent.tools.tool import LiveCall, ToolOutcome, text_outcome
from quarterdeck.models.history_repair import repair_history
from quarterdeck.models.script import ScriptFailure, ScriptReply
from quarterdeck.models.script import ScriptTextPart as Says
from quarterdeck.wire.content import text
from quarterdeck.wire.conversation import Message, TextPart, ToolUsePart
from quarterdeck.wire.events import (
    MessageChunk,
    ModelCallFinished,
    ModelCallStarted,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
    RetryScheduled,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnded,
)
from quarterdeck.wire.permissions import Cancelled
from tests.support.agent_tools import FakeTool, NumberArguments, returns
from tests.support.deadlines import SOON
from tests.support.native_agents import Deck, assert_valid, call, deck, results, says, told


async def hang(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
    await asyncio.Event().wait()
    return text_outcome("never")


async def hang_first(arguments: NumberArguments) -> None:
    if arguments.n == 2:
        await asyncio.Event().wait()


async def ask(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
    await live.ask("Which colour?", {"type": "object", "properties": {}})
    return text_outcome("never")


async def forever(seconds: float) -> None:
    await asyncio.Event().wait()


async def in_prepare(ship: Deck) -> None:
    await ship.seen(ToolCallStarted)


async def in_tools(ship: Deck) -> None:
    await ship.seen(ToolCallUpdated, 2)


WHERE: dict[str, tuple[tuple[ScriptReply, ...], FakeTool, Callable[[Deck], Awaitable[object]]]] = {
    "before headers": (
        (says("late", delay=600),),
        FakeTool(hang),
        lambda ship: ship.seen(ModelCallStarted),
    ),
    "in the stream": (
        (ScriptReply(parts=(Says(text=("Once ", "upon"), pause=600),)),),
        FakeTool(hang),
        lambda ship: ship.seen(MessageChunk),
    ),
    "in a retry's wait": (
        (says("later", error=ScriptFailure(status=529, times=1)),),
        FakeTool(hang),
        lambda ship: ship.seen(RetryScheduled),
    ),
    "in a permission's wait": (
        (says(call("fake", n=1), call("fake", n=2)),),
        FakeTool(hang, kind="edit", writes="a{n}"),
        lambda ship: ship.asked(2),
    ),
    "in a question's wait": (
        (says(call("fake", n=1)),),
        FakeTool(ask),
        lambda ship: ship.seen(QuestionAsked),
    ),
    "in tools": ((says(call("fake", n=1), call("fake", n=2)),), FakeTool(hang), in_tools),
    "in a tool's preparation": (
        (says(call("fake", n=1), call("fake", n=2), call("fake", n=3)),),
        FakeTool(hang, prepare=hang_first),
        in_prepare,
    ),
}


@pytest.mark.parametrize("by", ["the session", "its caller"])
@pytest.mark.parametrize("where", WHERE)
async def test_a_cancelled_turn_ends_well(tmp_path: Path, where: str, by: str):
    replies, tool, reached = WHERE[where]
    async with deck(tmp_path, *replies, "next", tools=[tool], sleep=forever) as ship:
        running = ship.start()
        await reached(ship)
        async with asyncio.timeout(SOON):
            if by == "the session":
                await ship.session.cancel()
                ended = await running
                assert ended.stop == "cancelled"
                assert ended.reason is None
            else:
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
        assert not ship.session.is_running
        await assert_all_ended(ship)
        again = await ship.prompt("and now?")
        assert again.stop == "end_turn"
        if where != "in a retry's wait":
            sent = ship.requests[-1].messages
            assert_valid(sent)
            assert repair_history(sent, owner="scripted") == alternating(sent)
        logged = ship.session._conversation.messages()
        await ship.reload()
        assert ship.session._conversation.messages() == logged


def alternating(messages: tuple[Message, ...]) -> list[Message]:
    """Neighbours of one role joined: all that may be left for the repair to do."""
    joined: list[Message] = []
    for message in messages:
        if joined and joined[-1].role == message.role:
            parts = joined.pop().parts + message.parts
            message = Message(role=message.role, parts=parts)
        joined.append(message)
    return joined


async def assert_all_ended(ship: Deck) -> None:
    def of(kind: type, name: str) -> list[str]:
        return sorted(getattr(event, name) for event in events if isinstance(event, kind))

    events = await ship.events()
    assert of(ToolCallStarted, "call") == of(ToolCallEnded, "call")
    assert set(of(PermissionAsked, "request")) <= set(of(PermissionAnswered, "request"))
    assert of(QuestionAsked, "request") == of(QuestionAnswered, "request")
    assert len(await ship.events(ModelCallStarted)) == len(await ship.events(ModelCallFinished))
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].stop == "cancelled"


async def test_what_was_said_before_the_cancel_is_kept(tmp_path: Path):
    story = ScriptReply(parts=(Says(text=("Once ", "upon ", "a time")), Says(text="!", pause=600)))
    async with deck(tmp_path, story, "next", tools=()) as ship:
        running = ship.start()
        await ship.seen(MessageChunk, 4)
        await ship.session.cancel()
        await running
        await ship.prompt("go on")
    said_ = ship.requests[1].messages[1]
    assert said_ == Message(role="assistant", parts=(TextPart(text="Once upon a time!"),))


async def test_calls_that_were_not_begun_are_told_as_such(tmp_path: Path):
    calls = says(*(call("fake", n=n) for n in (1, 2, 3)))
    tool = FakeTool(hang, prepare=hang_first)
    async with deck(tmp_path, calls, "next", tools=[tool]) as ship:
        running = ship.start()
        await in_prepare(ship)
        await ship.session.cancel()
        await running
        await ship.prompt()
    answers = [told(result) for result in results(ship.requests[1].messages[2])]
    assert answers == ["The call was cancelled before it started."] * 3
    assert tool.ran == []


async def test_a_cancelled_permission_request_can_no_longer_be_answered(tmp_path: Path):
    tool = FakeTool(returns("ran"), kind="edit", writes="a")
    async with deck(tmp_path, says(call("fake", n=1)), "next", tools=[tool]) as ship:
        running = ship.start()
        (asked,) = await ship.asked()
        await ship.session.cancel()
        await running
        assert not ship.answer(asked, "allow-once")
        answered = await ship.only(PermissionAnswered)
    assert answered.outcome == Cancelled()
    assert answered.by.kind == "cancel"
    assert tool.ran == []


async def test_cancelling_twice_or_nothing_is_no_error(tmp_path: Path):
    async with deck(tmp_path, says(call("fake", n=1)), "next", tools=[FakeTool(hang)]) as ship:
        await ship.session.cancel()
        running = ship.start()
        await ship.seen(ToolCallUpdated)
        await asyncio.gather(*(ship.session.cancel() for _ in range(5)))
        assert (await running).stop == "cancelled"
        assert len(await ship.events(TurnEnded)) == 1
        assert (await ship.prompt()).stop == "end_turn"


async def test_a_prompt_cancelled_at_once_leaves_a_whole_log(tmp_path: Path):
    async with deck(tmp_path, "one", "two", tools=()) as ship:
        for wait in range(8):
            running = asyncio.ensure_future(ship.session.prompt((text(f"p{wait}"),)))
            for _ in range(wait):
                await asyncio.sleep(0)
            await ship.session.cancel()
            running.cancel()
            await asyncio.wait([running])
        from quarterdeck.wire.events import Prompted, TurnStarted

        counts = [len(await ship.events(kind)) for kind in (Prompted, TurnStarted, TurnEnded)]
    assert counts[0] == counts[1] == counts[2]


async def test_an_orphan_call_is_repaired_in_the_request_and_stays_in_the_log(tmp_path: Path):
    async with deck(tmp_path, "next", tools=()) as ship:
        orphan = Message(
            role="assistant", parts=(ToolUsePart(id="lost", name="bash", arguments="{}"),)
        )
        event = ModelCallFinished(model="scripted/test", reply=orphan)
        await ship.session._emit(event, None)
        before = await ship.records()
        await ship.prompt("and now?")
        sent = ship.requests[0].messages
        assert (await ship.records())[: len(before)] == before
    assert orphan in sent
    mended = repair_history(sent, owner="scripted")
    assert_valid(mended)
    assert [result.id for message in mended for result in results(message)] == ["lost"]
