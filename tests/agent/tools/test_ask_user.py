"""Questions: the form a client can show, the answers the model reads."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from quarterdeck.agent.tools.ask_user import AskUserTool
from quarterdeck.agent.tools.tool import ToolError
from quarterdeck.agent.tools.workspace import ToolWorkspace
from quarterdeck.system.local import LocalSystem
from quarterdeck.wire.acp.schema import ElicitationSchema
from quarterdeck.wire.permissions import Decider, QuestionAction
from tests.support.tool_calls import FakeLive, prepared, run, told

ASK = AskUserTool()
COLOURS = [{"label": "red"}, {"label": "blue", "description": "like the sea"}]


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[ToolWorkspace]:
    async with LocalSystem([tmp_path]) as system:
        yield ToolWorkspace(system=system)


async def form(workspace: ToolWorkspace, *questions: dict[str, Any]) -> dict[str, Any]:
    live = FakeLive()
    await run(ASK, workspace, live, questions=list(questions))
    ((_, shown),) = live.asked
    return shown


async def test_free_text(workspace: ToolWorkspace):
    shown = await form(workspace, {"question": "Which name?", "header": "Name"})
    assert shown == {
        "type": "object",
        "properties": {
            "q1": {"type": "string", "title": "Name", "description": "Which name?", "minLength": 1}
        },
        "required": ["q1"],
    }


async def test_one_of_options(workspace: ToolWorkspace):
    shown = await form(workspace, {"question": "Colour?", "options": COLOURS, "free_text": False})
    assert shown["properties"] == {
        "q1": {
            "type": "string",
            "title": "Colour?",
            "oneOf": [
                {"const": "red", "title": "red"},
                {"const": "blue", "title": "blue: like the sea"},
            ],
        }
    }
    assert shown["required"] == ["q1"]


async def test_several_options_or_own_words(workspace: ToolWorkspace):
    shown = await form(workspace, {"question": "Colours?", "options": COLOURS, "multiple": True})
    assert shown["properties"]["q1"]["type"] == "array"
    assert [x["const"] for x in shown["properties"]["q1"]["items"]["anyOf"]] == ["red", "blue"]
    assert shown["properties"]["q1_other"]["type"] == "string"
    assert shown["required"] == []


async def test_every_form_is_one_of_the_protocol(workspace: ToolWorkspace):
    questions: list[dict[str, Any]] = [
        {"question": "a?"},
        {"question": "b?", "options": COLOURS},
        {"question": "c?", "options": COLOURS, "multiple": True, "free_text": False},
    ]
    shown = await form(workspace, *questions)
    read = msgspec.convert(shown, ElicitationSchema)
    assert list(read.properties) == ["q1", "q2", "q2_other", "q3"]
    assert read.properties["q3"].items is not None
    assert read.properties["q3"].items.any_of is not None
    assert read.properties["q2"].one_of is not None


async def test_answers_are_told_question_by_question(workspace: ToolWorkspace):
    live = FakeLive(content={"q1": ["red", "blue"], "q1_other": "green", "q2": "", "q4": True})
    questions = [
        {"question": "Colours?", "options": COLOURS, "multiple": True},
        {"question": "Why?"},
    ]
    outcome = await run(ASK, workspace, live, questions=questions)
    assert told(outcome) == "Colours?\n→ red; blue; green\n\nWhy?\n→ (no answer)"
    assert live.asked[0][0] == "1. Colours?\n2. Why?"


@pytest.mark.parametrize(
    ("action", "by", "words"),
    [
        ("decline", "person", "declined"),
        ("cancel", "person", "closed the question"),
        ("cancel", "timeout", "no answer in time"),
        ("cancel", "mode", "no person is available"),
    ],
)
async def test_no_answer_is_said(
    workspace: ToolWorkspace, action: QuestionAction, by: Any, words: str
):
    live = FakeLive(action=action, by=Decider(kind=by))
    outcome = await run(ASK, workspace, live, questions=[{"question": "Why?"}])
    assert words in told(outcome)
    assert not outcome.is_error


@pytest.mark.parametrize(
    "questions",
    [
        [],
        [{"question": " "}],
        [{"question": "a?"}] * 11,
        [{"question": "a?", "options": [{"label": "x"}, {"label": "x"}]}],
        [{"question": "a?", "options": [{"label": ""}]}],
    ],
)
async def test_what_cannot_be_asked_is_refused(workspace: ToolWorkspace, questions: object):
    with pytest.raises(ToolError):
        await prepared(ASK, workspace, questions=questions)


async def test_the_person_sees_what_is_asked(workspace: ToolWorkspace):
    ready = await prepared(ASK, workspace, questions=[{"question": "Why?"}, {"question": "How?"}])
    assert ready.title == "Ask: Why? (and 1 more)"
    assert ready.call.kind == "think"
