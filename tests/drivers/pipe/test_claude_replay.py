"""Recorded sessions of Claude Code 2.1.325: what a person saw there is what the events say."""

import pytest

from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    CommandsChanged,
    ModeChanged,
    NoticePosted,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    UnknownEvent,
    UsageReported,
)
from quarterdeck.wire.tool_calls import ContentItem, Diff
from tests.support.claude_lines import CAPTURES, recorded, replay

HELLO = "Hello from the scripted model."
RAN = "Running a command.Command finished."
SCENES = sorted(f"{file.parent.name}/{file.stem}" for file in CAPTURES.glob("*/*.jsonl"))


@pytest.mark.parametrize("scene", SCENES)
def test_nothing_recorded_is_unknown(scene: str) -> None:
    assert replay(recorded(scene)).all(UnknownEvent) == []


@pytest.mark.parametrize("scene", SCENES)
def test_each_turn_is_counted_once_and_the_sum_is_the_programs_own(scene: str) -> None:
    lines = recorded(scene)
    results = [line for line in lines if line["type"] == "result"]
    heard = replay(lines)
    assert len(heard.outcomes) == len(results)
    if not results or scene == "stream-json/resume.2":
        return
    models = results[-1]["modelUsage"].values()
    used = [one.usage for one in heard.outcomes if one.usage]
    assert sum(one.input for one in used) == sum(one["inputTokens"] for one in models)
    assert sum(one.output for one in used) == sum(one["outputTokens"] for one in models)
    spent = sum(one.cost.amount for one in heard.outcomes if one.cost)
    assert spent == pytest.approx(results[-1]["total_cost_usd"])
    reported = heard.all(UsageReported)[-1].session_cost
    assert reported is not None and reported.amount == results[-1]["total_cost_usd"]


@pytest.mark.parametrize(
    ("scene", "told"),
    [
        ("stream-json/text", HELLO + "Thought and answered."),
        ("stream-json/approve", f"I will write a file.Wrote it. Done.{RAN}"),
        ("stream-json/two_messages", RAN),
        ("stream-json/badjson", "Before badjson. After badjson." + HELLO),
        ("pipe/think", "Thought and answered."),
        ("pipe/badtool", "Calling a tool that is not there.The tool did not exist."),
    ],
)
def test_what_came_in_pieces_and_whole_is_told_once(scene: str, told: str) -> None:
    assert replay(recorded(scene)).text == told


@pytest.mark.parametrize("scene", ["stream-json/text", "pipe/think"])
def test_thoughts_are_told(scene: str) -> None:
    (thought,) = replay(recorded(scene)).all(ThoughtChunk)
    assert thought.content == text("Let me think about this.")


def test_the_greeting_names_commands_and_the_first_line_the_session() -> None:
    heard = replay(recorded("stream-json/text"))
    (commands,) = heard.all(CommandsChanged)
    assert "deep-research" in [one.name for one in commands.commands]
    (changed,) = heard.all(SessionChanged)
    assert changed.agent_session == "34008674-c77b-4b33-87e2-5a9ec341855b"
    assert changed.model == "claude-opus-5-5"


def test_allowed_calls() -> None:
    heard = replay(recorded("stream-json/approve"))
    write, shell = (one for one in heard.all(ToolCallStarted) if one.raw_input)
    path = "/home/dev/lab/work/claude/stream-json_approve/hello.txt"
    assert (write.name, write.kind, write.title) == ("Write", "edit", f"Write {path}")
    assert write.content == (Diff(path=path, new_text="hello from script\n"),)
    assert [one.path for one in write.locations] == [path]
    assert shell.title == "touch made-by-shell.txt && echo scripted-output"
    assert shell.kind == "execute"
    wrote, ran = heard.all(ToolCallEnded)
    assert (wrote.call, wrote.status) == (write.call, "completed")
    assert (ran.call, ran.status) == (shell.call, "completed")
    assert ran.content == (ContentItem(content=text("scripted-output")),)
    assert [one.stop for one in heard.outcomes] == ["end_turn", "end_turn"]


def test_denied_calls() -> None:
    heard = replay(recorded("stream-json/deny"))
    assert [(one.status, one.reason) for one in heard.all(ToolCallEnded)] == [
        ("failed", "The user said no."),
        ("failed", "The user said no."),
    ]
    assert [one.stop for one in heard.outcomes] == ["end_turn", "end_turn"]


def test_its_own_rules_deny_when_nobody_is_asked() -> None:
    heard = replay(recorded("pipe/shell_default"))
    assert heard.all(ToolCallEnded)[0].status == "failed"
    assert "needs approval" in (heard.all(NoticePosted)[0].description or "")


def test_an_unknown_tool_fails() -> None:
    heard = replay(recorded("pipe/badtool"))
    assert "No such tool available" in (heard.all(ToolCallEnded)[0].reason or "")


@pytest.mark.parametrize("scene", ["interrupt", "interrupt_perm"])
def test_an_interrupted_turn_is_cancelled_and_the_next_is_not(scene: str) -> None:
    heard = replay(recorded(f"stream-json/{scene}"))
    assert [one.stop for one in heard.outcomes] == ["cancelled", "end_turn"]
    assert heard.all(NoticePosted) == []


@pytest.mark.parametrize(
    ("scene", "reason", "retries"),
    [("e400", "API Error: 400 scripted failure 400", 0), ("e529", "Repeated 529 Overloaded", 2)],
)
def test_a_failure_is_the_reason_and_no_message(scene: str, reason: str, retries: int) -> None:
    heard = replay(recorded(f"stream-json/{scene}"))
    failed, fine = heard.outcomes
    assert failed.stop == "failed" and reason in (failed.reason or "")
    assert fine.stop == "end_turn"
    assert heard.text == HELLO
    assert [one.attempt for one in heard.all(RetryScheduled)] == list(range(2, 2 + retries))


def test_a_rate_limit_says_when_it_tries_again() -> None:
    heard = replay(recorded("pipe/e429"))
    limited, retried = heard.all(RateLimited), heard.all(RetryScheduled)
    assert limited[0].retry_after == 1.0
    assert (retried[0].attempt, retried[0].delay) == (2, 1.0)
    assert len(limited) == len(retried) == 7


def test_a_wrong_key_is_told_with_each_retry() -> None:
    retried = replay(recorded("pipe/e401")).all(RetryScheduled)
    assert retried[0].reason == "authentication_failed (HTTP 401)"


@pytest.mark.parametrize(("scene", "times"), [("midfail", 1), ("noend", 2), ("drop", 9)])
def test_an_answer_that_broke_off_is_told(scene: str, times: int) -> None:
    notices = replay(recorded(f"stream-json/{scene}")).all(NoticePosted)
    assert len(notices) == times and all("was interrupted" in one.title for one in notices)


def test_a_resumed_session_counts_its_own_turn_only() -> None:
    lines = recorded("stream-json/resume.2")
    (outcome,) = replay(lines).outcomes
    assert outcome.cost is not None
    assert outcome.cost.amount == pytest.approx(lines[-1]["total_cost_usd"] / 2)


def test_mode_and_model_changes_are_told() -> None:
    heard = replay(recorded("stream-json/control"))
    assert [one.mode for one in heard.all(ModeChanged)] == ["acceptEdits"]
    assert heard.all(SessionChanged)[-1].model == "claude-sonnet-4-5"
