"""What a conversation looks like: calls in one line, runs, changes, cards, plans, ends of turns."""

import base64
import random
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from quarterdeck.wire.content import ImageContent, read_image_facts, text
from quarterdeck.wire.event_text import describe_event
from quarterdeck.wire.events import (
    Checkpointed,
    Event,
    MessageChunk,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    Prompted,
    TerminalExited,
    TerminalOutput,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import MessageId, RequestId, SessionId, TerminalId, ToolCallId, TurnId
from quarterdeck.wire.permissions import Decider, Selected
from quarterdeck.wire.record import Record
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.tool_calls import ContentItem, Diff, TerminalItem, ToolCallLocation
from quarterdeck.wire.usage import Cost, TokenUsage
from quarterdeck.workbench.panels.feed import activity_line
from quarterdeck.workbench.rendering.block_layout import BlockLayout
from quarterdeck.workbench.rendering.diffs import count_changed_lines
from quarterdeck.workbench.rendering.lines import Line, text_of, width_of
from quarterdeck.workbench.sanitize import sanitize_text
from quarterdeck.workbench.stores.blocks import RunBlock, ToolBlock
from quarterdeck.workbench.stores.transcript import TranscriptStore

SESSION = SessionId("ses_1")
SECOND = 1_000_000


class Talk:
    """A transcript that grows event by event; half a second passes between two."""

    def __init__(self, cwd: str = "") -> None:
        self.records: list[Record] = []
        self.store = TranscriptStore(SESSION)
        self.store.cwd = cwd
        self.store.start([], is_end=True)
        self.time = 0

    def add(self, *events: Event, parent: str | None = None, after: float = 0.5) -> "Talk":
        for event in events:
            self.time += round(after * SECOND)
            record = Record(
                seq=len(self.records) + 1,
                time=self.time,
                session=SESSION,
                parent=ToolCallId(parent) if parent is not None else None,
                event=event,
            )
            self.records.append(record)
            self.store.live([record])
        return self

    def call(self, title: str, *, end: str | None = "completed", **fields: Any) -> "Talk":
        call = ToolCallId(fields.pop("call", f"c{len(self.records)}"))
        last = {name: fields.pop(name) for name in ("reason", "raw_output") if name in fields}
        parent = fields.pop("parent", None)
        started = ToolCallStarted(call=call, title=title, status="in_progress", **fields)
        self.add(started, parent=parent)
        if end is not None:
            self.add(ToolCallEnded(call=call, status=end, **last), parent=parent)  # pyright: ignore[reportArgumentType]
        return self

    def command(self, command: str, output: str, code: int | None) -> "Talk":
        terminal = TerminalId(f"t{len(self.records)}")
        call = ToolCallId(f"c{len(self.records)}")
        content = (TerminalItem(terminal_id=terminal),)
        self.call(command, call=call, end=None, name="bash", kind="execute", content=content)
        self.add(TerminalOutput(terminal=terminal, data=output))
        if code is None:
            return self
        ended = ToolCallEnded(call=call, status="completed")
        return self.add(TerminalExited(terminal=terminal, exit_code=code), ended)

    def lines(self, width: int = 80) -> list[Line]:
        layout = BlockLayout(width)
        layout.sync(self.store.blocks)
        return lines_of(layout)

    def text(self, width: int = 80) -> str:
        return "\n".join(text_of(line).rstrip() for line in self.lines(width))


def lines_of(layout: BlockLayout) -> list[Line]:
    found: list[Line] = []
    at = 0
    while at < len(layout):
        layout.measure(at)
        found += [layout.line(at, n) for n in range(layout.height(at))]
        at += 1
    return found


def content(words: str) -> tuple[ContentItem, ...]:
    return (ContentItem(content=text(words)),)


@pytest.mark.parametrize(
    ("title", "fields", "shown"),
    [
        ("Read /w/src/a.py", {"kind": "read", "content": content("x\n" * 120)},
         "✓ read src/a.py  120 lines"),
        ("Read a.py", {"kind": "read", "name": "read", "end": None}, "● reading a.py"),
        ("split in src", {"kind": "search", "name": "grep"}, "✓ searched split in src"),
        ("Find `**/*.py`", {"kind": "search", "name": "Glob"}, "✓ found **/*.py"),
        ("pytest -q", {"kind": "execute", "name": "bash"}, "✓ pytest -q"),
        ("`make all`", {"kind": "execute"}, "✓ make all"),
        ("bash", {"kind": "other", "name": "bash"}, "✓ bash"),
        ("Update the plan", {"kind": "think", "name": "TodoWrite", "end": "failed"},
         "✗ update the plan"),
        ("github.list", {"kind": "other", "name": "github.list"}, "✓ github.list"),
        ("weather in Bern", {"kind": "other", "name": "mcp"}, "✓ mcp weather in Bern"),
        ("Fetch https://x.org", {"kind": "fetch", "end": "failed", "reason": "no route"},
         "✗ fetch https://x.org"),
        ("Edit a.py", {"kind": "edit", "end": "cancelled"}, "⊘ edited a.py  interrupted"),
        ("one\ntwo", {"kind": "execute"}, "✓ one …"),
    ],
)  # fmt: skip
def test_a_call_is_one_line_in_words(title: str, fields: dict[str, Any], shown: str):
    lines = Talk("/w").call(title, **fields).text().split("\n")
    assert lines[0].startswith(shown), lines
    assert len(lines) == 1 + (fields.get("reason") is not None)
    if "end" not in fields:
        assert lines[0].endswith("  0.5s") and len(lines[0]) == 80


def test_the_time_of_a_call_is_without_what_a_person_took():
    talk = Talk().call("make", call="c", end=None, kind="execute")
    request = RequestId("r")
    talk.add(PermissionAsked(request=request, call=ToolCallId("c"), title="make", options=()))
    assert "? make  needs permission" in talk.text()
    answer = PermissionAnswered(
        request=request, call=ToolCallId("c"), outcome=Selected(option_id="y"), kind="allow_once",
        by=Decider(kind="person"),
    )  # fmt: skip
    talk.add(answer, after=600).add(
        ToolCallEnded(call=ToolCallId("c"), status="completed"), after=4
    )
    assert talk.text().endswith(" 4s")


def test_a_call_that_was_denied_says_who_denied_it_and_why():
    talk = Talk().call("Read .env", call="c", end=None, kind="read")
    answer = PermissionAnswered(
        request=RequestId("r"), call=ToolCallId("c"), outcome=Selected(option_id="n"),
        kind="reject_once", by=Decider(kind="person"), feedback="not that file",
    )  # fmt: skip
    talk.add(answer, ToolCallEnded(call=ToolCallId("c"), status="completed"))
    assert talk.text().endswith("  denied by person: not that file")
    assert len(talk.call("Read a", kind="read").lines()) == 3  # what was denied joins no run


@pytest.mark.parametrize("width", [8, 20, 40, 80, 200])
def test_the_line_of_a_call_fits_and_keeps_its_result(width: int):
    talk = Talk().command("pytest -q " + "tests/very/long " * 20, "1 failed, 2 passed in 1s\n", 1)
    line = talk.lines(width)[0]
    assert width_of(line) <= width
    if width >= 40:
        assert "exit 1" in text_of(line) and "…" in text_of(line)


def ends_badly() -> Iterator[tuple[str, Talk]]:
    yield "terminal", Talk().command("pytest -q", "boom\n", 1)
    kinds: list[dict[str, Any]] = [{"exit_code": 1}, {"exitCode": 1, "aggregatedOutput": "x"}]
    for raw in kinds:
        yield "raw output", Talk().call("pytest -q", kind="execute", raw_output=raw)
    talk = Talk().call("pytest -q", call="c", kind="execute", end=None)
    failed = ToolCallEnded(call=ToolCallId("c"), status="failed", content=content("Exit code 1\nx"))
    yield "text", talk.add(failed)


@pytest.mark.parametrize("talk", [talk for _, talk in ends_badly()], ids=lambda _: "")
def test_a_command_whose_exit_code_is_not_0_has_failed_everywhere(talk: Talk):
    shown = talk.text()
    assert "✗ pytest -q  exit 1" in shown and "✓" not in shown
    assert ("exit 1", "bad") in talk.lines()[0]
    last = talk.records[-1]
    if getattr(last.event, "raw_output", None) or getattr(last.event, "status", "") == "failed":
        line = text_of(activity_line(last, "ann", 80))
        assert "✗ call failed, exit 1" in line
        described = describe_event(last.event)
        assert described is not None and described.severity == "warning"


def test_a_signal_is_told_as_it_is():
    talk = Talk().call(
        "sleep 9", kind="execute", raw_output={"exit_code": None, "signal": "SIGKILL"}
    )
    assert "✗ sleep 9  SIGKILL" in talk.text()


def test_a_command_shows_its_last_lines_live_five_when_it_failed_and_none_when_it_went_well():
    output = "".join(f"row {n}\n" for n in range(20))
    running = Talk().command("make", output, None).text().split("\n")
    assert [line.strip() for line in running[1:]] == ["row 17", "row 18", "row 19"]
    failed = Talk().command("make", output, 2).text().split("\n")
    assert [line.strip() for line in failed[1:]] == [f"row {n}" for n in range(15, 20)]
    good = Talk().command("make", output, 0)
    assert good.text().split("\n")[0].startswith("✓ make  20 lines") and len(good.lines()) == 1
    good.store.unfold_all(True)
    assert "row 0\n" in good.text()


def test_what_a_program_put_at_its_right_edge_stays_in_view():
    row = "tests/test_parser.py .....F" + " " * 60 + "[100%]"
    lines = Talk().command("pytest", f"{row}\nmore\n", 1).text().split("\n")
    assert lines[1].strip() == "tests/test_parser.py .....F  [100%]"
    short = Talk().command("make", "name      size\n", 1).text().split("\n")
    assert short[1].strip() == "name      size"


def test_what_sums_a_command_up_stands_in_its_line_and_only_there():
    tail = "FAILED test_x - assert 1\n===== 1 failed, 212 passed in 4.01s =====\n"
    lines = Talk().command("pytest -q", tail, 1).text().split("\n")
    assert lines[0].startswith("✗ pytest -q  exit 1  1 failed, 212 passed in 4.01s")
    assert [line.strip() for line in lines[1:]] == ["FAILED test_x - assert 1"]


def test_reads_and_searches_beside_each_other_are_one_line():
    talk = Talk("/w")
    for name in ("a", "b", "a", "c"):
        talk.call(f"Read /w/{name}.py", kind="read")
    assert "✓ read 3 files" in talk.text() and len(talk.lines()) == 1
    talk.call("Search 'x'", kind="search").call("List src", kind="read")
    assert talk.text().startswith("✓ read 3 files, listed 1 folder, searched once")
    talk.call("Read d.py", kind="read", call="d", end=None)
    assert talk.text().split("\n")[1].startswith("● reading d.py")  # only what is over is folded
    talk.add(ToolCallEnded(call=ToolCallId("d"), status="failed"))
    assert "✗ read d.py" in talk.text()
    talk.call("Search 'y'", kind="search")
    assert talk.text().split("\n")[-1].startswith("✓ searched 'y'")  # one alone is itself


def test_a_run_unfolds_to_its_calls_and_folds_again():
    talk = Talk().call("Read a.py", kind="read").call("Read b.py", kind="read")
    layout = BlockLayout(60)
    layout.sync(talk.store.blocks)
    run = layout.block(0)
    assert isinstance(run, RunBlock)
    talk.store.toggle(run)
    layout.sync(talk.store.blocks)
    shown = [text_of(line).split("  0")[0].rstrip() for line in lines_of(layout)]
    assert shown[0].startswith("✓ read 2 files") and shown[1:] == ["  ✓ read a.py", "  ✓ read b.py"]
    talk.call("Read c.py", kind="read")
    layout.sync(talk.store.blocks)
    assert len(lines_of(layout)) == 4 and layout.block(0) is run  # it stays open while it grows
    narrow = BlockLayout(40)
    narrow.sync(talk.store.blocks)
    assert len(lines_of(narrow)) == 4  # also in a view of another width
    talk.store.toggle(run)
    layout.sync(talk.store.blocks)
    assert len(lines_of(layout)) == 1


def random_event(chance: random.Random, talk: Talk) -> None:
    calls = [b for b in talk.store.blocks if isinstance(b, ToolBlock)]
    cards = [b.call for b in calls if b.name == "Task"]
    parent = chance.choice([None, None, *cards[-2:], "gone"])
    open_ = [b for b in calls if b.status == "in_progress"]
    match chance.randint(0, 7):
        case 0:
            talk.add(MessageChunk(content=text("words ")), parent=parent)
        case 1:
            talk.add(ThoughtChunk(content=text("hm ")), parent=parent)
        case 2 if open_:
            call = ToolCallId(chance.choice(open_).call)
            talk.add(ToolCallEnded(call=call, status="completed"), parent=parent)
        case 3:
            talk.call("Task: look", name="Task", kind="think", end=None, parent=parent)
        case 4:
            talk.add(Prompted(content=(text("p"),), message=MessageId("m")))
        case 5 if calls:
            talk.store.toggle(chance.choice(calls))
        case 6:
            talk.call("Edit x", kind="edit", content=(Diff(path="x", old_text="a", new_text="b"),))
        case _:
            kind = chance.choice(["read", "search"])
            end = chance.choice(["completed", "completed", None])
            talk.call(f"Read {len(calls)}", kind=kind, end=end, parent=parent)


@pytest.mark.parametrize("seed", range(40))
def test_a_view_that_follows_shows_what_one_that_begins_shows(seed: int):
    chance = random.Random(seed)
    talk, layout = Talk(), BlockLayout(60)
    for _ in range(60):
        random_event(chance, talk)
        layout.sync(talk.store.blocks)
        if chance.random() < 0.3:
            layout.reveal_end(10)
            fresh = BlockLayout(60)
            fresh.sync(talk.store.blocks)
            assert [id(b) for b in layout.blocks] == [id(b) for b in fresh.blocks]
            assert lines_of(layout) == lines_of(fresh)
            holders = [layout.find_holder(block) for block in talk.store.blocks]
            assert all(one is not None and layout.find(one) is not None for one in holders)


@pytest.mark.parametrize("seed", range(10))
def test_pages_that_are_joined_look_like_one(seed: int):
    chance = random.Random(seed)
    talk = Talk()
    talk.add(TurnStarted())
    for _ in range(40):
        random_event(chance, talk)
    talk.add(TurnEnded(stop="end_turn"))
    talk.store.unfold_all(False)
    expected = Talk()
    expected.store.start(talk.records, is_end=True)
    for cut in range(1, len(talk.records), 3):
        joined = Talk()
        joined.store.start(talk.records[cut:], is_end=True)
        joined.store.older(talk.records[:cut])
        assert joined.text() == expected.text(), cut


def test_an_edit_is_a_change_and_never_json():
    old = "".join(f"line {n}\n" for n in range(1, 200))
    new = old.replace("line 100\n", "line 100 now\n")
    given = {"file_path": "a.py", "old_string": "line 100", "new_string": "line 100 now"}
    diff = Diff(path="/w/a.py", old_text=old, new_text=new)
    talk = Talk("/w").call(
        "Edit /w/a.py", kind="edit", name="edit", raw_input=given, content=(diff,)
    )
    for _ in range(2):
        lines = [line.strip() for line in talk.text().split("\n")]
        assert lines[0].startswith("✓ edited a.py  +1 −1")
        assert lines[1:] == [
            "98   line 98", "99   line 99", "100 - line 100", "100 + line 100 now",
            "101   line 101", "102   line 102",
        ]  # fmt: skip
        talk.store.unfold_all(True)
    roles = {role for line in talk.lines() for _, role in line}
    assert "text/diff-word-added" in roles or "code/diff-word-added" in roles
    new_file = Diff(path="b.py", new_text="def f():\n    return 1\n")
    created = Talk().call("Write b.py", kind="edit", content=(new_file,))
    assert created.text().startswith("✓ created b.py  +2 −0")
    assert any("code-keyword" in role for line in created.lines() for _, role in line)


def test_a_long_change_is_folded_and_says_how_much_is_left():
    diff = Diff(path="a.txt", new_text="".join(f"line {n}\n" for n in range(104)))
    talk = Talk().call("Write a.txt", kind="edit", content=(diff,))
    lines = talk.text().split("\n")
    assert len(lines) == 22 and lines[-1].strip() == "… 84 more lines"
    talk.store.unfold_all(True)
    assert len(talk.lines()) == 105


def test_numbers_are_shown_only_if_they_are_known():
    given = {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}
    piece = Diff(path="a.py", old_text="x = 1", new_text="x = 2")
    talk = Talk().call("Edit a.py", kind="edit", raw_input=given, content=(piece,))
    assert "\n  - x = 1\n  + x = 2" in talk.text()
    place = (ToolCallLocation(path="a.py", line=41),)
    talk = Talk().call("Edit a.py", kind="edit", raw_input=given, content=(piece,), locations=place)
    assert "\n   41 - x = 1\n   41 + x = 2" in talk.text()


def test_an_edit_that_waits_or_failed_shows_no_change():
    diff = Diff(path="a.py", old_text="x", new_text="y")
    talk = Talk().call("Edit a.py", call="c", kind="edit", content=(diff,), end=None)
    talk.add(PermissionAsked(request=RequestId("r"), call=ToolCallId("c"), title="e", options=()))
    assert talk.text() == "? editing a.py  needs permission"  # the request itself shows it
    failed = Talk().call(
        "Edit a.py", kind="edit", content=(diff,), end="failed", reason="not found"
    )
    assert [line.split("  ")[0] for line in failed.text().split("\n")] == ["✗ edit a.py", ""]
    assert failed.text().endswith("  not found")


def test_a_patch_as_a_text_has_the_colours_of_a_change():
    patch = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+new\n"
    talk = Talk().call("Edit x.py", kind="edit", content=content(patch), raw_input={"diff": patch})
    assert (("+new", "diff-added")) in [span for line in talk.lines() for span in line]
    assert '"diff"' not in talk.text()


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        (None, "a\nb\n", (2, 0)),
        ("a\nb\nc\n", "a\nx\nc\n", (1, 1)),
        ("a\n" * 9_000, "a\n" * 4_000 + "b\n" + "a\n" * 5_000, (1, 0)),
        ("", "", (0, 0)),
        ("x" * 150_000, "y" * 150_000, (1, 1)),
    ],
)
def test_changed_lines_are_counted(old: str | None, new: str, counts: tuple[int, int]):
    assert count_changed_lines(old, new) == counts


def test_thinking_is_one_line_with_its_time():
    talk = Talk().add(ThoughtChunk(content=text("**First** words\nand ")))
    assert talk.text().startswith("✻ thinking · First words and")
    talk.add(ThoughtChunk(content=text("more")), after=4).add(NoticePosted(title="end"))
    assert talk.text().startswith("✻ thought for 4s · First words and more")
    talk.store.unfold_all(True)
    assert talk.text().startswith("✻ **First** words\n  and more")
    short = Talk().add(ThoughtChunk(content=text("x"))).add(NoticePosted(title="end"))
    assert short.text().startswith("✻ thought · x")


def test_a_sub_agent_is_a_card_with_what_it_did_last():
    talk = Talk().call("Task: find callers", call="one", name="Task", kind="think", end=None)
    talk.call("Task: find tests", call="two", name="Task", kind="think", end=None)
    talk.call("Search 'parse'", kind="search", parent="one")
    talk.add(MessageChunk(content=text("three of them")), parent="two")
    talk.call("Read a.py", kind="read", parent="one", end=None)
    shown = [line.rstrip() for line in talk.text().split("\n")]
    assert shown == [
        "● agent find callers  2 calls", "  └ ● reading a.py",
        "● agent find tests", "  └ three of them",
    ]  # fmt: skip
    talk.store.unfold_all(True)
    shown = [line.split("  0")[0].rstrip() for line in talk.text().split("\n")]
    assert shown == [
        "● agent find callers  2 calls", "│ ✓ searched 'parse'", "│ ● reading a.py",
        "● agent find tests", "│ three of them",
    ]  # fmt: skip


def test_a_sub_agent_of_a_sub_agent_stands_further_in():
    talk = Talk().call("Task: a", call="a", name="Task", kind="think", end=None)
    talk.call("Task: b", call="b", name="Task", kind="think", parent="a", end=None)
    talk.add(MessageChunk(content=text("deep")), parent="b")
    assert talk.text() == "● agent a  1 call\n  └ ● agent b"
    talk.store.unfold_all(True)
    assert "│ │ deep" in talk.text()
    talk.add(MessageChunk(content=text("x")), parent="c")
    cycle = Talk().call("Task: a", call="a", name="Task", parent="a", end=None)
    assert cycle.text().startswith(
        "│ ● agent a"
    )  # what names itself as its own sub-agent is harmless


def test_the_end_of_a_turn_says_what_exists():
    edits = [
        Diff(path="a.py", old_text="x\n", new_text="y\nz\n"),
        Diff(path="b.py", new_text="1\n"),
    ]
    talk = Talk().add(Prompted(content=(text("p"),), message=MessageId("m")), TurnStarted())
    for diff in (*edits, edits[0]):
        talk.call(f"Edit {diff.path}", kind="edit", content=(diff,))
    talk.call("Edit c.py", kind="edit", content=(Diff(path="c.py", new_text="x"),), end="failed")
    usage, cost = TokenUsage(input=9_300, output=1_200), Cost(amount=0.12, currency="USD")
    talk.add(TurnEnded(stop="end_turn", usage=usage, cost=cost), after=120)
    end = talk.text(100).split("\n")[-1]
    assert end.startswith("2m 4s · 9.3k in, 1.2k out · ") and "0.12" in end
    assert end.endswith("2 files changed +5 −2 · alt+v review")
    talk.add(TurnStarted(), TurnEnded(stop="end_turn"))
    assert talk.text().split("\n")[-1] == "0.5s"
    talk.add(TurnStarted(), TurnEnded(stop="failed", reason="no credit"))
    assert talk.text().split("\n")[-1] == "✗ the turn ended: failed: no credit · 0.5s"


def test_a_turn_that_was_interrupted_says_so_by_that_word():
    talk = Talk().add(TurnStarted()).call("make", kind="execute", end="cancelled")
    lines = talk.add(TurnEnded(stop="cancelled")).text().split("\n")
    assert lines[0].startswith("⊘ make  interrupted")
    assert lines[-1].startswith("⊘ interrupted · ")


@pytest.mark.parametrize("is_late", [False, True])
def test_how_many_files_changed_is_said_once(is_late: bool):
    talk = Talk().add(TurnStarted())
    talk.call("Edit a.py", kind="edit", content=(Diff(path="a.py", old_text="x", new_text="y"),))
    note = Checkpointed(turn=TurnId("t"), manifest="m", changed=1, paths=("a.py",))
    end = TurnEnded(stop="end_turn")
    layout = BlockLayout(60)
    for event in (end, note) if is_late else (note, end):
        talk.add(event)
        layout.sync(talk.store.blocks)
    shown = "\n".join(text_of(line) for line in lines_of(layout))
    assert shown == "\n".join(text_of(line) for line in talk.lines(60))
    assert shown.count("1 file changed") == 1 and "1 file changed +1 −1 · alt+v review" in shown
    alone = Talk().add(TurnStarted(), note, end)
    assert "1 file changed: a.py" in alone.text()  # nothing else says it


def test_a_call_that_wrote_a_plan_is_not_shown_beside_the_plan():
    talk = (
        Talk().call("Update the plan", name="TodoWrite", kind="think").call("make", kind="execute")
    )
    layout = BlockLayout(60)
    layout.sync(talk.store.blocks)
    assert [text_of(line)[:6] for line in lines_of(layout)] == ["✓ make"]
    talk.add(MessageChunk(content=text("words")))
    layout.sync(talk.store.blocks)
    assert len(lines_of(layout)) == 3


def test_a_plan_of_200_steps_shows_where_it_stands():
    stages = ["completed"] * 3 + ["in_progress"] + ["pending"] * 196
    entries = tuple(
        PlanEntry(content=f"step {n}", priority="low", status=stage)  # pyright: ignore[reportArgumentType]
        for n, stage in enumerate(stages, 1)
    )
    talk = Talk().add(PlanChanged(entries=entries))
    lines = talk.text().split("\n")
    assert lines[0] == "Plan  3/200" and len(lines) == 7
    assert lines[1].strip() == "◐ step 4" and lines[-1].strip() == "… 195 more steps"
    talk.store.unfold_all(True)
    assert len(talk.lines()) == 201


def test_a_prompt_is_quiet_and_has_its_time_at_the_right():
    talk = Talk().add(Prompted(content=(text("word " * 60),), message=MessageId("m")), after=60)
    for width in (20, 60, 200):
        above, *lines = talk.lines(width)
        assert not above  # the first stands apart from the head, which has the same ground
        assert all(width_of(line) == width for line in lines)  # its ground is a block
        assert text_of(lines[0]).startswith("❯ word") and len(text_of(lines[1]).rstrip()) <= 100
        assert (text_of(lines[0])[-3] == ":") is (width >= 30)
    assert {role for line in lines for _, role in line} == {
        "prompt-sign/prompt", "prompt", "faint/prompt",
    }  # fmt: skip


def png(width: int, height: int) -> str:
    head = (
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", width, height)
    )
    return base64.b64encode(head + bytes(100)).decode()


@pytest.mark.parametrize(
    ("data", "facts"),
    [
        (png(640, 480), "PNG 640×480"),
        (base64.b64encode(b"GIF89a\x10\x00\x20\x00").decode(), "GIF 16×32"),
        (base64.b64encode(b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x10\x00\x20"
                          + bytes(9)).decode(), "JPEG 32×16"),
        (base64.b64encode(b"RIFF____WEBPVP8 ").decode(), "WebP"),
        ("A" * 4_000, ""), ("not base 64 ä", ""), ("", ""), ("iVBORw0KGgo=", ""),
        (base64.b64encode(b"\xff\xd8\xff").decode(), "JPEG"),
    ],
)  # fmt: skip
def test_an_image_is_told_by_its_first_bytes(data: str, facts: str):
    assert str(read_image_facts(data)) == facts
    image = ImageContent(data=data, mime_type="image/png", uri="file:///a.png")
    talk = Talk().add(Prompted(content=(image,), message=MessageId("m")))
    assert (facts or "not readable as an image") in " ".join(talk.text(100).split())


@pytest.mark.parametrize(
    "words", ["👩‍👩‍👧 👍🏽 ☕️ 1️⃣ 🇨🇭 ", "שלום עולם \u202egnp.exe ", "你好 wörld ", "e\u0301" * 20]
)
@pytest.mark.parametrize("width", [8, 30, 101])
def test_text_of_disputed_width_fits(words: str, width: int):
    many = words * 30
    talk = Talk().add(Prompted(content=(text(many),), message=MessageId("m")))
    diff = Diff(path=words, old_text=many, new_text=many + "x")
    talk.call(many, kind="edit", content=(diff,)).command(many, many, 1)
    talk.add(
        ThoughtChunk(content=text(many)), MessageChunk(content=text(f"| {words} | b |\n|-|-|"))
    )
    talk.add(ToolCallUpdated(call=ToolCallId("c2"), title=many), TurnEnded(stop="end_turn"))
    for _ in range(2):
        for line in talk.lines(width):
            assert width_of(line) <= width
            assert sanitize_text(text_of(line)) == text_of(line)
        talk.store.unfold_all(True)
