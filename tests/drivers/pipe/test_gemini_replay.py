"""Recorded turns of ``gemini -o stream-json`` 0.61.0."""

import pytest

from quarterdeck.drivers.link import AgentExit
from quarterdeck.drivers.pipe.dialect import TurnContext
from quarterdeck.drivers.pipe.gemini import GEMINI, GeminiReader
from quarterdeck.wire.events import (
    MessageChunk,
    NoticePosted,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
)
from quarterdeck.wire.usage import TokenUsage
from tests.support.captures import Replay, replay


def scene(name: str) -> Replay:
    return replay(GEMINI, f"gemini-0.61.0/pipe/{name}")


def test_text_comes_in_pieces_of_one_message():
    done = scene("text")
    assert done.text == "Hello from the scripted model."
    assert (len(done.all(MessageChunk)), done.messages) == (5, 1)
    assert done.sessions == {"cb4a68d9-2b68-48b0-a1c7-312904003d47"}
    assert done.all(SessionChanged)[0].model == "gemini-2.5-flash"
    assert (done.outcome.stop, done.outcome.usage) == ("end_turn", TokenUsage(input=11, output=7))


def test_a_written_file_has_its_place():
    done = scene("write_yes")
    assert done.calls == [("write_file", "edit", "completed")]
    assert done.all(ToolCallStarted)[0].locations[0].path == "./hello.txt"
    assert (done.messages, done.outcome.usage) == (2, TokenUsage(input=22, output=14))


def test_a_command_and_what_it_printed():
    done = scene("shell_yes")
    assert done.calls == [("run_shell_command", "execute", "completed")]
    assert done.all(ToolCallEnded)[0].content[0].content.text == "scripted-output"


def test_a_failed_tool_says_why():
    done = scene("badtool")
    assert done.calls == [("no_such_tool", "other", "failed")]
    assert 'Tool "no_such_tool" not found' in done.all(ToolCallEnded)[0].reason
    assert done.outcome.stop == "end_turn"


def test_a_tool_that_the_mode_does_not_offer_is_not_called():
    assert scene("write_default").calls == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("badjson", "Unterminated string in JSON"),
        ("drop", "[API Error: terminated]"),
        ("e401", "scripted failure 401"),
        ("noend", "Model stream ended without a finish reason."),
    ],
)
def test_a_failed_model_fails_the_turn(name: str, told: str):
    done = scene(name)
    assert done.outcome.stop == "failed" and told in (done.outcome.reason or "")


def test_an_error_is_also_a_notice():
    assert [notice.severity for notice in scene("noend").all(NoticePosted)] == ["error"]


def test_a_run_that_never_came_to_a_result_has_failed():
    assert scene("e429").outcome.stop == "failed"
    assert scene("sigint").outcome.stop == "failed"


def test_retries_are_read_from_standard_error_once_each():
    read = GEMINI.stderr_events
    assert read is not None
    stderr = scene("e429").stderr
    told = list(read(stderr, 0))
    retries = [event for _, event in told if isinstance(event, RetryScheduled)]
    assert [retry.attempt for retry in retries] == [2, 3, 4, 5]
    assert len([event for _, event in told if isinstance(event, RateLimited)]) == 4
    assert list(read(stderr, told[-1][0])) == []


def test_a_resumed_turn_counts_its_own_tokens():
    first, second = scene("resume_1"), scene("resume_2")
    assert first.sessions == second.sessions
    assert second.outcome.usage == TokenUsage(input=11, output=7)


def test_thinking_is_counted_as_output():
    reader = GeminiReader(TurnContext())
    stats = {"total_tokens": 30, "input_tokens": 11, "output_tokens": 7, "cached": 4}
    list(reader.read({"type": "result", "status": "success", "stats": stats}))
    usage = reader.outcome(AgentExit(exit_code=0)).usage
    assert usage == TokenUsage(input=11, output=19, cached=4, thought=12)


def test_a_limit_of_turns_is_no_failure():
    assert GeminiReader(TurnContext()).outcome(AgentExit(exit_code=53)).stop == "max_turn_requests"


def test_a_rate_limit_in_the_result_is_told():
    reader = GeminiReader(TurnContext())
    error = {"message": '[API Error: {"error":{"code":429}}]'}
    (told,) = reader.read({"type": "result", "status": "error", "error": error})
    assert isinstance(told, RateLimited)
