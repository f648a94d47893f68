"""The form of a question: fields, and what a person typed as the values that it wants."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from quarterdeck.wire.events import QuestionAsked

__all__ = ["BadValue", "Field", "FieldKind", "fields_of", "value_of"]

FieldKind: TypeAlias = Literal["text", "number", "integer", "yes_no", "one_of", "some_of"]
_KINDS: dict[str, FieldKind] = {"number": "number", "integer": "integer", "boolean": "yes_no"}


class BadValue(ValueError):
    """What was typed is not what a field wants; the message says what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One thing that is asked for."""

    name: str
    title: str
    kind: FieldKind
    hint: str = ""
    choices: tuple[tuple[Any, str], ...] = ()
    """Values with the words for them."""
    is_required: bool = False
    default: Any = None


def fields_of(question: QuestionAsked) -> list[Field]:
    """The fields of a question's form; what is strange in it becomes a text field."""
    form = question.form or {}
    required = form.get("required")
    needed = cast("list[Any]", required) if isinstance(required, list) else []
    found: Any = form.get("properties")
    if not isinstance(found, dict):
        return []
    return [
        _field(str(name), cast("dict[str, Any]", kind), name in needed)
        for name, kind in cast("dict[Any, Any]", found).items()
        if isinstance(kind, dict)
    ]


def value_of(field: Field, typed: str) -> Any:
    """What was typed, as the field wants it; None for nothing.

    Raises:
        BadValue: it does not fit.
    """
    word = typed.strip()
    if not word:
        if field.is_required:
            raise BadValue(f"{field.title} is needed")
        return None
    try:
        match field.kind:
            case "integer":
                return int(word)
            case "number":
                return float(word)
            case _:
                return typed
    except ValueError:
        raise BadValue(f"{field.title} must be a number, not {word!r}") from None


def _field(name: str, kind: dict[str, Any], is_required: bool) -> Field:
    choices = _choices(kind)
    many = kind.get("type") == "array"
    if many:
        items = kind.get("items")
        choices = _choices(cast("dict[str, Any]", items)) if isinstance(items, dict) else ()
    chosen: FieldKind = "some_of" if many else "one_of"
    return Field(
        name=name,
        title=str(kind.get("title") or name),
        kind=chosen if choices else _KINDS.get(str(kind.get("type")), "text"),
        hint=str(kind.get("description") or ""),
        choices=choices,
        is_required=is_required,
        default=kind.get("default"),
    )


def _choices(kind: dict[str, Any]) -> tuple[tuple[Any, str], ...]:
    for option in [*_list(kind, "oneOf"), *_list(kind, "anyOf")]:
        if isinstance(option, dict) and "const" in option:
            return tuple(_titled(kind))
    values = _list(kind, "enum")
    words = _list(kind, "enumNames") or values
    return tuple((value, str(word)) for value, word in zip(values, words, strict=False))


def _titled(kind: dict[str, Any]) -> list[tuple[Any, str]]:
    options = [*_list(kind, "oneOf"), *_list(kind, "anyOf")]
    told = [cast("dict[str, Any]", option) for option in options if isinstance(option, dict)]
    return [(o["const"], str(o.get("title", o["const"]))) for o in told if "const" in o]


def _list(kind: dict[str, Any], key: str) -> list[Any]:
    found = kind.get(key)
    return cast("list[Any]", found) if isinstance(found, list) else []
