"""Hypothesis strategies made from msgspec types, so that any message can be generated."""

from typing import Any

import msgspec.inspect as mi
from hypothesis import strategies as st
from msgspec import Struct

__all__ = ["values_of"]

_MAX_INT = 2**53
_json_scalars = st.none() | st.booleans() | st.integers(-_MAX_INT, _MAX_INT) | st.text(max_size=8)
json_values = st.recursive(
    _json_scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def values_of(type_: Any) -> st.SearchStrategy[Any]:
    """Make a strategy for any value of a type that msgspec can decode."""
    return _from_info(mi.type_info(type_))


def _struct(info: mi.StructType) -> st.SearchStrategy[Struct]:
    required = {
        f.name: st.deferred(lambda f=f: _from_info(f.type)) for f in info.fields if f.required
    }
    optional = {
        f.name: st.deferred(lambda f=f: _from_info(f.type)) for f in info.fields if not f.required
    }
    arguments = st.fixed_dictionaries(required, optional=optional)
    return arguments.map(lambda chosen: info.cls(**chosen))


def _from_info(info: mi.Type) -> st.SearchStrategy[Any]:  # noqa: PLR0912
    match info:
        case mi.StructType():
            return _struct(info)
        case mi.UnionType():
            return st.one_of([_from_info(member) for member in info.types])
        case mi.LiteralType():
            return st.sampled_from(info.values)
        case mi.StrType():
            return st.text(max_size=12)
        case mi.BoolType():
            return st.booleans()
        case mi.IntType():
            low = info.ge if info.ge is not None else -_MAX_INT
            high = info.le if info.le is not None else _MAX_INT
            return st.integers(low, high)
        case mi.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False, width=32)
        case mi.NoneType():
            return st.none()
        case mi.AnyType():
            return json_values
        case mi.DictType():
            return st.dictionaries(
                _from_info(info.key_type), _from_info(info.value_type), max_size=3
            )
        case mi.VarTupleType():
            return st.lists(_from_info(info.item_type), max_size=3).map(tuple)
        case mi.ListType():
            return st.lists(_from_info(info.item_type), max_size=3)
        case _:
            raise TypeError(f"no strategy for {info!r}")
