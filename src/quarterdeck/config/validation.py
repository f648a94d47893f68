"""The schema as a tree of settings, and the check of a layer's values against it."""

import math
import types
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, TypeAlias, Union, cast, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from quarterdeck.wire.decoders import convert

from .errors import ConfigProblem
from .schema import Settings

__all__ = [
    "ANY_NAME",
    "Key",
    "Setting",
    "check_layer",
    "choices_of",
    "describe_type",
    "free_names",
    "key_matches",
    "list_settings",
    "spell_key",
    "suggest_name",
    "table_of",
    "tables_of",
]

Key: TypeAlias = tuple[str, ...]
"""A setting's path from the top, such as ``("limits", "seconds")``."""

ANY_NAME = "*"
"""Stands in a setting's key for a name that the user chooses."""


class Setting(Struct, frozen=True):
    """A leaf of the schema."""

    key: Key
    accepts: Any
    """The type of its value."""
    default: Any
    """None: not set."""
    owner: type[Struct]
    """The class whose field it is."""


def spell_key(key: Key) -> str:
    """Write a key as TOML does: parts with dots between, quoted where they must be."""
    return ".".join(part if _is_bare(part) else f'"{part}"' for part in key)


def key_matches(key: Key, patterns: frozenset[str]) -> bool:
    """Whether one of the patterns, dotted and with ``*`` for any name, covers the key."""
    return any(_covers(tuple(pattern.split(".")), key) for pattern in patterns)


def table_of(annotation: Any) -> type[Struct] | None:
    """The class of a table with fixed names, or None for anything else."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    return None


def tables_of(annotation: Any) -> type[Struct] | None:
    """The class of the tables of which a setting is a list, or None for anything else."""
    if get_origin(annotation) is not tuple:
        return None
    return table_of(get_args(annotation)[0])


def free_names(annotation: Any) -> tuple[Any, Any] | None:
    """The types of names and values of a table with free names, or None for anything else."""
    if get_origin(annotation) is dict:
        return cast("tuple[Any, Any]", get_args(annotation))
    return None


def list_settings(table: type[Struct] = Settings, above: Key = ()) -> Iterator[Setting]:
    """Every setting below a table, in the order of the schema."""
    for item in msgspec.structs.fields(table):
        yield from _below(item.type, _default(item), (*above, item.name), table)


def describe_type(annotation: Any) -> str:
    """Say in words what a setting takes."""
    if get_origin(annotation) is Annotated:
        base, *marks = get_args(annotation)
        descriptions = [
            mark.description for mark in marks if isinstance(mark, Meta) and mark.description
        ]
        return descriptions[0] if descriptions else describe_type(base)
    if choices := choices_of(annotation):
        return " or ".join(f'"{choice}"' for choice in choices)
    if get_origin(annotation) in (Union, types.UnionType):
        arms = (arm for arm in get_args(annotation) if arm is not types.NoneType)
        return ", or ".join(describe_type(arm) for arm in arms)
    if get_origin(annotation) is tuple:
        return "a list of texts" if tables_of(annotation) is None else "a list of tables"
    if table_of(annotation) or free_names(annotation):
        return "a table"
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[
        annotation
    ]


def choices_of(annotation: Any) -> tuple[str, ...]:
    """The texts that a setting can take, if it takes only some."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        arms = [choices_of(arm) for arm in get_args(annotation) if arm is not types.NoneType]
        return arms[0] if len(arms) == 1 else ()
    return ()


def _below(annotation: Any, default: Any, key: Key, owner: type[Struct]) -> Iterator[Setting]:
    if table := table_of(annotation):
        yield from list_settings(table, key)
    elif named := free_names(annotation):
        yield from _below(named[1], None, (*key, ANY_NAME), owner)
    else:
        yield Setting(key, annotation, default, owner)


def _default(item: msgspec.structs.FieldInfo) -> Any:
    return None if item.default is msgspec.NODEFAULT else item.default


def _is_bare(part: str) -> bool:
    return bool(part) and all(c.isascii() and (c.isalnum() or c in "_-*") for c in part)


def _covers(pattern: Key, key: Key) -> bool:
    return len(pattern) == len(key) and all(
        want in (ANY_NAME, part) for want, part in zip(pattern, key, strict=True)
    )


def check_layer(
    values: dict[str, Any], where: str, table: type[Struct] = Settings
) -> tuple[ConfigProblem, ...]:
    """Find every key and value that no setting takes; empty when all is well.

    A value is quoted only where it is one of a few words, so that nothing secret is repeated.
    ``table``: the schema, where it is not that of the settings.
    """
    return tuple(_check_table(values, table, (), where))


def suggest_name(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Text that asks whether one or two of the known names were meant; empty if none is near.

    A prefix that all of them share is left out of the comparison: it would make them alike.
    """
    import difflib

    ends = [other.removeprefix(prefix) for other in known]
    near = difflib.get_close_matches(name.removeprefix(prefix), ends, n=2, cutoff=0.65)
    return f"; did you mean {' or '.join(repr(prefix + end) for end in near)}?" if near else ""


def _check_table(
    values: dict[str, Any], table: type[Struct], above: Key, where: str
) -> Iterator[ConfigProblem]:
    known = {item.name: item.type for item in msgspec.structs.fields(table)}
    for name, value in values.items():
        key = (*above, name)
        if name in known:
            yield from _check_value(value, known[name], key, where)
        else:
            yield ConfigProblem(where, spell_key(key), f"unknown key{suggest_name(name, known)}")


def _check_value(value: Any, annotation: Any, key: Key, where: str) -> Iterator[ConfigProblem]:
    table, named = table_of(annotation), free_names(annotation)
    if (each := tables_of(annotation)) is not None and isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value), 1):
            yield from _check_value(item, each, (*key, str(number)), where)
    elif table is None and named is None:
        yield from _check_leaf(value, annotation, key, where)
    elif not isinstance(value, dict):
        yield ConfigProblem(where, spell_key(key), f"expected a table, found {_kind(value)}")
    elif table is not None:
        yield from _check_table(cast("dict[str, Any]", value), table, key, where)
    elif named is not None:
        for name, inner in cast("dict[str, Any]", value).items():
            if not _is_accepted(name, named[0]):
                expected = describe_type(named[0])
                yield ConfigProblem(where, spell_key((*key, name)), f"the name must be {expected}")
            yield from _check_value(inner, named[1], (*key, name), where)


def _check_leaf(value: Any, annotation: Any, key: Key, where: str) -> Iterator[ConfigProblem]:
    if _is_accepted(value, annotation):
        return
    found, hint = _kind(value), ""
    if isinstance(value, str) and (choices := choices_of(annotation)):
        found, hint = repr(value), suggest_name(value, choices)
    yield ConfigProblem(
        where, spell_key(key), f"expected {describe_type(annotation)}, found {found}{hint}"
    )


def _is_accepted(value: Any, annotation: Any) -> bool:
    # TOML knows nan and inf; no setting means anything by them.
    if isinstance(value, float) and not math.isfinite(value):
        return False
    try:
        convert(value, annotation)
    except msgspec.ValidationError:
        return False
    return True


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return "a text" if value else "an empty text"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or time"
