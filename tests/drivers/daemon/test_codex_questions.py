"""Questions of Codex: its choices stay choices, and another answer is taken where it takes one."""

from typing import TYPE_CHECKING, Any, cast

from quarterdeck.drivers.daemon.codex.requests import CodexRequestHandler
from quarterdeck.wire.events import QuestionAnswered, QuestionAsked
from quarterdeck.wire.permissions import Decider

if TYPE_CHECKING:
    from quarterdeck.drivers.link import LinkHost


class AnsweringHost:
    """Answers every question with the same."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self.asked: list[QuestionAsked] = []

    async def ask(self, question: QuestionAsked) -> QuestionAnswered:
        self.asked.append(question)
        by = Decider(kind="person")
        return QuestionAnswered(
            request=question.request, action="accept", by=by, content=self.content
        )


async def answers(host: AnsweringHost, *questions: dict[str, Any]) -> Any:
    handler = CodexRequestHandler(cast("LinkHost", host))
    try:
        told = await handler.answer(
            1, "item/tool/requestUserInput", {"itemId": "i", "questions": list(questions)}
        )
    finally:
        await handler.close()
    return told["answers"]


COLOURS = {
    "id": "colour",
    "question": "Which?",
    "options": [{"label": "red"}, {"label": "blue"}],
}


async def test_choices_with_another_answer_have_a_field_for_it() -> None:
    host = AnsweringHost({"colour_other": "green"})
    assert await answers(host, {**COLOURS, "isOther": True}) == {"colour": {"answers": ["green"]}}
    form = host.asked[0].form
    assert form is not None and list(form["properties"]) == ["colour", "colour_other"]
    assert [one["const"] for one in form["properties"]["colour"]["oneOf"]] == ["red", "blue"]
    assert form["required"] == []


async def test_choices_without_another_answer_are_required() -> None:
    host = AnsweringHost({"colour": "red", "why": "it fits"})
    told = await answers(host, COLOURS, {"id": "why", "question": "Why?", "isOther": True})
    assert told == {"colour": {"answers": ["red"]}, "why": {"answers": ["it fits"]}}
    form = host.asked[0].form
    assert form is not None and form["required"] == ["colour", "why"]
    assert list(form["properties"]) == ["colour", "why"]
