"""What has no JSON form, made fit for the log.

A file name that is no UTF-8 reaches us as a lone surrogate, a tool may hand over any object. Such
a thing must not end a turn: it is written down as well as it can be, and the model is told the
same.
"""

from typing import Any, TypeVar, cast

import msgspec

__all__ = ["sanitize_event"]

E = TypeVar("E", bound=msgspec.Struct)


def sanitize_event(event: E) -> E:
    """The event with every text valid and every foreign object as its ``repr``."""
    plain = msgspec.to_builtins(event, enc_hook=repr)
    return msgspec.convert(_clean(plain), type(event))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        table = cast("dict[Any, Any]", value)
        return {_clean(key): _clean(item) for key, item in table.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in cast("list[Any]", value)]
    return value
