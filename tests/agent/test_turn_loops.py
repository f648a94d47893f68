"""A model that does the same again and again is stopped."""

from pathlib import Path

import pytest

from quarterdeck.agent.limits import Repetition, TurnStoppedError, fingerprint
from quarterdeck.agent.tools.tool import LiveCall, ToolOutcome, text_outcome
from quarterdeck.models.script import Script, ScriptScene
from quarterdeck.wire.events import ModelCallStarted, NoticePosted
from tests.support.agent_tools import FakeTool, NumberArguments, returns
from tests.support.native_agents import call, deck, says


def loop(*numbers: int, times: int = 1) -> Script:
    """A model that calls the tool with these numbers, again and again."""
    replies = tuple(says(f"step {n}", call("fake", n=n)) for n in numbers)
    return Script(scenes={"loop": ScriptScene(replies=replies * times)}, default="loop")


async def test_the_same_call_with_the_same_result_ends_the_turn(tmp_path: Path):
    async with deck(tmp_path, loop(1), tools=[FakeTool(returns("ran"))]) as ship:
        ended = await ship.prompt()
        started = await ship.events(ModelCallStarted)
    assert ended.stop == "max_turn_requests"
    assert (ended.reason or "").startswith("no progress: ")
    assert len(started) == 8


@pytest.mark.parametrize("numbers", [(1, 2), (1, 2, 3)])
async def test_rounds_of_two_and_three_end_it_too(tmp_path: Path, numbers: tuple[int, ...]):
    tools = [FakeTool(returns("ran"))]
    async with deck(tmp_path, loop(*numbers, times=100), tools=tools) as ship:
        ended = await ship.prompt()
        started = await ship.events(ModelCallStarted)
    assert (ended.reason or "").startswith("no progress: ")
    assert len(started) < 20


async def test_a_call_that_fails_in_the_same_way_ends_it_too(tmp_path: Path):
    script = Script(scenes={"x": ScriptScene(replies=(says(call("nothing", n=1)),))}, default="x")
    async with deck(tmp_path, script) as ship:
        ended = await ship.prompt()
    assert (ended.reason or "").startswith("no progress: ")


async def test_other_results_are_progress(tmp_path: Path):
    count = 0

    async def counts(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
        nonlocal count
        count += 1
        return text_outcome(f"seen {count}")

    limits = {"model_calls": 40}
    async with deck(tmp_path, loop(1), tools=[FakeTool(counts)], limits=limits) as ship:
        ended = await ship.prompt()
    assert (ended.reason, count) == ("40 model calls in one turn", 40)


async def test_other_arguments_are_progress(tmp_path: Path):
    tools = [FakeTool(returns("ran"))]
    async with deck(tmp_path, loop(*range(50)), tools=tools, limits={"model_calls": 40}) as ship:
        assert (await ship.prompt()).reason == "40 model calls in one turn"


async def test_the_limit_can_be_changed_and_taken_away(tmp_path: Path):
    tools = [FakeTool(returns("ran"))]
    for limits, calls in (({"repeats": 3}, 3), ({"repeats": "unbounded", "model_calls": 30}, 30)):
        where = tmp_path / str(calls)
        where.mkdir()
        async with deck(where, loop(1), tools=tools, limits=limits) as ship:
            await ship.prompt()
            assert len(await ship.events(ModelCallStarted)) == calls


def test_slow_steps_may_wait_longer():
    repetition, step = Repetition(5), fingerprint([("bash", {"command": "status"}, "busy")])
    for _ in range(20):
        repetition.note(step, 30.0)
    with pytest.raises(TurnStoppedError):
        for _ in range(10):
            repetition.note(step, 30.0)


def test_the_order_of_arguments_means_nothing():
    one, other = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert fingerprint([("t", one, "r")]) == fingerprint([("t", other, "r")])
    assert fingerprint([("t", one, "r")]) != fingerprint([("t", one, "other")])


async def test_a_turn_of_nothing_is_told(tmp_path: Path):
    for number, (replies, count) in enumerate(
        (
            ((says(""),), 1),
            ((says(call("fake", n=1)), says("")), 0),
            ((says("hi"),), 0),
        )
    ):
        where = tmp_path / str(number)
        where.mkdir()
        async with deck(where, *replies, tools=[FakeTool(returns("ran"))]) as ship:
            ended = await ship.prompt()
            notices = await ship.events(NoticePosted)
        assert ended.stop == "end_turn"
        assert sum("no message and no tool call" in notice.title for notice in notices) == count
