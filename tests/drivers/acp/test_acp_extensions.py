"""Small readings: tokens, costs, extensions, logins."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from quarterdeck.drivers.acp import extensions, link
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.usage import Cost, TokenUsage

json_values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: (
        some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = (
    *("terminal_output", "terminal_output_delta", "terminal_exit", "codex", "claudeCode", "quota"),
    *("error", "threadStatus", "token_count", "terminal_id", "data", "codexErrorInfo", "toolName"),
)
meta_values = some.dictionaries(
    some.sampled_from(KEYS),
    json_values | some.dictionaries(some.sampled_from(KEYS), json_values, max_size=4),
    max_size=4,
)


@settings(deadline=None, max_examples=150)
@given(meta_values)
def test_no_extension_can_break_the_reading(meta: dict[str, Any]):
    list(extensions.terminal_events(meta))
    extensions.codex_error(meta)
    extensions.codex_failed(meta)
    extensions.quota(meta)
    extensions.parent_call(meta)
    extensions.tool_name(meta)


@pytest.mark.parametrize(
    ("total", "read", "said", "cached", "written", "thought", "expected"),
    [
        (18, 11, 7, 0, 0, 0, TokenUsage(input=11, output=7)),
        (118, 11, 7, 90, 10, 0, TokenUsage(input=111, output=7, cached=90, cache_written=10)),
        (18, 11, 7, 5, 0, 3, TokenUsage(input=11, output=7, cached=5, thought=3)),
        (21, 11, 7, 0, 0, 3, TokenUsage(input=11, output=10, thought=3)),
        (26, 11, 7, 5, 0, 3, TokenUsage(input=16, output=10, cached=5, thought=3)),
    ],
)
def test_each_token_is_counted_once(
    total: int, read: int, said: int, cached: int, written: int, thought: int, expected: TokenUsage
):
    usage = acp.Usage(
        total_tokens=total,
        input_tokens=read,
        output_tokens=said,
        cached_read_tokens=cached,
        cached_write_tokens=written,
        thought_tokens=thought,
    )
    answer = acp.PromptResponse(stop_reason="end_turn", usage=usage)
    found = link.outcome_of_answer(answer).usage
    assert found == expected
    assert found is not None and found.total == total


def test_a_resumed_session_does_not_bill_its_past():
    spent = Cost(amount=5.0, currency="USD")
    assert link.cost_between(None, spent, is_first=False) is None
    assert link.cost_between(None, spent, is_first=True) == spent
    assert link.cost_between(Cost(amount=1, currency="EUR"), spent, is_first=False) is None


def test_a_call_that_a_sub_agent_makes_names_its_parent():
    assert extensions.parent_call({"claudeCode": {"parentToolUseId": "t1"}}) == "t1"
