"""The tool ``ask_user``: structured questions to the person, as a form of flat properties."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

from msgspec import Meta

from quarterdeck.wire.content import text
from quarterdeck.wire.events import QuestionAnswered
from quarterdeck.wire.tool_calls import ContentItem, ToolKind

from ..tool import (
    Arguments,
    LiveCall,
    PreparedCall,
    Tool,
    ToolError,
    ToolOutcome,
    read_description,
    text_outcome,
)
from ..workspace import ToolWorkspace

__all__ = [
    "AskUserArguments",
    "AskUserTool",
    "FormQuestion",
    "QuestionOption",
    "answers_text",
    "form_of",
    "introduction",
]

_OWN_WORDS = "_other"


class QuestionOption(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to choose."""

    label: Annotated[str, Meta(description="The answer, in one to five words.")]
    description: Annotated[str | None, Meta(description="What choosing it means.")] = None


class FormQuestion(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question."""

    question: Annotated[str, Meta(description="The whole question, with a question mark.")]
    header: Annotated[str | None, Meta(description="A heading of one or two words.")] = None
    options: Annotated[tuple[QuestionOption, ...], Meta(max_length=20)] = ()
    multiple: Annotated[bool, Meta(description="Several options may be chosen.")] = False
    free_text: Annotated[bool, Meta(description="Allow free text in addition to options.")] = True


def introduction(questions: tuple[FormQuestion, ...]) -> str:
    """The text over the form."""
    if len(questions) == 1:
        return questions[0].question.strip()
    return "\n".join(f"{number}. {each.question.strip()}" for number, each in _numbered(questions))


def form_of(questions: tuple[FormQuestion, ...]) -> dict[str, Any]:
    """The form: a JSON schema of an object whose properties are strings and lists of strings.

    A question with options that also takes own words has a second property for them; then
    neither is required.
    """
    properties: dict[str, Any] = {}
    required: list[str] = []
    for number, question in _numbered(questions):
        name = f"q{number}"
        properties[name] = _property(question)
        if question.options and question.free_text:
            title = f"{question.header or question.question}: in your own words"
            properties[name + _OWN_WORDS] = {"type": "string", "title": title}
        else:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def answers_text(questions: tuple[FormQuestion, ...], content: Mapping[str, Any]) -> str:
    """The answers as the model reads them. Takes whatever a client sends."""
    lines: list[str] = []
    for number, question in _numbered(questions):
        chosen = [
            *_strings(content.get(f"q{number}")),
            *_strings(content.get(f"q{number}{_OWN_WORDS}")),
        ]
        lines.append(f"{question.question.strip()}\n→ {'; '.join(chosen) or '(no answer)'}")
    return "\n\n".join(lines)


def _numbered(questions: tuple[FormQuestion, ...]) -> enumerate[FormQuestion]:
    return enumerate(questions, start=1)


def _property(question: FormQuestion) -> dict[str, Any]:
    head: dict[str, Any] = {"title": question.header or question.question.strip()}
    if question.header:
        head["description"] = question.question.strip()
    if not question.options:
        return {"type": "string", **head, "minLength": 1}
    choices = [_choice(option) for option in question.options]
    if not question.multiple:
        return {"type": "string", **head, "oneOf": choices}
    least = {} if question.free_text else {"minItems": 1}
    return {"type": "array", **head, **least, "items": {"anyOf": choices}}


def _choice(option: QuestionOption) -> dict[str, str]:
    title = f"{option.label}: {option.description}" if option.description else option.label
    return {"const": option.label, "title": title}


def _strings(value: Any) -> list[str]:
    if value is None or value == "":
        return []
    if isinstance(value, list | tuple):
        return [str(each) for each in cast("list[Any]", value)]
    return [str(value)]


_MOST = 10


class AskUserArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``ask_user``."""

    questions: Annotated[tuple[FormQuestion, ...], Meta(min_length=1, max_length=_MOST)]


class AskUserTool:
    """Asks questions and returns the answers as text."""

    name = "ask_user"
    kind: ToolKind = "think"
    arguments = AskUserArguments

    @property
    def description(self) -> str:
        """The text that the model reads."""
        return read_description(__package__)

    async def prepare(self, arguments: AskUserArguments, workspace: ToolWorkspace) -> PreparedCall:
        """Check the questions; the person is not asked yet."""
        for question in arguments.questions:
            _check(question)
        first = arguments.questions[0].question.strip()
        more = len(arguments.questions) - 1
        return PreparedCall(
            title=f"Ask: {first[:100]}" + (f" (and {more} more)" if more else ""),
            call=workspace.call(self.name, self.kind),
            run=partial(_ask, arguments.questions),
            content=(ContentItem(content=text(introduction(arguments.questions))),),
        )


def _check(question: FormQuestion) -> None:
    if not question.question.strip():
        raise ToolError("A question is empty; write what you want to know.")
    labels = [option.label for option in question.options]
    if len(set(labels)) != len(labels):
        raise ToolError(f"Options of {question.question!r} have the same label; make them differ.")
    if not all(label.strip() for label in labels):
        raise ToolError(f"An option of {question.question!r} has no label.")


async def _ask(questions: tuple[FormQuestion, ...], live: LiveCall) -> ToolOutcome:
    answered = await live.ask(introduction(questions), form_of(questions))
    if answered.action == "accept":
        return text_outcome(answers_text(questions, answered.content or {}))
    return text_outcome(_unanswered(answered), is_error=False)


def _unanswered(answered: QuestionAnswered) -> str:
    """Why there is no answer, and what to do without one."""
    if answered.action == "decline" and answered.by.kind == "person":
        return (
            "The person declined to answer. Do not ask the same question again; continue as best "
            "you can."
        )
    if answered.by.kind == "person":
        return "The person closed the question without an answer. Continue as best you can."
    why = {"timeout": "no answer in time", "cancel": "the question was cancelled"}
    reason = why.get(answered.by.kind, "no person is available")
    return (
        f"There is no answer: {reason}. Continue with your best judgement and state your "
        "assumptions at the end."
    )


if TYPE_CHECKING:
    _tool: Tool = AskUserTool()
