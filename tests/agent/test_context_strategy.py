"""A conversation that outgrows the window: cleared first, then summarised, then waited for."""

import asyncio
from pathlib import Path

import pytest

from quarterdeck.models.errors import ContextOverflowError, RequestRejectedError
from quarterdeck.wire.conversation import ToolUsePart
from quarterdeck.wire.events import (
    CompactionChanged,
    ModelCallFinished,
    NoticePosted,
    ResultsCleared,
    RetryScheduled,
    TurnEnded,
    UsageReported,
)
from tests.support.deadlines import SOON
from tests.support.native_agents import assert_valid
from tests.support.window_models import Worker, at_sea, loud, size_of, texts_of

SUMMARISE_ONLY = {"clear_at": 0.5, "summarise_at": 0.5, "wait_at": 0.9}


def statuses(events: list[CompactionChanged]) -> list[str]:
    return [event.status for event in events]


async def test_old_results_are_cleared_before_anything_is_summarised(tmp_path: Path):
    worker = Worker(window=20_000)
    async with at_sea(tmp_path, worker) as ship:
        await ship.prompt("work 48")
        cleared = await ship.events(ResultsCleared)
        compactions = await ship.events(CompactionChanged)
    assert len(cleared) >= 1
    assert compactions == []
    last = worker.requests[-1]
    assert "[result of fake was cleared to make room; repeat the call if you need it]" in texts_of(
        last
    )
    assert "result 48: xxx" in texts_of(last)
    assert "result 1: xxx" not in texts_of(last)
    assert_valid(last.messages)


async def test_clearing_is_rare(tmp_path: Path):
    """Each costs the vendor's cache, so each frees a good part of the window."""
    worker = Worker(window=20_000)
    async with at_sea(tmp_path, worker) as ship:
        await ship.prompt("work 100")
        cleared = await ship.events(ResultsCleared)
    assert 1 < len(cleared) <= 6
    changed = [
        number
        for number, (one, two) in enumerate(zip(worker.requests, worker.requests[1:], strict=False))
        if two.messages[: len(one.messages)] != one.messages
    ]
    assert len(changed) <= 8


async def test_a_summary_is_written_while_the_turn_goes_on(tmp_path: Path):
    worker = Worker(window=20_000)
    worker.may_write.clear()
    steps_meanwhile = 0
    async with at_sea(tmp_path, worker, context=SUMMARISE_ONLY, tools=[loud(300)]) as ship:
        running = ship.start("work 130")
        # Counted from when it was asked for: this test may hear of it later than the turn.
        async with asyncio.timeout(SOON):
            while not worker.summaries or worker.calls < worker.calls_before_summary + 5:
                await asyncio.sleep(0)
        steps_meanwhile = worker.calls - worker.calls_before_summary
        worker.may_write.set()
        await running
        events = await ship.events(CompactionChanged)
    assert steps_meanwhile >= 5
    assert statuses(events)[:2] == ["in_progress", "completed"]
    assert all(size_of(request) <= 20_000 for request in worker.requests)
    assert_valid(worker.requests[-1].messages)
    assert events[1].usage is not None


async def test_at_the_hard_mark_the_turn_waits_for_the_summary(tmp_path: Path):
    worker = Worker(window=20_000)
    worker.may_write.clear()
    async with at_sea(tmp_path, worker, context=SUMMARISE_ONLY, tools=[loud(300)]) as ship:
        running = ship.start("work 300")
        await ship.seen(CompactionChanged)
        calls = -1
        while calls != worker.calls:  # until no step follows
            calls = worker.calls
            for _ in range(200):
                await asyncio.sleep(0)
        assert not running.done()
        assert calls < 300
        worker.may_write.set()
        async with asyncio.timeout(SOON):
            ended = await running
    assert ended.stop == "end_turn"
    assert worker.calls == 300


@pytest.mark.parametrize("bad", ["", "fails", "long", "calls"])
async def test_a_bad_summary_leaves_the_history_as_it_is(tmp_path: Path, bad: str):
    worker = Worker(window=20_000)
    replies = {
        "": "",
        "fails": RequestRejectedError("no", status=400),
        "long": "y" * 80_000,
        "calls": [ToolUsePart(id="x", name="fake", arguments="{}")],
    }
    worker.summary = lambda _: replies[bad]
    async with at_sea(tmp_path, worker, context=SUMMARISE_ONLY, tools=[loud(300)]) as ship:
        await ship.prompt("work 95")
        events = await ship.events(CompactionChanged)
        notices = await ship.events(NoticePosted)
    assert statuses(events)[:2] == ["in_progress", "failed"]
    assert events[1].error
    assert any("could not be summarised" in notice.title for notice in notices)
    last = worker.requests[-1]
    assert "Step 1." in texts_of(last)
    assert_valid(last.messages)


async def test_failed_summaries_are_not_tried_at_every_step(tmp_path: Path):
    worker = Worker(window=20_000)
    worker.summary = lambda _: ""
    async with at_sea(tmp_path, worker, context=SUMMARISE_ONLY, tools=[loud(300)]) as ship:
        await ship.prompt("work 130")
    assert 1 <= len(worker.summaries) <= 4


async def test_where_no_summary_can_be_had_the_oldest_steps_go(tmp_path: Path):
    worker = Worker(window=20_000)
    worker.summary = lambda _: ""
    async with at_sea(tmp_path, worker, context=SUMMARISE_ONLY, tools=[loud(300)]) as ship:
        ended = await ship.prompt("Never use tabs. work 400")
        notices = await ship.events(NoticePosted)
    assert ended.stop == "end_turn"
    assert worker.calls == 400
    assert any("were dropped" in notice.title for notice in notices)
    last = worker.requests[-1]
    assert "Never use tabs." in texts_of(last)
    assert "dropped without a summary" in texts_of(last)
    assert_valid(last.messages)
    assert all(size_of(request) <= 20_000 for request in worker.requests)


async def test_an_overflow_leads_to_one_compaction_and_one_retry(tmp_path: Path):
    worker = Worker(window=200_000)
    async with at_sea(tmp_path, worker) as ship:
        await ship.prompt("work 20")
        worker.refuse = [ContextOverflowError("prompt is too long", status=400)]
        ended = await ship.prompt("and now?")
        events = await ship.events(CompactionChanged)
        retries = await ship.events(RetryScheduled)
        calls = await ship.events(ModelCallFinished)
    assert ended.stop == "end_turn"
    assert statuses(events) == ["in_progress", "completed"]
    assert len(retries) == 1
    assert calls[-2].error is not None
    assert size_of(worker.requests[-1]) < size_of(worker.requests[-2]) / 1.5
    assert "and now?" in texts_of(worker.requests[-1])
    assert ended.usage is not None


async def test_a_second_overflow_ends_the_turn_with_a_clear_reason(tmp_path: Path):
    worker = Worker(window=200_000)
    async with at_sea(tmp_path, worker) as ship:
        await ship.prompt("work 20")
        worker.refuse = [ContextOverflowError("prompt is too long", status=400) for _ in range(9)]
        ended = await ship.prompt("and now?")
        calls = await ship.events(ModelCallFinished)
    assert ended.stop == "failed"
    assert ended.reason is not None
    assert "larger window" in ended.reason
    assert [call.error is None for call in calls][-2:] == [False, False]
    assert len(worker.refuse) == 7


async def test_an_overflow_with_nothing_to_leave_out_fails_at_once(tmp_path: Path):
    worker = Worker()
    worker.refuse = [ContextOverflowError("prompt is too long", status=400) for _ in range(9)]
    async with at_sea(tmp_path, worker) as ship:
        ended = await ship.prompt("hello")
    assert ended.stop == "failed"
    assert "nothing more can be omitted" in (ended.reason or "")
    assert len(worker.refuse) == 8


async def test_an_answer_that_the_window_cut_off_is_asked_for_again(tmp_path: Path):
    worker = Worker(window=200_000)
    async with at_sea(tmp_path, worker) as ship:
        await ship.prompt("work 20")
        worker.raw_stops = ["model_context_window_exceeded"]
        ended = await ship.prompt("and now?")
        events = await ship.events(CompactionChanged)
    assert ended.stop == "end_turn"
    assert statuses(events) == ["in_progress", "completed"]


async def test_switched_off_nothing_happens_by_itself(tmp_path: Path):
    worker = Worker(window=5_000)
    async with at_sea(tmp_path, worker, context={"enabled": False}) as ship:
        ended = await ship.prompt("work 50")
        assert await ship.events(CompactionChanged, ResultsCleared) == []
    assert ended.stop == "failed"


async def test_marks_follow_the_model(tmp_path: Path):
    large, small = Worker(window=200_000), Worker(window=10_000, name="small")
    async with at_sea(tmp_path, large, models={"test/small": small}) as ship:
        await ship.prompt("work 60")
        assert await ship.events(ResultsCleared, CompactionChanged) == []
        await ship.session.set_model("test/small")
        await ship.prompt("work 1")
        assert await ship.events(ResultsCleared)
    assert all(size_of(request) <= 10_000 for request in small.requests)


async def test_another_model_may_write_the_summaries(tmp_path: Path):
    worker, writer = Worker(window=20_000), Worker(window=90_000, name="writer")
    context = {**SUMMARISE_ONLY, "summary_model": "test/writer"}
    models = {"test/writer": writer}
    async with at_sea(tmp_path, worker, context=context, models=models, tools=[loud(300)]) as ship:
        await ship.prompt("work 150")
        events = await ship.events(CompactionChanged)
    assert "completed" in statuses(events)
    assert worker.summaries == []
    assert writer.summaries


async def test_usage_after_a_compaction_is_told(tmp_path: Path):
    worker = Worker(window=20_000)
    async with at_sea(tmp_path, worker) as ship:
        await ship.prompt("work 10")
        await ship.session.context.compact()
        reported = await ship.events(UsageReported)
    contexts = [event.context for event in reported if event.context is not None]
    assert contexts[-1].used < contexts[-2].used
    assert contexts[-1].size == 20_000


async def test_a_turn_cancelled_while_it_waits_leaves_the_summary_to_the_next(tmp_path: Path):
    worker = Worker(window=20_000)
    worker.may_write.clear()
    async with at_sea(tmp_path, worker, context=SUMMARISE_ONLY, tools=[loud(300)]) as ship:
        running = ship.start("work 300")
        await ship.seen(CompactionChanged)
        for _ in range(3000):
            await asyncio.sleep(0)
        await ship.session.cancel()
        assert (await running).stop == "cancelled"
        worker.may_write.set()
        await ship.seen(CompactionChanged, 2)  # put into effect though nobody prompts
        worker.left = 0
        ended = await ship.prompt("and now?")
        events = await ship.events(CompactionChanged, TurnEnded)
    assert ended.stop == "end_turn"
    assert [type(e).__name__ for e in events[:3]] == [
        "CompactionChanged",
        "TurnEnded",
        "CompactionChanged",
    ]


async def test_a_result_that_alone_fills_the_window_is_cut(tmp_path: Path):
    worker = Worker(window=8_000)
    async with at_sea(tmp_path, worker, tools=[loud(48_000)]) as ship:
        ended = await ship.prompt("work 3")
        cleared = await ship.events(ResultsCleared)
    assert ended.stop == "end_turn"
    assert worker.calls == 3
    assert all(size_of(request) <= 8_000 for request in worker.requests)
    assert any(event.longest for event in cleared)
    assert "characters omitted" in texts_of(worker.requests[-1])
    assert_valid(worker.requests[-1].messages)
