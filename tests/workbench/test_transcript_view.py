"""What people do in a transcript: search, go, copy, fold; what is drawn of each kind of record."""

import asyncio
import time
from pathlib import Path

from quarterdeck.wire.content import ImageContent, text
from quarterdeck.wire.event_text import describe_content
from quarterdeck.wire.events import (
    CompactionChanged,
    MessageChunk,
    PlanChanged,
    Prompted,
    RetryScheduled,
    TerminalExited,
    TerminalOutput,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import (
    CompactionId,
    TerminalId,
    ToolCallId,
    new_message_id,
    new_tool_call_id,
)
from quarterdeck.wire.record import Record
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.tool_calls import TerminalItem
from quarterdeck.wire.usage import Cost, TokenUsage
from quarterdeck.workbench.rendering.lines import text_of
from quarterdeck.workbench.widgets.transcript import TranscriptView
from quarterdeck.workbench.widgets.transcript_search import SearchBar
from tests.support.deadlines import SOON
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, say, screen_text, think, until


def prompted(words: str) -> Prompted:
    return Prompted(content=(text(words),), message=new_message_id())


async def long_session(fleet: FakeFleet, turns: int = 300) -> str:
    ann = await begin(fleet, "ann", "the very first")
    for turn in range(turns):
        await fleet.append(ann, prompted(f"question {turn} end"))
        await say(fleet, ann, f"answer {turn} stop")
        await think(fleet, ann, "thinking\nof it")
    return ann


async def test_a_search_goes_back_to_what_is_in_no_window(tmp_path: Path):
    fleet = FakeFleet()
    await long_session(fleet)
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: "answer 299" in screen_text(app))
        await pilot.press("ctrl+f", *"answer 1")
        await until(pilot, lambda: "1 of 111" in screen_text(app))
        assert "answer 199" in screen_text(app)
        view = app.main.transcript
        marked = [view.line_at(view.scroll_offset.y + n)[0] for n in range(view.size.height)]
        assert ("answer 1", "match") in [span for line in marked for span in line]
        for _ in range(110):
            await pilot.press("enter")
        await until(pilot, lambda: "111 of 111" in screen_text(app))
        await until(pilot, lambda: "answer 1 stop" in screen_text(app))
        await pilot.press("down")
        await until(pilot, lambda: "answer 10 stop" in screen_text(app))
        await pilot.press("escape")
        assert not app.query(SearchBar) and app.focused is app.main.chat
        assert "answer 10 stop" in screen_text(app)  # one stays where one was led
        await pilot.press(*"typed")
        assert app.main.chat.text == "typed"


async def test_a_search_unfolds_what_hides_its_words_and_says_when_there_is_nothing(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    call, terminal = new_tool_call_id(), TerminalId("t")
    await fleet.append(
        ann, ToolCallStarted(call=call, title="make", content=(TerminalItem(terminal_id=terminal),))
    )
    for number in range(300):
        await fleet.append(ann, TerminalOutput(terminal=terminal, data=f"row {number} of it\n"))
    await fleet.append(ann, ToolCallEnded(call=call, status="completed"))
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: "make" in screen_text(app))
        assert "row 150" not in screen_text(app)
        app.main.transcript.focus()
        await pilot.press("slash", *"row 150 of")
        await until(pilot, lambda: "row 150 of it" in screen_text(app))
        for _ in range(10):
            await pilot.press("backspace")
        await pilot.press(*"nowhere")
        await until(pilot, lambda: "not found" in screen_text(app))


async def test_prompts_are_jumped_to_over_pages_that_are_not_there_yet(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann", "the very first")
    for turn in range(3):
        await fleet.append(ann, prompted(f"question {turn}"))
        for number in range(450):
            await (think if number % 2 else say)(fleet, ann, f"step {turn}.{number}")
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: "step 2.449" in screen_text(app))
        for words in ("question 2", "question 1", "question 0", "the very first"):
            await pilot.press("alt+up")
            await until(pilot, lambda words=words: f"❯ {words}" in screen_text(app))
        view = app.main.transcript
        view.focus()
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "❯ question 0" in screen_text(app))
        await pilot.press("end")
        await until(pilot, lambda: "step 2.449" in screen_text(app))
        await pilot.press("g")
        await until(pilot, lambda: "❯ the very first" in screen_text(app))
        assert not view.follows


async def test_a_record_of_any_age_is_gone_to(tmp_path: Path):
    fleet = FakeFleet()
    ann = await long_session(fleet)
    by_words = {
        describe_content(r.event.content): r.seq
        for r in fleet.records
        if isinstance(r.event, MessageChunk)
    }
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: "answer 299" in screen_text(app))
        view = app.query_one(TranscriptView)
        for turn in (3, 280, 150, 0, 299):
            view.go_to(by_words[f"answer {turn} stop"])
            await until(pilot, lambda turn=turn: f"answer {turn} stop" in screen_text(app))
            await pilot.pause(0.05)  # pages beside it come, and move nothing
            assert f"answer {turn} stop" in screen_text(app)
        store = app.context.pages.store(ann)  # pyright: ignore[reportArgumentType]
        firsts = [block.first for block in store.blocks]
        assert firsts == sorted(firsts)


async def test_what_is_read_stays_when_its_message_is_joined_with_the_page_before(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    message = new_message_id()
    for number in range(500):
        chunk = MessageChunk(content=text(f"line {number} of one message  \n"), message=message)
        await fleet.append(ann, chunk)
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: "line 499" in screen_text(app))
        view = app.main.transcript
        view.focus()
        for _ in range(60):
            top = [text_of(view.line_at(view.scroll_offset.y + n)[0]) for n in range(5)]
            await pilot.press("up")
            await pilot.pause()
            now = [text_of(view.line_at(view.scroll_offset.y + n)[0]) for n in range(1, 6)]
            assert now == top or view.scroll_offset.y == 0
        async with asyncio.timeout(SOON):
            while "line 0 of" not in screen_text(app):
                await pilot.press("pageup")
                await pilot.pause()


async def test_a_block_is_copied_as_it_was_written(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann", "**my** prompt")
    words = "# Head\n\n**bold** `code`\n\n" + "x" * 300_000
    await say(fleet, ann, words)
    await fleet.append(ann, TurnEnded(stop="end_turn"))
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: "more characters" in screen_text(app))
        await pilot.press("ctrl+y")
        await until(pilot, lambda: app.clipboard == words)
        await pilot.press("alt+up", "ctrl+y")
        await until(pilot, lambda: app.clipboard == "**my** prompt")
        await pilot.press(*"/copy-answer", "enter")
        await until(pilot, lambda: app.clipboard == words)


async def test_what_is_selected_with_the_mouse_is_copied(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann", "one two three")
    await say(fleet, ann, "four five six")
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: "four five six" in screen_text(app))
        rows = screen_text(app).split("\n")
        y = next(n for n, row in enumerate(rows) if "four five" in row)
        x = rows[y].index("five")
        await pilot.mouse_down(offset=(x, y))
        await pilot.hover(offset=(x + 4, y))
        await pilot.mouse_up(offset=(x + 4, y))
        await until(pilot, lambda: "five" in app.clipboard)
        assert "four" not in app.clipboard


async def test_a_terminal_is_live_while_it_runs_and_whole_when_unfolded(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    call, terminal = ToolCallId("call"), TerminalId("t")
    async with opened(fleet, tmp_path, (100, 40)) as (app, pilot):
        content = (TerminalItem(terminal_id=terminal),)
        started = ToolCallStarted(call=call, title="make", status="in_progress", content=content)
        await fleet.append(ann, started)
        for number in range(20):
            await fleet.append(
                ann, TerminalOutput(terminal=terminal, data=f"\x1b[31mrow {number}\n")
            )
        await until(pilot, lambda: "row 19" in screen_text(app))
        shown = screen_text(app)
        assert "\\x1b[31mrow 17" in shown and "row 16" not in shown
        await fleet.append(ann, TerminalExited(terminal=terminal, exit_code=2))
        await fleet.append(ann, ToolCallEnded(call=call, status="failed", reason="it failed"))
        await until(pilot, lambda: "exit 2" in screen_text(app))
        shown = screen_text(app)
        assert "✗ make  exit 2" in shown and "✓ make" not in shown and "it failed" in shown
        assert "row 15" in shown and "row 14" not in shown  # its last five lines
        app.main.transcript.focus()
        await pilot.press("j", "enter")
        await until(pilot, lambda: "row 19" in screen_text(app) and "row 0" in screen_text(app))


async def test_plans_images_turns_and_troubles_are_told(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    entries = [("read", "completed"), ("fix", "in_progress"), ("test", "pending")]
    plan = tuple(PlanEntry(content=c, priority="low", status=s) for c, s in entries)  # pyright: ignore[reportArgumentType]
    usage = TokenUsage(input=12_000, output=340, cached=9_000)
    image = ImageContent(data="A" * 4_000, mime_type="image/png")
    async with opened(fleet, tmp_path, (100, 40)) as (app, pilot):
        fleet.records.append(_at(fleet, ann, 10_000_000, TurnStarted()))
        await fleet.append(ann, PlanChanged(entries=plan))
        await fleet.append(ann, Prompted(content=(text("see"), image), message=new_message_id()))
        await fleet.append(ann, RetryScheduled(attempt=2, delay=3, reason="overloaded"))
        compaction = CompactionChanged(compaction=CompactionId("c"), status="in_progress")
        await fleet.append(ann, compaction)
        fleet.records.append(
            _at(
                fleet,
                ann,
                85_000_000,
                TurnEnded(stop="end_turn", usage=usage, cost=Cost(amount=0.5, currency="USD")),
            )
        )
        await say(fleet, ann, "end")
        await until(pilot, lambda: "end" in screen_text(app) and "0.50 $" in screen_text(app))
        shown = screen_text(app)
        for words in (
            "☑ read", "◐ fix", "☐ test", "1/3",
            "image 3 kB · not readable as an image",
            "retrying in 3 s: overloaded", "compacting the conversation",
            "1m 15s · 12k in, 340 out, 9.0k cached · 0.50 $",
        ):  # fmt: skip
            assert words in shown, words


async def test_what_a_sub_agent_says_is_set_apart_and_not_mixed(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        for number in range(3):
            for parent in (None, ToolCallId("one")):
                event = MessageChunk(content=text(f"{parent or 'main'}{number} "))
                fleet.records.append(_at(fleet, ann, 0, event, parent))
        await say(fleet, ann, "end")
        await until(pilot, lambda: "main2" in screen_text(app))
        assert "│ one1" in screen_text(app)
        assert "│ main" not in screen_text(app)


def _at(fleet: FakeFleet, session: str, time: int, event: object, parent: object = None) -> Record:
    seq = len(fleet.records) + 1
    return Record(seq=seq, time=time, session=session, event=event, parent=parent)  # pyright: ignore[reportArgumentType]


async def test_one_more_message_is_drawn_at_once_behind_a_long_history(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    for number in range(20_000):
        event = (
            prompted(f"p{number}") if number % 2 else MessageChunk(content=text(f"did {number}"))
        )
        fleet.records.append(_at(fleet, ann, 0, event))
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        await until(pilot, lambda: "did 19998" in screen_text(app))
        view = app.main.transcript
        best = 1.0
        code = "```python\n" + "def f(x):\n    return x + 1\n" * 20 + "```"
        for number in range(5):
            event = MessageChunk(
                content=text(f"{code}\n\nmessage {number}"), message=new_message_id()
            )
            record = _at(fleet, ann, 0, event)
            begun = time.thread_time()
            app.context.pages.live([record])
            for row in range(view.size.height):
                view.render_line(row)
            best = min(best, time.thread_time() - begun)
            fleet.records.append(record)
        assert best < 0.1, best  # 12 ms were measured
        await pilot.pause()
