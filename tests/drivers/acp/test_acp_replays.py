"""Recorded conversations of real agents, played again: what they said is what is heard."""

from pathlib import Path

import pytest

from quarterdeck.wire.events import (
    Event,
    PermissionAnswered,
    PermissionAsked,
    RetryScheduled,
    SessionChanged,
    SessionOpened,
    TerminalExited,
    TerminalOutput,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnded,
    UnknownEvent,
    UsageReported,
)
from quarterdeck.wire.permissions import Cancelled, Selected
from quarterdeck.wire.usage import TokenUsage
from tests.support.acp_replay import CAPTURES, replay
from tests.support.driver_rig import Driven

CLAUDE = "claude-agent-acp-0.99.1"
CODEX = "codex-acp-2.6.0"
ASKING_CODEX = "codex-acp-2.6.0-read-only"
GEMINI = "gemini-0.61.0"
OPENCODE = "opencode-1.18.33"
HELLO = "Hello from the scripted model."


def capture(agent: str, scene: str) -> Path:
    return CAPTURES / agent / "acp" / f"{scene}.jsonl"


def calls(driven: Driven) -> list[tuple[str, str]]:
    """Each call's last title, with how it ended; every one has exactly one start and one end."""
    titles: dict[str, str] = {}
    ended: list[tuple[str, str]] = []
    for event in driven.events:
        match event:
            case ToolCallStarted():
                assert event.call not in titles
                titles[event.call] = event.title
            case ToolCallUpdated() if isinstance(event.title, str):
                titles[event.call] = event.title
            case ToolCallEnded():
                ended.append((titles[event.call], event.status))
            case _:
                pass
    assert len(ended) == len(titles)
    return ended


@pytest.mark.parametrize(
    ("agent", "version", "model", "turn"),
    [
        (CLAUDE, "0.99.1", "default", TokenUsage(input=11, output=7)),
        (CODEX, "2.6.0", "gpt-5.5", TokenUsage(input=11, output=7)),
        (GEMINI, "0.61.0", "gemini-2.5-flash", TokenUsage(input=11, output=7)),
        (OPENCODE, "1.18.33", "lab/scripted-1", TokenUsage(input=11, output=7)),
    ],
)
async def test_two_turns_of_text(
    agent: str, version: str, model: str, turn: TokenUsage, tmp_path: Path
):
    driven, ends, _ = await replay(capture(agent, "text"), tmp_path)
    assert driven.text == HELLO * 2
    assert [(end.stop, end.usage) for end in ends] == [("end_turn", turn)] * 2
    first = driven.all(SessionOpened)[0]
    assert first.agent_version == version
    assert (first.model or "").startswith(model)
    strange = [event for event in driven.all(UnknownEvent) if event.reason is not None]
    assert all(event.raw.get("method") == "_auth/status_update" for event in strange)


async def test_costs_of_the_turns_add_up_to_the_sessions(tmp_path: Path):
    driven, ends, _ = await replay(capture(CLAUDE, "text"), tmp_path)
    costs = [end.cost.amount for end in ends if end.cost is not None]
    assert len(costs) == 2
    total = driven.all(UsageReported)[-1].session_cost
    assert total is not None and sum(costs) == pytest.approx(total.amount)


@pytest.mark.parametrize("agent", [CLAUDE, GEMINI, OPENCODE])
async def test_a_command_is_asked_about_and_runs(agent: str, tmp_path: Path):
    driven, ends, recorded = await replay(capture(agent, "shell_allow"), tmp_path)
    assert [end.stop for end in ends] == ["end_turn"] * len(recorded.prompts)
    command = "touch made-by-shell.txt && echo scripted-output"
    asked = driven.all(PermissionAsked)
    assert len(asked) == 1 and command in f"{asked[0].title} {asked[0].raw_input}"
    answered = driven.all(PermissionAnswered)[0]
    assert answered.outcome == Selected(option_id=recorded.choices[0])
    assert [status for _, status in calls(driven)] == ["completed"]
    (sent,) = recorded.answers.values()
    assert sent["result"]["outcome"] == {"outcome": "selected", "optionId": recorded.choices[0]}


async def test_codex_shows_its_terminals(tmp_path: Path):
    driven, _, _ = await replay(capture(CODEX, "shell_allow"), tmp_path)
    assert driven.all(PermissionAsked) == []
    assert "".join(event.data for event in driven.all(TerminalOutput)) == "scripted-output\n"
    assert driven.all(TerminalExited)[0].exit_code == 0
    interesting = (ToolCallStarted, TerminalOutput, TerminalExited, ToolCallEnded)
    order = [type(event) for event in driven.events if isinstance(event, interesting)]
    assert order == list(interesting)


@pytest.mark.parametrize(
    ("agent", "scene", "stop", "status"),
    [
        (CLAUDE, "write_allow", "end_turn", "completed"),
        (CLAUDE, "write_reject", "end_turn", "failed"),
        (ASKING_CODEX, "write_allow", "end_turn", "completed"),
        (ASKING_CODEX, "write_reject", "cancelled", "failed"),
        (OPENCODE, "write_reject", "end_turn", "failed"),
    ],
)
async def test_a_file_is_asked_about(
    agent: str, scene: str, stop: str, status: str, tmp_path: Path
):
    driven, ends, _ = await replay(capture(agent, scene), tmp_path)
    assert ends[0].stop == stop
    assert len(driven.all(PermissionAsked)) == 1
    statuses = [how for _, how in calls(driven)]
    assert statuses[-1] == status or (stop == "cancelled" and statuses[-1] == "cancelled")


async def test_an_escalation_names_the_command(tmp_path: Path):
    driven, ends, _ = await replay(capture(ASKING_CODEX, "escalate_allow"), tmp_path)
    assert ends[0].usage == TokenUsage(input=22, output=14)
    asked = driven.all(PermissionAsked)[0]
    # What codex would remember comes last, after our own standing answers.
    kinds = [option.kind for option in asked.options]
    assert kinds[:2] == ["allow_once", "reject_once"] and kinds[-1] == "allow_always"
    assert driven.all(SessionChanged)[0].title == "scene:escalate please"
    assert calls(driven) == [("touch made-by-shell.txt && echo scripted-output", "completed")]


@pytest.mark.parametrize("agent", [CLAUDE, CODEX, GEMINI, OPENCODE])
async def test_two_tools_at_once_end_each_once(agent: str, tmp_path: Path):
    driven, ends, _ = await replay(capture(agent, "twotools"), tmp_path)
    assert ends[0].stop == "end_turn"
    assert [status for _, status in calls(driven)] == ["completed", "completed"]


@pytest.mark.parametrize("agent", [CLAUDE, CODEX])
async def test_an_overloaded_model_is_a_failed_turn(agent: str, tmp_path: Path):
    driven, ends, _ = await replay(capture(agent, "e529"), tmp_path)
    assert ends[0].stop == "failed" and "529" in (ends[0].reason or "")
    assert ends[1].stop == "end_turn" and driven.text.endswith(HELLO)
    if agent == CODEX:
        assert [event.attempt for event in driven.all(RetryScheduled)] == [2, 3]


@pytest.mark.parametrize("agent", [CLAUDE, GEMINI])
async def test_cancelling_answers_what_was_asked(agent: str, tmp_path: Path):
    driven, ends, recorded = await replay(capture(agent, "cancel_permission"), tmp_path)
    assert ends[0].stop == "cancelled"
    assert driven.all(PermissionAnswered)[0].outcome == Cancelled()
    (sent, *_) = recorded.answers.values()
    assert sent["result"]["outcome"] == {"outcome": "cancelled"}
    assert ends[-1].stop == "end_turn"


@pytest.mark.parametrize("agent", [CODEX, OPENCODE])
async def test_a_cancelled_command_ends_within_its_turn(agent: str, tmp_path: Path):
    driven, ends, _ = await replay(capture(agent, "cancel_tool"), tmp_path)
    assert ends[0].stop == "cancelled"
    kinds: list[type[Event]] = [type(event) for event in driven.events]
    assert kinds.index(ToolCallEnded) < kinds.index(TurnEnded)
    assert ends[-1].stop == "end_turn" and driven.text.endswith(HELLO)
