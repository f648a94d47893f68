"""Claude tells of every call before it does it: what a rule denies is stopped there."""

from typing import Any

import pytest

from quarterdeck.drivers.link import PermissionVerdict
from quarterdeck.drivers.pipe.claude import control as control
from quarterdeck.drivers.pipe.claude.control import ClaudeRequestHandler
from quarterdeck.wire.events import PermissionAsked


class FakeHost:
    def __init__(self, verdict: PermissionVerdict | None) -> None:
        self.verdict = verdict
        self.asked: list[PermissionAsked] = []

    async def forbids(self, question: PermissionAsked) -> PermissionVerdict | None:
        self.asked.append(question)
        return self.verdict


def callback(name: str, **given: Any) -> dict[str, Any]:
    model_reason = {"tool_name": name, "tool_input": given, "tool_use_id": "toolu_1"}
    return {"subtype": "hook_callback", "callback_id": "gate", "input": model_reason}


@pytest.mark.parametrize(
    ("verdict", "decision"),
    [
        (None, None),
        (PermissionVerdict(allowed=False, model_reason="a rule denies it"), "deny"),
        (PermissionVerdict(allowed=False, cancelled=True, model_reason="a rule asks"), "ask"),
    ],
)
async def test_a_call_is_denied_asked_about_or_left_alone(
    verdict: PermissionVerdict | None, decision: str | None
):
    host = FakeHost(verdict)
    answers = ClaudeRequestHandler("claude", host, None)  # type: ignore[arg-type]
    answer = await answers._decide(callback("Read", file_path="/w/.env"))
    (asked,) = host.asked
    assert (asked.name, asked.kind, asked.call) == ("Read", "read", "toolu_1")
    assert asked.raw_input == {"file_path": "/w/.env"}
    if decision is None:
        assert answer == {}
    else:
        assert answer["hookSpecificOutput"]["permissionDecision"] == decision
        assert answer["hookSpecificOutput"]["permissionDecisionReason"]


async def test_a_question_to_the_person_is_no_call_to_be_judged():
    host = FakeHost(PermissionVerdict(allowed=False))
    answers = ClaudeRequestHandler("claude", host, None)  # type: ignore[arg-type]
    assert await answers._decide(callback(control.QUESTIONS)) == {}
    assert host.asked == []
