"""Ids and names of one host among several: ``box/ses_…`` and ``box/ann``.

What holds an id or an agent's name follows from the declared types: a ``SessionId`` or a
``RequestId`` is an id wherever it stands, and so are the few texts in ``_IDS``; a ``name`` beside a
``session`` is an agent's. A type without any of them is left alone, at no cost for its values.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, TypeAlias, Union, cast, get_args, get_origin

from msgspec import Struct
from msgspec.structs import fields, replace

from quarterdeck.wire.ids import RequestId, SessionId

__all__ = ["SEPARATOR", "HostPrefix", "qualify_value", "strip_value"]

SEPARATOR = "/"
"""Between the name of a host and what is on it; no agent's name has it."""

_IDS: Mapping[str, frozenset[str]] = {
    "BudgetRow": frozenset({"subject"}),
    "Grant": frozenset({"id", "session", "tree", "request"}),
    "LandingQueueInfo": frozenset({"id"}),
    "TerminalInfo": frozenset({"id"}),
    "TrashedWorktree": frozenset({"id"}),
    "WorktreeOutcome": frozenset({"trash"}),
}
"""Fields that are ids and declared as plain text, by the class."""
_NAMES: Mapping[str, frozenset[str]] = {
    "BudgetRow": frozenset({"name"}),
    "ConflictPair": frozenset({"one_name", "other_name"}),
    "RepositoryConflicts": frozenset({"repository"}),
    "SpawnOptions": frozenset({"name"}),
    "FleetTerminalOptions": frozenset({"name"}),
    "TerminalInfo": frozenset({"name"}),
    "TrashedWorktree": frozenset({"name", "agents"}),
    "WorktreeInfo": frozenset({"name", "agents"}),
    "WorktreeOutcome": frozenset({"name"}),
}
"""Fields that people read or type as names, besides a ``name`` beside a ``session``."""
_PLAIN_NAMES = frozenset({"ChildRef"})
"""Classes whose ``name`` is none of the fleet: a vendor's own sub-agent."""


class HostPrefix(NamedTuple):
    """What stands before ids and names of a host."""

    id: str
    """Empty for the host of this machine: drafts and layouts know its agents by their ids."""
    name: str

    def add_to_id(self, id_: str) -> str:
        """The id among several hosts."""
        return self.id + id_

    def add_to_name(self, name: str) -> str:
        """The name among several hosts."""
        return self.name + name

    def strip(self, text: str) -> str:
        """An id or a name as the host has it; one of another host stays as it is."""
        return text.removeprefix(self.name)


Change: TypeAlias = Callable[[str], str]
Rewrite: TypeAlias = Callable[[Any, Change, Change], Any]
"""Makes a value anew with its ids and names changed."""


def qualify_value(value: Any, declared: Any, prefix: HostPrefix) -> Any:
    """A value of a host as it is among several; ``declared``: its type."""
    rewrite = _find_rewrite(declared)
    return value if rewrite is None else rewrite(value, prefix.add_to_id, prefix.add_to_name)


def strip_value(value: Any, declared: Any, prefix: HostPrefix) -> Any:
    """A value for a host, which knows nothing of others."""
    rewrite = _find_rewrite(declared)
    return value if rewrite is None else rewrite(value, prefix.strip, prefix.strip)


@cache
def _find_rewrite(declared: Any) -> Rewrite | None:
    """How values of a type are made anew; None: they hold nothing that changes."""
    if declared is SessionId or declared is RequestId:
        return _rewrite_id
    if isinstance(declared, type) and issubclass(declared, Struct):
        return _find_struct_rewrite(declared)
    origin, inner = get_origin(declared), get_args(declared)
    if origin is Union or origin is UnionType:
        return _find_union_rewrite(inner)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        element = _find_rewrite(inner[0])
        return None if element is None else _make_sequence_rewrite(cast("Any", origin), element)
    return None


def _rewrite_id(value: Any, change_id: Change, change_name: Change) -> Any:
    del change_name
    return change_id(value) if isinstance(value, str) else value


def _rewrite_name(value: Any, change_id: Change, change_name: Change) -> Any:
    del change_id
    if isinstance(value, tuple):
        return tuple(change_name(one) for one in cast("tuple[str, ...]", value))
    return change_name(value) if isinstance(value, str) else value


def _make_sequence_rewrite(kind: type, element: Rewrite) -> Rewrite:
    make = list if issubclass(kind, list) else tuple

    def rewrite(value: Any, change_id: Change, change_name: Change) -> Any:
        return cast("Any", make(element(one, change_id, change_name) for one in value))

    return rewrite


def _find_union_rewrite(members: tuple[Any, ...]) -> Rewrite | None:
    found = {one: made for one in members if (made := _find_rewrite(one)) is not None}
    if not found:
        return None
    structs = {one: made for one, made in found.items() if isinstance(one, type)}
    others = [made for one, made in found.items() if not isinstance(one, type)]

    def rewrite(value: Any, change_id: Change, change_name: Change) -> Any:
        if (made := structs.get(_kind(value))) is not None:
            return made(value, change_id, change_name)
        if isinstance(value, str | list | tuple) and others:
            return others[0](value, change_id, change_name)
        return cast("Any", value)

    return rewrite


def _kind(value: object) -> type:
    return type(value)


_BEGUN: set[type] = set()
"""Classes whose fields are being looked at; one that holds itself is not looked at again."""


def _find_struct_rewrite(kind: type[Struct]) -> Rewrite | None:
    if kind in _BEGUN:
        return None
    _BEGUN.add(kind)
    try:
        parts = _find_field_rewrites(kind)
    finally:
        _BEGUN.discard(kind)
    if not parts:
        return None
    agents_name = frozenset({"name"}) - _NAMES.get(kind.__name__, frozenset())

    def rewrite(value: Any, change_id: Change, change_name: Change) -> Any:
        changed: dict[str, Any] = {}
        is_someones = "session" not in parts or value.session is not None
        for name, part in parts.items():
            before = getattr(value, name)
            if before is not None and (is_someones or name not in agents_name):
                after = part(before, change_id, change_name)
                if after is not before:
                    changed[name] = after
        return replace(value, **changed) if changed else value

    return rewrite


def _find_field_rewrites(kind: type[Struct]) -> dict[str, Rewrite]:
    declared = {one.name: one.type for one in fields(kind)}
    ids, names = _IDS.get(kind.__name__, frozenset()), _NAMES.get(kind.__name__, frozenset())
    if "session" in declared and "name" in declared and kind.__name__ not in _PLAIN_NAMES:
        names |= {"name"}
    parts: dict[str, Rewrite] = {}
    for name, type_ in declared.items():
        if name in names:
            parts[name] = _rewrite_name
        elif name in ids:
            parts[name] = _rewrite_id
        elif (made := _find_rewrite(type_)) is not None:
            parts[name] = made
    return parts
