"""Errors on their way through the socket: the client raises what the fleet raised.

An error is sent with the names of its class and of the classes above it, so that a program which
does not know a newer one raises the nearest that it knows.
"""

import re
from importlib import import_module
from typing import Any, cast

import msgspec
from msgspec import Struct

from quarterdeck.wire.errors import QuarterdeckError, RpcError

from ..errors import FleetError

__all__ = ["REFUSED", "ErrorAnswer", "decode_error", "encode_error"]

REFUSED = -32001
"""The code of an answer that carries an error of ours in its ``data``."""

_CLASS = re.compile(r"(quarterdeck(?:\.[a-z_]+)*):([A-Z][A-Za-z]*)")
_VALUE_ERROR = "builtins:ValueError"


class ErrorAnswer(Struct, frozen=True, kw_only=True):
    """The ``data`` of such an answer."""

    error: str
    """The name of the class."""
    classes: tuple[str, ...]
    """``module:class`` of it and those above it, the nearest first."""
    fields: dict[str, Any] = {}
    """What the error knows besides its message."""


def encode_error(error: QuarterdeckError | ValueError) -> RpcError:
    """Make an answer of an error."""
    classes = tuple(
        f"{kind.__module__}:{kind.__qualname__}"
        for kind in type(error).__mro__
        if issubclass(kind, (QuarterdeckError, ValueError))
    )
    fault = ErrorAnswer(error=type(error).__name__, classes=classes, fields=_fields(error))
    return RpcError(REFUSED, str(error), msgspec.to_builtins(fault))


def decode_error(answer: RpcError) -> Exception:
    """Make an error of an answer; the answer itself where it carries none of ours."""
    if answer.code != REFUSED:
        return answer
    try:
        fault = msgspec.convert(answer.data, ErrorAnswer)
    except msgspec.ValidationError:
        return answer
    kind = next((found for name in fault.classes if (found := _class(name))), FleetError)
    # Constructors compose the message from parts; the message is already composed.
    error = kind.__new__(kind, answer.message)
    Exception.__init__(error, answer.message)
    for name, value in fault.fields.items():
        if not name.startswith("_"):
            setattr(error, name, value)
    return error


def _fields(error: Exception) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in vars(error).items():
        if name.startswith("_"):
            continue
        try:
            fields[name] = msgspec.to_builtins(value)
        except TypeError:  # it has no JSON form, and the message tells the rest
            continue
    return fields


def _class(name: str) -> type[Exception] | None:
    if name == _VALUE_ERROR:
        return ValueError
    match = _CLASS.fullmatch(name)
    if match is None:
        return None
    try:
        found = getattr(import_module(match[1]), match[2], None)
    except ImportError:
        return None
    if not isinstance(found, type) or not issubclass(found, QuarterdeckError):
        return None
    return cast("type[Exception]", found)
