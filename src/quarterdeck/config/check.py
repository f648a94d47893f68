"""Hold the values of one layer against the schema and tell everything that is wrong."""

import math
from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec
from msgspec import Struct

from .errors import Problem
from .schema import Settings
from .shape import Key, choices_of, describe, free_names, spell, table_of, tables_of

__all__ = ["check", "suggest"]


def check(values: dict[str, Any], where: str) -> tuple[Problem, ...]:
    """Tell every key and value that no setting takes; empty when all is well.

    A value is quoted only where it is one of a few words, so that nothing secret is repeated.
    """
    return tuple(_check_table(values, Settings, (), where))


def suggest(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Text that asks whether one or two of the known names were meant; empty if none is near.

    A prefix that all of them share is left out of the comparison: it would make them alike.
    """
    import difflib

    ends = [other.removeprefix(prefix) for other in known]
    near = difflib.get_close_matches(name.removeprefix(prefix), ends, n=2, cutoff=0.65)
    return f"; did you mean {' or '.join(repr(prefix + end) for end in near)}?" if near else ""


def _check_table(
    values: dict[str, Any], table: type[Struct], above: Key, where: str
) -> Iterator[Problem]:
    known = {item.name: item.type for item in msgspec.structs.fields(table)}
    for name, value in values.items():
        key = (*above, name)
        if name in known:
            yield from _check_value(value, known[name], key, where)
        else:
            yield Problem(where, spell(key), f"unknown key{suggest(name, known)}")


def _check_value(value: Any, annotation: Any, key: Key, where: str) -> Iterator[Problem]:
    table, named = table_of(annotation), free_names(annotation)
    if (each := tables_of(annotation)) is not None and isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value), 1):
            yield from _check_value(item, each, (*key, str(number)), where)
    elif table is None and named is None:
        yield from _check_leaf(value, annotation, key, where)
    elif not isinstance(value, dict):
        yield Problem(where, spell(key), f"expected a table, found {_kind(value)}")
    elif table is not None:
        yield from _check_table(cast("dict[str, Any]", value), table, key, where)
    elif named is not None:
        for name, inner in cast("dict[str, Any]", value).items():
            if not _is_accepted(name, named[0]):
                expected = describe(named[0])
                yield Problem(where, spell((*key, name)), f"the name must be {expected}")
            yield from _check_value(inner, named[1], (*key, name), where)


def _check_leaf(value: Any, annotation: Any, key: Key, where: str) -> Iterator[Problem]:
    if _is_accepted(value, annotation):
        return
    found, hint = _kind(value), ""
    if isinstance(value, str) and (choices := choices_of(annotation)):
        found, hint = repr(value), suggest(value, choices)
    yield Problem(where, spell(key), f"expected {describe(annotation)}, found {found}{hint}")


def _is_accepted(value: Any, annotation: Any) -> bool:
    # TOML knows nan and inf; no setting means anything by them.
    if isinstance(value, float) and not math.isfinite(value):
        return False
    try:
        msgspec.convert(value, annotation)
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
