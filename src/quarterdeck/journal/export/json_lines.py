"""Records as lines of JSON, secrets masked, also those that came in several pieces."""

from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    CompactionChunk,
    MessageChunk,
    TerminalOutput,
    ThoughtChunk,
)
from quarterdeck.wire.record import Record
from quarterdeck.wire.redaction import mask_pieces, mask_values

__all__ = ["masked_lines"]

_WINDOW = 1_024
_HELD = 256
"""Records that are held back until it is known how what they began goes on."""
_MOST_CHARACTERS = 4 << 20


async def masked_lines(
    records: AsyncIterable[Record], environment: Mapping[str, str]
) -> AsyncIterator[bytes]:
    """The JSON form of records, each with its newline, in their order.

    The pieces of one message are masked as one text. Memory is bounded: a secret that comes in
    more than 256 pieces is masked piece by piece.
    """
    held: list[Record] = []
    characters = 0
    async for record in records:
        held.append(record)
        characters += len(_said(record) or "")
        if len(held) >= _WINDOW or characters >= _MOST_CHARACTERS:
            lines = _mask(held, environment)
            ready = max(1, len(held) - _HELD)
            for line in lines[:ready]:
                yield line
            held = held[ready:]
            characters = sum(len(_said(one) or "") for one in held)
    for line in _mask(held, environment):
        yield line


def _mask(records: Sequence[Record], environment: Mapping[str, str]) -> list[bytes]:
    texts: dict[int, str] = {}
    for stream in _streams(records):
        masked = mask_pieces([_said(records[index]) or "" for index in stream], environment)
        texts.update(zip(stream, masked, strict=True))
    return [_line(record, texts.get(index), environment) for index, record in enumerate(records)]


def _line(record: Record, text: str | None, environment: Mapping[str, str]) -> bytes:
    value = mask_values(msgspec.json.decode(msgspec.json.encode(record)), environment)
    if text is not None:
        event = value["event"]
        if isinstance(record.event, TerminalOutput):
            event["data"] = text
        else:
            event["content"]["text"] = text
    return msgspec.json.encode(value) + b"\n"


def _streams(records: Sequence[Record]) -> list[list[int]]:
    """Which of the records are pieces of one text, by their places."""
    open_: dict[tuple[Any, ...], list[int]] = {}
    streams: list[list[int]] = []
    for index, record in enumerate(records):
        if _said(record) is None:
            continue
        event = record.event
        key = (record.session, record.parent, type(event), *_speaker(event))
        if key not in open_:
            streams.append(open_.setdefault(key, []))
        open_[key].append(index)
    return streams


def _speaker(event: Any) -> tuple[Any, ...]:
    match event:
        case MessageChunk(role=role):
            return (role,)
        case TerminalOutput(terminal=terminal):
            return (terminal,)
        case _:
            return ()


def _said(record: Record) -> str | None:
    match record.event:
        case (
            MessageChunk(content=TextContent(text=text))
            | ThoughtChunk(content=TextContent(text=text))
            | CompactionChunk(content=TextContent(text=text))
        ):
            return text
        case TerminalOutput(data=data):
            return data
        case _:
            return None
