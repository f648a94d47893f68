"""A session as a document: whole, in order, without secrets, and nothing in it has power."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.journal.export import EXPORT_FORMATS, ExportFormat, Passage, export_session
from quarterdeck.journal.export.document import read_passages
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    PlanChanged,
    Prompted,
    QuestionAnswered,
    QuestionAsked,
    SessionEnded,
    SessionOpened,
    TerminalOutput,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnded,
    UnknownEvent,
    UsageReported,
)
from quarterdeck.wire.ids import MessageId, RequestId, SessionId, TerminalId, ToolCallId
from quarterdeck.wire.permissions import Decider, PermissionOption, Selected
from quarterdeck.wire.record import Record
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.tool_calls import ContentItem, Diff, TerminalItem
from tests.support.struct_strategies import values_of

SESSION = SessionId("ses_1")
CALL = ToolCallId("call_1")
PERSON = Decider(kind="person", name="ada")


async def stream(events: Sequence[Event]) -> AsyncIterator[Record]:
    for seq, event in enumerate(events, 1):
        time = 1_793_520_000_000_000 + seq
        yield Record(seq=seq, time=time, session=SESSION, event=event)


async def document(*events: Event) -> list[Passage]:
    return [passage async for passage in read_passages(stream(events))]


async def exported(form: ExportFormat, *events: Event, **options) -> str:
    pieces = export_session(SESSION, stream(events), form, **options)
    return "".join([piece async for piece in pieces])


def says(words: str, message: str | None = None) -> MessageChunk:
    return MessageChunk(content=text(words), message=MessageId(message) if message else None)


async def test_a_whole_session_becomes_passages_in_order():
    asked = PermissionAsked(
        request=RequestId("req_1"),
        call=CALL,
        title="make all",
        options=(PermissionOption(option_id="y", name="Yes", kind="allow_once"),),
    )
    answered = PermissionAnswered(
        request=RequestId("req_1"),
        call=CALL,
        outcome=Selected(option_id="y"),
        by=PERSON,
        kind="allow_once",
        feedback="go on",
    )
    found = await document(
        SessionOpened(agent="codex", cwd="/w", model="m"),
        Prompted(content=(text("do it"),), message=MessageId("msg_1")),
        ThoughtChunk(content=text("hm")),
        says("Hel", "m"),
        UsageReported(),
        says("lo", "m"),
        ToolCallStarted(call=CALL, title="make all", name="bash", raw_input={"command": "make"}),
        asked,
        answered,
        ToolCallUpdated(call=CALL, content=(TerminalItem(terminal_id="t"),)),
        TerminalOutput(terminal=TerminalId("t"), data="one\n"),
        TerminalOutput(terminal=TerminalId("t"), data="two\n"),
        ToolCallEnded(call=CALL, status="completed"),
        PlanChanged(entries=(PlanEntry(content="rest", priority="low", status="pending"),)),
        QuestionAsked(request=RequestId("req_2"), text="Which?"),
        QuestionAnswered(
            request=RequestId("req_2"), action="accept", by=PERSON, content={"colour": "red"}
        ),
        NoticePosted(title="beware", severity="warning", description="of the dog"),
        UnknownEvent(origin="acp", raw={"new": 1}),
        TurnEnded(stop="end_turn"),
        SessionEnded(how="closed"),
    )
    assert [(one.kind, one.title) for one in found] == [
        ("session", "codex started in /w with m"),
        ("prompt", "Prompt"),
        ("thought", "Thought"),
        ("message", "Agent"),
        ("permission", "Allowed by person ada (allow once)"),
        ("tool", "bash: make all (completed)"),
        ("plan", "Plan"),
        ("question", "Question answered by person ada"),
        ("notice", "warning: beware"),
        ("notice", "Unknown event from acp"),
        ("session", "Turn finished"),
        ("session", "Session ended: closed"),
    ]
    texts = {one.title: [block.text for block in one.blocks] for one in found}
    assert texts["Agent"] == ["Hello"]
    assert texts["bash: make all (completed)"] == ['{\n  "command": "make"\n}', "one\ntwo\n"]
    assert texts["Allowed by person ada (allow once)"] == ["make all", "go on"]
    assert texts["Plan"] == ["[pending] rest"]


async def test_messages_are_told_apart_by_id_and_by_what_is_between():
    found = await document(says("a", "1"), says("b", "2"), says("c"), says("d", "2"))
    assert [one.blocks[0].text for one in found] == ["a", "bcd"]


async def test_a_change_of_a_file_is_a_diff_and_a_call_without_an_end_is_told():
    diff = Diff(path="x.py", old_text="a\nb\n", new_text="a\nc\n")
    (found,) = await document(ToolCallStarted(call=CALL, title="edit", content=(diff,)))
    assert found.title == "edit (did not end)"
    assert found.blocks[0].label == "x.py"
    assert "-b\n+c" in found.blocks[0].text


HOSTILE = (
    "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\n"
    "```\n````text\n# Prompt\n![t](http://evil/x.png) [a](javascript:x)\n~~~\n"
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J \u202egnp.exe\u2066 \x00 \r\nend\r"
)


def hostile_events() -> tuple[Event, ...]:
    return (
        SessionOpened(agent=HOSTILE, cwd=HOSTILE),
        Prompted(content=(text(HOSTILE),), message=MessageId("m")),
        says(HOSTILE),
        ToolCallStarted(call=CALL, title=HOSTILE, name=HOSTILE, raw_input={HOSTILE: HOSTILE}),
        ToolCallEnded(
            call=CALL,
            status="failed",
            reason=HOSTILE,
            content=(
                ContentItem(content=TextContent(text=HOSTILE)),
                Diff(path=HOSTILE, new_text=HOSTILE),
            ),
        ),
        NoticePosted(title=HOSTILE, description=HOSTILE),
        SessionEnded(how="broken", reason=HOSTILE),
    )


class Tags(HTMLParser):
    """Every tag and attribute of a page, and the text of it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.names: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.names |= {name for name, _ in attrs}
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


PLAIN = {"html", "head", "meta", "title", "style", "body", "h1", "section", "h2", "time", "pre"}


async def test_a_page_has_our_tags_only_whatever_was_said():
    page = await exported("html", *hostile_events())
    tags = Tags()
    tags.feed(page)
    assert tags.seen <= PLAIN | {"div"}
    assert tags.names <= {"lang", "charset", "http-equiv", "content", "name", "class", "id", "dir"}
    assert tags.open == []
    assert "default-src 'none'" in page
    assert "&lt;script&gt;" in page


def outside_of_fences(document: str) -> list[str]:
    """The lines that CommonMark reads as Markdown."""
    lines: list[str] = []
    fence = ""
    for line in document.split("\n"):
        found = re.match(r"^(`{3,})([^`]*)$", line)
        if fence:
            if found and len(found[1]) >= len(fence) and not found[2].strip():
                fence = ""
        elif found:
            fence = found[1]
        else:
            lines.append(line)
    assert not fence
    return lines


async def test_markdown_has_our_headings_only_whatever_was_said():
    written = await exported("markdown", *hostile_events())
    lines = outside_of_fences(written)
    assert sum(line.startswith("#") for line in lines) == 1 + len(await document(*hostile_events()))
    for line in lines:
        assert not re.search(r"(?<!\\)[<`\[]|(?<!\\)!\\?\[", line.lstrip("#"))
    assert "# Prompt" in written


@pytest.mark.parametrize("form", EXPORT_FORMATS)
async def test_nothing_in_it_acts_on_a_terminal_or_turns_text_around(form: ExportFormat):
    written = await exported(form, *hostile_events())
    assert not set(written) & set("\x00\x07\x1b\r\u202e\u2066")
    assert "gnp.exe" in written and "red" in written


async def test_json_is_one_object_with_every_text_whole():
    read = json.loads(await exported("json", *hostile_events()))
    assert (read["version"], read["session"], len(read["passages"])) == (1, "ses_1", 6)
    assert read["passages"][1]["blocks"] == [{"kind": "text", "text": HOSTILE}]
    assert json.loads(await exported("json"))["passages"] == []


KEY = "sk-ant-abcdefghijklmnopqrst"


@pytest.mark.parametrize("form", EXPORT_FORMATS)
async def test_secrets_are_masked_also_those_that_came_in_pieces(form: ExportFormat):
    events = (
        says(f"the key {KEY[:12]}"),
        says(f"{KEY[12:]} and hunter22."),
        ToolCallStarted(call=CALL, title=f"curl {KEY}", raw_input={"header": KEY}),
        ToolCallEnded(call=CALL, status="failed", reason=KEY, raw_output=[KEY]),
        NoticePosted(title=KEY, description=KEY),
    )
    written = await exported(form, *events, environment={"MY_PASSWORD": "hunter22"})
    assert "sk-ant" not in written and "qrst" not in written and "hunter22" not in written
    whole = await exported(form, *events, masked=False)
    assert "hunter22" in whole


@settings(deadline=None, max_examples=60)
@given(events=st.lists(values_of(Event), max_size=8))
async def test_any_events_can_be_written_in_any_form(events):
    for form in EXPORT_FORMATS:
        written = await exported(form, *events)
        written.encode("utf-8", "backslashreplace")
        if form == "json":
            json.loads(written)
        if form == "markdown":
            outside_of_fences(written)
        if form == "html":
            tags = Tags()
            tags.feed(written)
            assert tags.open == [] and tags.seen <= PLAIN | {"div"}
