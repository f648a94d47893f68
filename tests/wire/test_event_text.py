"""One text for an event, whoever shows it."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from quarterdeck.cli.fleet.logs import TranscriptPrinter
from quarterdeck.journal.export.document import read_passages
from quarterdeck.wire.content import ImageContent, text
from quarterdeck.wire.event_text import describe_event, describe_request
from quarterdeck.wire.events import (
    CompactionChanged,
    ConflictChanged,
    Event,
    GrantRevoked,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    PermissionViolated,
    Prompted,
    QuestionAnswered,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from quarterdeck.wire.ids import MessageId, RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import Cancelled, Decider, Selected
from quarterdeck.wire.record import Record, decode_record
from quarterdeck.wire.worktrees import ConflictFile
from quarterdeck.workbench.panels.feed import activity_line

CLI = Decider(kind="person", name="cli")
REQUEST, CALL = RequestId("req_1"), ToolCallId("call_1")
PICTURE = ImageContent(data="AAAA", mime_type="image/png")
YES = Selected(option_id="yes")


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Prompted(content=(text("go"),), message=MessageId("m")), "go"),
        (
            Prompted(content=(text("go"),), message=MessageId("m"), origin="agent", steers=True),
            "(agent, steering) go",
        ),
        (
            Prompted(content=(PICTURE,), message=MessageId("m")),
            "[image image/png, 3 bytes]",
        ),
        (ToolCallStarted(call=CALL, title="ls", name="bash"), "bash: ls"),
        (ToolCallStarted(call=CALL, title="ls", kind="execute"), "execute: ls"),
        (ToolCallStarted(call=CALL, title="ls"), "tool: ls"),
        (ToolCallEnded(call=CALL, status="failed", reason="no"), "call failed: no"),
        (TurnEnded(stop="max_tokens"), "turn ended: max tokens"),
        (TurnEnded(stop="end_turn"), "turn finished"),
        (SessionOpened(agent="codex", cwd="/w"), "codex started in /w"),
        (SessionEnded(how="broken", reason="gone", stderr="a\n"), "session ended: broken: gone\na"),
        (
            PermissionAsked(request=REQUEST, call=CALL, title="Edit a.py", options=()),
            "wants to edit a.py",
        ),
        (
            PermissionAnswered(request=REQUEST, call=CALL, outcome=YES, by=CLI, kind="allow_once"),
            "allowed by person cli (allow once)",
        ),
        (
            PermissionAnswered(
                request=REQUEST,
                call=CALL,
                outcome=YES,
                by=CLI,
                kind="reject_once",
                feedback="use rg",
            ),
            "denied by person cli (reject once): use rg",
        ),
        (
            PermissionAnswered(
                request=REQUEST, call=CALL, outcome=Cancelled(), by=Decider(kind="cancel")
            ),
            "request cancelled by cancel",
        ),
        (
            QuestionAnswered(request=REQUEST, action="accept", by=CLI, content={"colour": "red"}),
            "question answered by person cli: colour: red",
        ),
        (GrantRevoked(grant="req_1.1", by=CLI), "grant req_1.1 revoked by person cli"),
        (RetryScheduled(attempt=2, delay=2.4, reason="busy"), "retrying in 2 s: busy"),
        (RetryScheduled(attempt=2, delay=0.0, reason="busy"), "retrying: busy"),
        (CompactionChanged(compaction="c", status="cancelled"), None),
        (SessionChanged(archived=True), "archived"),
        (SessionChanged(archived=False, name="ann"), "name: ann, not archived"),
    ],
)
def test_each_event_has_its_text(event: Event, words: str | None):
    told = describe_event(event)
    assert (told.text if told is not None else None) == words


def test_a_request_is_a_sentence_where_its_title_is_a_verb_phrase():
    assert describe_request("Run make all") == "wants to run make all"
    assert describe_request("make all") == "needs permission: make all"
    assert describe_request("Edit") == "needs permission: Edit"


def test_every_event_of_the_golden_records_can_be_described():
    lines = Path(__file__).parents[1].joinpath("fixtures/wire/events-v1.jsonl").read_bytes()
    for line in lines.splitlines():
        told = describe_event(decode_record(line).event)
        assert told is None or (told.text and told.severity)


@pytest.mark.parametrize(
    "event",
    [
        SessionOpened(agent="codex", cwd="/w"),
        SessionEnded(how="broken", reason="it crashed"),
        TurnEnded(stop="failed", reason="no model"),
        RateLimited(reason="too many"),
        RetryScheduled(attempt=2, delay=2.4, reason="busy"),
        PermissionViolated(request=REQUEST, call=CALL, title="Write a.py", reason="never asked"),
        PermissionAnswered(request=REQUEST, call=CALL, outcome=YES, by=CLI, kind="allow_once"),
        QuestionAnswered(request=REQUEST, action="decline", by=CLI),
    ],
    ids=lambda event: type(event).__name__,
)
async def test_terminal_feed_and_export_say_the_same(event: Event):
    record = Record(seq=1, time=int(time.time()), session=SessionId("s"), event=event)
    told = describe_event(event)
    assert told is not None
    written: list[str] = []
    TranscriptPrinter(written.append).record(record)
    feed = "".join(part for part, _ in activity_line(record, "ann", 200))

    async def records() -> AsyncIterator[Record]:
        yield record

    (passage,) = [one async for one in read_passages(records())]
    assert told.text in "".join(written)
    assert told.text in feed
    assert told.text.lower() in passage.title.lower()


def test_a_line_stays_a_line_whatever_an_agent_says():
    written: list[str] = []
    printer = TranscriptPrinter(written.append)
    for event in (
        NoticePosted(title="a\x1b[2Jb", description="c\nd" * 5000),
        SessionEnded(how="broken", reason="x\ny", stderr="z\n"),
    ):
        printer.record(Record(seq=1, time=1, session=SessionId("s"), event=event))
    assert all(line.count("\n") == 1 and "\x1b" not in line for line in written)
    assert msgspec.json.encode(written)


def test_a_conflict_names_the_other_agent_and_the_functions():
    file = ConflictFile(path="tides.py", kind="text", symbols=("rise",))
    event = ConflictChanged(other=SessionId("ses_b"), files=(file,))
    names = {"ses_b": "bob"}
    named = describe_event(event, names.get)
    assert named is not None and named.text == "conflicts with bob in tides.py (rise)"
    unnamed = describe_event(event)
    assert unnamed is not None and "another agent" in unnamed.text
    gone = describe_event(ConflictChanged(other=SessionId("ses_b")), names.get)
    assert gone is not None and gone.text == "no longer conflicts with bob"
