"""Asking the person by a form."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from quarterdeck.wire.content import text
from quarterdeck.wire.events import QuestionAnswered
from quarterdeck.wire.toolcalls import ContentItem, ToolKind

from ..describe import describe
from ..tool import Arguments, Live, Outcome, Prepared, Tool, ToolError, said
from ..workspace import Workspace
from .form import Question, answers, form_of, introduction

__all__ = ["AskUserArguments", "AskUserTool"]

_MOST = 10


class AskUserArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``ask_user``."""

    questions: Annotated[tuple[Question, ...], Meta(min_length=1, max_length=_MOST)]


class AskUserTool:
    """Asks questions and returns the answers as text."""

    name = "ask_user"
    kind: ToolKind = "think"
    arguments = AskUserArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return describe(__package__)

    async def prepare(self, arguments: AskUserArguments, workspace: Workspace) -> Prepared:
        """Check the questions; nobody is asked yet."""
        for question in arguments.questions:
            _check(question)
        first = arguments.questions[0].question.strip()
        more = len(arguments.questions) - 1
        return Prepared(
            title=f"Ask: {first[:100]}" + (f" (and {more} more)" if more else ""),
            call=workspace.call(self.name, self.kind),
            run=partial(_ask, arguments.questions),
            content=(ContentItem(content=text(introduction(arguments.questions))),),
        )


def _check(question: Question) -> None:
    if not question.question.strip():
        raise ToolError("A question is empty; say what you want to know.")
    labels = [option.label for option in question.options]
    if len(set(labels)) != len(labels):
        raise ToolError(f"Options of {question.question!r} have the same label; make them differ.")
    if not all(label.strip() for label in labels):
        raise ToolError(f"An option of {question.question!r} has no label.")


async def _ask(questions: tuple[Question, ...], live: Live) -> Outcome:
    answered = await live.ask(introduction(questions), form_of(questions))
    if answered.action == "accept":
        return said(answers(questions, answered.content or {}))
    return said(_unanswered(answered), is_error=False)


def _unanswered(answered: QuestionAnswered) -> str:
    """Why there is no answer, and what to do without one."""
    if answered.action == "decline" and answered.by.kind == "person":
        return "The person declined to answer. Do not ask the same again; go on as you can."
    if answered.by.kind == "person":
        return "The person closed the question without an answer. Go on as you can."
    why = {"timeout": "nobody answered in time", "cancel": "the question was cancelled"}
    reason = why.get(answered.by.kind, "nobody is there to answer")
    return (
        f"There is no answer: {reason}. Go on with your best judgement and say in the end what "
        "you assumed."
    )


if TYPE_CHECKING:
    _tool: Tool = AskUserTool()
