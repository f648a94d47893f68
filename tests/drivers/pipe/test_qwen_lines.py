"""Qwen Code speaks Claude's language with an accent: lines as qwen 0.24.4 printed them."""

from collections.abc import Iterator, Mapping
from typing import Any

from quarterdeck.drivers.pipe.claude.messages import ClaudeMessages
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    NoticePosted,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    UnknownEvent,
)

START = {"type": "message_start", "message": {"id": "m1", "role": "assistant", "model": "m"}}
STOP = {"type": "message_stop"}


def block(kind: str, **fields: Any) -> Iterator[Mapping[str, Any]]:
    """A block in pieces; each begins at index 0 again."""
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": kind, **fields}}


def piece(kind: str, **fields: Any) -> Mapping[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, **fields}}


def whole(id_: str, *content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same block again; only the first has the id that its answer began with."""
    return {"whole": {"id": id_, "role": "assistant", "model": "m", "content": list(content)}}


CALL = {"type": "tool_use", "id": "c1", "name": "write_file", "input": {"file_path": "/x"}}
LINES = [
    {"type": "goal_state", "goal_state": {"v": 2, "goal": None, "activity": "idle"}},
    START,
    *block("thinking", thinking=""),
    piece("thinking_delta", thinking="Hm."),
    whole("m1", {"type": "thinking", "thinking": "Hm."}),
    *block("text", text=""),
    piece("text_delta", text="I will "),
    piece("text_delta", text="write."),
    whole("m2", {"type": "text", "text": "I will write."}),
    *block("tool_use", id="c1", name="write_file", input={}),
    piece("input_json_delta", partial_json="{}"),
    whole("m3", CALL),
    STOP,
]


def read(lines: list[Mapping[str, Any]]) -> list[Event]:
    messages, events = ClaudeMessages("qwen"), list[Event]()
    for line in lines:
        if "whole" in line:
            events += messages.whole(line["whole"])
        else:
            events += messages.stream(line)
    return events


def test_nothing_is_said_twice_and_no_call_fails_before_it_ran():
    events = read(LINES)
    assert "".join(e.content.text for e in events if isinstance(e, ThoughtChunk)) == "Hm."
    assert "".join(e.content.text for e in events if isinstance(e, MessageChunk)) == "I will write."
    assert {e.call for e in events if isinstance(e, ToolCallStarted)} == {"c1"}
    assert not [e for e in events if isinstance(e, ToolCallEnded | NoticePosted | UnknownEvent)]


def test_an_answer_that_broke_off_is_still_told():
    events = read([START, *block("tool_use", id="c1", name="write_file", input={}), STOP])
    assert [e.status for e in events if isinstance(e, ToolCallEnded)] == ["failed"]
    assert [e for e in events if isinstance(e, NoticePosted)]


def test_a_text_that_did_not_come_in_pieces_is_told():
    events = read([START, whole("m9", {"type": "text", "text": "All at once."}), STOP])
    assert [e.content.text for e in events if isinstance(e, MessageChunk)] == ["All at once."]
