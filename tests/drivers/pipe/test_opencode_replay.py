"""Recorded turns of ``opencode run --format json`` 1.18.33."""

from quarterdeck.drivers.link import AgentExit
from quarterdeck.drivers.pipe.dialect import TurnContext
from quarterdeck.drivers.pipe.opencode import OPENCODE, OpencodeRunReader
from quarterdeck.wire.events import RateLimited, RetryScheduled, ToolCallEnded, ToolCallStarted
from quarterdeck.wire.usage import Cost, TokenUsage
from tests.support.captures import Replay, replay


def scene(name: str) -> Replay:
    return replay(OPENCODE, f"opencode-1.18.33/pipe/{name}")


def test_a_text_turn():
    done = scene("text")
    assert done.text == "Hello from the scripted model."
    assert len(done.sessions) == 1 and next(iter(done.sessions)).startswith("ses_")
    assert (done.outcome.stop, done.outcome.usage) == ("end_turn", TokenUsage(input=11, output=7))


def test_a_written_file_has_its_place():
    done = scene("write_yes")
    assert done.calls == [("write", "edit", "completed")]
    assert done.all(ToolCallStarted)[0].locations[0].path.endswith("hello.txt")
    assert done.text == "I will write a file.Wrote it. Done." and done.messages == 2


def test_usage_is_the_sum_of_the_steps():
    assert scene("write_yes").outcome.usage == TokenUsage(input=22, output=14)


def test_a_command_and_what_it_printed():
    done = scene("shell_yes")
    assert done.calls == [("bash", "execute", "completed")]
    assert "scripted-output" in done.all(ToolCallEnded)[0].content[0].content.text


def test_a_refused_call_fails_and_ends_the_turn():
    done = scene("shell_default")
    assert done.calls == [("bash", "execute", "failed")]
    assert "rejected permission" in done.all(ToolCallEnded)[0].reason
    assert done.outcome.stop == "end_turn"


def test_a_rate_limit_says_when_to_come_again():
    done = scene("e429")
    assert [(limit.reason, limit.retry_after) for limit in done.all(RateLimited)] == [
        ("scripted failure 429", 1.0)
    ]
    assert (done.outcome.stop, done.outcome.reason) == ("failed", "scripted failure 429")


def test_a_step_that_begins_again_is_a_retry():
    done = scene("drop")
    assert [retry.attempt for retry in done.all(RetryScheduled)] == [2, 3, 4, 5]
    assert done.outcome.stop == "failed"


def test_endless_steps_are_no_retries():
    done = scene("noend")
    assert not done.all(RetryScheduled) and done.text.startswith("Before noend. Before noend. ")


def test_a_failure_that_it_overcame_is_none():
    assert scene("e500once").outcome.stop == "end_turn"


def test_a_resumed_turn_is_of_the_same_session():
    assert scene("resume_1").sessions == scene("resume_2").sessions
    assert scene("resume_2").outcome.usage == TokenUsage(input=11, output=7)


def finish(**part: object) -> OpencodeRunReader:
    reader = OpencodeRunReader(TurnContext())
    assert list(reader.read({"type": "step_finish", "part": part})) == []
    return reader


def test_what_was_cached_or_thought_is_counted_once():
    tokens = {"input": 10, "output": 5, "reasoning": 3, "cache": {"read": 100, "write": 20}}
    outcome = finish(reason="stop", tokens=tokens, cost=0.25).outcome(AgentExit(exit_code=0))
    assert outcome.usage == TokenUsage(input=130, output=8, cached=100, cache_written=20, thought=3)
    assert outcome.cost == Cost(amount=0.25, currency="USD")


def test_an_answer_that_was_cut_off_says_so():
    assert finish(reason="length").outcome(AgentExit(exit_code=0)).stop == "max_tokens"


def test_leaving_without_a_finished_step_is_a_failure():
    assert OpencodeRunReader(TurnContext()).outcome(AgentExit(exit_code=0)).stop == "failed"
    assert finish(reason="stop").outcome(AgentExit(exit_code=1)).stop == "failed"
