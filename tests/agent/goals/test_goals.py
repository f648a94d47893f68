"""Goals: turn after turn until the model says that it is done, or the budget is spent."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from quarterdeck.agent.goals.pursuit import MOST_IDLE, NoGoalError, pursue_goal
from quarterdeck.agent.goals.state import GoalBudget
from quarterdeck.agent.native import NativeSessionOptions
from quarterdeck.models.script import Script, ScriptReply, ScriptScene
from quarterdeck.models.scripted_model import ScriptedModel
from quarterdeck.wire.events import GoalEnded, GoalSet, Prompted, ToolCallEnded, TurnEnded
from quarterdeck.wire.usage import TokenUsage
from tests.support.agent_tools import FakeTool, Gathering, returns
from tests.support.native_agents import Deck, call, deck, says


def done(summary: str = "All is well.", evidence: str = "I looked.") -> Any:
    return call("goal_done", summary=summary, evidence=evidence)


def work() -> ScriptReply:
    return says(call("fake", n=1))


def then(ship: Deck, *replies: ScriptReply | str) -> NativeSessionOptions:
    """How the session is loaded again, with what the model says from then on."""
    model = ScriptedModel(Script.sequence(*replies), name="test")
    return replace(ship.options, make_model=lambda _: model)


def tools() -> list[FakeTool]:
    return [FakeTool(returns("worked"))]


async def test_turns_go_on_until_the_goal_is_done(tmp_path: Path):
    replies = (work(), "One step.", work(), "Two steps.", says(done()), "It is done.")
    async with deck(tmp_path, *replies, tools=tools()) as ship:
        pursued = await pursue_goal(ship.session, "Make it work.")
        prompts = await ship.events(Prompted)
        events = await ship.events(GoalSet, TurnEnded, GoalEnded)
    assert pursued.ended is not None
    assert (pursued.ended.how, pursued.ended.summary) == ("reached", "All is well.")
    assert pursued.ended.evidence == "I looked."
    assert pursued.ended.turns == 3
    assert [one.origin for one in prompts] == ["goal"] * 3
    assert "Make it work." in prompts[1].content[0].text
    assert [type(one).__name__ for one in events] == [
        "GoalSet",
        "TurnEnded",
        "TurnEnded",
        "TurnEnded",
        "GoalEnded",
    ]
    sums = sum(one.usage.total for one in events if isinstance(one, TurnEnded) and one.usage)
    assert pursued.ended.usage is not None
    assert pursued.ended.usage.total == sums


async def test_the_tool_is_there_only_while_there_is_a_goal(tmp_path: Path):
    replies = ("before", says(done()), "fine", "after")
    async with deck(tmp_path, *replies, tools=tools()) as ship:
        await ship.prompt("hello")
        await pursue_goal(ship.session, "Goal.")
        await ship.prompt("bye")
    offered = ["goal_done" in [t.name for t in r.tools] for r in ship.requests]
    assert offered == [False, True, True, False]


async def test_words_without_work_come_to_an_end(tmp_path: Path):
    async with deck(tmp_path, *["I think about it."] * 9, tools=tools()) as ship:
        pursued = await pursue_goal(ship.session, "Goal.")
    assert pursued.ended is not None
    assert (pursued.ended.how, pursued.ended.turns) == ("stuck", MOST_IDLE)
    assert len(ship.requests) == MOST_IDLE
    assert "without new work by a tool" in (pursued.ended.reason or "")


async def test_work_in_between_is_progress(tmp_path: Path):
    replies = ("hm", "hm", work(), "x", "hm", "hm", says(done()), "done")
    async with deck(tmp_path, *replies, tools=tools()) as ship:
        pursued = await pursue_goal(ship.session, "Goal.")
    assert pursued.ended is not None
    assert pursued.ended.how == "reached"


BIG = TokenUsage(input=1000, output=100)


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (GoalBudget(turns=2), "the budget of 2 turns is spent"),
        (GoalBudget(tokens=3000), "the budget of 3000 tokens is spent"),
        (GoalBudget(seconds=0.000001), "the budget of 1e-06 seconds is spent"),
    ],
)
async def test_a_budget_ends_it(tmp_path: Path, budget: GoalBudget, reason: str):
    step = ScriptReply(parts=work().parts, usage=BIG)
    replies = [step, ScriptReply.of("more")] * 10
    async with deck(tmp_path, *replies, tools=tools()) as ship:
        pursued = await pursue_goal(ship.session, "Goal.", budget)
        limits = ship.session.setup.limits
    assert pursued.ended is not None
    assert (pursued.ended.how, pursued.ended.reason) == ("limit", reason)
    assert len(ship.requests) <= 6
    assert limits.tokens is None


async def test_a_budget_that_is_spent_can_be_raised(tmp_path: Path):
    async with deck(tmp_path, work(), "one", tools=tools()) as ship:
        first = await pursue_goal(ship.session, "Goal.", GoalBudget(turns=1))
        await ship.reload(then(ship, says(done()), "two"))
        second = await pursue_goal(ship.session, None, GoalBudget(turns=5))
    assert first.ended is not None
    assert second.ended is not None
    assert (first.ended.how, second.ended.how) == ("limit", "reached")
    assert second.goal == "Goal."


async def test_a_cancelled_turn_leaves_the_goal_to_be_taken_up(tmp_path: Path):
    gathering = Gathering()
    async with deck(tmp_path, work(), tools=[FakeTool(gathering.run)]) as ship:
        running = asyncio.ensure_future(pursue_goal(ship.session, "Goal.", GoalBudget(turns=5)))
        await gathering.wait_for(1)
        await ship.session.cancel()
        pursued = await running
        assert pursued.ended is None
        assert pursued.turn is not None
        assert pursued.turn.stop == "cancelled"
        await ship.reload(then(ship, says(done()), "done"))
        assert "goal_done" in ship.session.setup.toolbox.names
        again = await pursue_goal(ship.session, None)
        (only,) = await ship.events(GoalSet)
    assert again.ended is not None
    assert (again.ended.how, again.ended.turns) == ("reached", 2)
    assert only.turns == 5


async def test_a_goal_that_was_done_before_a_crash_is_not_worked_on_again(tmp_path: Path):
    replies = (says(done()), "done")
    async with deck(tmp_path, *replies, tools=tools()) as ship:
        await pursue_goal(ship.session, "Goal.")
        records = await ship.records()
        cut = next(n for n, r in enumerate(records) if isinstance(r.event, ToolCallEnded))
        from quarterdeck.agent.resume import read_resume_state

        past = read_resume_state(records[: cut + 1])
    assert past.goal is not None
    assert past.goal.done is not None
    assert past.goal.done.summary == "All is well."
    assert past.goal.ended is None


async def test_without_a_goal_there_is_nothing_to_go_on_with(tmp_path: Path):
    async with deck(tmp_path, "x", tools=tools()) as ship:
        with pytest.raises(NoGoalError, match="no goal to continue with"):
            await pursue_goal(ship.session, None)


async def test_empty_evidence_is_refused(tmp_path: Path):
    replies = (says(done(evidence=" ")), "hm", says(done()), "done")
    async with deck(tmp_path, *replies, tools=tools()) as ship:
        pursued = await pursue_goal(ship.session, "Goal.")
        ends = await ship.events(ToolCallEnded)
    assert pursued.ended is not None
    assert pursued.ended.how == "reached"
    assert "'evidence' is empty" in (ends[0].reason or "")


async def test_a_fork_has_the_goal_too(tmp_path: Path):
    gathering = Gathering()
    replies = (says(call("fake", n=1)), says(done()), "done")
    async with deck(tmp_path, *replies, tools=[FakeTool(gathering.run)]) as ship:
        running = asyncio.ensure_future(pursue_goal(ship.session, "Goal."))
        await gathering.wait_for(1)
        await ship.session.cancel()
        await running
        fork = await ship.agent.fork(ship.session.id, options=ship.options)
        pursued = await pursue_goal(fork, None)
    assert pursued.ended is not None
    assert pursued.ended.how == "reached"


async def test_a_model_that_declines_ends_it(tmp_path: Path):
    refusal = ScriptReply(parts=ScriptReply.of("No.").parts, stop="refusal")
    async with deck(tmp_path, refusal, tools=tools()) as ship:
        pursued = await pursue_goal(ship.session, "Goal.")
    assert pursued.ended is not None
    assert pursued.ended.how == "refused"


async def test_saying_it_again_and_again_comes_to_an_end(tmp_path: Path):
    replies = [says(done())] * 60
    async with deck(tmp_path, *replies, tools=tools()) as ship:
        pursued = await pursue_goal(ship.session, "Goal.")
    assert pursued.ended is not None
    assert pursued.ended.how == "reached"
    assert len(ship.requests) < 40


async def test_turns_that_only_repeat_the_last_come_to_an_end(tmp_path: Path):
    turn = (says(call("fake", n=1)), "I looked again.")
    async with deck(tmp_path, *turn * 20, tools=[FakeTool(returns("the same"))]) as ship:
        pursued = await pursue_goal(ship.session, "Goal.")
    assert pursued.ended is not None
    assert (pursued.ended.how, pursued.ended.turns) == ("stuck", 1 + MOST_IDLE)


async def test_a_loop_within_turns_comes_to_an_end(tmp_path: Path):
    loop = Script(scenes={"x": ScriptScene(replies=(says(call("fake", n=1)),))}, default="x")
    async with deck(tmp_path, loop, tools=[FakeTool(returns("the same"))]) as ship:
        pursued = await pursue_goal(ship.session, "Goal.")
    assert pursued.ended is not None
    assert (pursued.ended.how, pursued.ended.turns) == ("stuck", MOST_IDLE)
