"""Lines of Claude Code that no recording has, and lines that nobody would write."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.drivers.pipe.claude.events import ClaudeTranslator
from quarterdeck.drivers.pipe.claude.tools import describe
from quarterdeck.wire.content import ImageContent, text
from quarterdeck.wire.events import (
    CommandsChanged,
    CompactionChanged,
    MessageChunk,
    NoticePosted,
    PlanChanged,
    RateLimited,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    UnknownEvent,
)
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.tool_calls import ContentItem, Diff
from tests.support.claude_lines import recorded, replay

RESULT = {"type": "result", "subtype": "success", "is_error": False, "usage": {}}


def said(content: Any, **fields: Any) -> dict[str, Any]:
    message = {"id": "m1", "role": "assistant", "model": "m", "content": content}
    return {"type": "assistant", "message": message, **fields}


def used(call: str, name: str, **given: Any) -> dict[str, Any]:
    return said([{"type": "tool_use", "id": call, "name": name, "input": given}])


def gave(call: str, content: Any, **fields: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call, "content": content}
    return {"type": "user", "message": {"role": "user", "content": [block]}, **fields}


def system(subtype: str, **fields: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": subtype, **fields}


def streamed(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "stream_event", "event": event} for event in events]


def delta(said: str, index: int = 0) -> dict[str, Any]:
    change = {"type": "text_delta", "text": said}
    return {"type": "content_block_delta", "index": index, "delta": change}


def test_what_a_sub_agent_says_and_does_belongs_to_its_call() -> None:
    inside = said([{"type": "text", "text": "inner"}], parent_tool_use_id="t1")
    heard = replay([used("t1", "Task", description="look"), inside, gave("t1", "done")])
    assert heard.parents == [None, ToolCallId("t1"), None]
    assert heard.all(ToolCallStarted)[0].title == "Task: look"


def test_a_sub_agent_gets_on_and_asks_before_it_announces() -> None:
    translator = ClaudeTranslator("claude")
    begun = system("task_started", task_id="a1", tool_use_id="t1")
    beat = {"type": "tool_progress", "tool_use_id": "t1-heartbeat-0", "parent_tool_use_id": "t1"}
    told = [one for line in (used("t1", "Task"), begun, beat) for one in translator.read(line)]
    assert [type(one.event) for one in told] == [ToolCallStarted, ToolCallUpdated, ToolCallUpdated]
    assert [one.parent for one in told] == [None, None, None]
    request = {"subtype": "can_use_tool", "tool_name": "Read", "tool_use_id": "t2"}
    (asked,) = translator.asked({**request, "agent_id": "a1"})
    assert asked.parent == "t1" and isinstance(asked.event, ToolCallStarted)
    assert list(translator.asked({"subtype": "hook_callback"})) == []


def test_what_ends_in_the_background_is_told() -> None:
    over = system("task_notification", task_id="a1", status="completed", summary="Built it.")
    (notice,) = replay([over]).all(NoticePosted)
    assert notice.title == "completed: Built it."


def test_two_speakers_at_once_are_kept_apart() -> None:
    start = {"type": "message_start", "message": {"id": "m1", "model": "m"}}
    outer, inner = streamed(start, delta("out")), streamed(start, delta("in"))
    for line in inner:
        line["parent_tool_use_id"] = "t1"
    whole = [
        said([{"type": "text", "text": "outer"}]),
        said([{"type": "text", "text": "inner"}], parent_tool_use_id="t1"),
    ]
    heard = replay([outer[0], inner[0], outer[1], inner[1], *whole])
    assert [one.content for one in heard.all(MessageChunk)] == list(
        map(text, ["out", "in", "er", "ner"])
    )


def test_a_picture_that_a_tool_gave() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    heard = replay([used("t1", "Read"), gave("t1", [{"type": "image", "source": source}])])
    picture = ImageContent(data="AAAA", mime_type="image/png")
    assert heard.all(ToolCallEnded)[0].content == (ContentItem(content=picture),)


def test_a_file_that_was_there_before_shows_what_changed() -> None:
    told = {"filePath": "/a", "originalFile": "old", "content": "new"}
    write = used("t1", "Write", file_path="/a", content="new")
    heard = replay([write, gave("t1", "done", tool_use_result=told)])
    diff = Diff(path="/a", old_text="old", new_text="new")
    assert heard.all(ToolCallEnded)[0].content == (diff,)


def test_an_edit_is_shown_as_a_change() -> None:
    described = describe("Edit", {"file_path": "/a", "old_string": "x", "new_string": "y"})
    assert described.content == (Diff(path="/a", old_text="x", new_text="y"),)
    edits = [{"old_string": "1", "new_string": "2"}, {"old_string": "3", "new_string": "4"}]
    assert len(describe("MultiEdit", {"file_path": "/a", "edits": edits}).content) == 2


def test_a_tool_of_a_server_is_named_by_both() -> None:
    assert describe("mcp__github__open_issue", {}).title == "github: open_issue"


def test_todos_are_the_plan() -> None:
    todos = [{"content": "a", "status": "completed"}, {"content": "b", "status": "?"}, 3]
    (plan,) = replay([used("t1", "TodoWrite", todos=todos)]).all(PlanChanged)
    assert [(one.content, one.status) for one in plan.entries] == [
        ("a", "completed"),
        ("b", "pending"),
    ]


def test_a_limit_of_the_plan_says_when_it_ends() -> None:
    info = {"status": "rejected", "resetsAt": 1800000000, "rateLimitType": "five_hour"}
    heard = replay([{"type": "rate_limit_event", "rate_limit_info": info}])
    (limited,) = heard.all(RateLimited)
    assert limited.resets_at == 1800000000_000_000
    near = {"status": "allowed_warning", "rateLimitType": "weekly"}
    (notice,) = replay([{"type": "rate_limit_event", "rate_limit_info": near}]).all(NoticePosted)
    assert notice.severity == "warning"
    fine = {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}
    assert replay([fine]).events == []


def test_a_limit_that_comes_as_a_failure() -> None:
    failed = [{"type": "text", "text": "Claude AI usage limit reached|1800000000"}]
    heard = replay([said(failed, is_api_error_message=True, error="rate_limit")])
    (limited,) = heard.all(RateLimited)
    assert limited.resets_at == 1800000000_000_000


def test_a_compaction_has_a_beginning_and_an_end() -> None:
    lines = [system("status", status="compacting"), system("compact_boundary")]
    first, last = replay(lines).all(CompactionChanged)
    assert (first.status, last.status) == ("in_progress", "completed")
    assert first.compaction == last.compaction
    alone = replay([system("compact_boundary")]).all(CompactionChanged)
    assert [one.status for one in alone] == ["in_progress", "completed"]
    left = replay([system("status", status="compacting"), RESULT]).all(CompactionChanged)
    assert [one.status for one in left] == ["in_progress", "cancelled"]


def test_what_a_slash_command_prints_is_said() -> None:
    content = "<local-command-stdout>Context: 3 %</local-command-stdout>"
    line = {"type": "user", "message": {"role": "user", "content": content}, "isReplay": True}
    assert replay([line]).text == "Context: 3 %"
    assert replay([system("local_command_output", content="also")]).text == "also"


def test_commands_known_by_name_alone() -> None:
    heard = replay([system("init", session_id="s", model="m", slash_commands=["a", "b"])])
    assert [one.name for one in heard.all(CommandsChanged)[0].commands] == ["a", "b"]


@pytest.mark.parametrize(
    ("fields", "stop"),
    [
        ({"stop_reason": "max_tokens"}, "max_tokens"),
        ({"stop_reason": "refusal"}, "refusal"),
        ({"subtype": "error_max_turns"}, "max_turn_requests"),
        ({"subtype": "error_max_budget_usd"}, "failed"),
        ({"subtype": "error_during_execution", "errors": ["a", "b"]}, "failed"),
        ({"is_error": True, "result": "Not logged in · Please run /login"}, "failed"),
        ({"subtype": "error_during_execution", "terminal_reason": "aborted_tools"}, "cancelled"),
    ],
)
def test_how_a_turn_can_end(fields: dict[str, Any], stop: str) -> None:
    (outcome,) = replay([{**RESULT, **fields}]).outcomes
    assert outcome.stop == stop
    assert (outcome.reason is not None) is (stop in ("failed", "max_turn_requests"))


def test_older_versions_tell_a_total_and_each_turn_gets_its_share() -> None:
    usage = {"input_tokens": 1, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 100}
    lines = [{**RESULT, "usage": usage, "total_cost_usd": total} for total in (0.25, 1.0)]
    first, second = replay(lines).outcomes
    assert first.usage is not None and first.cost is not None and second.cost is not None
    assert (first.usage.input, first.usage.cached, first.usage.cache_written) == (111, 10, 100)
    assert (first.cost.amount, second.cost.amount) == (0.25, 0.75)


def test_a_call_in_an_answer_that_broke_off_ends() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
    start = {"type": "message_start", "message": {"id": "m1"}}
    begin = {"type": "content_block_start", "index": 0, "content_block": call}
    heard = replay(streamed(start, begin, {"type": "message_stop"}))
    (ended,) = heard.all(ToolCallEnded)
    assert (ended.call, ended.status) == ("t1", "failed")


def test_unknown_things_are_kept_whole() -> None:
    lines = [
        {"type": "novelty", "x": 1},
        system("novelty", y=2),
        said([{"type": "novelty"}]),
        *streamed({"type": "novelty"}),
    ]
    assert len(replay(lines).all(UnknownEvent)) == 4
    assert replay(lines).all(UnknownEvent)[0].raw == {"type": "novelty", "x": 1}


# Lines that nobody would write

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
WORDS = st.sampled_from(
    [
        *(
            "type",
            "subtype",
            "message",
            "content",
            "id",
            "name",
            "input",
            "event",
            "index",
            "delta",
        ),
        *("delta", "text", "thinking", "tool_use_id", "parent_tool_use_id", "usage", "status"),
        *(
            "content_block",
            "stop_reason",
            "result",
            "errors",
            "total_cost_usd",
            "is_error",
            "todos",
        ),
        *("modelUsage", "is_error", "model_usage_since_last_result", "rate_limit_info"),
        *("resetsAt", "attempt", "questions"),
    ]
)
VALUES = st.sampled_from(
    [
        *("assistant", "user", "system", "stream_event", "result", "rate_limit_event", "init"),
        *(
            "delta",
            "text",
            "thinking",
            "tool_use",
            "tool_result",
            "image",
            "message_start",
            "message_stop",
        ),
        *("content_block_start", "content_block_delta", "text_delta", "status", "compact_boundary"),
        *("api_retry", "rejected", "Write", "TodoWrite", "t1", "error", "message_delta"),
    ]
)
ANY = st.recursive(
    SCALARS | VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)
LINES = st.fixed_dictionaries({"type": VALUES}, optional={"subtype": VALUES}).flatmap(
    lambda fixed: st.dictionaries(WORDS, ANY, max_size=5).map(lambda more: {**more, **fixed})
)


@settings(deadline=None, max_examples=200)
@given(st.lists(LINES, max_size=8))
def test_no_line_is_too_odd_and_each_result_ends_one_turn(lines: list[dict[str, Any]]) -> None:
    heard = replay(lines)
    assert len(heard.outcomes) == sum(line["type"] == "result" for line in lines)
    msgspec.json.encode([e for e in heard.events if isinstance(e, MessageChunk | RateLimited)])


@settings(deadline=None, max_examples=30)
@given(st.randoms(use_true_random=False), st.sampled_from(["approve", "interrupt_perm", "noend"]))
def test_recorded_lines_in_any_order_end_as_many_turns(random: Any, scene: str) -> None:
    lines = recorded(f"stream-json/{scene}")
    random.shuffle(lines)
    dropped = [line for line in lines if line["type"] == "result" or random.random() > 0.2]
    assert len(replay(dropped).outcomes) == 2
