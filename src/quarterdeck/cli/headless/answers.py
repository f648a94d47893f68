"""A final answer that must fit a JSON schema."""

from pathlib import Path
from typing import Any

import msgspec

from quarterdeck.wire.errors import QuarterdeckError

from .schemas import first_problem

__all__ = ["AnswerSchema", "UnusableSchema"]


class UnusableSchema(QuarterdeckError):
    """The schema file cannot be used."""


class AnswerSchema:
    """A JSON schema from a file, and how the model is asked to follow it."""

    tries = 2
    """How often the model may mend an answer that does not fit."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        try:
            self._schema: Any = msgspec.json.decode(path.read_bytes())
        except OSError as error:
            raise UnusableSchema(f"cannot read {str(path)!r}: {error.strerror}") from error
        except msgspec.DecodeError as error:
            raise UnusableSchema(f"{str(path)!r} is no JSON: {error}") from error
        if not isinstance(self._schema, dict):
            raise UnusableSchema(f"{str(path)!r} is no JSON schema: it must be an object")

    def ask(self, prompt: str) -> str:
        """The prompt with the demand for a fitting answer."""
        shown = msgspec.json.encode(self._schema).decode()
        return (
            f"{prompt}\n\nWhen you are done, let your last message be nothing but one JSON value "
            f"that fits this JSON schema, without a code fence:\n{shown}"
        )

    def ask_again(self, problem: str) -> str:
        """What the model is told when its answer does not fit."""
        return f"Your answer does not fit the schema: {problem}. Send only the corrected JSON."

    def problem(self, answer: str) -> str | None:
        """What is wrong with an answer; None if it fits."""
        try:
            value = msgspec.json.decode(answer.strip())
        except msgspec.DecodeError as error:
            return f"it is no JSON ({error})"
        return first_problem(value, self._schema)
