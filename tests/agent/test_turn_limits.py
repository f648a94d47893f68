"""Limits of a turn, model calls that fail, and errors that nobody expected."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.agent.limits import TurnLimits, TurnSpending, TurnStoppedError
from quarterdeck.agent.tools.tool import LiveCall, ToolOutcome, text_outcome
from quarterdeck.journal import JournalStalledError
from quarterdeck.models.model import ModelInfo, Prices, TextDelta
from quarterdeck.models.script import Script, ScriptFailure, ScriptFault, ScriptReply, ScriptScene
from quarterdeck.models.script import ScriptTextPart as Says
from quarterdeck.wire.conversation import Message, TextPart
from quarterdeck.wire.events import (
    Event,
    ModelCallFinished,
    ModelCallStarted,
    RateLimited,
    RetryScheduled,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from quarterdeck.wire.usage import TokenUsage
from tests.support.agent_tools import FakeTool, Gathering, NumberArguments, returns
from tests.support.native_agents import assert_valid, call, deck, results, says, types

STEP = says("on", call("fake", n=1), usage=TokenUsage(input=90, output=10))
LOOP = Script(scenes={"loop": ScriptScene(replies=(STEP,))}, default="loop")


@pytest.mark.parametrize(
    ("limits", "stop", "reason", "calls"),
    [
        ({"model_calls": 3}, "max_turn_requests", "3 model calls in one turn", 3),
        ({"tokens": 250}, "max_tokens", "250 tokens in one turn", 3),
    ],
)
async def test_a_limit_ends_the_turn_and_says_which(
    tmp_path: Path, limits: dict[str, Any], stop: str, reason: str, calls: int
):
    tool = FakeTool(returns("ran"))
    async with deck(tmp_path, LOOP, tools=[tool], limits=limits) as ship:
        ended = await ship.prompt()
        started = await ship.events(ModelCallStarted)
    assert (ended.stop, ended.reason) == (stop, reason)
    assert len(started) == len(tool.ran) == calls
    assert ended.usage == TokenUsage(input=90 * calls, output=10 * calls)


async def test_cost_is_a_limit_where_prices_are_known(tmp_path: Path):
    tool = FakeTool(returns("ran"))
    async with deck(tmp_path, LOOP, tools=[tool], limits={"cost": 0.0005}) as ship:
        known = ship.model.info
        ship.model._info = ModelInfo(
            vendor=known.vendor,
            id=known.id,
            window=known.window,
            max_output=known.max_output,
            prices=Prices(input=1.0, output=10.0),
        )
        ended = await ship.prompt()
    assert (ended.stop, ended.reason) == ("max_turn_requests", "a cost of 0.0005 USD in one turn")
    assert ended.cost is not None
    assert ended.cost.amount == pytest.approx(3 * (90 * 1.0 + 10 * 10.0) / 1e6)


async def test_the_time_of_a_turn_ends_it_even_inside_a_tool(tmp_path: Path):
    async def hang(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
        await asyncio.Event().wait()
        return text_outcome("never")

    replies = (says(call("fake", n=1)), "next")
    async with deck(tmp_path, *replies, tools=[FakeTool(hang)], limits={"seconds": 0.1}) as ship:
        async with asyncio.timeout(45):
            ended = await ship.prompt()
        (end,) = await ship.events(ToolCallEnded)
        assert (await ship.prompt("again")).stop == "end_turn"
    assert (ended.stop, ended.reason) == ("max_turn_requests", "0.1 seconds in one turn")
    assert end.status == "cancelled"
    assert_valid(ship.requests[1].messages)


async def test_waiting_for_a_person_is_not_counted_as_time(tmp_path: Path):
    tool = FakeTool(returns("ran"), kind="edit", writes="a.txt")
    replies = (says(call("fake", n=1)), "done")
    async with deck(tmp_path, *replies, tools=[tool], limits={"seconds": 0.3}) as ship:
        running = ship.start()
        (asked,) = await ship.asked()
        await asyncio.wait([running], timeout=0.5)
        assert not running.done()
        ship.answer(asked, "allow-once")
        ended = await running
    assert ended.stop == "end_turn"


def test_the_adaptive_limit_grows_with_progress_only():
    spending = TurnSpending(limits=TurnLimits(model_calls="adaptive"), started=0)
    for _ in range(100):
        spending.check(0)
        spending.calls += 1
        spending.progress += 1
    stuck = TurnSpending(limits=TurnLimits(model_calls="adaptive"), started=0)
    with pytest.raises(TurnStoppedError, match="32 model calls"):
        for _ in range(100):
            stuck.check(0)
            stuck.calls += 1


@pytest.mark.parametrize("works", [True, False])
async def test_an_adaptive_turn_goes_on_while_tools_do_their_work(tmp_path: Path, works: bool):
    async def run(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
        return text_outcome("ran", is_error=not works)

    steps = says(call("fake", n=1), repeat=40)
    limits = {"repeats": "unbounded"}
    async with deck(tmp_path, steps, "done", tools=[FakeTool(run)], limits=limits) as ship:
        ended = await ship.prompt()
    if works:
        assert ended.stop == "end_turn"
    else:
        assert (ended.stop, ended.reason) == ("max_turn_requests", "32 model calls in one turn")


async def test_an_unbounded_turn_has_no_limit_of_calls(tmp_path: Path):
    steps = says(call("nosuch"), repeat=60)
    limits = {"model_calls": "unbounded", "repeats": "unbounded"}
    async with deck(tmp_path, steps, "done", tools=(), limits=limits) as ship:
        assert (await ship.prompt()).stop == "end_turn"


def assistant(words: str) -> Message:
    return Message(role="assistant", parts=(TextPart(text=words),))


async def test_a_stream_that_breaks_is_asked_for_again(tmp_path: Path):
    parts = (Says(text=("Whole ", "at the ", "third try.")),)
    flaky = ScriptReply(parts=parts, fault=ScriptFault(kind="drop", after=2, times=2))
    async with deck(tmp_path, flaky, tools=()) as ship:
        ended = await ship.prompt()
        events = await ship.events(ModelCallStarted, ModelCallFinished, RetryScheduled, RateLimited)
        messages = ship.session._conversation.messages()
    assert ended.stop == "end_turn"
    assert types(events) == [
        "ModelCallStarted", "ModelCallFinished", "RetryScheduled",
        "ModelCallStarted", "ModelCallFinished", "RetryScheduled",
        "ModelCallStarted", "ModelCallFinished",
    ]  # fmt: skip
    finished = [event for event in events if isinstance(event, ModelCallFinished)]
    assert [end.reply for end in finished] == [None, None, assistant("Whole at the third try.")]
    retries = [event for event in events if isinstance(event, RetryScheduled)]
    assert [retry.attempt for retry in retries] == [2, 3]
    assert [retry.delay for retry in retries] == ship.slept
    assert 0.75 <= ship.slept[0] <= 1.25
    assert 1.5 <= ship.slept[1] <= 2.5
    assert ship.requests[0] == ship.requests[2]
    assert messages[-1] == assistant("Whole at the third try.")


async def test_a_turn_that_fails_for_good_keeps_its_steps_and_the_partial_text(tmp_path: Path):
    broken = ScriptReply(
        parts=(Says(text=("Now I ", "will")),), fault=ScriptFault(kind="drop", after=2)
    )
    replies = (says("First.", call("fake", n=1)), broken, "Go on.")
    tool = FakeTool(returns("ran"))
    async with deck(tmp_path, *replies, tools=[tool], limits={"retries": 0}) as ship:
        ended = await ship.prompt("work")
        assert ended.stop == "failed"
        assert "lost in the middle of the reply" in (ended.reason or "")
        assert (await ship.prompt("go on")).stop == "end_turn"
        await ship.reload()
        again = ship.session._conversation.messages()
    sent = ship.requests[2].messages
    assert [message.role for message in sent] == ["user", "assistant", "user", "assistant", "user"]
    assert sent[3] == assistant("Now I will")
    assert again[: len(sent)] == sent
    assert_valid(sent)


async def test_a_rate_limit_is_waited_for_as_long_as_the_vendor_wants(tmp_path: Path):
    busy = says("Now.", error=ScriptFailure(status=429, headers={"retry-after": "17"}, times=1))
    async with deck(tmp_path, busy, tools=()) as ship:
        await ship.prompt()
        limited = await ship.only(RateLimited)
    assert ship.slept == [17.0]
    assert limited.retry_after == 17.0


@pytest.mark.parametrize("status", [500, 503, 529])
async def test_a_vendors_failure_is_tried_again_with_longer_and_longer_waits(
    tmp_path: Path, status: int
):
    down = says(error=ScriptFailure(status=status), repeat=10)
    async with deck(tmp_path, down, tools=(), limits={"retries": 3}) as ship:
        ended = await ship.prompt()
    assert ended.stop == "failed"
    assert len(ship.slept) == 3
    for earlier, later in zip(ship.slept, ship.slept[1:], strict=False):
        assert later > earlier


@pytest.mark.parametrize("failure", [400, 401, 404, "quota"])
async def test_what_will_not_pass_is_not_tried_again(tmp_path: Path, failure: int | str):
    error = (
        ScriptFailure(status=429, kind="quota")
        if failure == "quota"
        else ScriptFailure(status=failure)
    )
    async with deck(tmp_path, says(error=error), "fine", tools=()) as ship:
        ended = await ship.prompt()
        assert ended.stop == "failed"
        assert await ship.events(RetryScheduled) == []
        assert (await ship.prompt()).stop == "end_turn"
    assert ship.slept == []


async def test_a_model_with_a_fault_of_its_own_fails_the_turn_and_not_the_session(tmp_path: Path):
    class Faulty:
        info = ModelInfo(vendor="odd", id="one", window=1000, max_output=100)

        async def stream(self, request: object) -> Any:
            yield TextDelta("Well")
            raise KeyError("choices")

        async def close(self) -> None:
            pass

    async with deck(tmp_path, "fine", tools=()) as ship:
        good, ship.session.setup.model = ship.session.setup.model, Faulty()
        ended = await ship.prompt()
        finished = await ship.only(ModelCallFinished)
        ship.session.setup.model = good
        assert (await ship.prompt()).stop == "end_turn"
    assert ended.stop == "failed"
    assert "KeyError" in (ended.reason or "")
    assert "KeyError" in (finished.error or "")
    assert ship.requests[0].messages[1] == assistant("Well")


class LeakyJournal:
    """A log that takes no event of one kind while ``leaks``."""

    def __init__(self, journal: Any, refused: type[Event] | tuple[type[Event], ...]) -> None:
        self._journal = journal
        self._refused = refused
        self.leaks = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def append(self, session: Any, event: Event, **place: Any) -> Any:
        if self.leaks and isinstance(event, self._refused):
            raise JournalStalledError(self._journal.path, "the disk is full", kept=False)
        return await self._journal.append(session, event, **place)


@pytest.mark.parametrize("refused", [ToolCallEnded, ToolCallStarted, ModelCallFinished])
async def test_a_log_that_fails_within_a_turn_ends_it_as_failed(
    tmp_path: Path, refused: type[Event]
):
    gathering = Gathering()
    gathering.door.set()
    replies = (says(call("fake", n=1), call("fake", n=2)), "better", "better still")
    async with deck(tmp_path, *replies, tools=[FakeTool(gathering.run)]) as ship:
        ship.session.journal = leaky = LeakyJournal(ship.session.journal, refused)
        async with asyncio.timeout(45):
            ended = await ship.prompt()
        assert ended.stop == "failed"
        assert "the disk is full" in (ended.reason or "")
        leaky.leaks = False
        assert (await ship.prompt("again")).stop == "end_turn"
        sent = ship.session._conversation.messages()
        await ship.reload()
        assert ship.session._conversation.messages() == sent
    assert gathering.inside == 0


async def test_a_log_that_cannot_take_the_end_is_reported_and_the_session_goes_on(tmp_path: Path):
    replies = (says(call("fake", n=1)), "better", "better")
    refused = (ToolCallEnded, TurnEnded)
    async with deck(tmp_path, *replies, tools=[FakeTool(returns("ran"))]) as ship:
        ship.session.journal = leaky = LeakyJournal(ship.session.journal, refused)
        async with asyncio.timeout(45):
            with pytest.raises(JournalStalledError, match="the disk is full"):
                await ship.prompt()
        assert not ship.session.is_running
        leaky.leaks = False
        assert (await ship.prompt("again")).stop == "end_turn"


async def test_steps_that_were_done_are_in_the_log_before_the_next_begins(tmp_path: Path):
    seen: list[int] = []

    async def look(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
        seen.append(len(await ship.events(ToolCallEnded)))
        return text_outcome("looked")

    steps = [says(call("fake", n=n)) for n in range(3)]
    async with deck(tmp_path, *steps, "done", tools=[FakeTool(look)]) as ship:
        await ship.prompt()
    assert seen == [0, 1, 2]
    assert len(results(ship.requests[3].messages[-1])) == 1
