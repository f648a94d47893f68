"""Layers of settings: where each value comes from, and which one counts.

A layer is kept flat, one entry per setting, so that merging tables in depth is a union of
entries and every value carries its source along. Lists of ``schema.ADDED_UP`` become one entry
per element: a layer can add to them and never take away.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct

from .schema import ADDED_UP
from .shape import Key, matches

__all__ = ["Layer", "LayerName", "Placed", "Source", "flatten", "merge", "nest"]

LayerName: TypeAlias = Literal["default", "user", "project", "local", "environment", "flag"]
"""From the lowest to the highest."""


class Source(Struct, frozen=True):
    """Where a value comes from."""

    layer: LayerName
    place: str | None = None
    """The file or the variable; None for defaults and flags."""


class Placed(Struct, frozen=True):
    """A value and its source."""

    value: Any
    source: Source


Layer: TypeAlias = dict[Key, Placed]
"""The settings of one layer, or of several merged; nobody changes one once it is made."""


def flatten(values: Mapping[str, Any], source: Source, above: Key = ()) -> Layer:
    """Turn nested tables, already checked, into a layer. Empty tables leave no trace."""
    layer: Layer = {}
    for name, value in values.items():
        key = (*above, name)
        if isinstance(value, dict):
            layer |= flatten(cast("dict[str, Any]", value), source, key)
        elif matches(key, ADDED_UP):
            layer |= {
                (*key, _element_key(item)): Placed(item, source)
                for item in cast("list[Any]", value)
            }
        else:
            layer[key] = Placed(value, source)
    return layer


def _element_key(element: Any) -> str:
    """What stands in a key for an element of a list that adds up: the text, or the table's JSON."""
    if isinstance(element, str):
        return element
    return msgspec.json.encode(element, order="sorted").decode()


def merge(*layers: Layer) -> Layer:
    """Put layers over each other, the lowest first.

    Associative; the empty layer changes nothing; each entry is the one of the highest layer
    that has it.
    """
    merged: Layer = {}
    for layer in layers:
        merged = merged | layer
    return merged


def nest(layer: Layer) -> dict[str, Any]:
    """Turn a layer back into nested tables."""
    nested: dict[str, Any] = {}
    for key, placed in layer.items():
        added = matches(key[:-1], ADDED_UP)
        *tables, name = key[:-1] if added else key
        inner = nested
        for table in tables:
            inner = inner.setdefault(table, {})
        if added:
            inner.setdefault(name, []).append(placed.value)
        else:
            inner[name] = placed.value
    return nested
