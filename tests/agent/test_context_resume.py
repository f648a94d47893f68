"""Compaction is an entry: a resumed session and a fork send what this one would have sent."""

import asyncio
from pathlib import Path

import pytest

from quarterdeck.agent.commands import CONTEXT_COMMANDS, run_context_command
from quarterdeck.agent.context.window import PinError
from quarterdeck.agent.resume import read_resume_state
from quarterdeck.wire.content import text
from quarterdeck.wire.conversation import TextPart
from quarterdeck.wire.events import (
    CompactionChanged,
    MessagePinned,
    Prompted,
    ResultsCleared,
    ToolCallEnded,
)
from tests.support.native_agents import Deck, assert_valid
from tests.support.window_models import Worker, asked_again, at_sea, loud, texts_of

CONTEXT = {"clear_at": 0.4, "summarise_at": 0.5, "wait_at": 0.9}


async def sail(ship: Deck) -> None:
    await ship.prompt("Never push to main. work 30")
    await ship.session.context.pin("The port is 4711.")
    await ship.prompt("Go on. work 60")


async def test_what_is_sent_after_a_compaction_is_the_same(tmp_path: Path):
    worker = Worker(window=16_000)
    async with at_sea(tmp_path, worker, context=CONTEXT, tools=[loud(900)]) as ship:
        await sail(ship)
        events = await ship.events(CompactionChanged, ResultsCleared)
        assert {type(event) for event in events} == {CompactionChanged, ResultsCleared}
        fork = await ship.agent.fork(ship.session.id, options=ship.options)
        await fork.prompt((text("And now?"),))
        forked = worker.requests[-1]
        running, resumed = await asked_again(ship, "And now?", worker)
    assert running == resumed == forked
    assert "The port is 4711." in texts_of(running)
    assert_valid(running.messages)


async def test_the_whole_history_stays_in_the_log(tmp_path: Path):
    worker = Worker(window=12_000)
    async with at_sea(tmp_path, worker, context=CONTEXT, tools=[loud(400)]) as ship:
        await sail(ship)
        ended = await ship.events(ToolCallEnded)
        prompts = await ship.events(Prompted)
    texts = [
        part.text
        for e in ended
        if e.result
        for part in e.result.content
        if isinstance(part, TextPart)
    ]
    assert len(texts) == 90
    assert all(len(text) == 400 for text in texts)
    assert len(prompts) == 2


async def test_a_compaction_that_a_kill_cut_off_is_closed_as_failed(tmp_path: Path):
    worker = Worker(window=12_000)
    worker.may_write.clear()
    async with at_sea(tmp_path, worker, context=CONTEXT, tools=[loud(400)]) as ship:
        running = ship.start("work 60")
        await ship.seen(CompactionChanged)
        records = await ship.records()
        worker.may_write.set()
        await running
    past = read_resume_state(records)
    (failed,) = [e for _, e in past.closing if isinstance(e, CompactionChanged)]
    assert (failed.status, failed.error) == ("failed", "the process that ran the session died")
    assert_valid(past.conversation.messages())
    untouched = past.conversation.messages()[0].parts[0]
    assert isinstance(untouched, TextPart)
    assert untouched.text == "work 60"


async def test_closing_ends_a_compaction_under_way(tmp_path: Path):
    worker = Worker(window=12_000)
    async with at_sea(tmp_path, worker, context=CONTEXT, tools=[loud(400)]) as ship:
        await ship.prompt("work 10")
        worker.may_write.clear()
        asked = asyncio.ensure_future(ship.session.context.compact())
        await ship.seen(CompactionChanged)
        await ship.reload()
        events = await ship.events(CompactionChanged)
        assert [event.status for event in events] == ["in_progress", "cancelled"]
        assert "conversation is unchanged" in await asked


async def test_a_compaction_is_asked_for_in_the_middle_of_a_turn(tmp_path: Path):
    worker = Worker(window=200_000)
    async with at_sea(tmp_path, worker) as ship:
        running = ship.start("Never push. work 20000")
        while worker.calls < 20:
            await asyncio.sleep(0)
        said = await ship.session.context.compact("the port number")
        assert not running.done()
        worker.left = 0
        await running
        events = await ship.events(CompactionChanged)
    assert said.startswith("Compacted from about")
    assert [event.status for event in events] == ["in_progress", "completed"]
    assert "The user asked to keep this in particular: the port number" in texts_of(
        worker.summaries[0]
    )
    last = worker.requests[-1]
    assert_valid(last.messages)
    assert "Never push." in texts_of(last)


async def test_a_compaction_asked_for_as_the_turn_ends_is_made_after_it(tmp_path: Path):
    worker = Worker(window=200_000)
    async with at_sea(tmp_path, worker) as ship:
        await ship.prompt("work 20")
        running = ship.start("One more.")
        while len(worker.requests) < 22:
            await asyncio.sleep(0)
        said = await ship.session.context.compact()
        assert said.startswith("Compacted")
        await running


async def test_there_may_be_nothing_to_compact(tmp_path: Path):
    async with at_sea(tmp_path, Worker()) as ship:
        assert await ship.session.context.compact() == "There is nothing to compact yet."
        assert await ship.events(CompactionChanged) == []


async def test_the_first_request_begins_the_summarys_request(tmp_path: Path):
    """So that the vendor's cache serves it."""
    worker = Worker(window=200_000)
    async with at_sea(tmp_path, worker) as ship:
        await ship.prompt("work 20")
        await ship.session.context.compact()
    summary, last = worker.summaries[0], worker.requests[-1]
    shared = len(summary.messages) - 1
    assert summary.messages[:shared] == last.messages[:shared]
    assert (summary.system, summary.tools) == (last.system, last.tools)


async def test_pins(tmp_path: Path):
    worker = Worker(window=20_000)
    async with at_sea(tmp_path, worker) as ship:
        with pytest.raises(PinError, match="no message to pin"):
            await ship.session.context.pin()
        await ship.prompt("work 3")
        assert await ship.session.context.pin() == "Pinned as 1."
        assert await ship.session.context.pin("Use port 4711.") == "Pinned as 2."
        with pytest.raises(PinError, match="in total"):
            await ship.session.context.pin("x" * 100_000)
        await ship.prompt("hello")
        assert "Use port 4711." in texts_of(worker.requests[-1])
        pins = await ship.events(MessagePinned)
        assert [(pin.content[0].text, pin.new) for pin in pins] == [  # type: ignore[union-attr]
            ("Done.", False),
            ("Use port 4711.", True),
        ]
        with pytest.raises(PinError, match="no pin 7"):
            await ship.session.context.unpin(7)
        assert await ship.session.context.unpin(1) == "Unpinned 1."
        await ship.reload()
        assert await ship.session.context.unpin() == "Unpinned 1."


async def test_context_says_what_fills_the_window(tmp_path: Path):
    worker = Worker(window=20_000)
    async with at_sea(tmp_path, worker) as ship:
        await ship.prompt("work 10")
        shown = ship.session.context.report()
        await ship.session.context.compact()
        after = ship.session.context.report()
    assert shown.splitlines()[0].startswith("test/worker: about ")
    for source in (
        "system prompt",
        "tools",
        "user",
        "assistant",
        "tool results",
        "reserve",
        "free",
    ):
        assert f"\n  {source}" in shown
    assert "\n  summary" not in shown
    assert "\n  summary" in after


async def test_two_who_ask_at_once_get_one_compaction_each_in_turn(tmp_path: Path):
    worker = Worker(window=200_000)
    async with at_sea(tmp_path, worker) as ship:
        await ship.prompt("work 20")
        context = ship.session.context
        said = await asyncio.gather(context.compact("a"), context.compact("b"), context.compact())
        events = await ship.events(CompactionChanged)
        ended = await ship.prompt("And now?")
    assert said[0].startswith("Compacted")
    assert [event.status for event in events][:2] == ["in_progress", "completed"]
    assert len({event.compaction for event in events}) * 2 == len(events)
    assert ended.stop == "end_turn"
    assert_valid(worker.requests[-1].messages)


async def test_commands_answer_with_words_whatever_is_asked(tmp_path: Path):
    async with at_sea(tmp_path, Worker(window=20_000)) as ship:
        context = ship.session.context
        assert [command.name for command in CONTEXT_COMMANDS] == [
            "context",
            "compact",
            "pin",
            "unpin",
        ]
        assert "Failed: there is no message" in await run_context_command(context, "pin", " ")
        await ship.prompt("work 8")
        assert (await run_context_command(context, "context", "")).startswith("test/worker: about")
        assert await run_context_command(context, "pin", "Use port 4711.") == "Pinned as 1."
        assert (
            await run_context_command(context, "unpin", "x")
            == "Failed: 'x' is not the number of a pin."
        )
        assert "no pin 3" in await run_context_command(context, "unpin", "3")
        assert await run_context_command(context, "unpin", "1") == "Unpinned 1."
        assert (await run_context_command(context, "compact", "the port")).startswith("Compacted")
