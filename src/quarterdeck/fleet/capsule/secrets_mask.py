"""Secrets out of what goes into a capsule, with a report of where they were."""

import io
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import IO, Any, cast

import msgspec

from quarterdeck.journal.export.formats import masked_lines
from quarterdeck.wire.events import CompactionChunk, MessageChunk, TerminalOutput, ThoughtChunk
from quarterdeck.wire.record import Record, encode_record
from quarterdeck.wire.redaction import mask_secrets, mask_values

from .manifest import MaskedPlace

__all__ = ["LongLineError", "MaskReport", "mask_file_lines", "mask_record_lines", "mask_text"]

_MOST_NAMED = 1_000
_SOFT, _HARD = 1 << 20, 3 << 20
"""Bytes of records that are masked together: up to the end of a message, or up to that much."""
_MOST_RECORDS = 900
_LONGEST = 64 << 20
_PIECES = (MessageChunk, ThoughtChunk, CompactionChunk, TerminalOutput)


class LongLineError(ValueError):
    """A line is too long to be looked through."""


class MaskReport:
    """Where something was masked: all are counted, the first thousand are named."""

    def __init__(self) -> None:
        self.places: list[MaskedPlace] = []
        self.count = 0

    def note(self, where: str, place: str) -> None:
        """Count one."""
        self.count += 1
        if len(self.places) < _MOST_NAMED:
            self.places.append(MaskedPlace(where=where, place=place))


async def mask_record_lines(
    records: AsyncIterable[Record], environment: Mapping[str, str], report: MaskReport
) -> AsyncIterator[bytes]:
    """The JSON lines of records; the pieces of one message are masked as one text.

    Memory is bounded: what is masked together ends at 3 MB, or at a larger record.
    """
    held: list[tuple[Record, bytes]] = []
    size = 0
    async for record in records:
        line = encode_record(record) + b"\n"
        held.append((record, line))
        size += len(line)
        is_full = size >= _SOFT and not isinstance(record.event, _PIECES)
        if is_full or size >= _HARD or len(held) >= _MOST_RECORDS:
            async for masked in _mask_window(held, environment, report):
                yield masked
            held, size = [], 0
    async for masked in _mask_window(held, environment, report):
        yield masked


async def _mask_window(
    held: list[tuple[Record, bytes]], environment: Mapping[str, str], report: MaskReport
) -> AsyncIterator[bytes]:
    place = 0
    async for masked in masked_lines(_each(record for record, _ in held), environment):
        record, line = held[place]
        place += 1
        if masked == line:
            yield line
            continue
        before, after = msgspec.json.decode(line), msgspec.json.decode(masked)
        # The ids of records are never text of anyone.
        after |= {name: before[name] for name in ("v", "seq", "time", "session", "turn", "parent")}
        for path in _differences(before, after, ""):
            report.note(f"events of {record.session}", f"record {record.seq} {path}")
        yield msgspec.json.encode(after) + b"\n"


async def _each(records: Iterable[Record]) -> AsyncIterator[Record]:
    for record in records:
        yield record


def _differences(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        others = cast("dict[str, Any]", after)
        for name, value in cast("dict[str, Any]", before).items():
            yield from _differences(value, others.get(name), f"{path}/{name}")
    elif isinstance(before, list) and isinstance(after, list):
        pairs = zip(cast("list[Any]", before), cast("list[Any]", after), strict=True)
        for number, (one, other) in enumerate(pairs):
            yield from _differences(one, other, f"{path}/{number}")
    elif before != after:
        yield path


def mask_text(text: str, environment: Mapping[str, str], report: MaskReport, where: str) -> str:
    """A text with its secrets masked; the lines in which they were are noted."""
    masked = mask_secrets(text, environment)
    if masked == text:
        return text
    noted = False
    for number, line in enumerate(text.splitlines(), 1):
        if mask_secrets(line, environment) != line:
            report.note(where, f"line {number}")
            noted = True
    if not noted:
        report.note(where, "several lines")
    return masked


def mask_file_lines(
    file: IO[bytes], environment: Mapping[str, str], report: MaskReport, where: str
) -> Iterator[bytes]:
    """A file of JSON lines, or of text, line by line; a line without secrets stays as it is.

    Raises:
        LongLineError: a line has more than 64 MB.
    """
    buffered = io.BufferedReader(cast("io.RawIOBase", file), 1 << 18)
    number = 0
    try:
        while line := buffered.readline(_LONGEST + 1):
            number += 1
            if len(line) > _LONGEST:
                raise LongLineError(f"line {number} of {where} has more than {_LONGEST:,} bytes")
            masked = _mask_line(line, environment)
            if masked != line:
                report.note(where, f"line {number}")
            yield masked
    finally:
        buffered.detach()  # the file is the caller's


def _mask_line(line: bytes, environment: Mapping[str, str]) -> bytes:
    end = line[len(line.rstrip(b"\r\n")) :]
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = line.decode("utf-8", "surrogateescape")
        return mask_secrets(text, environment).encode("utf-8", "surrogateescape")
    masked = mask_values(value, environment)
    return line if masked == value else msgspec.json.encode(masked) + end
