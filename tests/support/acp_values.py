"""Hypothesis strategies for valid values of the ACP types, merged ones among them."""

from typing import Any

import msgspec.inspect as mi
from hypothesis import strategies as st
from msgspec import Struct, UnsetType

from quarterdeck.wire.acp import schema
from quarterdeck.wire.content import ResourceContents
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.settings import ConfigChoice, ConfigOption
from tests.support.struct_strategies import json_values

__all__ = ["acp_values"]

words = st.text(max_size=8)
numbers = st.integers(0, 2**31)
floats = st.floats(allow_nan=False, allow_infinity=False, width=32)
metas = st.none() | st.dictionaries(words, json_values, max_size=2)
string_lists = st.lists(words, max_size=3).map(tuple)


def lists_of(items: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[Any]:
    return st.lists(items, min_size=least, max_size=3).map(tuple)


def maybe(**optional: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    return {name: st.none() | strategy for name, strategy in optional.items()}


def make(
    cls: type[Struct], required: dict[str, Any], optional: dict[str, Any] | None = None
) -> st.SearchStrategy[Any]:
    fields = st.fixed_dictionaries(required, optional={"meta": metas, **(optional or {})})
    return fields.map(lambda chosen: cls(**chosen))


def resource_contents() -> st.SearchStrategy[Any]:
    more = maybe(mime_type=words)
    return make(ResourceContents, {"uri": words, "text": words}, more) | make(
        ResourceContents, {"uri": words, "blob": words}, more
    )


def config_choice() -> st.SearchStrategy[Any]:
    return make(ConfigChoice, {"name": words, "value": words}, maybe(description=words))


def config_group() -> st.SearchStrategy[Any]:
    return make(ConfigChoice, {"name": words, "group": words, "options": lists_of(config_choice())})


def config_option() -> st.SearchStrategy[Any]:
    common = {"id": words, "name": words}
    more = maybe(description=words, category=words)
    choices = lists_of(config_choice()) | lists_of(config_group())
    select = {"type": st.just("select"), "current_value": words, "options": choices}
    boolean = {"type": st.just("boolean"), "current_value": st.booleans()}
    return make(ConfigOption, common | select, more) | make(ConfigOption, common | boolean, more)


def mcp_server() -> st.SearchStrategy[Any]:
    env = lists_of(acp_values(schema.EnvVariable))
    headers = lists_of(acp_values(schema.HttpHeader))
    stdio = {"name": words, "command": words, "args": string_lists, "env": env}
    http = {"name": words, "url": words, "headers": headers}
    return make(schema.McpServer, stdio) | make(
        schema.McpServer, http | {"type": st.sampled_from(["http", "sse"])}
    )


def auth_method() -> st.SearchStrategy[Any]:
    common = {"id": words, "name": words}
    terminal = {"args": string_lists, "env": st.dictionaries(words, words, max_size=2)}
    return make(schema.AuthMethod, common, maybe(description=words)) | make(
        schema.AuthMethod, common | {"type": st.just("terminal")}, terminal
    )


def set_config_option() -> st.SearchStrategy[Any]:
    common = {"session_id": words, "config_id": words}
    cls = schema.SetSessionConfigOptionRequest
    return make(cls, common | {"value": words}) | make(
        cls, common | {"type": st.just("boolean"), "value": st.booleans()}
    )


def elicitation_property() -> st.SearchStrategy[Any]:
    cls, plain = schema.ElicitationProperty, maybe(title=words, description=words)
    options = lists_of(acp_values(schema.EnumOption))
    text = maybe(
        min_length=numbers,
        max_length=numbers,
        pattern=words,
        format=st.sampled_from(["email", "uri", "date", "date-time"]),
        default=words,
        enum=string_lists,
        one_of=options,
    )
    items = make(schema.MultiSelectItems, {"type": st.just("string"), "enum": string_lists}) | make(
        schema.MultiSelectItems, {"any_of": options}
    )
    several = maybe(min_items=numbers, max_items=numbers, default=string_lists)
    of_number = maybe(minimum=floats, maximum=floats, default=floats)
    of_integer = maybe(minimum=numbers, maximum=numbers, default=numbers)
    return st.one_of(
        make(cls, {"type": st.just("string")}, plain | text),
        make(cls, {"type": st.just("number")}, plain | of_number),
        make(cls, {"type": st.just("integer")}, plain | of_integer),
        make(cls, {"type": st.just("boolean")}, plain | maybe(default=st.booleans())),
        make(cls, {"type": st.just("array"), "items": items}, plain | several),
    )


def create_elicitation() -> st.SearchStrategy[Any]:
    cls = schema.CreateElicitationRequest
    form = {"mode": st.just("form"), "requested_schema": acp_values(schema.ElicitationSchema)}
    url = {"mode": st.just("url"), "elicitation_id": words, "url": st.just("https://example.org")}
    session = {"message": words, "session_id": words}
    request = {"message": words, "request_id": st.none() | numbers | words}
    return st.one_of(
        [make(cls, scope | mode) for scope in (session, request) for mode in (form, url)]
    )


def create_elicitation_response() -> st.SearchStrategy[Any]:
    cls = schema.CreateElicitationResponse
    value = words | st.integers(-(2**31), 2**31) | floats | st.booleans() | string_lists
    content = maybe(content=st.dictionaries(words, value, max_size=3))
    return make(cls, {"action": st.just("accept")}, content) | make(
        cls, {"action": st.sampled_from(["decline", "cancel"])}
    )


MERGED: dict[type[Struct], Any] = {
    ConfigChoice: config_choice,
    ConfigOption: config_option,
    ResourceContents: resource_contents,
    schema.AuthMethod: auth_method,
    schema.CreateElicitationRequest: create_elicitation,
    schema.CreateElicitationResponse: create_elicitation_response,
    schema.ElicitationProperty: elicitation_property,
    schema.McpServer: mcp_server,
    schema.SetSessionConfigOptionRequest: set_config_option,
}
STOPS = ["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
KINDS = ["allow_once", "allow_always", "reject_once", "reject_always"]
CLOSED: dict[tuple[type[Struct], str], st.SearchStrategy[Any]] = {
    (schema.ElicitationSchema, "type"): st.just("object"),
    (schema.InitializeRequest, "protocol_version"): st.integers(0, 65535),
    (schema.InitializeResponse, "protocol_version"): st.integers(0, 65535),
    (schema.Notice, "title"): st.text(min_size=1, max_size=8),
    (schema.PromptResponse, "stop_reason"): st.sampled_from(STOPS),
    (PermissionOption, "kind"): st.sampled_from(KINDS),
}
"""Fields that we read more tolerantly than the schema writes them."""


def acp_values(cls: type[Struct]) -> st.SearchStrategy[Any]:
    """Make a strategy for the values of a type that the official schema takes as valid."""
    if cls in MERGED:
        return st.deferred(MERGED[cls])
    info = mi.type_info(cls)
    assert isinstance(info, mi.StructType)
    fields = {
        field.name: CLOSED.get((cls, field.name), _of(field.type))
        for field in info.fields
        if field.name != "meta"
    }
    required = {field.name for field in info.fields if field.required}
    return make(
        cls,
        {name: each for name, each in fields.items() if name in required},
        {name: each for name, each in fields.items() if name not in required},
    )


def _of(info: mi.Type) -> st.SearchStrategy[Any]:
    match info:
        case mi.StructType():
            return st.deferred(lambda: acp_values(info.cls))
        case mi.UnionType():
            members = [each for each in info.types if not _is_ours(each)]
            return st.one_of([_of(member) for member in members])
        case mi.LiteralType():
            return st.sampled_from(info.values)
        case mi.DictType():
            return st.dictionaries(words, _of(info.value_type), max_size=2)
        case mi.VarTupleType():
            return lists_of(_of(info.item_type))
        case _:
            return _scalar(info)


def _is_ours(info: mi.Type) -> bool:
    if isinstance(info, mi.CustomType):
        return info.cls is UnsetType
    return isinstance(info, mi.StructType) and info.cls is schema.UnknownUpdate


def _scalar(info: mi.Type) -> st.SearchStrategy[Any]:
    scalars: dict[type[mi.Type], st.SearchStrategy[Any]] = {
        mi.StrType: words,
        mi.BoolType: st.booleans(),
        mi.IntType: numbers,
        mi.FloatType: floats,
        mi.NoneType: st.none(),
        mi.AnyType: json_values,
    }
    return scalars[type(info)]
