"""The turn: the order of its events, queueing, steering, tools side by side, what goes wrong."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.agent.tools.tool import LiveCall, ToolError, ToolOutcome, text_outcome
from quarterdeck.models.script import Script, ScriptCallPart, ScriptReply
from quarterdeck.wire.content import text
from quarterdeck.wire.conversation import Message, TextPart
from quarterdeck.wire.errors import LinkClosedError
from quarterdeck.wire.events import (
    MessageChunk,
    ModelCallFinished,
    ModelCallStarted,
    Prompted,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import MessageId, SessionId
from tests.support.agent_tools import FakeTool, Gathering, NumberArguments, returns
from tests.support.native_agents import assert_valid, call, deck, results, says, told, types


def user(words: str) -> Message:
    return Message(role="user", parts=(TextPart(text=words),))


def assistant(words: str) -> Message:
    return Message(role="assistant", parts=(TextPart(text=words),))


async def test_events_of_a_text_turn_come_in_order_once_each(tmp_path: Path):
    async with deck(tmp_path, "Hello, ada.", tools=()) as ship:
        ended = await ship.prompt("Hi")
        records = await ship.records()
    first = next(i for i, r in enumerate(records) if isinstance(r.event, Prompted))
    turn = records[first:]
    assert types(record.event for record in turn) == [
        "Prompted",
        "TurnStarted",
        "ModelCallStarted",
        "MessageChunk",
        "ModelCallFinished",
        "UsageReported",
        "TurnEnded",
    ]
    assert len({record.turn for record in turn}) == 1
    assert turn[0].turn is not None
    finished = turn[4].event
    assert isinstance(finished, ModelCallFinished)
    assert finished.reply == assistant("Hello, ada.")
    assert finished.usage is not None
    assert finished.usage.output > 0
    assert turn[-1].event == ended
    assert ended == TurnEnded(stop="end_turn", usage=finished.usage)


async def test_a_second_prompt_waits_for_the_first_turn(tmp_path: Path):
    tool = Gathering()
    replies = (says(call("fake", n=1)), "first", "second")
    async with deck(tmp_path, *replies, tools=[FakeTool(tool.run)]) as ship:
        first, second = ship.start("one"), ship.start("two")
        await tool.wait_for(1)
        assert len(await ship.events(Prompted)) == 1
        tool.door.set()
        assert (await first).stop == (await second).stop == "end_turn"
        events = await ship.events(Prompted, TurnStarted, TurnEnded)
    assert types(events) == ["Prompted", "TurnStarted", "TurnEnded"] * 2
    assert ship.requests[2].messages[-2:] == (assistant("first"), user("two"))


async def test_calls_of_a_step_run_side_by_side_up_to_the_limit(tmp_path: Path):
    gathering = Gathering()
    calls = says("Many.", *(call("fake", n=n) for n in range(5)))
    async with deck(
        tmp_path,
        calls,
        "done",
        tools=[FakeTool(gathering.run)],
        limits={"max_concurrent_tools": 3},
    ) as ship:
        running = ship.start()
        await gathering.wait_for(3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert gathering.inside == 3
        gathering.door.set()
        await running
    assert gathering.most == 3
    assert sorted(gathering.entered) == [0, 1, 2, 3, 4]


async def test_results_go_back_in_the_calls_order_in_one_message(tmp_path: Path):
    gates = [asyncio.Event() for _ in range(3)]

    async def run(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
        await gates[arguments.n].wait()
        if arguments.n:
            gates[arguments.n - 1].set()
        return text_outcome(f"result {arguments.n}")

    calls = says(*(call("fake", n=n) for n in range(3)))
    async with deck(tmp_path, calls, "done", tools=[FakeTool(run)]) as ship:
        gates[2].set()
        await ship.prompt()
        ends = await ship.events(ToolCallEnded)
    assert [told(end.result) for end in ends if end.result] == ["result 2", "result 1", "result 0"]
    answer = ship.requests[1].messages[-1]
    assert [told(result) for result in results(answer)] == ["result 0", "result 1", "result 2"]
    assert_valid(ship.requests[1].messages)


async def explode(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
    raise ZeroDivisionError("by nought")


async def complain(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
    raise ToolError("The file is gone; list the directory first.")


async def give_up(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
    raise TimeoutError("its own clock")


async def cancel_itself(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
    raise asyncio.CancelledError


async def hang(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
    await asyncio.Event().wait()
    raise AssertionError


async def refuse_to_prepare(arguments: NumberArguments) -> None:
    raise RuntimeError("cannot look")


@pytest.mark.parametrize(
    ("part", "tool", "reason"),
    [
        (call("nosuch"), FakeTool(explode), "There is no tool 'nosuch'. Tools: fake."),
        (ScriptCallPart(call="fake", raw='{"n": 1'), FakeTool(explode), "not valid JSON"),
        (call("fake", n="many"), FakeTool(explode), "Expected `int`"),
        (call("fake", m=1), FakeTool(explode), "unknown field `m`"),
        (call("fake"), FakeTool(explode), "ZeroDivisionError('by nought')"),
        (call("fake"), FakeTool(complain), "The file is gone; list the directory first."),
        (call("fake"), FakeTool(give_up), "TimeoutError('its own clock')"),
        (call("fake"), FakeTool(cancel_itself), "cancelled its own work"),
        (call("fake"), FakeTool(hang, timeout=0.01), "did not finish within 0.01 s"),
        (call("fake"), FakeTool(explode, prepare=refuse_to_prepare), "cannot look"),
    ],
    ids=[
        "unknown tool",
        "bad JSON",
        "wrong type",
        "unknown argument",
        "raises",
        "says it cannot",
        "raises TimeoutError",
        "raises CancelledError",
        "too slow",
        "raises when preparing",
    ],
)
async def test_what_goes_wrong_with_a_call_is_told_to_the_model(
    tmp_path: Path, part: ScriptCallPart, tool: FakeTool, reason: str
):
    good = FakeTool(returns("fine"), name="good")
    replies = (says(part, call("good", n=7)), "I see.")
    tools = [tool, good] if "Tools: fake." not in reason else [tool]
    async with deck(tmp_path, *replies, tools=tools) as ship:
        ended = await ship.prompt()
        starts = await ship.events(ToolCallStarted)
        ends = await ship.events(ToolCallEnded)
    assert ended.stop == "end_turn"
    assert [start.call for start in starts] == sorted({end.call for end in ends})
    assert {end.call: end.status for end in ends}[starts[0].call] == "failed"
    first = results(ship.requests[1].messages[-1])[0]
    assert first.is_error
    assert reason in told(first)
    assert_valid(ship.requests[1].messages)


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        ({"path": " src/a.py ", "n": "many"}, "fake src/a.py"),
        ({"path": "", "command": "x" * 300}, f"fake {'x' * 200}"),
        ({"path": 7, "n": "many"}, "fake"),
    ],
)
async def test_a_call_that_is_refused_names_what_it_was_to_work_on(
    tmp_path: Path, arguments: dict[str, Any], title: str
):
    replies = (says(call("fake", **arguments)), "I see.")
    async with deck(tmp_path, *replies, tools=[FakeTool(explode)]) as ship:
        await ship.prompt()
        (start,) = await ship.events(ToolCallStarted)
    assert start.title == title


async def test_a_raising_tool_leaves_a_result_with_the_calls_own_id(tmp_path: Path):
    async with deck(tmp_path, says(call("fake")), "ok", tools=[FakeTool(explode)]) as ship:
        await ship.prompt()
        (end,) = await ship.events(ToolCallEnded)
    assert end.result is not None
    assert end.result.id == end.call != ""


async def test_an_output_without_json_form_is_told_as_well_as_can_be(tmp_path: Path):
    async def odd(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
        parts = (TextPart(text="caf\udce9.txt"),)
        return ToolOutcome(result=parts, raw_output={"handle": object()})

    async with deck(tmp_path, says(call("fake")), "ok", tools=[FakeTool(odd)]) as ship:
        ended = await ship.prompt()
        sent = ship.requests[1].messages
        await ship.reload()
        resumed = ship.session._conversation.messages()
    assert ended.stop == "end_turn"
    assert told(results(sent[-1])[0]) == "caf?.txt"
    assert resumed[: len(sent)] == sent


async def test_a_call_cut_short_by_the_models_limit_is_not_run(tmp_path: Path):
    tool = FakeTool(returns("ran"))
    cut = ScriptReply(parts=(ScriptCallPart(call="fake", raw=""),), stop="max_tokens")
    half = ScriptReply(parts=(ScriptCallPart(call="fake", raw='{"n": 1, "wo'),), stop="max_tokens")
    async with deck(tmp_path, cut, half, "sorry", tools=[tool]) as ship:
        ended = await ship.prompt()
    assert tool.ran == []
    assert ended.stop == "end_turn"
    assert "limit" in told(results(ship.requests[1].messages[-1])[0])
    assert "not valid JSON" in told(results(ship.requests[2].messages[-1])[0])


@pytest.mark.parametrize(
    ("stop", "reason"),
    [("max_tokens", "the model's limit for one answer"), ("refusal", "the model declined")],
)
async def test_the_models_own_stops_end_the_turn(tmp_path: Path, stop: str, reason: str):
    async with deck(tmp_path, says("Half an ans", stop=stop), tools=()) as ship:
        ended = await ship.prompt()
    assert (ended.stop, ended.reason) == (stop, reason)


@pytest.mark.altered
async def test_calls_with_the_same_id_are_told_apart(tmp_path: Path):
    """Some servers number the calls of every reply from one."""
    tool = FakeTool(returns("ran"))
    async with deck(tmp_path, "unused", tools=[tool]) as ship:
        ship.session.setup.model = model = Numbering()
        ended = await ship.prompt()
        starts = await ship.events(ToolCallStarted)
    assert ended.stop == "end_turn"
    assert [arguments.n for arguments in tool.ran] == [1, 2, 3]
    assert len({start.call for start in starts}) == 3
    assert_valid(model.requests[-1].messages)


class Numbering:
    """A model that calls its first call of each reply ``call_0``."""

    def __init__(self) -> None:
        from quarterdeck.models.model import ModelInfo

        self.info = ModelInfo(vendor="odd", id="ids", window=1000, max_output=100)
        self.requests = []

    async def stream(self, request):
        from quarterdeck.models.model import ReplyFinished
        from quarterdeck.wire.conversation import ToolUsePart
        from quarterdeck.wire.usage import TokenUsage

        self.requests.append(request)
        numbers = {1: (1, 2), 2: (3,), 3: ()}[len(self.requests)]
        parts = tuple(
            ToolUsePart(id="call_0", name="fake", arguments=f'{{"n": {n}}}') for n in numbers
        )
        reply = Message(role="assistant", parts=parts or (TextPart(text="end"),))
        stop = "tool_use" if parts else "end_turn"
        yield ReplyFinished(reply=reply, stop=stop, usage=TokenUsage())

    async def close(self) -> None:
        pass


async def test_steering_is_told_at_the_next_step(tmp_path: Path):
    tool = Gathering()
    replies = (says(call("fake", n=1)), "As you wish.")
    async with deck(tmp_path, *replies, tools=[FakeTool(tool.run)]) as ship:
        running = ship.start("begin")
        await tool.wait_for(1)
        ship.session.steer((text("rather blue"),))
        tool.door.set()
        ended = await running
        prompts = await ship.events(Prompted)
        records = await ship.records()
    assert ended.stop == "end_turn"
    assert [prompt.steers for prompt in prompts] == [False, True]
    assert len({r.turn for r in records if isinstance(r.event, Prompted)}) == 1
    assert ship.requests[1].messages[-1] == user("rather blue")
    assert len(results(ship.requests[1].messages[-2])) == 1


async def test_steering_while_the_model_answers_makes_another_step(tmp_path: Path):
    script = Script.sequence(says("Red it is.", delay=0.05), "Blue it is.")
    async with deck(tmp_path, script, tools=()) as ship:
        running = ship.start("paint")
        await ship.seen(ModelCallStarted)
        ship.session.steer((text("rather blue"),))
        await running
    assert ship.requests[1].messages[1:] == (assistant("Red it is."), user("rather blue"))


async def test_steering_that_came_too_late_is_heard_with_the_next_prompt(tmp_path: Path):
    tool = Gathering()
    replies = (says(call("fake", n=1)), "next")
    async with deck(tmp_path, *replies, tools=[FakeTool(tool.run)]) as ship:
        running = ship.start("begin")
        await tool.wait_for(1)
        ship.session.steer((text("rather blue"),))
        await ship.session.cancel()
        assert (await running).stop == "cancelled"
        await ship.prompt("again")
    assert ship.requests[1].messages[-2:] == (user("rather blue"), user("again"))


async def test_only_a_running_turn_can_be_steered(tmp_path: Path):
    async with deck(tmp_path, "hello", tools=()) as ship:
        assert not ship.session.steer((text("now"),))
        await ship.prompt()
        assert not ship.session.steer((text("now"),))
        assert len(await ship.events(Prompted)) == 1


async def test_a_message_that_steers_says_whose_it_is(tmp_path: Path):
    tool = Gathering()
    replies = (says(call("fake", n=1)), "As you wish.")
    async with deck(tmp_path, *replies, tools=[FakeTool(tool.run)]) as ship:
        running = ship.start("begin")
        await tool.wait_for(1)
        sender, message = SessionId("ses_lead"), MessageId("msg_1")
        content = (text("rather blue"),)
        assert ship.session.steer(content, origin="agent", sender=sender, message=message)
        tool.door.set()
        await running
        (_, steering) = await ship.events(Prompted)
    assert (steering.origin, steering.sender, steering.message) == ("agent", sender, message)


async def test_each_request_begins_with_the_one_before(tmp_path: Path):
    tool = FakeTool(returns("result"))
    calls = [says(f"step {n}", call("fake", n=n), call("fake", n=-n)) for n in range(1, 5)]
    async with deck(tmp_path, *calls, "done", "again", tools=[tool]) as ship:
        await ship.prompt("one")
        await ship.prompt("two")
    for earlier, later in zip(ship.requests, ship.requests[1:], strict=False):
        assert later.messages[: len(earlier.messages)] == earlier.messages
        assert (later.system, later.tools) == (earlier.system, earlier.tools)


async def test_a_slow_follower_loses_nothing_and_a_dead_one_blocks_nobody(tmp_path: Path):
    from quarterdeck.models.script import ScriptTextPart as Says

    flood = ScriptReply(parts=(Says(text="word {{n}} ", repeat=3000),))
    async with deck(tmp_path, flood, tools=()) as ship:
        journal, id_ = ship.session.journal, ship.session.id
        slow, dead = journal.follow(session=id_), journal.follow(session=id_)
        await anext(slow)
        await anext(dead)
        async with asyncio.timeout(45):
            await ship.prompt()
        heard: list[str] = []
        async for record in slow:
            if isinstance(record.event, MessageChunk):
                heard.append(record.event.content.text)
            if isinstance(record.event, TurnEnded):
                break
        await slow.aclose()
        await dead.aclose()
    assert heard == [f"word {n} " for n in range(1, 3001)]


async def test_closing_a_session_ends_its_turn_and_refuses_prompts(tmp_path: Path):
    tool = Gathering()
    async with deck(tmp_path, says(call("fake", n=1)), tools=[FakeTool(tool.run)]) as ship:
        running, queued = ship.start(), ship.start("later")
        await tool.wait_for(1)
        await ship.session.close()
        assert (await running).stop == "cancelled"
        with pytest.raises(LinkClosedError, match="load it again"):
            await queued
        with pytest.raises(LinkClosedError):
            await ship.prompt()
