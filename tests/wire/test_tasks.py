"""Tasks have an owner: it ends them, and what they raise is not lost."""

import asyncio
import logging

import pytest

from quarterdeck.wire.tasks import (
    BackgroundTasks,
    cancel_tasks,
    race_tasks,
    run_beside,
    run_to_end,
    start_task,
)


async def test_the_first_to_end_ends_the_others():
    ended: list[str] = []

    async def other() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("other")

    await race_tasks(asyncio.sleep(0.01), other())
    assert ended == ["other"]


async def test_what_the_first_raises_is_raised():
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("so it is")

    with pytest.raises(ValueError, match="so it is"):
        await race_tasks(asyncio.Event().wait(), fails())


async def test_cancelling_it_cancels_all():
    events = [asyncio.Event(), asyncio.Event()]
    tasks = [asyncio.create_task(event.wait()) for event in events]
    racing = asyncio.create_task(race_tasks(*tasks))
    await asyncio.sleep(0)
    racing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await racing
    assert all(task.cancelled() for task in tasks)


async def _fail() -> None:
    raise ValueError("so it is")


async def _forever(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("ended")


async def test_a_task_has_the_name_it_was_given():
    task = start_task(asyncio.sleep(0, 7), name="count")
    assert task.get_name() == "count"
    assert await task == 7


async def test_a_background_task_that_fails_is_logged_with_its_name(
    caplog: pytest.LogCaptureFixture,
):
    tasks = BackgroundTasks()
    tasks.start(_fail(), name="the failing one")
    await tasks.wait()
    await asyncio.sleep(0)
    assert "the failing one" in caplog.text
    assert "so it is" in caplog.text
    assert len(tasks) == 0


async def test_closing_cancels_what_runs_and_waits_for_it():
    tasks, ended = BackgroundTasks(), list[str]()
    tasks.start(_forever(ended), name="forever")
    await asyncio.sleep(0)
    await tasks.close()
    assert ended == ["ended"]


async def test_closing_with_a_grace_lets_tasks_end():
    tasks, ended = BackgroundTasks(), list[str]()

    async def quick() -> None:
        await asyncio.sleep(0.01)
        ended.append("by itself")

    tasks.start(quick(), name="quick")
    await tasks.close(grace=10)
    assert ended == ["by itself"]


async def test_a_task_may_close_its_own_owner():
    tasks, closed = BackgroundTasks(), asyncio.Event()

    async def close() -> None:
        await tasks.close()
        closed.set()

    tasks.start(close(), name="close")
    async with asyncio.timeout(5):
        await closed.wait()


async def test_work_is_finished_although_its_caller_is_cancelled():
    tasks, go, done = BackgroundTasks(), asyncio.Event(), list[int]()

    async def work() -> None:
        await go.wait()
        done.append(1)

    caller = asyncio.create_task(tasks.finish(work()))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go.set()
    await tasks.wait()
    assert done == [1]


async def test_a_failure_is_logged_only_when_its_caller_is_gone(caplog: pytest.LogCaptureFixture):
    tasks, go = BackgroundTasks(), asyncio.Event()
    with pytest.raises(ValueError, match="so it is"):
        await tasks.finish(_fail())
    assert not caplog.records

    async def work() -> None:
        await go.wait()
        raise ValueError("nobody heard")

    caller = asyncio.create_task(tasks.finish(work(), name="late"))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.wait([caller])
    go.set()
    await tasks.wait()
    await asyncio.sleep(0)
    assert "late" in caplog.text
    assert "nobody heard" in caplog.text


async def test_what_runs_beside_a_block_ends_with_it():
    ended = list[str]()
    async with run_beside(_forever(ended), name="beside"):
        await asyncio.sleep(0)
    assert ended == ["ended"]


async def test_what_fails_beside_a_block_is_logged_and_the_block_goes_on(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.ERROR)
    async with run_beside(_fail(), name="beside"):
        await asyncio.sleep(0.01)
    assert "beside" in caplog.text


async def test_a_cancelled_caller_waits_until_the_work_is_done():
    go, done = asyncio.Event(), list[int]()

    async def work() -> None:
        await go.wait()
        done.append(1)

    caller = asyncio.create_task(run_to_end(work(), name="work"))
    await asyncio.sleep(0)
    caller.cancel()
    await asyncio.sleep(0.01)
    assert not caller.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert done == [1]


async def test_a_second_cancellation_cancels_the_work():
    ended = list[str]()
    caller = asyncio.create_task(run_to_end(_forever(ended), name="work"))
    for _ in range(2):
        await asyncio.sleep(0.01)
        caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended == ["ended"]


async def test_tasks_that_are_over_are_not_waited_for():
    task = start_task(asyncio.sleep(0), name="over")
    await task
    await cancel_tasks([task])
    assert not task.cancelled()
