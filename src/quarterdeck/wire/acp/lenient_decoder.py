"""The slow way to read a value: repair what the schema forgives, then read it strictly.

The schema marks fields whose wrong value counts as the default, lists whose wrong items are left
out, and fields whose null counts as the default. This module walks a value along its type and
applies those marks from the inside out, so that a mistake costs as little as possible. It is
imported when a peer makes its first mistake.
"""

from functools import cache
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Raw, Struct, UnsetType, ValidationError, json, structs

from ..decoders import convert
from .leniency import Leniency
from .schema import leniency

__all__ = ["decode_leniently"]

T = TypeVar("T")
_STRICT = Leniency()


class _Field(NamedTuple):
    name: str
    annotation: Any
    rule: Leniency


def decode_leniently(wanted: type[T], raw: bytes | Raw) -> T:
    """Read a value, forgiving what the schema forgives; null counts as an empty object.

    Raises:
        ValidationError: What is left is still none of the wanted type.
    """
    value = json.decode(raw)
    return convert(_repair(wanted, {} if value is None else value), wanted)


def _repair(annotation: Any, value: Any) -> Any:
    """Return the value as plain data, its forgivable mistakes repaired."""
    annotation = _member(annotation, value)
    origin = get_origin(annotation)
    if origin is tuple and _is_list(value):
        return [_repair(get_args(annotation)[0], item) for item in value]
    if origin is dict and _is_object(value):
        return {key: _repair(get_args(annotation)[1], item) for key, item in value.items()}
    if _is_struct(annotation) and _is_object(value):
        return _repair_object(annotation, value)
    convert(value, annotation)
    return value


def _repair_object(struct: type[Struct], value: dict[str, Any]) -> dict[str, Any]:
    mended = dict(value)
    for field in _fields(struct):
        if field.name in value:
            _repair_field(field, mended)
    convert(mended, struct)  # what no field knows: something missing, a kind without its fields
    return mended


def _repair_field(field: _Field, owner: dict[str, Any]) -> None:
    value, rule = owner[field.name], field.rule
    if value is None and rule.on_null:
        _set_default(field, owner)
        return
    try:
        if rule.skip_items and _is_list(value):
            owner[field.name] = _repair_items(field.annotation, value)
        else:
            owner[field.name] = _repair(field.annotation, value)
    except ValidationError as error:
        if not rule.on_error:
            raise ValidationError(f"{field.name}: {error}") from None
        _set_default(field, owner)


def _repair_items(annotation: Any, items: list[Any]) -> list[Any]:
    """Repair a list item by item, and leave out what cannot be repaired."""
    (item_type, _) = get_args(_member(annotation, items))
    kept: list[Any] = []
    for item in items:
        try:
            kept.append(_repair(item_type, item))
        except ValidationError:
            continue
    return kept


def _set_default(field: _Field, owner: dict[str, Any]) -> None:
    if field.rule.empty is None:
        del owner[field.name]
    else:
        owner[field.name] = [] if field.rule.empty == "list" else {}


def _member(annotation: Any, value: Any) -> Any:
    """Return the member of a union that a value is meant to be; of no union, the type itself.

    Raises:
        ValidationError: It is meant to be none of them.
    """
    if get_origin(annotation) not in (Union, UnionType):
        return annotation
    for member in get_args(annotation):
        if _is_meant(member, value):
            return member
    raise ValidationError(f"Expected `{annotation}`, got `{type(value).__name__}`")


def _is_meant(member: Any, value: Any) -> bool:
    if member is NoneType or member is UnsetType:
        return member is NoneType and value is None
    if _is_struct(member):
        return _is_object(value) and _has_tag(member, value)
    if get_origin(member) in (tuple, dict):
        return isinstance(value, list if get_origin(member) is tuple else dict)
    try:
        convert(value, member)
    except ValidationError:
        return False
    return True


def _has_tag(struct: type[Struct], value: dict[str, Any]) -> bool:
    config = struct.__struct_config__
    return config.tag_field is None or value.get(config.tag_field) == config.tag


def _is_struct(annotation: Any) -> TypeGuard[type[Struct]]:
    return isinstance(annotation, type) and issubclass(annotation, Struct)


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


@cache
def _rules() -> dict[type[Struct], dict[str, Leniency]]:
    return leniency()


@cache
def _fields(struct: type[Struct]) -> tuple[_Field, ...]:
    hints = get_type_hints(struct)
    rules: dict[str, Leniency] = {}
    for base in reversed(struct.__mro__):
        rules |= _rules().get(base, {})
    return tuple(
        _Field(each.encode_name, hints[each.name], rules.get(each.encode_name, _STRICT))
        for each in structs.fields(struct)
    )
