"""A final answer that must fit a JSON schema, and a small validator for such schemas."""

import re
from pathlib import Path
from typing import Any, cast

import msgspec

from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["AnswerSchema", "UnusableSchemaError", "find_schema_problem"]

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}


def find_schema_problem(value: Any, schema: Any) -> str | None:
    """Where and how a value does not fit, in one line; None if it does."""
    return _check(value, schema, schema, "the answer")


def _check(value: Any, schema: Any, root: Any, at: str) -> str | None:
    if schema is True or not isinstance(schema, dict):
        return f"{at} is not allowed" if schema is False else None
    rules = cast("dict[str, Any]", schema)
    if "$ref" in rules:
        return _check(value, _resolve(root, str(rules["$ref"])), root, at)
    for check in (_kind, _choice, _text, _number, _members, _elements, _combined):
        if problem := check(value, rules, root, at):
            return problem
    return None


def _resolve(root: Any, reference: str) -> Any:
    node = root
    for name in reference.removeprefix("#").strip("/").split("/"):
        if name:
            node = cast("dict[str, Any]", node).get(
                name.replace("~1", "/").replace("~0", "~"), True
            )
    return node


def _kind(value: Any, rules: dict[str, Any], root: Any, at: str) -> str | None:
    wanted = rules.get("type")
    if wanted is None:
        return None
    names = cast("list[str]", wanted if isinstance(wanted, list) else [wanted])
    if any(_is(value, name) for name in names):
        return None
    return f"{at} must be {' or '.join(names)}"


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool) and name in ("integer", "number"):
        return False
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, object))


def _choice(value: Any, rules: dict[str, Any], root: Any, at: str) -> str | None:
    if "const" in rules and not _same(value, rules["const"]):
        return f"{at} must be {rules['const']!r}"
    if "enum" in rules and not any(_same(value, each) for each in rules["enum"]):
        return f"{at} must be one of {rules['enum']!r}"
    return None


def _same(one: Any, other: Any) -> bool:
    # In Python True == 1; in JSON it is not.
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _text(value: Any, rules: dict[str, Any], root: Any, at: str) -> str | None:
    if not isinstance(value, str):
        return None
    if len(value) < rules.get("minLength", 0):
        return f"{at} must have at least {rules['minLength']} characters"
    if len(value) > rules.get("maxLength", len(value)):
        return f"{at} must have at most {rules['maxLength']} characters"
    if "pattern" in rules and not re.search(str(rules["pattern"]), value):
        return f"{at} must match {rules['pattern']!r}"
    return None


def _number(value: Any, rules: dict[str, Any], root: Any, at: str) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if value < rules.get("minimum", value):
        return f"{at} must be at least {rules['minimum']}"
    if value > rules.get("maximum", value):
        return f"{at} must be at most {rules['maximum']}"
    return None


def _members(value: Any, rules: dict[str, Any], root: Any, at: str) -> str | None:
    if not isinstance(value, dict):
        return None
    members = cast("dict[str, Any]", value)
    for name in rules.get("required", ()):
        if name not in members:
            return f"{at} must have {name!r}"
    known = rules.get("properties", {})
    for name, member in members.items():
        rule = known.get(name, rules.get("additionalProperties", True))
        if problem := _check(member, rule, root, f"{at}.{name}"):
            return problem
    return None


def _elements(value: Any, rules: dict[str, Any], root: Any, at: str) -> str | None:
    if not isinstance(value, list):
        return None
    elements = cast("list[Any]", value)
    if len(elements) < rules.get("minItems", 0):
        return f"{at} must have at least {rules['minItems']} items"
    if len(elements) > rules.get("maxItems", len(elements)):
        return f"{at} must have at most {rules['maxItems']} items"
    for number, element in enumerate(elements):
        if problem := _check(element, rules.get("items", True), root, f"{at}[{number}]"):
            return problem
    return None


def _combined(value: Any, rules: dict[str, Any], root: Any, at: str) -> str | None:
    for part in rules.get("allOf", ()):
        if problem := _check(value, part, root, at):
            return problem
    for word, most in (("anyOf", float("inf")), ("oneOf", 1)):
        if word in rules:
            fitting = sum(_check(value, part, root, at) is None for part in rules[word])
            if not 1 <= fitting <= most:
                return f"{at} matches {fitting} of the {word} alternatives"
    return None


class UnusableSchemaError(QuarterdeckError):
    """The schema file cannot be used."""


class AnswerSchema:
    """A JSON schema from a file, and how the model is asked to follow it."""

    tries = 2
    """How often the model may correct an answer that does not fit."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        try:
            self._schema: Any = msgspec.json.decode(path.read_bytes())
        except OSError as error:
            raise UnusableSchemaError(f"cannot read {str(path)!r}: {error.strerror}") from error
        except msgspec.DecodeError as error:
            raise UnusableSchemaError(f"{str(path)!r} is not JSON: {error}") from error
        if not isinstance(self._schema, dict):
            raise UnusableSchemaError(f"{str(path)!r} is not a JSON schema: it must be an object")

    def ask(self, prompt: str) -> str:
        """The prompt with the demand for a fitting answer."""
        shown = msgspec.json.encode(self._schema).decode()
        return (
            f"{prompt}\n\nWhen you are done, reply with only one JSON value that matches this "
            f"JSON schema, without a code fence:\n{shown}"
        )

    def ask_again(self, problem: str) -> str:
        """The prompt for the model when its answer does not fit."""
        return f"Your answer does not match the schema: {problem}. Send only the corrected JSON."

    def problem(self, answer: str) -> str | None:
        """What is wrong with an answer; None if it fits."""
        try:
            value = msgspec.json.decode(answer.strip())
        except msgspec.DecodeError as error:
            return f"it is not JSON ({error})"
        return find_schema_problem(value, self._schema)
