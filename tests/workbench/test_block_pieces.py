"""Long texts in pieces: nothing is lost, nothing takes long, however the text came."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk, NoticePosted, Prompted
from quarterdeck.wire.ids import MessageId, SessionId
from quarterdeck.wire.record import Record
from quarterdeck.workbench.rendering.block_layout import BlockLayout
from quarterdeck.workbench.rendering.lines import Line, text_of, width_of
from quarterdeck.workbench.rendering.markdown import markdown_lines
from quarterdeck.workbench.rendering.pieces import LONGEST, TextSplitter
from quarterdeck.workbench.sanitize import sanitize_text
from quarterdeck.workbench.stores.blocks import MOST_TEXT
from quarterdeck.workbench.stores.transcript import MOST_WEIGHT, TranscriptStore

SESSION = SessionId("ses_1")
BLOCKS = (
    "# Head", "words and **more** words", "- one\n- two\n\n- three", "1. first\n2. second",
    "> quoted\n> lines", "```python\ndef f():\n\n    return 1\n```", "~~~\nraw ``` here\n\n~~~",
    "- item\n\n  ```\n  code\n\n  more\n  ```\n- next", "| a | b |\n|---|---|\n| c | d |",
    "para\n- tight list\n- of two", "    indented code", "text before\n```\nfence\n```\ntext after",
)  # fmt: skip
sources = st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=8).map("\n\n".join)


def record(seq: int, words: str) -> Record:
    event = MessageChunk(content=text(words), message=MessageId("m"))
    return Record(seq=seq, time=seq, session=SESSION, event=event)


def lines_of(store: TranscriptStore, width: int = 80) -> list[Line]:
    layout = BlockLayout(width)
    layout.sync(store.blocks)
    at = 0
    lines: list[Line] = []
    while at < len(layout):
        layout.measure(at)
        lines += [layout.line(at, n) for n in range(layout.height(at))]
        at += 1
    return lines


@settings(deadline=None, max_examples=150)
@given(sources)
def test_pieces_look_like_the_whole(source: str):
    splitter = TextSplitter()
    splitter.add(source)
    splitter.end()
    from quarterdeck.workbench.rendering.pieces import BlockPiece
    from quarterdeck.workbench.stores.blocks import TextBlock

    block = TextBlock(first=1, last=1, kind="message")
    apart: list[Line] = []
    for at, cut in enumerate(splitter.done):
        apart += [()] if cut.is_apart and at else []
        apart += BlockPiece(block, cut).lines(60)
    assert [text_of(line) for line in apart] == [text_of(one) for one in markdown_lines(source, 60)]


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet="ab`~\n-> 1.#", max_size=300), st.integers(1, 40))
def test_no_piece_leaves_a_word_out(source: str, step: int):
    whole, grown = TextSplitter(), TextSplitter()
    whole.add(source)
    whole.end()
    for at in range(0, len(source), step):
        grown.add(source[at : at + step])
    grown.end()
    assert grown.done == whole.done
    kept = "".join(cut.text + cut.language for cut in whole.done)
    assert sorted(kept.replace("`", "").replace("~", "").split()) or not source.strip("`~ \n")


@pytest.mark.parametrize("seed", range(4))
def test_a_message_that_was_watched_looks_like_one_that_is_read(seed: int):
    chance = random.Random(seed)
    words = "\n\n".join(chance.choice(BLOCKS) for _ in range(400))
    live, read = TranscriptStore(SESSION), TranscriptStore(SESSION)
    live.start([], is_end=True)
    layout = BlockLayout(80)
    records: list[Record] = []
    at = 0
    while at < len(words):
        size = chance.randint(1, 60)
        records.append(record(len(records) + 1, words[at : at + size]))
        at += size
        live.live(records[-1:])
        layout.sync(live.blocks)
        layout.reveal_end(30)
    last = Record(seq=len(records) + 1, time=0, session=SESSION, event=NoticePosted(title="end"))
    live.live([last])
    read.start([*records, last], is_end=True)
    assert len(words) > LONGEST
    assert lines_of(live) == lines_of(read)
    layout.sync(live.blocks)
    layout.reveal_end(30)
    end = [layout.line(*layout.locate(layout.total - n)) for n in range(1, 31)]
    assert end == lines_of(read)[-1:-31:-1]


@pytest.mark.parametrize(
    "words",
    ["word " * 1_000_000, ("many words in a line\n" * 250_000), "x" * 5_000_000, "ä\n\n" * 800_000],
    ids=["one line", "lines", "one word", "paragraphs"],
)
def test_a_message_of_five_megabytes_is_shown_in_part_and_says_so(words: str):
    store = TranscriptStore(SESSION)
    store.start([record(1, words)], is_end=True)
    store.live([Record(seq=2, time=2, session=SESSION, event=NoticePosted(title="end"))])
    layout = BlockLayout(100)
    begun = time.thread_time()
    layout.sync(store.blocks)
    layout.reveal_end(50)
    assert time.thread_time() - begun < 2  # rendering all of it takes minutes
    shown = [text_of(layout.line(*layout.locate(layout.total - n))) for n in range(1, 51)]
    left = len(words) - MOST_TEXT
    assert any(f"{left:,} more characters: /whole" in line for line in shown)


def test_a_flood_of_big_messages_takes_a_bounded_window():
    store = TranscriptStore(SESSION)
    store.start([], is_end=True)
    for seq in range(1, 400):
        event = MessageChunk(content=text("x" * 150_000), message=MessageId(f"m{seq}"))
        store.live([Record(seq=seq, time=0, session=SESSION, event=event)])
        assert sum(b.size for b in store.blocks) <= MOST_WEIGHT * 1.6  # pyright: ignore[reportAttributeAccessIssue]
    assert store.has_older and store.blocks[-1].last == 399


def test_a_long_prompt_is_folded_and_unfolds():
    store = TranscriptStore(SESSION)
    words = "\n".join(f"line {n}" for n in range(5_000))
    event = Prompted(content=(text(words),), message=MessageId("m"))
    store.start([Record(seq=1, time=1, session=SESSION, event=event)], is_end=True)
    folded = [text_of(line) for line in lines_of(store)]
    assert len(folded) <= 15 and "5,000 lines in all" in folded[-1]
    store.unfold_all(True)
    unfolded = [text_of(line)[2:].rstrip() for line in lines_of(store)[1:]]
    assert unfolded[0].startswith("line 0  ") and unfolded[1:] == words.split("\n")[1:]


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=400), st.integers(24, 60))
def test_any_text_in_pieces_is_literal_and_fits(words: str, width: int):
    store = TranscriptStore(SESSION)
    store.start([record(1, words * 30)], is_end=True)
    store.live([Record(seq=2, time=2, session=SESSION, event=NoticePosted(title="end"))])
    for line in lines_of(store, width):
        shown = text_of(line)
        assert width_of(line) <= width
        assert sanitize_text(shown) == shown and "\n" not in shown
