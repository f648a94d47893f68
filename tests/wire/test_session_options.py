"""One value says how a session starts: its form, its earlier form, what of it may be kept."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import asdict, replace

from quarterdeck.wire.events import SessionSpawned, UnknownEvent
from quarterdeck.wire.record import decode_event, decode_record, encode_event
from quarterdeck.wire.session_options import (
    AgentMcpServer,
    SessionLimits,
    SessionOptions,
    find_unsupported,
    list_set,
)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "wire"
SECRET = "s3cret-value"
SERVER = AgentMcpServer(
    name="docs",
    command=("docs-mcp",),
    environment={"KEY": SECRET},
    url=f"https://ann:{SECRET}@docs.example/mcp?key={SECRET}",
    headers={"X-Key": SECRET},
)
PLAIN = AgentMcpServer(name="plain", command=("plain-mcp",))


def spawned(version: int) -> dict[str, Any]:
    lines = (FIXTURES / f"events-v{version}.jsonl").read_bytes().splitlines()
    events = [msgspec.json.decode(line)["event"] for line in lines]
    (found,) = [event for event in events if event["type"] == "session_spawned"]
    return found


def test_the_golden_file_shows_every_option_and_limit_and_part_of_a_server():
    options = spawned(2)["options"]
    assert options.keys() == set(SessionOptions.__struct_fields__)
    assert options["limits"].keys() == set(SessionLimits.__struct_fields__)
    (server,) = options["mcp_servers"]
    assert server.keys() == set(AgentMcpServer.__struct_fields__)


def test_the_first_form_of_a_spawn_is_read_as_the_second():
    event = decode_event(msgspec.json.encode(spawned(1)))
    assert event == SessionSpawned(
        name="tests",
        options=SessionOptions(
            agent="claude",
            cwd="/w",
            roots=("/x",),
            transport="acp",
            model="m",
            mode="ask",
            agent_mode="plan",
            system_prompt="Be brief.",
            tools=("read",),
            allow=("bash(make:*)",),
            deny=("fetch(*)",),
            resume="0b1d",
        ),
        parent_session="ses_0",
        lead=True,
        forked_from="ses_1",
    )
    again = msgspec.json.decode(encode_event(event))
    assert again["options"]["agent"] == "claude" and "agent" not in again


def test_the_shortest_first_form_is_read_too():
    raw = {"type": "session_spawned", "name": "a", "agent": "x", "cwd": "/"}
    event = decode_event(msgspec.json.encode(raw))
    assert event == SessionSpawned(name="a", options=SessionOptions(agent="x", cwd="/"))


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "session_spawned", "name": "a", "agent": "x"},
        {"type": "session_spawned", "name": "a", "agent": "x", "cwd": "/", "shape": "round"},
        {"type": "session_spawned", "name": "a", "agent": 7, "cwd": "/"},
        {"type": "session_spawned", "name": "a", "options": {"cwd": "/", "shape": "round"}},
    ],
)
def test_a_spawn_in_no_known_form_is_kept_raw(raw: dict[str, Any]):
    event = decode_event(msgspec.json.encode(raw))
    assert isinstance(event, UnknownEvent) and event.raw == raw
    line = {"v": 1, "seq": 1, "time": 1, "session": "s", "event": raw}
    kept = decode_record(msgspec.json.encode(line)).event
    assert isinstance(kept, UnknownEvent) and kept.raw == raw


def test_a_spawn_never_writes_the_value_of_a_variable_or_header():
    options = SessionOptions(
        cwd="/", environment={"TOKEN": SECRET, "LANG": "C"}, mcp_servers=(SERVER, PLAIN)
    )
    for event in (
        SessionSpawned(name="a", options=options),
        replace(SessionSpawned(name="a", options=SessionOptions()), options=options),
    ):
        written = encode_event(event)
        assert SECRET.encode() not in written
        assert b'"environment":{"TOKEN":null,"LANG":null}' in written
        assert b'"url":"https://docs.example/mcp?\xe2\x80\xa6"' in written
        assert decode_event(written) == event
    assert options.environment["TOKEN"] == SECRET


def test_no_text_of_the_options_shows_a_secret():
    options = SessionOptions(cwd="/", environment={"TOKEN": SECRET}, mcp_servers=(SERVER,))
    for text in (repr(options), str(options), repr(SERVER), f"{[options]}"):
        assert SECRET not in text
    assert "TOKEN" in repr(options) and "docs" in repr(options)


def test_what_was_not_kept_is_named_and_left_out_of_the_next_start():
    options = SessionOptions(cwd="/", environment={"TOKEN": SECRET}, mcp_servers=(SERVER, PLAIN))
    assert options.missing_values == ()
    assert options.without_missing() is options
    kept = options.without_values()
    assert kept.missing_values == (
        "TOKEN",
        "variable KEY of docs",
        "header X-Key of docs",
        "URL of docs",
    )
    assert kept.without_missing() == SessionOptions(cwd="/", mcp_servers=(PLAIN,))
    assert kept.variables == {} and options.variables == {"TOKEN": SECRET}


def test_options_that_are_set_are_named_and_those_not_supported_found():
    options = SessionOptions(
        agent="x", cwd="/", effort="high", fork=True, limits=SessionLimits(cost=1.0, seconds=2.0)
    )
    assert list_set(options) == ("agent", "cwd", "effort", "fork", "limits.cost", "limits.seconds")
    assert find_unsupported(options, ("agent", "cwd", "limits.seconds", "fork")) == (
        "effort",
        "limits.cost",
    )
    assert list_set(SessionOptions()) == ()
    everything = msgspec.convert(spawned(2)["options"], SessionOptions)
    limits = tuple(f"limits.{name}" for name in asdict(SessionLimits()))
    plain = tuple(name for name in SessionOptions.__struct_fields__ if name != "limits")
    assert list_set(everything) == (*plain, *limits)
