"""Sessions of every kind, recorded and then run again: nothing differs."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.agent.goals.pursuit import pursue_goal
from quarterdeck.agent.goals.state import GoalBudget
from quarterdeck.agent.replay.check import ReplayChanges, ReplayReport, check_session, read_family
from quarterdeck.agent.tools.builtin import all_tools
from quarterdeck.agent.tools.tool import LiveCall, ToolOutcome, text_outcome
from quarterdeck.models.script import ScriptFailure, ScriptReply
from quarterdeck.models.script import ScriptTextPart as Says
from quarterdeck.policy.gate import QuestionReply
from quarterdeck.wire.budgets import CallEstimate, Refusal, Reservation
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    ChildEnded,
    CompactionChanged,
    MessageChunk,
    ModelCallStarted,
    PermissionAsked,
    Prompted,
    QuestionAsked,
    ToolCallEnded,
    ToolCallUpdated,
)
from quarterdeck.wire.ids import SessionId
from tests.agent.children.test_children import play, spawn
from tests.support.agent_tools import FakeTool, Gathering, NumberArguments, returns
from tests.support.native_agents import PERSON, Deck, call, deck, says
from tests.support.window_models import Worker, at_sea, loud


async def replay(ship: Deck, **changes: Any) -> ReplayReport:
    """Close the session, and run it again from its log."""
    journal = ship.session.journal
    await journal.durable(journal.last)
    records = await read_family(journal, ship.session.id)
    given = {"HOME": str(ship.cwd.parent)}
    return await check_session(
        ship.session.id,
        records,
        places=ship.places,
        environment=given,
        changes=ReplayChanges(**changes),
    )


def assert_same(report: ReplayReport, steps: int | None = None) -> None:
    shown = [f"{d.kind} at {d.place}: {d.what}\n{d.diff}" for d in report.divergences]
    assert not shown, "\n".join(shown)
    assert report.compared > 0
    if steps is not None:
        assert report.steps == steps


async def hang(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
    await asyncio.Event().wait()
    return text_outcome("never")


async def test_words_alone(tmp_path: Path):
    async with deck(tmp_path, "Hello.", ScriptReply(parts=(Says(text=("Once ", "upon")),))) as ship:
        await ship.prompt("hi")
        await ship.prompt("a story, façade 🙂")
        assert_same(await replay(ship), steps=2)


async def test_an_agent_without_tools(tmp_path: Path):
    async with deck(tmp_path, "Hello.", tools=()) as ship:
        await ship.prompt("hi")
        assert_same(await replay(ship, tools=()), steps=1)


async def test_files_and_commands_are_not_touched_again(tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\n")
    async with deck(
        tmp_path,
        says(call("read", path="a.txt"), call("ls")),
        says(call("edit", path="a.txt", old="two", new="2")),
        says(call("write", path="neu/ü.txt", content="new\n")),
        says(call("bash", command="echo ran >> count.txt; cat count.txt")),
        says(call("edit", path="missing.txt", old="x", new="y"), call("grep", pattern="o")),
        "Done.",
        mode="accept-edits",
        allow=("bash(echo:*)", "bash(cat:*)", "edit(**)"),
    ) as ship:
        ended = await ship.prompt("work")
        assert ended.stop == "end_turn"
        before = {str(p): p.read_bytes() for p in work.rglob("*") if p.is_file()}
        assert_same(await replay(ship), steps=6)
        assert {str(p): p.read_bytes() for p in work.rglob("*") if p.is_file()} == before


async def test_a_permission_that_is_given_denied_and_kept(tmp_path: Path):
    tool = FakeTool(returns("did"), kind="edit", writes="a{n}")
    async with deck(
        tmp_path,
        says(call("fake", n=1)),
        says(call("fake", n=2)),
        says(call("fake", n=3)),
        says(call("fake", n=3)),
        "Done.",
        tools=[tool],
    ) as ship:
        running = ship.start()
        ship.answer((await ship.asked(1))[0], "allow_once")
        ship.answer((await ship.asked(2))[1], "deny_once", "not this one")
        third = (await ship.asked(3))[2]
        always = next(o for o in third.options if o.kind == "allow_always")
        ship.answer(third, always.option_id)
        await running
        asked = await ship.events(PermissionAsked)
        assert len(asked) == 3
        assert_same(await replay(ship, tools=(tool,)), steps=5)


STOPPED: dict[
    str, tuple[tuple[ScriptReply, ...], FakeTool, Callable[[Deck], Awaitable[object]]]
] = {
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
    "in a permission's wait": (
        (says(call("fake", n=1), call("fake", n=2)),),
        FakeTool(hang, kind="edit", writes="a{n}"),
        lambda ship: ship.asked(2),
    ),
    "in tools": (
        (says(call("fake", n=1), call("fake", n=2)),),
        FakeTool(hang),
        lambda ship: ship.seen(ToolCallUpdated, 2),
    ),
}


@pytest.mark.parametrize("where", STOPPED)
async def test_an_interrupt(tmp_path: Path, where: str):
    replies, tool, reached = STOPPED[where]
    async with deck(tmp_path, *replies, "next", tools=[tool]) as ship:
        running = ship.start()
        await reached(ship)
        await ship.session.cancel()
        await running
        await ship.prompt("and now?")
        assert_same(await replay(ship, tools=(tool,)))


async def test_messages_into_a_running_turn(tmp_path: Path):
    gathering = Gathering()
    tool = FakeTool(gathering.run)
    async with deck(
        tmp_path, says(call("fake", n=1), call("fake", n=2)), "Noted.", tools=[tool]
    ) as ship:
        running = ship.start()
        await gathering.wait_for(2)
        ship.session.steer((text("and quickly"),))
        gathering.door.set()
        await running
        assert any(p.steers for p in await ship.events(Prompted))
        assert_same(await replay(ship, tools=(tool,)), steps=2)


async def test_failures_that_pass_and_that_do_not(tmp_path: Path):
    async with deck(
        tmp_path,
        says("First.", error=ScriptFailure(status=529, times=2)),
        says("Second.", error=ScriptFailure(status=429, times=1)),
        says("Third.", error=ScriptFailure(status=400)),
    ) as ship:
        for words in ("one", "two", "three"):
            await ship.prompt(words)
        assert_same(await replay(ship))


async def test_limits(tmp_path: Path):
    tool = FakeTool(returns("did"))
    replies = [says(call("fake", n=n)) for n in range(5)]
    async with deck(tmp_path, *replies, tools=[tool], limits={"model_calls": 3}) as ship:
        assert (await ship.prompt()).stop == "max_turn_requests"
        assert_same(await replay(ship, tools=(tool,)), steps=3)


@pytest.mark.parametrize("window", [8_000, 4_000])
async def test_compaction(tmp_path: Path, window: int):
    worker, tool = Worker(window=window), loud()
    async with at_sea(tmp_path, worker, tools=[tool]) as ship:
        await ship.prompt("work 30")
        await ship.prompt("/compact keep the numbers")
        await ship.prompt("work 3")
        done = [e for e in await ship.events(CompactionChanged) if e.status == "completed"]
        assert done
        figures = {"window": window, "max_output": 1_000}
        settings = {"limits": {"model_calls": "unbounded"}, "models": {"test/worker": figures}}
        assert_same(await replay(ship, tools=(tool,), settings=settings))


async def test_sub_agents(tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("hidden treasure\n")
    script = play(
        lead=(says(spawn("find treasure"), spawn("count sheep")), "It is in a.txt."),
        find=(says(call("grep", pattern="treasure")), "a.txt, line 1"),
        count="Three.",
    )
    kept = await asyncio.to_thread(all_tools)
    async with deck(tmp_path, script, tools=kept) as ship:
        await ship.prompt("lead")
        report = await replay(ship)
        assert_same(report, steps=5)


async def test_a_sub_agent_in_the_background(tmp_path: Path):
    script = play(
        lead=(says(spawn("count sheep", background=True)), "Started.", "Three, it says."),
        next=("So three.",),
        count="Three.",
    )
    kept = await asyncio.to_thread(all_tools)
    async with deck(tmp_path, script, tools=kept) as ship:
        await ship.prompt("lead")
        await ship.seen(ChildEnded)
        await ship.prompt("next")
        assert_same(await replay(ship))


async def test_a_goal(tmp_path: Path):
    tool = FakeTool(returns("did"))
    async with deck(
        tmp_path,
        says(call("fake", n=1)),
        "Not yet.",
        says(call("goal_done", summary="all", evidence="looked")),
        "Done.",
        tools=[tool],
    ) as ship:
        result = await pursue_goal(ship.session, "reach it", GoalBudget(turns=5))
        assert result.ended is not None and result.ended.how == "reached"
        assert_same(await replay(ship, tools=(tool,)), steps=4)


async def test_commands_a_plan_a_question_and_modes(tmp_path: Path):
    kept = await asyncio.to_thread(all_tools)
    async with deck(
        tmp_path,
        says(call("plan", entries=[{"content": "look", "status": "in_progress"}])),
        says(call("ask_user", questions=[{"question": "Which colour?"}])),
        "Red it is.",
        "After.",
        tools=kept,
    ) as ship:
        await ship.prompt("/help")
        running = ship.start()
        (asked,) = await ship.seen(QuestionAsked)
        name = next(iter((asked.form or {})["properties"]))
        reply = QuestionReply(action="accept", by=PERSON, content={name: "red"})
        ship.session.gate.reply(asked.request, reply)
        await running
        await ship.prompt("/pin never push")
        await ship.session.set_mode("accept-edits")
        await ship.prompt("/mode plan")
        await ship.prompt("on")
        assert_same(await replay(ship))


async def test_no_person_and_wrong_calls(tmp_path: Path):
    tool = FakeTool(returns("did"), kind="edit", writes="a{n}")
    async with deck(
        tmp_path,
        says(call("fake", n=1), call("nothing"), call("fake", m=1)),
        "Sorry.",
        tools=[tool],
        attended=False,
    ) as ship:
        await ship.prompt()
        assert len(await ship.events(ToolCallEnded)) == 3
        assert_same(await replay(ship, tools=(tool,)), steps=2)


async def test_a_session_that_was_resumed(tmp_path: Path):
    tool = FakeTool(returns("did"))
    async with deck(
        tmp_path, says(call("fake", n=1)), "Done.", says(call("fake", n=2)), "Again.", tools=[tool]
    ) as ship:
        await ship.prompt("first")
        await ship.reload()
        await ship.prompt("second")
        report = await replay(ship, tools=(tool,))
        assert_same(report)
        assert report.runs == 2 and report.steps >= 3


async def test_hooks(tmp_path: Path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text(
        """
[[hooks.session_start]]
command = '''echo '{"context": "Speak Latin."}' '''
[[hooks.prompt]]
command = '''echo '{"context": "It is late."}' '''
[[hooks.before_tool]]
command = '''grep -q '"n":1' && echo '{"decision": "deny", "reason": "not one"}' || echo '{}' '''
"""
    )
    tool = FakeTool(returns("did"))
    async with deck(
        tmp_path, says(call("fake", n=1)), says(call("fake", n=2)), "Done.", tools=[tool]
    ) as ship:
        await ship.prompt()
        assert [e.status for e in await ship.events(ToolCallEnded)] == ["failed", "completed"]
        report = await replay(ship, tools=(tool,))
        assert_same(report, steps=3)
        assert any("hooks were not run" in note for note in report.notes)


async def test_undo_is_taken_from_the_recording(tmp_path: Path):
    async with deck(
        tmp_path,
        says(call("write", path="a.txt", content="one\n")),
        "Written.",
        "Once more.",
        mode="accept-edits",
    ) as ship:
        await ship.prompt("write it")
        await ship.prompt("/undo")
        await ship.prompt("go on")
        report = await replay(ship)
        assert_same(report, steps=3)
        assert any("undo" in note for note in report.notes)


async def test_a_recording_that_breaks_off_is_replayed_up_to_there(tmp_path: Path):
    tool = FakeTool(returns("did"))
    async with deck(tmp_path, says(call("fake", n=1)), "Done.", tools=[tool]) as ship:
        await ship.prompt()
        journal = ship.session.journal
        whole = await read_family(journal, ship.session.id)
        for until in range(3, len(whole)):
            report = await check_session(
                ship.session.id,
                whole[:until],
                places=ship.places,
                environment={"HOME": str(tmp_path)},
                changes=ReplayChanges(tools=(tool,)),
            )
            shown = [f"{d.kind} at {d.place}: {d.what}\n{d.diff}" for d in report.divergences]
            assert not shown, f"{until} of {len(whole)}: {shown}"


class Purse:
    """A budget that warns before the second call, and refuses the third."""

    calls = 0

    async def reserve(self, estimate: CallEstimate) -> Reservation | Refusal:
        self.calls += 1
        if self.calls == 3:
            return Refusal(
                reason="the day's budget is used up", scope="agent", subject="x", unit="tokens"
            )
        words = "Little is left." if self.calls == 2 else None
        return Reservation(id=None, session=SessionId(""), estimate=estimate, words=words)

    async def settle(self, reservation: Reservation, usage: object, **rest: object) -> None:
        pass


async def test_a_budget_that_warns_and_refuses(tmp_path: Path):
    tool = FakeTool(returns("did"))
    replies = [says(call("fake", n=n)) for n in range(3)]
    async with deck(tmp_path, *replies, tools=[tool], budget=Purse()) as ship:
        ended = await ship.prompt()
        assert ended.reason == "budget: the day's budget is used up"
        assert_same(await replay(ship, tools=(tool,)), steps=2)
