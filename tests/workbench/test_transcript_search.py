"""Going anywhere in a log and finding anything in it, whatever is in the window."""

import random

import pytest

from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    MessageChunk,
    Prompted,
    TerminalOutput,
    ToolCallEnded,
    ToolCallStarted,
)
from quarterdeck.wire.ids import MessageId, SessionId, TerminalId, ToolCallId
from quarterdeck.wire.record import Record
from quarterdeck.wire.tool_calls import ContentItem, TerminalItem
from quarterdeck.workbench.stores.blocks import MOST_TEXT, text_of_block
from quarterdeck.workbench.stores.search import STEP, TranscriptSearch, read_whole_text
from quarterdeck.workbench.stores.transcript import PAGE, TranscriptStore
from quarterdeck.workbench.widgets import transcript_position
from tests.workbench.test_transcript_store import SESSION, records, told, whole


class Log:
    """A log that can be read by pages, as a fleet's."""

    def __init__(self, log: list[Record]) -> None:
        self.log = log
        self.most = 0

    async def __call__(
        self, *, after: int = 0, before: int | None = None, limit: int = PAGE
    ) -> list[Record]:
        self.most = max(self.most, limit)
        if before is not None:
            return [record for record in self.log if record.seq < before][-limit:]
        return [record for record in self.log if record.seq > after][:limit]


def made(*events: object) -> list[Record]:
    return [
        Record(seq=seq, time=seq, session=SESSION, event=event)  # pyright: ignore[reportArgumentType]
        for seq, event in enumerate(events, 1)
    ]


async def fill(store: TranscriptStore, chance: random.Random) -> None:
    """Read all that is missing, from either end in any order."""
    while store.has_older or store.has_newer:
        if store.has_older and (chance.random() < 0.5 or not store.has_newer):
            store.older(await store.read(before=store.first))
        elif store.has_newer:
            store.newer(await store.read(after=store.last))


@pytest.mark.parametrize("seed", range(12))
async def test_from_any_place_and_in_any_order_the_pages_join_to_the_whole(seed: int):
    chance = random.Random(seed)
    log = records(40, seed)
    store = TranscriptStore(SESSION, Log(log))
    for _ in range(3):
        seq = chance.randint(1, len(log))
        block = await transcript_position.move_window_to(store, seq)
        assert block is not None and block.first <= max(seq, store.blocks[0].first)
    await fill(store, chance)
    assert told(list(store.blocks)) == whole(log)


async def test_every_record_is_found_where_it_stands():
    log = records(30)
    store = TranscriptStore(SESSION, Log(log))
    store.start(log, is_end=True)
    for record in log:
        block = store.find(record.seq)
        assert block is not None
        if any(b.first <= record.seq <= b.last for b in store.blocks):
            assert block.first <= record.seq <= block.last


async def test_prompts_beyond_the_window_are_found_both_ways():
    log = records(400)
    prompts = [r.seq for r in log if isinstance(r.event, Prompted)]
    store = TranscriptStore(SESSION, Log(log))
    store.start(log[-PAGE:], is_end=True)
    here, seen = log[-1].seq, []
    while (seq := await transcript_position.find_next_prompt(store, here, -1)) is not None:
        if store.find(seq) is None:
            await transcript_position.move_window_to(store, seq)
        seen.append(here := seq)
    assert seen == prompts[::-1]
    back = [here]
    while (seq := await transcript_position.find_next_prompt(store, here, 1)) is not None:
        if store.find(seq) is None:
            await transcript_position.move_window_to(store, seq)
        back.append(here := seq)
    assert back == prompts


@pytest.mark.parametrize("seed", range(6))
async def test_a_search_finds_what_reading_everything_would_find(seed: int):
    chance = random.Random(seed)
    log = records(120, seed)
    read = Log(log)
    all_blocks = TranscriptStore(SESSION)
    all_blocks.start(log, is_end=True)
    for words in ("word", f"prompt {chance.randint(0, 119)}", "line 2", "hm hm", "nowhere"):
        search = TranscriptSearch(words, read)
        steps = 0

        def told_step() -> None:
            nonlocal steps
            steps += 1

        await search.run(told_step)
        expected = [
            (block.first, count)
            for block in reversed(all_blocks.blocks)
            if (count := text_of_block(block).lower().count(words))
        ]
        assert sorted((f.seq, f.count) for f in search.found) == sorted(expected)
        assert search.searched == len(log) and steps >= len(log) // STEP and read.most <= STEP


async def test_a_search_finds_words_across_chunks_and_pages_and_in_what_is_not_kept():
    call, terminal = ToolCallId("c"), TerminalId("t")
    started = ToolCallStarted(call=call, title="run", content=(TerminalItem(terminal_id=terminal),))
    first = [started, TerminalOutput(terminal=terminal, data="the begin")]
    noise = [TerminalOutput(terminal=terminal, data="x" * 1_000) for _ in range(STEP * 2)]
    split = [MessageChunk(content=text(part)) for part in ["a nee", "dle in ha", "y"]]
    long = [MessageChunk(content=text("y" * (MOST_TEXT + 10) + "farend"), message=MessageId("l"))]
    log = made(
        *first, *noise, *split[:1], *split[1:], *long, ToolCallEnded(call=call, status="completed")
    )
    for words, seq in (
        ("thebegin".replace("the", "the "), 1),
        ("needle", len(first) + len(noise) + 1),
    ):
        search = TranscriptSearch(words, Log(log))
        await search.run(lambda: None)
        assert [found.seq for found in search.found] == [seq], words
    search = TranscriptSearch("farend", Log(log))
    await search.run(lambda: None)
    assert search.total == 1


async def test_capitals_count_once_they_are_typed():
    log = made(MessageChunk(content=text("Needle needle")))
    for words, count in (("needle", 2), ("Needle", 1), ("NEEDLE", 0)):
        search = TranscriptSearch(words, Log(log))
        await search.run(lambda: None)
        assert search.total == count


async def test_all_of_a_block_is_read_again_where_a_part_is_kept():
    words = "0123456789" * 50_000
    parts = [words[at : at + 7_000] for at in range(0, len(words), 7_000)]
    log = made(
        *(MessageChunk(content=text(part)) for part in parts),
        Prompted(content=(text("next"),), message=MessageId("m")),
    )
    store = TranscriptStore(SESSION, Log(log))
    store.start(log, is_end=True)
    assert len(text_of_block(store.blocks[0])) == MOST_TEXT
    assert await read_whole_text(store.read, store.blocks[0]) == words
    big = "row\n" * 200_000
    call = ToolCallId("c")
    log = made(
        ToolCallStarted(call=call, title="cat"),
        ToolCallEnded(call=call, status="completed", content=(ContentItem(content=text(big)),)),
    )
    store = TranscriptStore(SESSION, Log(log))
    store.start(log, is_end=True)
    assert "more characters in the log" in text_of_block(store.blocks[0])
    assert big in await read_whole_text(store.read, store.blocks[0])


async def test_the_window_moves_even_while_a_page_for_the_old_place_is_on_its_way():
    from quarterdeck.workbench.context import TranscriptPages

    log = records(400)
    read = Log(log)

    class Slow:
        async def read(self, session: SessionId, **how: int) -> list[Record]:
            page = await read(**how)
            if how.get("before") == pages.store(SESSION).first:
                await transcript_position.move_window_to(
                    store, 5
                )  # somebody goes elsewhere meanwhile
            return page

    pages = TranscriptPages(Slow())  # pyright: ignore[reportArgumentType]
    store = pages.store(SESSION)
    store.read = read
    await pages.read(store, "first")
    store.read = pages._reader(SESSION)  # pyright: ignore[reportPrivateUsage]
    await pages.read(store, "older")
    assert store.first <= 5 <= store.last
    seqs = [block.first for block in store.blocks]
    assert seqs == sorted(seqs) and seqs[-1] < 400
