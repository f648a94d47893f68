"""The settings that count, one row each, fit for a person's eyes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from msgspec import Struct

from .layers import Source
from .load import Config
from .schema import ADDED_UP, SECRET
from .shape import Key, matches, spell

__all__ = ["MASK", "Row", "mask", "rows"]

MASK = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting."""

    key: str
    value: Any
    """None: not set. What is secret is masked."""
    source: Source


def rows(config: Config) -> Iterator[Row]:
    """Every setting with its value and source, in the order of the schema."""
    for key, value in _leaves(config.settings, ()):
        if not matches(key, ADDED_UP):
            yield Row(key=spell(key), value=mask(key, value), source=config.source(*key))
            continue
        for placed in config.elements(*key):
            yield Row(key=f"{spell(key)}[]", value=placed.value, source=placed.source)


def mask(key: Key, value: Any) -> Any:
    """Hide what is secret: whole values by their key, and passwords within URLs."""
    if matches(key, SECRET):
        return MASK
    if isinstance(value, str) and "://" in value:
        value = re.sub(r"(?<=://)[^/@\s]*@", f"{MASK}@", value)
        return re.sub(r"\?.*", f"?{MASK}", value)
    return value


def _leaves(value: Any, key: Key) -> Iterator[tuple[Key, Any]]:
    if isinstance(value, Struct):
        for item in msgspec.structs.fields(value):
            yield from _leaves(getattr(value, item.name), (*key, item.name))
    elif isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            yield from _leaves(inner, (*key, name))
    else:
        yield key, value
