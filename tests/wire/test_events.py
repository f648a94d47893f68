"""The vocabulary: every event has a stable JSON form, and any event comes back as it was."""

import typing
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.wire.errors import MalformedRecordError, NewerVersionError
from quarterdeck.wire.events import Event, MessageChunk, UnknownEvent
from quarterdeck.wire.record import (
    Record,
    decode_event,
    decode_record,
    encode_event,
    encode_record,
    event_type,
)
from tests.support.struct_strategies import json_values, values_of

FIXTURES = Path(__file__).parent.parent / "fixtures" / "wire"
GOLDEN = FIXTURES / "events-v2.jsonl"
EARLIER = FIXTURES / "events-v1.jsonl"
"""Written before ``session_spawned`` had ``options``."""
GROWN = {"checkpointed", "rewound", "redone"}
"""Events that have got fields since; what was written before them keeps its bytes."""
MEMBERS: tuple[type[msgspec.Struct], ...] = typing.get_args(Event)


def golden_lines() -> list[bytes]:
    return GOLDEN.read_bytes().splitlines()


@pytest.mark.parametrize("line", golden_lines(), ids=lambda line: msgspec.json.decode(line)["seq"])
def test_golden_record_keeps_its_bytes(line: bytes):
    record = decode_record(line)
    assert encode_record(record) == line
    raw = msgspec.json.decode(line)
    assert event_type(record.event) == raw["event"]["type"]


def test_golden_file_shows_every_event_with_every_field():
    shown: dict[str, set[str]] = {}
    for line in golden_lines():
        event = msgspec.json.decode(line)["event"]
        shown.setdefault(event["type"], set()).update(event)
    expected = {
        member.__struct_config__.tag: {"type", *member.__struct_encode_fields__}
        for member in MEMBERS
    }
    assert shown == expected


def test_a_log_of_the_first_version_opens_with_every_event():
    earlier = EARLIER.read_bytes().splitlines()
    for before, now in zip(earlier, golden_lines()[: len(earlier)], strict=True):
        record, tag = decode_record(before), msgspec.json.decode(before)["event"]["type"]
        assert event_type(record.event) == tag
        event = decode_event(msgspec.json.encode(msgspec.json.decode(before)["event"]))
        assert event == record.event
        if tag != "session_spawned":
            assert encode_record(record) == before
            assert before == now or tag in GROWN


def test_every_event_says_when_it_may_appear():
    assert [member.__name__ for member in MEMBERS if not member.__doc__] == []


@settings(deadline=None, max_examples=300)
@given(
    event=values_of(Event),
    turn=st.none() | st.text(max_size=5),
    parent=st.none() | st.text(max_size=5),
    seq=st.integers(1, 2**53),
)
def test_any_record_round_trips(event, turn, parent, seq):
    record = Record(seq=seq, time=seq, session="ses_x", turn=turn, parent=parent, event=event)
    data = encode_record(record)
    assert b"\n" not in data
    assert decode_record(data) == record
    assert decode_event(encode_event(event)) == event


@settings(deadline=None)
@given(json_values)
def test_an_event_of_tomorrow_survives_raw(detail):
    foreign = {"type": "teleported", "detail": detail}
    event = decode_event(msgspec.json.encode(foreign))
    assert isinstance(event, UnknownEvent)
    assert event.raw == foreign
    line = msgspec.json.encode(
        {"v": 1, "seq": 7, "time": 1, "session": "s", "turn": None, "parent": None}
        | {"event": foreign}
    )
    record = decode_record(line)
    assert isinstance(record.event, UnknownEvent)
    assert (record.seq, record.event.raw) == (7, foreign)


def test_a_new_field_of_a_known_event_is_not_lost():
    raw = {"type": "notice", "title": "x", "shape": "round"}
    event = decode_event(msgspec.json.encode(raw))
    assert isinstance(event, UnknownEvent)
    assert event.raw == raw


def test_a_newer_record_is_refused_by_name():
    for event in ({"type": "notice", "title": "x"}, {"type": "teleported"}):
        line = msgspec.json.encode(
            {"v": 2, "seq": 1, "time": 1, "session": "s", "turn": None, "event": event}
        )
        with pytest.raises(NewerVersionError, match="version 2"):
            decode_record(line)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_garbage_is_no_record_and_nothing_worse(data: bytes):
    with pytest.raises(MalformedRecordError):
        decode_record(data)
    assert isinstance(decode_event(data), UnknownEvent)


@settings(deadline=None)
@given(json_values)
def test_json_that_is_no_record_is_named_so(value):
    with pytest.raises(MalformedRecordError):
        decode_record(msgspec.json.encode(value))


def test_content_unknown_to_us_makes_the_event_unknown_not_absent():
    raw = {"type": "message_chunk", "content": {"type": "hologram", "depth": 3}}
    event = decode_event(msgspec.json.encode(raw))
    assert isinstance(event, UnknownEvent)
    assert event.raw["content"]["depth"] == 3


def test_a_chunk_is_small_on_disk():
    chunk = MessageChunk(content={"type": "text", "text": "hi"}, message="m")
    assert len(encode_event(chunk)) < 90
