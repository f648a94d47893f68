"""Recorded turns of ``codex exec --json`` 0.166.0."""

from typing import Any

import pytest

from quarterdeck.drivers.link import AgentExit
from quarterdeck.drivers.pipe.codex import CODEX, CodexExecReader
from quarterdeck.drivers.pipe.dialect import TurnContext
from quarterdeck.wire.events import (
    MessageChunk,
    NoticePosted,
    PlanChanged,
    RateLimited,
    RetryScheduled,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    UnknownEvent,
    UsageReported,
)
from quarterdeck.wire.usage import TokenUsage
from tests.support.captures import Replay, replay

FRESH = TurnContext(total=TokenUsage())


def scene(name: str, asked: TurnContext = FRESH) -> Replay:
    return replay(CODEX, f"codex-0.166.0/pipe/{name}", asked)


def read(*lines: dict[str, Any]) -> list[Any]:
    reader = CodexExecReader(FRESH)
    return [event for line in lines for event in reader.read(line)]


def item(stage: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{stage}", "item": {"id": "item_0", **fields}}


def test_a_text_turn():
    done = scene("text")
    assert done.text == "Hello from the scripted model."
    assert done.sessions == {"01a1e175-46b0-7f81-ab24-3089a0842d0b"}
    assert done.outcome.stop == "end_turn"
    assert done.outcome.usage == TokenUsage(input=11, output=7)


def test_thoughts_are_apart_from_the_answer():
    done = scene("think")
    assert (done.thoughts, done.text) == ("Let me think about this.", "Thought and answered.")


def test_a_command_and_what_it_printed():
    done = scene("shell_yes")
    assert done.calls == [("shell", "execute", "completed")]
    (start,), (end,) = done.all(ToolCallStarted), done.all(ToolCallEnded)
    assert "touch made-by-shell.txt" in start.title
    assert end.content[0].content.text == "scripted-output\n"
    assert end.raw_output == {"aggregated_output": "scripted-output\n", "exit_code": 0}
    assert (done.messages, done.outcome.usage) == (2, TokenUsage(input=22, output=14))


def test_a_changed_file_has_its_place():
    done = scene("write_yes")
    assert done.calls == [("apply_patch", "edit", "completed")]
    (start,) = done.all(ToolCallStarted)
    assert [place.path for place in start.locations] == [
        "/home/dev/lab/work/codex/pipe_write_yes/hello.txt"
    ]


def test_what_the_sandbox_refuses_leaves_no_trace():
    assert scene("write_default").calls == []
    assert scene("write_default").outcome.stop == "end_turn"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("drop", "stream disconnected before completion: Transport error"),
        ("noend", "stream closed before response.completed"),
        ("midfail", "scripted mid-stream failure"),
        ("e529", "unexpected status 529"),
        ("e500", "high demand"),
    ],
)
def test_a_failed_model_fails_the_turn_after_retries(name: str, told: str):
    done = scene(name)
    assert done.outcome.stop == "failed" and told in (done.outcome.reason or "")
    assert [retry.attempt for retry in done.all(RetryScheduled)] == [2, 3]
    assert not done.all(NoticePosted), "what is the turn's reason is not told twice"
    assert not done.all(RateLimited)


def test_a_rate_limit_is_told_once():
    done = scene("e429")
    assert len(done.all(RateLimited)) == 1
    assert "429 Too Many Requests" in (done.outcome.reason or "")


@pytest.mark.parametrize("name", ["garbage", "badtool", "e500once"])
def test_trouble_that_codex_overcame_is_no_failure(name: str):
    assert scene(name).outcome.stop == "end_turn"


def test_an_interrupted_run_has_no_answer():
    done = scene("sigint")
    assert done.outcome.stop == "failed" and "exit code 1" in (done.outcome.reason or "")


def test_usage_of_a_resumed_turn_is_its_own():
    first = scene("resume_1")
    (total,) = first.all(UsageReported)
    second = scene("resume_2", TurnContext(session="x", total=total.session_tokens))
    assert second.all(UsageReported)[0].session_tokens == TokenUsage(input=22, output=14)
    assert second.outcome.usage == TokenUsage(input=11, output=7)


def test_usage_of_a_turn_is_unknown_where_the_past_is():
    done = scene("resume_2", TurnContext(session="x", total=None))
    assert done.outcome.usage is None
    assert done.all(UsageReported)[0].session_tokens == TokenUsage(input=22, output=14)


def test_a_plan_is_told_whole():
    items = [{"text": "Look", "completed": True}, {"text": "Mend", "completed": False}]
    (plan,) = read(item("started", type="todo_list", items=items))
    assert isinstance(plan, PlanChanged)
    assert [(entry.content, entry.status) for entry in plan.entries] == [
        ("Look", "completed"),
        ("Mend", "pending"),
    ]


def test_a_growing_message_is_told_in_pieces():
    told = read(
        item("started", type="agent_message", text="Hel"),
        item("updated", type="agent_message", text="Hello"),
        item("completed", type="agent_message", text="Hello!"),
    )
    assert [chunk.content.text for chunk in told] == ["Hel", "lo", "!"]
    assert len({chunk.message for chunk in told}) == 1


def test_a_command_that_runs_tells_its_output():
    about = {"type": "command_execution", "command": "make"}
    told = read(
        item("started", **about, status="in_progress"),
        item("updated", **about, aggregated_output="one", status="in_progress"),
        item("completed", **about, aggregated_output="one two", exit_code=2, status="failed"),
    )
    assert [type(event) for event in told] == [ToolCallStarted, ToolCallUpdated, ToolCallEnded]
    assert told[2].status == "failed"


def test_a_declined_call_says_so():
    _, end = read(item("completed", type="file_change", changes=[], status="declined"))
    assert (end.status, end.reason) == ("failed", "declined")


def test_an_mcp_call_has_input_output_and_error():
    about = {"type": "mcp_tool_call", "server": "lab", "tool": "echo", "arguments": {"a": 1}}
    result = {"content": [{"type": "text", "text": "echo"}]}
    start, end = read(item("completed", **about, result=result, status="completed"))
    assert (start.name, start.raw_input) == ("lab.echo", {"a": 1})
    assert end.content[0].content.text == "echo"
    _, end = read(item("completed", **about, error={"message": "no"}, status="failed"))
    assert (end.status, end.reason) == ("failed", "no")


def test_a_search_of_the_web_is_a_call():
    start, end = read(item("completed", type="web_search", query="crabs"))
    assert (start.kind, end.status) == ("fetch", "completed") and "crabs" in start.title


def test_an_error_after_which_the_turn_goes_on_is_a_notice():
    told = read(
        {"type": "error", "message": "odd"}, item("completed", type="agent_message", text="hi")
    )
    assert isinstance(told[0], NoticePosted) and isinstance(told[1], MessageChunk)


def test_what_is_not_known_is_kept_whole():
    line = item("completed", type="teleport", to="Mars")
    for value in (line, {"type": "thread.paused"}, {}):
        (told,) = read(value)
        assert isinstance(told, UnknownEvent) and told.raw == value


def test_a_crash_is_told_with_the_last_words():
    reader = CodexExecReader(FRESH)
    outcome = reader.outcome(AgentExit(signal="SIGKILL", stderr="out of memory"))
    assert outcome.stop == "failed"
    assert outcome.reason == "it exited with signal SIGKILL: out of memory"
