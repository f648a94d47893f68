"""Questions as a form of flat properties, as the Agent Client Protocol has them, and back."""

from collections.abc import Mapping
from typing import Annotated, Any, cast

from msgspec import Meta

from ..tool import Arguments

__all__ = ["Option", "Question", "answers", "form_of", "introduction"]

_OWN_WORDS = "_other"


class Option(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer to choose."""

    label: Annotated[str, Meta(description="The answer, in one to five words.")]
    description: Annotated[str | None, Meta(description="What choosing it means.")] = None


class Question(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question."""

    question: Annotated[str, Meta(description="The whole question, with a question mark.")]
    header: Annotated[str | None, Meta(description="A word or two that stand over it.")] = None
    options: Annotated[tuple[Option, ...], Meta(max_length=20)] = ()
    multiple: Annotated[bool, Meta(description="Several options may be chosen.")] = False
    free_text: Annotated[bool, Meta(description="Own words are allowed beside options.")] = True


def introduction(questions: tuple[Question, ...]) -> str:
    """The text over the form."""
    if len(questions) == 1:
        return questions[0].question.strip()
    return "\n".join(f"{number}. {each.question.strip()}" for number, each in _numbered(questions))


def form_of(questions: tuple[Question, ...]) -> dict[str, Any]:
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


def answers(questions: tuple[Question, ...], content: Mapping[str, Any]) -> str:
    """The answers as the model reads them. Takes whatever a client sends."""
    lines: list[str] = []
    for number, question in _numbered(questions):
        chosen = [
            *_strings(content.get(f"q{number}")),
            *_strings(content.get(f"q{number}{_OWN_WORDS}")),
        ]
        lines.append(f"{question.question.strip()}\n→ {'; '.join(chosen) or '(no answer)'}")
    return "\n\n".join(lines)


def _numbered(questions: tuple[Question, ...]) -> enumerate[Question]:
    return enumerate(questions, start=1)


def _property(question: Question) -> dict[str, Any]:
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


def _choice(option: Option) -> dict[str, str]:
    title = f"{option.label}: {option.description}" if option.description else option.label
    return {"const": option.label, "title": title}


def _strings(value: Any) -> list[str]:
    if value is None or value == "":
        return []
    if isinstance(value, list | tuple):
        return [str(each) for each in cast("list[Any]", value)]
    return [str(value)]
