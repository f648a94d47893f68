"""An event in its place, and the JSON form in which it is kept and sent.

The form is versioned: ``{"v":1,"seq":…,"time":…,"session":…,"turn":…,"parent":…,"event":{…}}``.
Keys keep this order, an event's own keys the order of its class; what has its default value is
left out of the event. An event that this program does not understand is read as ``UnknownEvent``
with the raw object inside, so that a log written by a newer program stays readable. An event in
an earlier form is read as the form of today (``_migrate``); what is written is always that one.

A file name that is no UTF-8 reaches us as a lone surrogate, a tool may hand over any object. Such
a thing must not end a turn: it is written down as well as it can be, and the model is sent the
same.
"""

from contextlib import suppress
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from .decoders import convert, json_decoder
from .errors import MalformedRecordError, NewerVersionError
from .events import Event, SessionSpawned, UnknownEvent
from .ids import SessionId, ToolCallId, TurnId

__all__ = [
    "VERSION",
    "Record",
    "decode_event",
    "decode_record",
    "encode_event",
    "encode_record",
    "event_type",
    "sanitize_event",
]

VERSION = 1


class Record(Struct, frozen=True, kw_only=True):
    """An event in its place in the log."""

    v: int = VERSION
    seq: int
    """Position in the log: unique over all sessions, growing, starting at 1."""
    time: int
    """Microseconds since the epoch, UTC. Informative: ``seq`` is the order."""
    session: SessionId
    turn: TurnId | None = None
    """The turn it belongs to; None outside of turns."""
    parent: ToolCallId | None = None
    """The tool call within which it happened, when an agent's own sub-agent caused it."""
    event: Event


_encoder = msgspec.json.Encoder()
_any_decoder = msgspec.json.Decoder()
# msgspec reports text that is no UTF-8, and values nested too deeply, by Python's own errors.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@cache
def _record_decoder() -> msgspec.json.Decoder[Record]:
    # Made when something is first read: a session that begins only writes.
    return json_decoder(Record)


@cache
def _event_decoder() -> msgspec.json.Decoder[Event]:
    return json_decoder(Event)


def encode_record(record: Record) -> bytes:
    """Give a record its JSON form, without a newline."""
    return _encoder.encode(record)


def decode_record(data: bytes) -> Record:
    """Read a record from its JSON form.

    Raises:
        NewerVersionError: the record's form is newer than this program.
        MalformedRecordError: the bytes are no record.
    """
    try:
        record = _record_decoder().decode(data)
    except _UNREADABLE:
        return _decode_leniently(data)
    if record.v != VERSION:
        raise NewerVersionError("the record", record.v, VERSION)
    return record


def encode_event(event: Event) -> bytes:
    """Give an event its JSON form."""
    return _encoder.encode(event)


def decode_event(data: bytes) -> Event:
    """Read an event; what cannot be understood, or even parsed, becomes ``UnknownEvent``."""
    try:
        return _event_decoder().decode(data)
    except _UNREADABLE as error:
        raw = _salvage(data)
        return _migrate(raw) or UnknownEvent(origin="log", raw=raw, reason=str(error))


def event_type(event: Event) -> str:
    """The event's tag, as in its JSON form."""
    return cast("str", event.__struct_config__.tag)


def _salvage(data: bytes) -> Any:
    try:
        return _any_decoder.decode(data)
    except _UNREADABLE:
        return data.decode("utf-8", "replace")


def _decode_leniently(data: bytes) -> Record:
    try:
        raw = _any_decoder.decode(data)
        event = raw.pop("event")
        version = raw["v"]
    except (*_UNREADABLE, AttributeError, KeyError, TypeError) as error:
        raise MalformedRecordError(f"not a record: {data[:80]!r}") from error
    if isinstance(version, int) and version > VERSION:
        raise NewerVersionError("the record", version, VERSION)
    kept = encode_event(
        _migrate(event) or UnknownEvent(origin="log", raw=event, reason="not understood")
    )
    try:
        return _record_decoder().decode(_encoder.encode(raw | {"event": msgspec.Raw(kept)}))
    except (*_UNREADABLE, TypeError) as error:
        raise MalformedRecordError(f"not a record: {data[:80]!r}: {error}") from error


_SPAWNED_V1 = frozenset(
    (
        *("agent", "cwd", "roots", "transport", "model", "mode", "agent_mode", "system_prompt"),
        *("tools", "allow", "deny", "resume"),
    )
)
"""The options that ``session_spawned`` had at its top in its first form."""


def _migrate(raw: Any) -> Event | None:
    """The event that an object in an earlier form is today; None where it is none."""
    if not isinstance(raw, dict):
        return None
    fields = cast("dict[str, Any]", raw)
    if fields.get("type") != "session_spawned" or not {"agent", "cwd"} <= fields.keys():
        return None
    options = {name: value for name, value in fields.items() if name in _SPAWNED_V1}
    others = {name: value for name, value in fields.items() if name not in _SPAWNED_V1}
    with suppress(msgspec.ValidationError):
        return convert({**others, "options": options}, SessionSpawned)
    return None


E = TypeVar("E", bound=msgspec.Struct)


def sanitize_event(event: E) -> E:
    """The event with every text valid and every foreign object as its ``repr``."""
    plain = msgspec.to_builtins(event, enc_hook=repr)
    return convert(_clean(plain), type(event))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        table = cast("dict[Any, Any]", value)
        return {_clean(key): _clean(item) for key, item in table.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in cast("list[Any]", value)]
    return value
