"""Full-text search."""

import asyncio
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.journal import Journal, JournalLimits
from quarterdeck.journal.search import match_expression
from quarterdeck.journal.searchable_text import cut_into_pieces
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    CompactionChanged,
    NoticePosted,
    Prompted,
    TerminalExited,
    TerminalOutput,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnded,
    UsageReported,
)
from quarterdeck.wire.ids import SessionId, new_session_id
from quarterdeck.wire.tool_calls import ContentItem, Diff
from tests.support.journal_events import append_all


async def found(journal: Journal, query: str, session=None) -> list[tuple[str, int]]:
    return [(hit.session, hit.seq) for hit in await journal.search(query, session)]


async def test_every_kind_of_text_is_found(path: Path):
    output = (ContentItem(content=text("golf")), Diff(path="src/hotel.py", new_text="india"))
    events = [
        Prompted(content=(text("alpha"),), message="p"),
        ThoughtChunk(content=text("bravo")),
        NoticePosted(title="charlie", description="delta"),
        ToolCallStarted(call="c", title="echo", raw_input={"command": ["foxtrot"]}),
        ToolCallEnded(call="c", status="completed", content=output),
        CompactionChanged(compaction="k", status="completed", summary="juliett"),
        TerminalOutput(terminal="t", data="kilo"),
    ]
    async with Journal.open(path) as journal:
        await append_all(journal, "a", events)
        await journal.durable(len(events))
        words = [
            ("alpha", 1),
            ("bravo", 2),
            ("charlie", 3),
            ("delta", 3),
            ("echo", 4),
            ("foxtrot", 4),
            ("golf", 5),
            ("hotel", 5),
            ("india", 5),
            ("juliett", 6),
            ("kilo", 7),
        ]
        for word, seq in words:
            assert await found(journal, word) == [("a", seq)], word


async def test_a_word_split_over_chunks_is_found_while_the_message_grows(path: Path, say):
    async with Journal.open(path) as journal:
        await journal.commit("a", say("the quarter"))
        assert await found(journal, "quarterdeck") == []
        await journal.append("a", UsageReported())
        await journal.append("b", say("someone else"))
        await journal.commit("a", say("deck is where"))
        assert await found(journal, "quarterdeck") == [("a", 1)]
        await journal.commit("a", say(" a ship is commanded"))
        assert await found(journal, '"quarterdeck is where a ship"') == [("a", 1)]
        await journal.commit("a", TurnEnded(stop="end_turn"))
        assert await found(journal, "quarterdeck commanded") == [("a", 1)]
        assert await found(journal, "quarter") == []


async def test_unnamed_chunks_make_one_message_until_something_else_happens(path: Path, say):
    async with Journal.open(path) as journal:
        await append_all(journal, "a", [say("one tw", None), say("o three", None)])
        await journal.append("a", UsageReported())
        await journal.commit("a", say("four", None))
        assert await found(journal, "one two three") == [("a", 1)]
        assert await found(journal, "three four") == []


async def test_growing_messages_survive_reopening(path: Path, say):
    async with Journal.open(path) as journal:
        await journal.commit("a", say("hel"))
        await journal.search("x")
    async with Journal.open(path) as journal:
        await journal.commit("a", say("lo"))
        assert await found(journal, "hello") == [("a", 1)]


async def test_two_messages_are_two_passages(path: Path, say):
    async with Journal.open(path) as journal:
        await journal.append("a", say("first", "m1"))
        await journal.commit("a", say("second", "m2"))
        assert await found(journal, "first second") == []
        assert await found(journal, "second") == [("a", 2)]


async def test_output_reported_before_the_end_is_indexed_once(path: Path):
    def report(words: str) -> ToolCallUpdated:
        return ToolCallUpdated(call="c", content=(ContentItem(content=text(words)),))

    async with Journal.open(path) as journal:
        await journal.append("a", ToolCallStarted(call="c", title="run"))
        await append_all(journal, "a", [report("lima"), report("lima mike")])
        await journal.commit("a", ToolCallEnded(call="c", status="completed"))
        assert await found(journal, "lima mike") == [("a", 3)]
        assert await found(journal, "lima") == [("a", 3)]


async def test_a_long_output_is_searchable_to_its_end(path: Path):
    words = " ".join(f"w{n}" for n in range(150_000))
    event = ToolCallEnded(call="c", status="completed", raw_output={"stdout": words})
    async with Journal.open(path) as journal:
        await journal.commit("a", event)
        assert await found(journal, "w149999") == [("a", 1)]
        assert await found(journal, "w75000") == [("a", 1)]


async def test_a_terminal_s_output_is_one_passage(path: Path):
    async with Journal.open(path) as journal:
        for data in ("build fai", "led\n"):
            await journal.append("a", TerminalOutput(terminal="t", data=data))
        await journal.commit("a", TerminalExited(terminal="t", exit_code=1))
        assert await found(journal, "build failed") == [("a", 1)]


async def test_hits_are_newest_first_limited_and_of_the_session_asked_for(path: Path):
    async with Journal.open(path) as journal:
        for number in range(10):
            await journal.append("ab"[number % 2], NoticePosted(title=f"same {number}"))
        await journal.durable(10)
        assert [seq for _, seq in await found(journal, "same")] == list(range(10, 0, -1))
        assert [hit.seq for hit in await journal.search("same", "b", limit=2)] == [10, 8]
        assert await journal.search("same", limit=0) == []


async def test_the_snippet_shows_where_it_matches(path: Path):
    async with Journal.open(path) as journal:
        await journal.commit("a", NoticePosted(title="the Größe of foo_bar matters"))
        (hit,) = await journal.search('FOO_BAR "größe of"')
        assert hit.type == "notice"
        assert [hit.snippet[a:b] for a, b in hit.marks] == ["Größe of", "foo_bar"]


async def test_beginnings_of_words_can_be_asked_for(path: Path):
    async with Journal.open(path) as journal:
        await journal.commit("a", NoticePosted(title="compaction"))
        assert await found(journal, "compac*") == [("a", 1)]
        assert await found(journal, "compac") == []


async def test_no_query_is_an_error(path: Path, blockbuster):
    async with Journal.open(path) as journal:
        await journal.commit("a", NoticePosted(title="NEAR AND OR NOT text: column ^ * - + ( ) {"))

        async def ask(query: str) -> None:
            await journal.search(query)

        for query in ['"', '""', "*", "a:b", "NEAR(", "-x", "^", "\x00", "\ud800", "a\x00b", "'"]:
            await ask(query)

        runner = asyncio.get_running_loop()

        @given(st.text(st.characters(), max_size=40))
        @settings(deadline=None, max_examples=200)
        def check(query: str) -> None:
            asyncio.run_coroutine_threadsafe(ask(query), runner).result(10)

        await asyncio.to_thread(check)


def test_words_of_a_query_are_quoted():
    assert match_expression('a "b c" d* NOT') == '"a" "b c" "d"* "NOT"'.replace('"d"', '"d*"')
    assert match_expression("  + -- ") == ""


@given(st.text(max_size=200), st.integers(1, 50))
@settings(deadline=None, max_examples=100)
def test_pieces_joined_are_the_text(whole: str, size: int):
    pieces = cut_into_pieces(whole, size)
    assert "".join(pieces) == whole
    assert all(len(piece) <= size for piece in pieces)


@pytest.mark.parametrize("damage", ["garbage", "gone", "other version", "other log"])
async def test_a_bad_index_is_made_anew(path: Path, say, damage: str):
    async with Journal.open(path) as journal:
        await journal.commit("a", say("needle"))
        await journal.search("needle")
    index = path.with_name("log.db.search")
    if damage == "garbage":
        index.write_bytes(b"nonsense" * 2_000)
    elif damage == "gone":
        index.unlink()
    else:
        change = "PRAGMA user_version = 99" if "version" in damage else "UPDATE state SET log = 'x'"
        with closing(sqlite3.connect(index)) as connection:
            connection.execute(change)
            connection.commit()
    async with Journal.open(path) as journal:
        assert await found(journal, "needle") == [("a", 1)]


async def test_the_index_is_brought_up_to_date_in_the_background(path: Path, say):
    async with Journal.open(path, limits=JournalLimits(index_every=0.01)) as journal:
        await journal.commit("a", say("needle"))
        async with asyncio.timeout(45):
            while not await journal._search.find("needle", None, 1):
                await asyncio.sleep(0.01)


async def test_a_reading_process_searches_too(path: Path, say):
    async with Journal.open(path) as writer, Journal.open(path, write=False) as reader:
        await writer.commit("a", say("one"))
        assert await found(reader, "one") == [("a", 1)]
        await writer.commit("a", say(" two"))
        assert await found(writer, "one two") == [("a", 1)]
        await writer.commit("a", say(" three"))
        assert await found(reader, "one two three") == [("a", 1)]


async def test_an_index_of_sessions_that_come_and_go_stays_small(path: Path):
    def count_pages() -> int:
        with closing(sqlite3.connect(index)) as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            return pages - free

    chance, index, kept = random.Random(1), f"{path}.search", list[SessionId]()
    sizes: list[int] = []
    async with Journal.open(path, limits=JournalLimits(index_every=3_600)) as journal:
        for _ in range(60):
            kept.append(new_session_id())
            for _ in range(40):
                words = " ".join(f"w{chance.randrange(50_000)}" for _ in range(40))
                await journal.append(kept[-1], Prompted(content=(text(words),), message="p"))
            await journal.durable(journal.last)
            await journal.search("w1")
            if len(kept) > 8:
                await journal.delete(kept.pop(0))
                await journal.search("w1")
            sizes.append(count_pages())
    Path(index).unlink()  # noqa: ASYNC240 - a test
    async with Journal.open(path, limits=JournalLimits(index_every=3_600)) as journal:
        await journal.search("w1")
        fresh = count_pages()
    assert max(sizes[20:]) < 2 * fresh, f"{fresh} {sizes}"
