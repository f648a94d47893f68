"""The schema seen as a tree: tables, tables with free names, and the settings at the leaves."""

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias, Union, cast, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from .schema import Settings

__all__ = [
    "ANY_NAME",
    "Key",
    "Setting",
    "choices_of",
    "describe",
    "free_names",
    "matches",
    "settings",
    "spell",
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


def spell(key: Key) -> str:
    """Write a key as TOML does: parts with dots between, quoted where they must be."""
    return ".".join(part if _is_bare(part) else f'"{part}"' for part in key)


def matches(key: Key, patterns: frozenset[str]) -> bool:
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


def settings(table: type[Struct] = Settings, above: Key = ()) -> Iterator[Setting]:
    """Every setting below a table, in the order of the schema."""
    for item in msgspec.structs.fields(table):
        yield from _below(item.type, _default(item), (*above, item.name), table)


def describe(annotation: Any) -> str:
    """Say in words what a setting takes."""
    if get_origin(annotation) is Annotated:
        base, *marks = get_args(annotation)
        told = [mark.description for mark in marks if isinstance(mark, Meta) and mark.description]
        return told[0] if told else describe(base)
    if choices := choices_of(annotation):
        return " or ".join(f'"{choice}"' for choice in choices)
    if get_origin(annotation) in (Union, types.UnionType):
        arms = (arm for arm in get_args(annotation) if arm is not types.NoneType)
        return ", or ".join(describe(arm) for arm in arms)
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
        yield from settings(table, key)
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
