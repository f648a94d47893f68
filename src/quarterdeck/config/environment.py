"""Settings from environment variables: ``limits.seconds`` is ``QUARTERDECK_LIMITS_SECONDS``.

Settings that hold one value and have no free names in their key have a variable. A variable
that is empty counts as not set.
"""

import types
from collections.abc import Mapping
from typing import Any, get_args, get_origin

import msgspec

from .check import suggest
from .errors import Problem
from .layers import Layer, Placed, Source
from .shape import ANY_NAME, Setting, choices_of, describe, settings

__all__ = ["PREFIX", "misspelt", "read_environment", "variable_of", "variables"]

PREFIX = "QUARTERDECK_"
OTHERS = frozenset({"QUARTERDECK_HOME", "QUARTERDECK_DEBUG"})
"""Variables of ours that are no settings."""


def variable_of(setting: Setting) -> str | None:
    """The variable of a setting, or None if it has none."""
    if ANY_NAME in setting.key or get_origin(setting.accepts) is tuple:
        return None
    return PREFIX + "_".join(setting.key).upper()


def variables() -> dict[str, Setting]:
    """Every setting that has a variable, by the variable's name."""
    return {name: setting for setting in settings() if (name := variable_of(setting))}


def read_environment(environ: Mapping[str, str]) -> tuple[Layer, tuple[Problem, ...]]:
    """Read the layer of the environment, and what is wrong with it."""
    layer: Layer = {}
    problems: list[Problem] = []
    for name, setting in variables().items():
        if not (text := environ.get(name)):
            continue
        try:
            value = _parse(text, setting)
        except (msgspec.ValidationError, ValueError):
            hint = suggest(text, choices_of(setting.accepts))
            expected = describe(setting.accepts)
            problems.append(
                Problem("environment", name, f"expected {expected}, found {text!r}{hint}")
            )
        else:
            layer[setting.key] = Placed(value, Source("environment", name))
    return layer, tuple(problems)


def misspelt(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Variables that are none of ours but nearly one, each with its suggestion.

    Other variables with our prefix may be meant for programs that use us, and are let be.
    """
    known = {*variables(), *OTHERS}
    others = sorted(name for name in environ if name.startswith(PREFIX) and name not in known)
    hints = ((name, suggest(name, known, PREFIX)) for name in others)
    return tuple((name, hint) for name, hint in hints if hint)


def _parse(text: str, setting: Setting) -> Any:
    words = {"on": "true", "yes": "true", "off": "false", "no": "false"}
    if bool in (setting.accepts, *get_args(setting.accepts)):
        text = words.get(text.lower(), text)
    if text.lower() in ("null", "nan", "inf", "-inf", "infinity", "-infinity"):
        raise ValueError(text)
    value = msgspec.convert(text, setting.accepts, strict=False)
    assert not isinstance(value, types.NoneType)
    return value
