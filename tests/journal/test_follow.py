"""Following: history, then live, nothing missing and nothing twice."""

import asyncio
import time
from contextlib import aclosing
from pathlib import Path

from quarterdeck.journal import Journal, JournalLimits
from quarterdeck.wire.events import TurnEnded
from tests.support.deadlines import SOON
from tests.support.journal_events import append_all


async def take(journal: Journal, count: int, after: int = 0, session=None, pause: float = 0):
    seen = []
    async with aclosing(journal.follow(after, session)) as records:
        async for record in records:
            seen.append(record.seq)
            if pause and len(seen) % 100 == 0:
                await asyncio.sleep(pause)
            if len(seen) == count:
                break
    return seen


async def test_history_runs_into_live_without_a_gap(path: Path, say):
    async with Journal.open(path) as journal:
        await append_all(journal, "a", [say("x")] * 500)
    async with Journal.open(path) as journal, asyncio.TaskGroup() as tasks:
        followers = [
            tasks.create_task(take(journal, 1_500 - n, after=n)) for n in range(0, 600, 50)
        ]
        for _ in range(100):
            await append_all(journal, "b", [say("y")] * 10)
            await asyncio.sleep(0)
    for start, follower in zip(range(0, 600, 50), followers, strict=True):
        assert follower.result() == list(range(start + 1, 1_501))


async def test_a_session_s_follower_sees_only_its_own(path: Path, say):
    async with Journal.open(path) as journal, asyncio.TaskGroup() as tasks:
        follower = tasks.create_task(take(journal, 3, session="rare"))
        for number in range(3_000):
            await journal.append("rare" if number % 1_000 == 999 else "loud", say("x"))
    assert follower.result() == [1_000, 2_000, 3_000]


async def test_a_follower_of_some_kinds_sees_only_these_and_sleeps_meanwhile(path: Path, say):
    kinds = frozenset((TurnEnded,))
    limits = JournalLimits(recent_events=64, recent_bytes=20_000)
    async with Journal.open(path, limits=limits) as journal:
        await append_all(journal, "a", [say("x")] * 300 + [TurnEnded(stop="end_turn")])
        async with aclosing(journal.follow(kinds=kinds)) as records:
            assert (await anext(records)).seq == 301, "from disk"
            following = asyncio.ensure_future(anext(records))
            await asyncio.sleep(0)
            (waiting,) = (future for one in journal._recent._waiters.values() for future in one)
            said = await append_all(journal, "b", [say("x")] * 200)
            await journal.durable(said[-1].seq)
            assert not waiting.done()
            await append_all(journal, "b", [say("x"), TurnEnded(stop="cancelled"), say("x")])
            assert (await asyncio.wait_for(following, SOON)).seq == 503
        assert not journal._recent._waiters and not journal._recent._selective


async def test_a_slow_follower_gets_all_from_disk_while_memory_stays_bounded(path: Path, say):
    limits = JournalLimits(recent_events=64, recent_bytes=20_000)
    async with Journal.open(path, limits=limits) as journal, asyncio.TaskGroup() as tasks:
        slow = tasks.create_task(take(journal, 2_000, pause=0.001))
        for _ in range(20):
            records = await append_all(journal, "a", [say("x" * 50)] * 100)
            await journal.durable(records[-1].seq)
            assert len(journal._recent._records) <= 64
            assert journal._recent._bytes <= 20_000
    assert slow.result() == list(range(1, 2_001))


async def test_only_durable_records_are_shown(path: Path, say):
    async with Journal.open(path) as journal, aclosing(journal.follow()) as records:
        first = asyncio.create_task(anext(records))
        record = await journal.append("a", say("x"))
        assert await first == record
        assert journal.last >= record.seq


async def test_following_from_the_future_waits_for_it(path: Path, say):
    async with Journal.open(path) as journal, asyncio.TaskGroup() as tasks:
        follower = tasks.create_task(take(journal, 1, after=5))
        await asyncio.sleep(0)
        for _ in range(6):
            await journal.commit("a", say("x"))
    assert follower.result() == [6]


async def test_closing_ends_followers_after_what_was_written(path: Path, say):
    async def all_of(journal: Journal) -> int:
        return len([record async for record in journal.follow()])

    async with Journal.open(path) as journal:
        waiting = [asyncio.create_task(all_of(journal)) for _ in range(3)]
        await append_all(journal, "a", [say("x")] * 10)
        await asyncio.sleep(0)
    assert await asyncio.gather(*waiting) == [10, 10, 10]


async def test_a_cancelled_follower_leaves_nothing_behind(path: Path):
    async with Journal.open(path) as journal:
        follower = asyncio.create_task(take(journal, 1))
        await asyncio.sleep(0)
        assert journal._recent._waiters
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)
        assert not journal._recent._waiters


async def test_a_deleted_session_is_not_followed_from_memory(path: Path, say):
    async with Journal.open(path) as journal:
        await append_all(journal, "a", [say("x")] * 5)
        await append_all(journal, "b", [say("x")] * 5)
        await journal.delete("a")
        assert await take(journal, 5) == [6, 7, 8, 9, 10]


async def test_fifty_followers_of_a_busy_log_are_cheap(path: Path, say):
    """1,000 events in a second with 50 followers must leave most of a core free."""
    async with Journal.open(path) as journal, asyncio.TaskGroup() as tasks:
        followers = [tasks.create_task(take(journal, 20, session=f"s{n}")) for n in range(50)]
        everything = tasks.create_task(take(journal, 1_000))
        await asyncio.sleep(0)
        began = time.process_time()
        for _ in range(20):
            for number in range(50):
                await journal.append(f"s{number}", say("x"))
            await asyncio.sleep(0.005)
        await everything
        spent = time.process_time() - began
    assert all(len(follower.result()) == 20 for follower in followers)
    assert spent < 0.5
