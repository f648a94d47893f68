"""Lines of JSON from a program that may print anything."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from quarterdeck.wire.errors import Broken
from quarterdeck.wire.rpc.stream import ByteStream

__all__ = ["MAX_LINE", "Line", "read_lines"]

MAX_LINE = 32 * 1024 * 1024
"""Bytes; a program that writes a longer line is not talking to us."""

_decoder = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its object, or the text of what is none."""

    value: dict[str, Any] | None
    text: str = ""
    """What a line that holds no JSON object says, undecodable bytes replaced."""


async def read_lines(stream: ByteStream, *, limit: int = MAX_LINE) -> AsyncIterator[Line]:
    """Each line, also a last one without a line end; empty ones are left out.

    The program is held back while nobody takes the next line.

    Raises:
        Broken: a line is longer than ``limit``.
    """
    kept: list[bytes] = []
    size = 0
    while data := await stream.receive():
        *whole, rest = data.split(b"\n")
        for part in whole:
            if line := _line(b"".join((*kept, part))):
                yield line
            kept, size = [], 0
        if rest:
            kept.append(rest)
            size += len(rest)
            if size > limit:
                raise Broken(f"a line is longer than {limit} bytes")
    if line := _line(b"".join(kept)):
        yield line


def _line(data: bytes) -> Line | None:
    data = data.strip()
    if not data:
        return None
    try:
        value = _decode(data)
    except (ValueError, RecursionError):
        return Line(None, data.decode("utf-8", "replace"))
    if isinstance(value, dict):
        return Line(cast("dict[str, Any]", value))
    return Line(None, data.decode("utf-8", "replace"))


def _decode(data: bytes) -> Any:
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError:
        if b"\\ud" not in data and b"\\uD" not in data:
            raise
    # Programs in JavaScript cut texts within a character and print one half of it.
    halved = json.dumps(json.loads(data), ensure_ascii=False)
    return _decoder.decode(halved.encode("utf-8", "replace"))
