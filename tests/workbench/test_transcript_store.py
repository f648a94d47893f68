"""A transcript is the same whether it is read at once, by pages, or as it happens."""

import random
import time
from collections.abc import Iterator

import pytest

from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    CommandStarted,
    Event,
    MessageChunk,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    Prompted,
    SessionEnded,
    TerminalExited,
    TerminalOutput,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import MessageId, RequestId, SessionId, TerminalId, ToolCallId
from quarterdeck.wire.permissions import Decider, Selected
from quarterdeck.wire.record import Record
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.tool_calls import Diff, TerminalItem
from quarterdeck.workbench.rendering.block_layout import BlockLayout
from quarterdeck.workbench.rendering.blocks import block_lines
from quarterdeck.workbench.rendering.lines import text_of
from quarterdeck.workbench.stores.blocks import Block, EndBlock, PlanBlock, TextBlock, ToolBlock
from quarterdeck.workbench.stores.transcript import MOST_BLOCKS, PAGE, TranscriptStore

SESSION = SessionId("ses_1")


def events(chance: random.Random, turns: int) -> Iterator[Event]:
    for turn in range(turns):
        yield Prompted(content=(text(f"prompt {turn}"),), message=MessageId(f"m{turn}"))
        yield TurnStarted()
        for step in range(chance.randint(1, 4)):
            for _ in range(chance.randint(0, 3)):
                yield ThoughtChunk(content=text("hm "))
            call, terminal = ToolCallId(f"c{turn}.{step}"), TerminalId(f"t{turn}.{step}")
            yield ToolCallStarted(
                call=call, title=f"run {step}", content=(TerminalItem(terminal_id=terminal),)
            )
            if chance.random() < 0.3:
                request = RequestId(f"r{turn}.{step}")
                yield PermissionAsked(request=request, call=call, title="run", options=())
                yield PermissionAnswered(
                    request=request,
                    call=call,
                    outcome=Selected(option_id="y"),
                    kind="allow_once",
                    by=Decider(kind="person"),
                )
            if chance.random() < 0.15:
                yield SessionEnded(how="broken")  # before anything was said of the call but that
                break
            yield ToolCallUpdated(call=call, status="in_progress")
            if chance.random() < 0.15:
                yield ToolCallUpdated(call=call, title=f"run {step} again")
                yield SessionEnded(how="broken", reason="the host was killed")
                if chance.random() < 0.5:  # the agent goes on with it in another run
                    yield ToolCallUpdated(call=call, title="what is left")
                    yield ToolCallUpdated(call=call, status="in_progress")
            for line in range(chance.randint(0, 3)):
                yield TerminalOutput(terminal=terminal, data=f"line {line}\n")
            yield TerminalExited(terminal=terminal, exit_code=0)
            yield ToolCallEnded(call=call, status="completed")
            for _ in range(chance.randint(0, 6)):
                yield MessageChunk(content=text("word "))
            if chance.random() < 0.4:
                entry = PlanEntry(content=f"{turn}.{step}", priority="low", status="pending")
                yield PlanChanged(entries=(entry,))
        yield TurnEnded(stop="end_turn")


def records(turns: int, seed: int = 1) -> list[Record]:
    found = enumerate(events(random.Random(seed), turns), 1)
    return [Record(seq=seq, time=seq, session=SESSION, event=event) for seq, event in found]


def told(blocks: "list[Block]") -> list[object]:
    """What a person would see of each block."""
    shown: list[object] = []
    for block in blocks:
        if isinstance(block, TextBlock):
            shown.append((block.kind, block.text))
        elif isinstance(block, ToolBlock):
            facts = (block.call, block.title, block.status, block.output, block.decision)
            shown.append((*facts, block.is_interrupted))
        elif isinstance(block, EndBlock):
            shown.append((block.stop, block.began, block.ended))
        elif isinstance(block, PlanBlock):
            shown.append((block.first, block.entries))
        else:
            shown.append(block)
    return shown


def whole(log: list[Record]) -> list[object]:
    store = TranscriptStore(SESSION)
    store.start(log, is_end=True)
    return told(list(store.blocks))


@pytest.mark.parametrize("seed", range(25))
def test_pages_join_to_what_was_there(seed: int):
    log = records(4, seed)
    for cut in range(1, len(log)):
        store = TranscriptStore(SESSION)
        store.start(log[cut:], is_end=True)
        store.older(log[:cut])
        assert told(list(store.blocks)) == whole(log), cut


@pytest.mark.parametrize("seed", range(5))
def test_what_comes_live_is_what_was_read(seed: int):
    log = records(6, seed)
    store = TranscriptStore(SESSION)
    store.live(log[10:14])  # before the first page: part of it comes twice
    store.start(log[:12], is_end=True)
    for record in log[8:]:
        store.live([record])
    assert told(list(store.blocks)) == whole(log)


def test_the_window_is_bounded_and_goes_anywhere():
    log = records(1_200)
    store = TranscriptStore(SESSION)
    store.start(log[-PAGE:], is_end=True)
    most = 0
    while store.has_older:
        before = [record for record in log if record.seq < store.first]
        store.older(before[-PAGE:])
        most = max(most, len(store.blocks))
    assert store.blocks[0].first == 1 and most <= MOST_BLOCKS + PAGE
    assert store.has_newer
    store.live(log[-1:])  # the window is elsewhere: nothing of it is shown in the wrong place
    while store.has_newer:
        after = [record for record in log if record.seq > store.last]
        store.newer(after[:PAGE])
    assert told(list(store.blocks)) == whole(log)[-len(store.blocks) :]


def test_records_that_come_twice_change_nothing():
    log = records(5)
    store = TranscriptStore(SESSION)
    store.start(log, is_end=True)
    before = told(list(store.blocks))
    store.live(log)
    assert told(list(store.blocks)) == before


def test_one_more_chunk_costs_the_same_after_a_long_history():
    def cost(history: int) -> float:
        store = TranscriptStore(SESSION)
        store.start([], is_end=True)
        layout = BlockLayout(80)
        for seq in range(1, history + 1):
            event = Prompted(content=(text("p"),), message=MessageId(f"m{seq}"))
            store.live([Record(seq=seq, time=0, session=SESSION, event=event)])
        layout.sync(store.blocks)
        best = 1.0
        for seq in range(history + 1, history + 200):
            chunk = Record(
                seq=seq, time=0, session=SESSION, event=MessageChunk(content=text("more words "))
            )
            begun = time.perf_counter()
            store.live([chunk])
            layout.sync(store.blocks)
            layout.measure(len(layout) - 1)
            assert layout.total
            best = min(best, time.perf_counter() - begun)
        return best

    short, long = cost(2_000), cost(20_000)
    assert long < max(short * 3, 0.002), (short, long)


def test_blocks_beyond_the_view_are_not_rendered():
    store = TranscriptStore(SESSION)
    diff = Diff(path="x", old_text="a", new_text="b")
    log = [
        Record(
            seq=seq,
            time=0,
            session=SESSION,
            event=ToolCallStarted(call=ToolCallId(f"c{seq}"), title="t", content=(diff,)),
        )
        for seq in range(1, 150)
    ]
    store.start(log, is_end=True)
    layout = BlockLayout(60)
    layout.sync(store.blocks)
    assert layout.total == 149
    assert layout.line(100, 0) == ()
    layout.measure(100)
    assert "c" not in layout.line(100, 0)[0][0]
    assert layout.locate(layout.top(100)) == (100, 0)


def test_an_open_call_of_a_session_that_ended_is_interrupted_and_no_longer_runs():
    store = TranscriptStore(SESSION)
    call = ToolCallStarted(
        call=ToolCallId("c"), title="pytest -q", kind="execute", status="in_progress"
    )
    own = CommandStarted(terminal=TerminalId("t"), command="make", cwd="/")
    done = ToolCallEnded(call=ToolCallId("d"), status="failed", reason="no such file")
    log = [
        Record(seq=at, time=at, session=SESSION, event=event)
        for at, event in enumerate((call, own, done, SessionEnded(how="broken")), 1)
    ]
    store.start(log[:-1], is_end=True)
    assert "●" in text_of(block_lines(store.blocks[0], 80)[0])
    version = store.blocks[0].version
    store.live(log[-1:])
    assert store.blocks[0].version > version  # it is drawn anew, wherever it stands
    lines = [text_of(block_lines(block, 80)[0]).rstrip() for block in store.blocks[:3]]
    assert lines[0] == "⊘ pytest -q  interrupted"
    assert "● you run make" in lines[1]
    assert lines[2].startswith("✗")
