"""The schema's own leniency, rule by rule as the generated table lists them."""

import typing
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from quarterdeck.wire.acp import schema
from quarterdeck.wire.acp.connection import decode, decode_update, encode
from quarterdeck.wire.acp.leniency import Leniency
from quarterdeck.wire.values import AcpValue
from tests.support.acp_values import acp_values

WRONG: list[Any] = [5, "\0", [5], {"\0": 5}, True, [], None]
TABLE = schema.leniency()
RULES = [
    pytest.param(cls, name, rule, id=f"{cls.__name__}.{name}")
    for cls, rules in TABLE.items()
    for name, rule in rules.items()
    if cls is not AcpValue
]
ON_ERROR = [each for each in RULES if each.values[2].on_error]
SKIP = [each for each in RULES if each.values[2].skip_items]
ON_NULL = [each for each in RULES if each.values[2].on_null]
few = settings(
    deadline=None,
    max_examples=3,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def annotation(cls: type[msgspec.Struct], name: str) -> Any:
    (field,) = [f for f in msgspec.structs.fields(cls) if f.encode_name == name]
    return typing.get_type_hints(cls)[field.name]


def wrong_for(annotation: Any) -> list[Any]:
    """Return values that are none of a type, read strictly."""
    found: list[Any] = []
    for value in WRONG:
        try:
            msgspec.convert(value, annotation)
        except msgspec.ValidationError:
            found.append(value)
    return found


def plain(value: msgspec.Struct) -> dict[str, Any]:
    return msgspec.json.decode(encode(value))


def read(cls: Any, value: dict[str, Any]) -> Any:
    return decode(cls, msgspec.json.encode(value))


def with_default(value: dict[str, Any], name: str, rule: Leniency) -> dict[str, Any]:
    rest = {key: each for key, each in value.items() if key != name}
    if rule.empty is not None:
        rest[name] = [] if rule.empty == "list" else {}
    return rest


@pytest.mark.parametrize(("cls", "name", "rule"), ON_ERROR)
@few
@given(data=st.data())
def test_wrong_value_counts_as_the_default(
    data: st.DataObject, cls: Any, name: str, rule: Leniency
):
    wrong = wrong_for(annotation(cls, name))
    if not wrong:
        assert annotation(cls, name) is Any
        return
    if rule.skip_items:  # a wrong item is another rule's business
        wrong = [each for each in wrong if not isinstance(each, list)]
    valid = plain(data.draw(acp_values(cls)))
    expected = read(cls, with_default(valid, name, rule))
    assert read(cls, valid | {name: data.draw(st.sampled_from(wrong))}) == expected


@pytest.mark.parametrize(("cls", "name", "rule"), ON_NULL)
@few
@given(data=st.data())
def test_null_counts_as_the_default(data: st.DataObject, cls: Any, name: str, rule: Leniency):
    valid = plain(data.draw(acp_values(cls)))
    if cls is schema.McpServer:  # a field of another kind of server is not looked at
        assume(name in valid)
    assert read(cls, valid | {name: None}) == read(cls, with_default(valid, name, rule))


@pytest.mark.parametrize(("cls", "name", "rule"), SKIP)
@few
@given(data=st.data())
def test_wrong_items_are_left_out_and_the_others_stay(
    data: st.DataObject, cls: Any, name: str, rule: Leniency
):
    members = typing.get_args(annotation(cls, name)) or (annotation(cls, name),)
    (items,) = [m for m in (annotation(cls, name), *members) if typing.get_origin(m) is tuple][:1]
    item = typing.get_args(items)[0]
    valid = plain(data.draw(acp_values(cls)))
    good = valid.get(name) if isinstance(valid.get(name), list) else []
    bad = data.draw(st.sampled_from(wrong_for(item)))
    place = data.draw(st.integers(0, len(good)))
    spoiled = [*good[:place], bad, *good[place:]]
    assert read(cls, valid | {name: spoiled}) == read(cls, valid | {name: good})


@pytest.mark.parametrize("cls", [schema.PromptRequest, schema.ToolCall, schema.Empty])
def test_wrong_meta_counts_as_none(cls: Any):
    base = {"sessionId": "s", "prompt": [], "toolCallId": "t", "title": "x"}
    assert read(cls, base | {"_meta": 5}).meta is None


def test_mistakes_deep_inside_cost_only_themselves():
    raw = {
        "sessionId": "s",
        "update": {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "t",
            "kind": "teleport",
            "title": "kept",
            "content": [
                {"type": "content", "content": {"type": "smell"}},
                {
                    "type": "content",
                    "content": {"type": "text", "text": "a", "annotations": {"priority": "high"}},
                },
            ],
            "locations": [{"path": "/a", "line": "seven"}, {"line": 3}],
        },
    }
    update = decode_update(msgspec.json.encode(raw)).update
    assert isinstance(update, schema.ToolCallUpdate)
    assert (update.kind, update.title) == (None, "kept")
    assert [msgspec.to_builtins(item) for item in update.content or ()] == [
        {"type": "content", "content": {"type": "text", "text": "a", "annotations": {}}}
    ]
    assert [(place.path, place.line) for place in update.locations or ()] == [("/a", None)]


@pytest.mark.parametrize(
    ("type_", "raw", "named"),
    [
        (schema.PromptRequest, b'{"prompt":[]}', "sessionId"),
        (schema.PromptRequest, b'{"sessionId":"s","prompt":[{"type":"smell"}]}', "prompt"),
        (schema.NewSessionRequest, b'{"cwd":"/","mcpServers":[{"name":"m"}]}', "mcpServers"),
        (schema.PromptResponse, b'{"stopReason":5}', "stopReason"),
        (schema.ListSessionsResponse, b"null", "sessions"),
        (schema.CreateElicitationRequest, b'{"message":"m","mode":"form"}', "requested_schema"),
    ],
)
def test_what_the_schema_does_not_forgive_is_an_error_that_names_it(
    type_: Any, raw: bytes, named: str
):
    with pytest.raises(msgspec.ValidationError, match=named):
        decode(type_, raw)
