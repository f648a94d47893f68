"""Recorded turns of ``pi --mode json`` 0.87.1, and what cursor's documentation says of its own."""

from typing import Any

from quarterdeck.drivers.link import AgentExit
from quarterdeck.drivers.pipe.cursor import CursorReader
from quarterdeck.drivers.pipe.dialect import TurnContext
from quarterdeck.drivers.pipe.pi import PI, PiReader
from quarterdeck.wire.events import (
    CompactionChanged,
    MessageChunk,
    RateLimited,
    RetryScheduled,
    ToolCallEnded,
)
from quarterdeck.wire.usage import TokenUsage
from tests.support.captures import Replay, replay


def scene(name: str) -> Replay:
    return replay(PI, f"pi-0.87.1/pipe/{name}")


def test_a_turn_with_a_tool():
    done = scene("write")
    assert done.calls == [("write", "edit", "completed")]
    assert done.text == "I will write a file.Wrote it. Done." and done.messages == 2
    assert done.outcome.stop == "end_turn"
    assert done.outcome.usage == TokenUsage(input=1425 + 1509, output=25 + 4)
    assert done.outcome.cost is not None
    assert round(done.outcome.cost.amount, 6) == round(0.001475 + 0.001517, 6)
    assert "Successfully wrote" in done.all(ToolCallEnded)[0].content[0].content.text


def test_thoughts_and_the_id_of_a_resumed_session():
    done = scene("resume_think")
    assert (done.thoughts, done.text) == ("Let me think about this.", "Thought and answered.")
    assert done.sessions == scene("e529").sessions


def test_a_rate_limit_that_it_overcame():
    done = scene("e429once")
    assert (done.text, done.outcome.stop) == ("Recovered after one 429.", "end_turn")
    (retry,) = done.all(RetryScheduled)
    assert (retry.attempt, retry.delay) == (2, 2.0)
    assert len(done.all(RateLimited)) == 1


def test_a_failed_model_fails_the_turn_although_it_leaves_with_0():
    done = scene("e529")
    assert done.outcome.stop == "failed" and "529" in (done.outcome.reason or "")
    assert [retry.delay for retry in done.all(RetryScheduled)] == [2.0, 4.0, 8.0]
    done = scene("noend")
    assert done.outcome.reason == "Stream ended without finish_reason"


def test_an_answer_that_was_cut_off_says_so():
    assert scene("cut").outcome.stop == "max_tokens"


def test_a_compaction_begins_and_ends():
    reader = PiReader(TurnContext())
    begun = list(reader.read({"type": "compaction_start", "reason": "threshold"}))
    ended = list(reader.read({"type": "compaction_end", "result": {"summary": "short"}}))
    told = [event for event in (*begun, *ended) if isinstance(event, CompactionChanged)]
    assert [event.status for event in told] == ["in_progress", "completed"]
    assert told[0].compaction == told[1].compaction and told[1].summary == "short"


# cursor


def cursor(*lines: dict[str, Any]) -> tuple[CursorReader, list[Any]]:
    reader = CursorReader(TurnContext())
    return reader, [event for line in lines for event in reader.read(line)]


def said(text: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"type": "assistant", "message": {"role": "assistant", "content": content}, **fields}


def test_cursors_pieces_are_not_told_again_as_a_whole():
    _, told = cursor(said("Hel", timestamp_ms=1), said("lo", timestamp_ms=2), said("Hello"))
    assert [chunk.content.text for chunk in told] == ["Hel", "lo"]
    _, told = cursor(said("One."), said("Two."))
    assert len({chunk.message for chunk in told if isinstance(chunk, MessageChunk)}) == 2


def test_cursors_tool_calls_have_name_and_result():
    args = {"path": "a.txt"}
    line = {"type": "tool_call", "call_id": "c1"}
    body = {"args": args, "result": {"success": {"content": "text"}}}
    _, (start, end) = cursor(
        line | {"subtype": "started", "tool_call": {"readToolCall": {"args": args}}},
        line | {"subtype": "completed", "tool_call": {"readToolCall": body}},
    )
    assert (start.name, start.kind, start.locations[0].path) == ("read", "read", "a.txt")
    assert (end.status, end.content[0].content.text) == ("completed", "text")
    body = {"args": args, "result": {"rejected": {}}}
    _, (end,) = cursor(line | {"subtype": "completed", "tool_call": {"writeToolCall": body}})
    assert (end.status, end.reason) == ("failed", "rejected")


def test_cursor_owes_a_result():
    reader, _ = cursor(said("hi"))
    assert reader.outcome(AgentExit(exit_code=0)).stop == "failed"
    reader, _ = cursor({"type": "result", "is_error": False, "usage": {"inputTokens": 3}})
    assert reader.outcome(AgentExit(exit_code=0)).usage == TokenUsage(input=3)
    reader, _ = cursor({"type": "result", "is_error": True, "result": "no"})
    assert reader.outcome(AgentExit(exit_code=1)).reason == "no"
