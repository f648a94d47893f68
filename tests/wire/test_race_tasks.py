"""Several things at once, until one is over."""

import asyncio

import pytest

from quarterdeck.wire.tasks import race_tasks


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
