"""Decode into types from any thread.

The first time that msgspec decodes into a struct it reads the struct's annotations and keeps the
result on the class, where another thread finds it half made: the program ends with a segmentation
fault. Here a type is made ready once, by one thread at a time. All of the package decodes into
types through this module.
"""

import threading
from typing import Any, TypeVar, overload

import msgspec

__all__ = ["convert", "decode_json", "decode_msgpack", "json_decoder"]

_T = TypeVar("_T")
_ready: set[Any] = set()
_lock = threading.RLock()


@overload
def convert(value: Any, type: type[_T], *, strict: bool = True) -> _T: ...
@overload
def convert(value: Any, type: Any, *, strict: bool = True) -> Any: ...
def convert(value: Any, type: Any, *, strict: bool = True) -> Any:
    """See ``msgspec.convert``."""
    if type not in _ready:
        _make_ready(type)
    return msgspec.convert(value, type, strict=strict)


@overload
def decode_json(data: bytes | str | msgspec.Raw, type: type[_T], *, strict: bool = True) -> _T: ...
@overload
def decode_json(data: bytes | str | msgspec.Raw, type: Any, *, strict: bool = True) -> Any: ...
def decode_json(data: Any, type: Any, *, strict: bool = True) -> Any:
    """See ``msgspec.json.decode``."""
    if type not in _ready:
        _make_ready(type)
    return msgspec.json.decode(data, type=type, strict=strict)


@overload
def decode_msgpack(data: bytes, type: type[_T]) -> _T: ...
@overload
def decode_msgpack(data: bytes, type: Any) -> Any: ...
def decode_msgpack(data: bytes, type: Any) -> Any:
    """See ``msgspec.msgpack.decode``."""
    if type not in _ready:
        _make_ready(type)
    return msgspec.msgpack.decode(data, type=type)


@overload
def json_decoder(type: type[_T]) -> "msgspec.json.Decoder[_T]": ...
@overload
def json_decoder(type: Any) -> "msgspec.json.Decoder[Any]": ...
def json_decoder(type: Any) -> "msgspec.json.Decoder[Any]":
    """A decoder for one type, to be kept."""
    with _lock:
        return msgspec.json.Decoder(type)


def _make_ready(type: Any) -> None:
    with _lock:
        msgspec.json.Decoder(type)
        _ready.add(type)
