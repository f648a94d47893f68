"""A session's options as a line of text: ``effort=high tools=read limits.cost=2``."""

import shlex
from typing import Any

import msgspec

from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.session_options import SessionLimits, SessionOptions

__all__ = ["OptionTextError", "parse_option_text"]

_LISTS = ("roots", "allow", "deny", "tools", "denied_tools")
_TEXTS = ("transport", "agent_mode", "effort", "system_prompt", "resume", "fork")
_LIMITS = tuple(f"limits.{name}" for name in SessionLimits.__struct_fields__)
_VARIABLE = "environment."


class OptionTextError(QuarterdeckError):
    """The text is not understood; the message says which part and what there is."""


def parse_option_text(text: str, **fields: Any) -> SessionOptions:
    """The options that a text sets, with these fields besides; a list is one word for each value.

    Words are separated and quoted as in a shell. ``environment.NAME=value`` sets a variable.

    Raises:
        OptionTextError: there is no such option, or it has no such value.
    """
    given: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise OptionTextError(f"options: {str(error).lower()} in {text!r}") from error
    for word in words:
        name, is_set, value = word.partition("=")
        if not is_set:
            raise OptionTextError(f"options: write {word!r} as name=value")
        _put(given, name, value)
    try:
        return msgspec.convert(given, SessionOptions, strict=False)
    except msgspec.ValidationError as error:
        raise OptionTextError(f"options: {error}") from error


def _put(given: dict[str, Any], name: str, value: str) -> None:
    if name in _LISTS:
        given.setdefault(name, []).append(value)
    elif name in _TEXTS:
        given[name] = value
    elif name in _LIMITS:
        given.setdefault("limits", {})[name.removeprefix("limits.")] = value
    elif name.startswith(_VARIABLE) and name != _VARIABLE:
        given.setdefault("environment", {})[name.removeprefix(_VARIABLE)] = value
    else:
        known = ", ".join((*_TEXTS, *_LISTS, *_LIMITS, f"{_VARIABLE}NAME"))
        raise OptionTextError(f"options: there is no {name!r}; there are {known}")
