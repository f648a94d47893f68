"""An agent whose lines are described by its file; and that no reader fails on anything."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.drivers.agent_process import Launch
from quarterdeck.drivers.errors import BadAgentFileError
from quarterdeck.drivers.link import AgentExit
from quarterdeck.drivers.pipe.codex import CODEX
from quarterdeck.drivers.pipe.cursor import CURSOR
from quarterdeck.drivers.pipe.dialect import PipeDialect, TurnContext
from quarterdeck.drivers.pipe.gemini import GEMINI
from quarterdeck.drivers.pipe.generic import find, generic, parse_path
from quarterdeck.drivers.pipe.opencode import OPENCODE
from quarterdeck.drivers.pipe.pi import PI
from quarterdeck.wire.events import (
    Event,
    NoticePosted,
    PlanChanged,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    ToolCallEnded,
    ToolCallUpdated,
    UnknownEvent,
)
from quarterdeck.wire.record import encode_event
from quarterdeck.wire.usage import Cost, TokenUsage
from tests.drivers.rigs.oneshot import EVENTS


def dialect(**events: Any) -> PipeDialect:
    return generic(Launch(agent="mine", command=("mine",), events=events))


def rule(means: str, **fields: Any) -> PipeDialect:
    return dialect(rules=[{"means": means, **fields}])


def read(language: PipeDialect, *lines: Any) -> list[Event]:
    reader = language.reader(TurnContext())
    return [event for line in lines for event in reader.read(line)]


LEFT = AgentExit(exit_code=0)


def test_elements_of_a_list_are_read_one_by_one():
    """The shape of Claude's messages, which many agents print."""
    blocks = dialect(
        rules=[
            {
                "means": "text",
                "when": {"type": "assistant"},
                "each": "message.content",
                "where": {"type": "text"},
                "text": "text",
            },
            {
                "means": "tool",
                "when": {"type": "assistant"},
                "each": "message.content",
                "where": {"type": "tool_use"},
                "id": "id",
                "name": "name",
                "input": "input",
            },
        ]
    )
    content = [
        {"type": "text", "text": "Look:"},
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}},
        {"type": "image"},
    ]
    said, call = read(blocks, {"type": "assistant", "message": {"content": content}})
    assert said.content.text == "Look:"
    assert (call.call, call.name, call.kind, call.raw_input) == (
        *("t1", "Bash", "execute"),
        {"command": "ls"},
    )


def test_a_condition_may_name_several_values_and_several_places():
    loud = rule("notice", when={"a.b": ["x", 1], "c": True}, text="t")
    assert [type(e) for e in read(loud, {"a": {"b": "x"}, "c": True, "t": "T"})] == [NoticePosted]
    assert [type(e) for e in read(loud, {"a": {"b": 1}, "c": True, "t": "T"})] == [NoticePosted]
    assert [type(e) for e in read(loud, {"a": {"b": True}, "c": True})] == [UnknownEvent]
    assert [type(e) for e in read(loud, {"a": {"b": "x"}})] == [UnknownEvent]


def test_every_rule_that_fits_applies():
    both = dialect(
        rules=[
            {"means": "session", "id": "s", "model": "m"},
            {"means": "text", "when": {"k": "t"}, "text": "t"},
        ]
    )
    first, second = read(both, {"k": "t", "s": "S", "m": "M", "t": "hi"})
    assert isinstance(first, SessionChanged)
    assert (first.agent_session, first.model, second.content.text) == ("S", "M", "hi")


def test_what_is_ignored_is_not_unknown():
    assert read(rule("ignore", when={"k": "tick"}), {"k": "tick"}) == []


def test_a_tool_call_may_fail():
    ends = rule("tool_end", id="id", output="out", failed="err", text="err")
    good, bad = read(ends, {"id": "1", "out": "ok"}, {"id": "2", "err": "no"})
    assert (good.status, bad.status, bad.reason) == ("completed", "failed", "no")
    (blocks,) = read(ends, {"id": "3", "out": [{"type": "text", "text": "a"}, "b"]})
    assert isinstance(blocks, ToolCallEnded)
    assert blocks.content[0].content.text == "a\nb"
    (update,) = read(rule("tool_update", id="id", output="o"), {"id": "1", "o": "so far"})
    assert isinstance(update, ToolCallUpdated)


def test_retries_limits_and_plans():
    (retry,) = read(rule("retry", attempt="n", delay_ms="ms", text="t"), {"n": 2, "ms": 1500})
    assert isinstance(retry, RetryScheduled) and (retry.attempt, retry.delay) == (2, 1.5)
    (limit,) = read(rule("rate_limit", text="t", delay="d"), {"t": "slow", "d": 3})
    assert isinstance(limit, RateLimited) and limit.retry_after == 3.0
    (plan,) = read(rule("plan", input="p", text="w", status="s"), {"p": [{"w": "a", "s": "done"}]})
    assert isinstance(plan, PlanChanged) and plan.entries[0].status == "completed"


def test_usage_of_steps_adds_up_and_that_of_a_turn_replaces():
    fields = {"input": "i", "output": "o", "cached": "c", "cost": "usd"}
    lines = [{"i": 10, "o": 1, "c": 5, "usd": 0.5}, {"i": 20, "o": 2, "c": 0, "usd": 0.25}]
    for adds, usage, cost in [
        (True, TokenUsage(input=35, output=3, cached=5), 0.75),
        (False, TokenUsage(input=20, output=2), 0.25),
    ]:
        reader = rule("usage", **fields, adds=adds).reader(TurnContext())
        for line in lines:
            assert list(reader.read(line)) == []
        outcome = reader.outcome(LEFT)
        assert (outcome.usage, outcome.cost) == (usage, Cost(amount=cost, currency="USD"))
    reader = rule("usage", **fields, includes_cache=True).reader(TurnContext())
    list(reader.read(lines[0]))
    assert reader.outcome(LEFT).usage == TokenUsage(input=10, output=1, cached=5)


def test_a_told_error_fails_the_turn_whatever_the_exit():
    reader = rule("error", when={"k": "e"}, text="t").reader(TurnContext())
    (limit,) = reader.read({"k": "e", "t": "429 Too Many Requests"})
    assert isinstance(limit, RateLimited)
    assert reader.outcome(LEFT).reason == "429 Too Many Requests"


def test_a_result_is_owed_where_the_file_says_so():
    rules = [{"means": "result", "when": {"k": "end"}, "failed": "bad", "text": "bad"}]
    owing = dialect(rules=rules, result_is_due=True)
    free = dialect(rules=rules)
    assert owing.reader(TurnContext()).outcome(LEFT).stop == "failed"
    assert free.reader(TurnContext()).outcome(LEFT).stop == "end_turn"
    reader = owing.reader(TurnContext())
    list(reader.read({"k": "end", "bad": ""}))
    assert reader.outcome(LEFT).stop == "end_turn"
    list(reader.read({"k": "end", "bad": "no"}))
    assert reader.outcome(LEFT).reason == "no"


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ({}, "rules is missing"),
        ({"rules": [{"means": "song"}]}, "song"),
        ({"rules": [{"means": "text", "txet": "a"}]}, "txet"),
        ({"rules": [{"means": "text", "text": 3}]}, r"rules\[0\]\.text"),
        ({"rules": [{"text": "a"}]}, "means"),
        ({"rulez": []}, "rulez"),
    ],
)
def test_a_table_with_a_mistake_is_refused_and_says_where(events: dict[str, Any], told: str):
    with pytest.raises(BadAgentFileError, match=told) as caught:
        dialect(**events)
    assert "mine" in str(caught.value) and "docs/agents-pipe.md" in str(caught.value)


def test_paths_lead_through_objects_and_lists():
    value = {"a": [{"b": "x"}, {"b": "y"}], "0": "zero"}
    assert find(value, parse_path("a.0.b")) == "x"
    assert find(value, parse_path("a.-1.b")) == "y"
    assert find(value, parse_path("0")) == "zero"
    assert find(value, parse_path("a.7.b")) is None and find(value, parse_path("a.b")) is None


# Nothing that a program prints is an error of ours

_WORDS = """
type event item id text status error message usage part state input output cost tokens cache read
result stats content role tool_call subtype session_id sessionID delta args assistantMessageEvent
partialResult toolCallId attempt delayMs changes items path data responseHeaders retry-after
statusCode severity act words steps input_tokens cached total_tokens stopReason errorMessage
messageID reason
"""
_KINDS = """
item.started item.updated item.completed thread.started turn.completed turn.failed error
agent_message reasoning command_execution file_change mcp_tool_call web_search todo_list
init message tool_use tool_result result text step_start step_finish system user assistant thinking
tool_call started completed session message_start message_update message_end
tool_execution_start tool_execution_update tool_execution_end auto_retry_start
compaction_start compaction_end text_delta speech act acted bye plan hello
"""
WORDS, KINDS = _WORDS.split(), _KINDS.split()
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(KINDS),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(WORDS), inner, max_size=5)
    ),
    max_leaves=15,
)
LINES = st.lists(
    st.builds(
        lambda kind, event, rest: {**rest, "type": kind, "event": event},
        st.sampled_from(KINDS),
        st.sampled_from(KINDS),
        st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=5),
    ),
    max_size=4,
)
LANGUAGES = [CODEX, GEMINI, OPENCODE, CURSOR, PI, dialect(**EVENTS)]


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
@settings(max_examples=50, deadline=None)
@given(lines=LINES, code=st.sampled_from([0, 1, None]))
def test_no_line_makes_a_reader_fail(language: PipeDialect, lines: list[Any], code: int | None):
    reader = language.reader(TurnContext(total=TokenUsage()))
    for line in lines:
        for event in reader.read(line):
            assert encode_event(event)
    outcome = reader.outcome(AgentExit(exit_code=code, signal=None if code is not None else "SIGX"))
    assert outcome.stop != "failed" or outcome.reason
