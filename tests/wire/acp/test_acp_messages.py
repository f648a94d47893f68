"""Any message comes back as it was, and the official schema takes it as valid."""

import typing
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.wire.acp import schema
from quarterdeck.wire.acp.connection import decode, decode_update, encode
from quarterdeck.wire.acp.methods import Method, Notification
from tests.support.acp_schema import definition_of, judge, needs_schema
from tests.support.acp_values import acp_values

METHODS = schema.AGENT_METHODS | schema.CLIENT_METHODS
NOTIFICATIONS = schema.AGENT_NOTIFICATIONS | schema.CLIENT_NOTIFICATIONS
UPDATES = [
    each for each in typing.get_args(schema.SessionUpdate) if each is not schema.UnknownUpdate
]
quick = settings(
    deadline=None,
    max_examples=8,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

ENDS = [
    *(pytest.param(m, "Request", m.params, id=f"{m.name} params") for m in METHODS.values()),
    *(pytest.param(m, "Response", m.result, id=f"{m.name} result") for m in METHODS.values()),
    *(pytest.param(n, "Notification", n.params, id=n.name) for n in NOTIFICATIONS.values()),
]


@needs_schema
@pytest.mark.parametrize(("message", "ending", "type_"), ENDS)
@quick
@given(data=st.data())
def test_any_message_round_trips_and_is_valid(
    data: st.DataObject, message: Method[Any, Any] | Notification[Any], ending: str, type_: Any
):
    value = data.draw(acp_values(type_))
    raw = encode(value)
    assert decode(type_, raw) == value
    for unstable in (False, True) if message.stable else (True,):
        name = definition_of(message.name, ending, unstable=unstable)
        assert name is not None
        assert judge(name, msgspec.json.decode(raw), unstable=unstable) is None


@needs_schema
@pytest.mark.parametrize("kind", UPDATES)
@quick
@given(data=st.data())
def test_any_update_round_trips_and_is_valid(data: st.DataObject, kind: type[msgspec.Struct]):
    note = schema.SessionNotification(session_id="s", update=data.draw(acp_values(kind)))
    raw = encode(note)
    assert decode_update(raw) == note
    assert judge("SessionNotification", msgspec.json.decode(raw)) is None


@needs_schema
def test_every_stable_method_of_the_schema_is_there():
    from tests.support.acp_schema import definitions

    official = {
        (schema["x-method"], schema["x-side"])
        for schema in definitions(unstable=False).values()
        if "x-method" in schema
    }
    ours = {
        (each.name, each.side)
        for each in [*METHODS.values(), *NOTIFICATIONS.values()]
        if each.stable
    }
    assert ours == official


def test_the_unstable_methods_are_those_we_promise():
    unstable = {each.name for each in METHODS.values() if not each.stable}
    assert unstable == {
        "session/archive",
        "session/fork",
        "session/set_title",
        "session/status",
        "session/unarchive",
    }


def test_null_and_absent_title_differ():
    cleared = decode(schema.SessionInfoUpdate, b'{"title":null}')
    absent = decode(schema.SessionInfoUpdate, b"{}")
    assert (cleared.title, absent.title) == (None, msgspec.UNSET)
    assert msgspec.json.decode(encode(cleared)) == {
        "sessionUpdate": "session_info_update",
        "title": None,
    }


def test_unknown_enum_words_are_kept_where_a_program_must_see_them():
    stop = decode(schema.PromptResponse, b'{"stopReason":"tired"}')
    assert stop.stop_reason == "tired"
    asked = decode(
        schema.RequestPermissionRequest,
        b'{"sessionId":"s","toolCall":{"toolCallId":"t"},'
        b'"options":[{"optionId":"o","name":"n","kind":"allow_moon"}]}',
    )
    assert asked.options[0].kind == "allow_moon"


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "weather", "sun": True},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "smell"}},
        {"sessionUpdate": "tool_call", "title": "no id"},
        {"no": "tag"},
        "text",
        None,
    ],
)
def test_update_that_cannot_be_read_is_kept_whole(update: Any):
    raw = msgspec.json.encode({"sessionId": "s", "update": update, "_meta": {"k": 1}})
    note = decode_update(raw)
    assert isinstance(note.update, schema.UnknownUpdate)
    assert msgspec.json.decode(note.update.raw) == update
    assert (note.session_id, note.meta) == ("s", {"k": 1})
    kind = update.get("sessionUpdate", "") if isinstance(update, dict) else ""
    assert note.update.kind == kind


@settings(deadline=None, max_examples=200)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "sessionId",
                        "update",
                        "sessionUpdate",
                        "content",
                        "type",
                        "text",
                        "_meta",
                        "entries",
                    ]
                )
                | st.text(max_size=3),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_update_crashes_the_reader(value: Any):
    raw = msgspec.json.encode(value)
    try:
        note = decode_update(raw)
    except msgspec.ValidationError:
        return
    assert isinstance(note, schema.SessionNotification)
