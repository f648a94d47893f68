"""What a model is shown of a server's tools, whatever the server lists."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.agent.mcp.protocol import McpError
from quarterdeck.agent.mcp.tool_list import (
    argument_headers_in,
    header_value,
    make_argument_headers,
    read_tool_list,
    server_name,
    tool_name,
)
from quarterdeck.testing.mcp_server.responder import schemas_gone_wrong
from tests.support.mcp_servers import definition

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "required", "anyOf", "items", "x", "object"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def listed(*tools: Any, **rest: Any):
    return read_tool_list(definition("s", "x", **rest), tools)


def test_what_is_wrong_is_mended_or_left_out_with_a_reason():
    found = listed(*schemas_gone_wrong())
    assert [tool.tool for tool in found.tools] == [
        "either",
        "n" * 200,
        "none",
        "twin.one",
        "twin:one",
        "with spaces and ümläuts",
    ]
    assert len(found.problems) == 7
    byname = {tool.tool: tool.spec for tool in found.tools}
    assert byname["none"].parameters == {"type": "object", "properties": {}}
    assert byname["either"].parameters == {"type": "object", "properties": {}}
    assert byname["with spaces and ümläuts"].name == "mcp__s__with_spaces_and__ml_uts"


def test_names_that_fall_together_are_told_apart_in_any_order():
    tools = [{"name": name} for name in ("a_b", "a.b", "a:b", "x" * 100, "x" * 101)]
    one, other = listed(*tools), listed(*reversed(tools))
    assert one == other
    names = [tool.spec.name for tool in one.tools]
    assert len(set(names)) == 5 and "mcp__s__a_b" in names
    assert all(NAME.fullmatch(name) for name in names)


def test_rules_name_a_tool_as_its_server_does_where_that_can_be_written():
    tools = [{"name": name} for name in ("get.it", "a b", "a_b", "x) allow *")]
    found = {tool.tool: tool.rule_name for tool in listed(*tools).tools}
    assert found["get.it"] == "get.it" and found["a_b"] == "a_b"
    assert len(set(found.values())) == 4
    assert all(re.fullmatch(r"[\w.-]+", name) for name in found.values())


def test_only_the_tools_that_are_wanted_are_there():
    tools = [{"name": name} for name in ("read_a", "read_b", "write_a")]
    found = listed(*tools, tools=("read_*",), without=("*_b",))
    assert [tool.tool for tool in found.tools] == ["read_a"]


def test_a_long_description_is_cut_with_the_number_left_out():
    (tool,) = listed({"name": "a", "description": "x" * 9000}).tools
    assert tool.spec.description.endswith("[…1000 more characters]")


@given(st.text(max_size=80), st.text(max_size=150))
@settings(deadline=None, max_examples=100)
def test_every_name_is_one_that_vendors_take(server: str, tool: str):
    name = tool_name(server_name(server), tool)
    assert NAME.fullmatch(name) and name.startswith("mcp__")
    assert "__" not in server_name(server)


@given(st.lists(st.fixed_dictionaries({"name": st.text(max_size=5), "inputSchema": JSON}) | JSON))
@settings(deadline=None, max_examples=150)
def test_whatever_is_listed_no_schema_is_shown_that_is_none(tools: list[Any]):
    found = listed(*tools)
    names = [tool.spec.name for tool in found.tools]
    assert len(set(names)) == len(names)
    for tool in found.tools:
        parameters = tool.spec.parameters
        assert parameters["type"] == "object" and isinstance(parameters["properties"], dict)
        assert set(parameters.get("required", ())) <= set(parameters["properties"])
        assert not {"anyOf", "oneOf", "allOf"} & set(parameters)
        msgspec.json.encode(tool.spec)


# ---- arguments in headers


def marked(header: Any, kind: str = "string") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": header}


def test_headers_come_from_where_the_schema_says():
    schema = {"properties": {"a": marked("A"), "b": {"properties": {"c": marked("C", "integer")}}}}
    found = argument_headers_in(schema)
    assert make_argument_headers(found, {"a": "ü", "b": {"c": 7}}) == {
        "Mcp-Param-A": "=?base64?w7w=?=",
        "Mcp-Param-C": "7",
    }
    assert make_argument_headers(found, {"a": None, "b": 3}) == {}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": marked("A"), "b": marked("a")}},
        {"properties": {"a": marked("with space")}},
        {"properties": {"a": marked("A\r\nX")}},
        {"properties": {"a": marked("")}},
        {"properties": {"a": marked("A", "number")}},
        {"properties": {"a": {"items": marked("A")}}},
        {"anyOf": [{"properties": {"a": marked("A")}}]},
    ],
)
def test_headers_that_cannot_be_are_refused(schema: dict[str, Any]):
    with pytest.raises(McpError):
        argument_headers_in(schema)


@given(st.text(max_size=40))
@settings(deadline=None, max_examples=100)
def test_a_value_in_a_header_can_break_no_line(text: str):
    value = header_value(text)
    assert value.isascii() and not set(value) & set("\r\n\0")
    assert value == value.strip()
