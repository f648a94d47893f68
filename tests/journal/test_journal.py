"""Appending and reading."""

import asyncio
import stat
from pathlib import Path

import pytest

from quarterdeck.journal import (
    Journal,
    JournalClosedError,
    JournalLimits,
    JournalReadOnlyError,
    UnrecordableEventError,
)
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    NoticePosted,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    ToolCallEnded,
)
from quarterdeck.wire.record import decode_record
from quarterdeck.wire.tool_calls import ContentItem
from tests.support.journal_events import append_all


async def test_what_is_committed_is_read_back_in_place(path: Path, say):
    async with Journal.open(path, clock=lambda: 1_700_000_000_000_000) as journal:
        record = await journal.commit("a", say("hi"), turn="t1", parent="c1")
        assert (record.seq, record.time, record.turn, record.parent) == (
            1,
            1_700_000_000_000_000,
            "t1",
            "c1",
        )
        assert await journal.read() == [record]


async def test_numbers_grow_over_sessions_and_openings(path: Path, say):
    async with Journal.open(path) as journal:
        assert [(await journal.append(s, say("x"))).seq for s in "abc"] == [1, 2, 3]
    async with Journal.open(path) as journal:
        assert journal.last == 3
        assert (await journal.append("a", say("x"))).seq == 4


async def test_what_was_appended_is_written_on_leaving(path: Path, say):
    async with Journal.open(path) as journal:
        await append_all(journal, "a", [say(str(n)) for n in range(100)])
    async with Journal.open(path, write=False) as journal:
        assert [r.event.content.text for r in await journal.read()] == [str(n) for n in range(100)]


async def test_append_does_not_wait_for_the_disk(path: Path, say):
    async with Journal.open(path) as journal:
        record = await journal.append("a", say("x"))
        assert journal.last < record.seq
        await journal.durable(record.seq)
        assert journal.last == record.seq


async def test_waiting_for_an_event_that_does_not_exist_is_refused(path: Path):
    async with Journal.open(path) as journal:
        with pytest.raises(ValueError, match="no event has the number 1"):
            await journal.durable(1)


async def test_reading_one_session_from_a_number(path: Path, say):
    async with Journal.open(path) as journal:
        for number in range(20):
            await journal.append("ab"[number % 2], say(str(number)))
        await journal.durable(20)
        assert [r.seq for r in await journal.read(after=10, session="b", limit=3)] == [12, 14, 16]
        assert await journal.read(session="nobody") == []
        assert await journal.read(after=1 << 80) == []
        assert [r.seq async for r in journal.history(after=15, session="a")] == [17, 19]
        assert await journal.count() == 20
        assert await journal.count("a") == 10


async def test_paging_backwards_reaches_the_beginning(path: Path, say):
    async with Journal.open(path) as journal:
        await append_all(journal, "a", [say(str(n)) for n in range(25)])
        await journal.commit("b", say("other"))
        page = await journal.tail("a", limit=10)
        assert [r.seq for r in page] == list(range(16, 26))
        page = await journal.tail("a", before=page[0].seq, limit=10)
        assert [r.seq for r in page] == list(range(6, 16))
        page = await journal.tail("a", before=page[0].seq, limit=10)
        assert [r.seq for r in page] == list(range(1, 6))
        assert await journal.tail("a", before=1) == []
        assert [r.seq for r in await journal.tail(limit=1)] == [26]


async def test_a_large_tool_result_is_kept_whole(path: Path):
    output = "".join(f"line {n} ü\n" for n in range(100_000))
    event = ToolCallEnded(
        call="c", status="completed", content=(ContentItem(content=text(output)),)
    )
    async with Journal.open(path) as journal:
        await journal.commit("a", event)
    async with Journal.open(path) as journal:
        assert (await journal.read())[0].event == event


async def test_pages_of_large_records_are_short_but_never_empty(path: Path, say):
    async with Journal.open(path, limits=JournalLimits(page_bytes=10_000)) as journal:
        await append_all(journal, "a", [say("x" * 8_000) for _ in range(10)])
        await journal.durable(10)
        assert len(await journal.read()) == 2
        assert [r.seq for r in await journal.tail()] == [9, 10]
        assert [r.seq async for r in journal.history()] == list(range(1, 11))


async def test_a_full_buffer_makes_append_wait_and_loses_nothing(path: Path, say):
    limits = JournalLimits(pending_events=10, batch_events=3)
    async with Journal.open(path, limits=limits) as journal, asyncio.TaskGroup() as tasks:
        for name in "abcd":
            tasks.create_task(append_all(journal, name, [say(str(n)) for n in range(50)]))
    async with Journal.open(path, write=False) as journal:
        for name in "abcd":
            texts = [r.event.content.text async for r in journal.history(session=name)]
            assert texts == [str(n) for n in range(50)]


async def test_an_event_larger_than_the_buffer_is_let_in_alone(path: Path, say):
    async with Journal.open(path, limits=JournalLimits(pending_bytes=1_000)) as journal:
        await journal.append("a", say("small"))
        await journal.commit("a", say("x" * 5_000))
        assert journal.last == 2


async def test_an_event_without_a_json_form_is_refused_and_costs_nothing(path: Path, say):
    async with Journal.open(path) as journal:
        with pytest.raises(UnrecordableEventError, match="message_chunk"):
            await journal.append("a", say("\ud800"))
        assert (await journal.commit("a", say("fine"))).seq == 1


async def test_a_reader_cannot_append(path: Path, say):
    async with Journal.open(path):
        pass
    async with Journal.open(path, write=False) as journal:
        with pytest.raises(JournalReadOnlyError, match="was opened read-only; open it for"):
            await journal.append("a", say("x"))


async def test_use_after_closing_is_refused(path: Path, say):
    async with Journal.open(path) as journal:
        pass
    with pytest.raises(JournalClosedError):
        await journal.append("a", say("x"))
    with pytest.raises(JournalClosedError):
        await journal.read()
    with pytest.raises(JournalClosedError):
        await journal.search("x")
    with pytest.raises(JournalClosedError):
        await journal.rebuild("sessions")


async def test_transcripts_are_private(path: Path, say):
    async with Journal.open(path) as journal:
        await journal.commit("a", say("secret"))
        await journal.search("secret")
        files = list(path.parent.glob("log.db*"))
        assert len(files) >= 4
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_export_gives_records_as_json_lines(path: Path, say):
    async with Journal.open(path) as journal:
        first = await journal.append("a", say("one\ntwo"))
        await journal.append("b", say("other"))
        last = await journal.commit("a", NoticePosted(title="done"))
        lines = [line async for line in journal.export("a")]
    assert [decode_record(line) for line in lines] == [first, last]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)


async def test_sessions_are_listed_with_what_their_events_say(path: Path, say):
    times = iter(range(1_000, 2_000))
    async with Journal.open(path, clock=lambda: next(times)) as journal:
        await journal.append("a", SessionOpened(agent="claude", cwd="/w", agent_session="x"))
        await journal.append("b", SessionOpened(agent="native", cwd="/v", parent_session="a"))
        await journal.append("a", SessionChanged(title="Fix it", model="big"))
        await journal.append("b", SessionEnded(how="broken", reason="exit 1"))
        await journal.commit("a", say("x"))
        newest, oldest = await journal.sessions()
        assert (newest.id, newest.parent, newest.ended, newest.reason) == (
            "b",
            "a",
            "broken",
            "exit 1",
        )
        assert (oldest.agent, oldest.title, oldest.model, oldest.agent_session) == (
            "claude",
            "Fix it",
            "big",
            "x",
        )
        assert (oldest.opened, oldest.updated, oldest.last_seq) == (1_000, 1_004, 5)
        assert [s.id for s in await journal.sessions(before=newest.opened)] == ["a"]
        await journal.commit("b", SessionResumed(agent_session="y"))
        (resumed, _) = await journal.sessions()
        assert (resumed.ended, resumed.reason, resumed.agent_session) == (None, None, "y")


async def test_a_deleted_session_is_gone_everywhere_and_its_numbers_stay_used(path: Path, say):
    async with Journal.open(path) as journal:
        await journal.append("keep", say("beta"))
        await journal.append("drop", SessionOpened(agent="x", cwd="/", title="alpha"))
        await append_all(journal, "drop", [say("alpha")] * 1_200)
        assert await journal.delete("drop") == 1_201
        assert [r.session for r in await journal.read()] == ["keep"]
        assert await journal.sessions() == []
        assert await journal.search("alpha") == []
        assert [hit.session for hit in await journal.search("beta")] == ["keep"]
        assert (await journal.check()).healthy
    async with Journal.open(path) as journal:
        assert (await journal.commit("drop", say("again"))).seq == 1_203
        assert [r.seq for r in await journal.read(session="drop")] == [1_203]
    assert b"alpha" not in await asyncio.to_thread(path.with_name("log.db.search").read_bytes)


async def test_deleting_nobody_deletes_nothing(path: Path):
    async with Journal.open(path) as journal:
        assert await journal.delete("nobody") == 0


async def test_a_cancelled_wait_leaves_the_event_in_place(path: Path, say):
    async with Journal.open(path, limits=JournalLimits(linger=0.05)) as journal:
        waiting = asyncio.create_task(journal.commit("a", say("x")))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await journal.commit("a", say("y"))
        assert [r.seq for r in await journal.read()] == [1, 2]
