"""What a model is shown of a server's tools: valid names, sound schemas, arguments as headers.

A vendor refuses a whole request for one bad tool, so what cannot be repaired is left out.

A property of a tool's schema may name a header by ``x-mcp-header``. It must be a text, a whole
number or a truth value, reached from the top by properties alone.
"""

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from quarterdeck.models.model import ToolSpec
from quarterdeck.wire.decoders import convert

from ..tool_servers import ServerDefinition
from .protocol import ListedTool, McpError

__all__ = [
    "ArgumentHeaders",
    "ServerToolSpec",
    "ToolList",
    "argument_headers_in",
    "header_value",
    "make_argument_headers",
    "read_tool_list",
    "server_name",
    "tool_name",
]

ArgumentHeaders: TypeAlias = tuple[tuple[tuple[str, ...], str], ...]
"""Where arguments are, and the headers that show them."""

_MARK = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?|")
_TYPES = frozenset(("string", "integer", "boolean"))
_LARGEST = 2**53 - 1
_DEEPEST_HEADER = 32


def argument_headers_in(schema: Mapping[str, Any]) -> ArgumentHeaders:
    """The headers that a schema asks for.

    Raises:
        McpError: it asks for one that cannot be.
    """
    found = tuple(_found(schema, ()))
    names = [name.lower() for _, name in found]
    if len(set(names)) != len(names):
        raise McpError("two of its parameters use the same header")
    if _marks(schema) != len(found):
        raise McpError(f"{_MARK!r} is in a place that has no value")
    return found


def make_argument_headers(
    mirrored: ArgumentHeaders, arguments: Mapping[str, Any]
) -> dict[str, str]:
    """The headers of one call; what is absent or null has none."""
    headers: dict[str, str] = {}
    for path, name in mirrored:
        value: Any = arguments
        for key in path:
            value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
        if isinstance(value, bool):
            headers[f"Mcp-Param-{name}"] = "true" if value else "false"
        elif isinstance(value, str):
            headers[f"Mcp-Param-{name}"] = header_value(value)
        elif isinstance(value, int) and abs(value) <= _LARGEST:
            headers[f"Mcp-Param-{name}"] = str(value)
    return headers


def header_value(text: str) -> str:
    """A text as a header can carry it: as it is, or in base 64 between two marks."""
    is_marked = text.startswith("=?base64?") and text.endswith("?=")
    if _PLAIN.fullmatch(text) and not is_marked:
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


def _found(
    schema: Mapping[str, Any], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or len(above) > _DEEPEST_HEADER:
        return
    for name, inner in cast("dict[str, Any]", properties).items():
        if isinstance(inner, dict):
            below = cast("dict[str, Any]", inner)
            if _MARK in below:
                yield (*above, name), _header(below)
            yield from _found(below, (*above, name))


def _header(schema: Mapping[str, Any]) -> str:
    name = schema[_MARK]
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise McpError(f"{name!r} is not a valid header name")
    if schema.get("type") not in _TYPES:
        raise McpError(f"header {name!r} needs a string, an integer or a boolean")
    return name


def _marks(node: Any, depth: int = 0) -> int:
    """How often the mark stands anywhere in a schema."""
    if depth > 2 * _DEEPEST_HEADER:
        return 0
    if isinstance(node, list):
        return sum(_marks(item, depth + 1) for item in cast("list[Any]", node))
    if not isinstance(node, dict):
        return 0
    fields = cast("dict[str, Any]", node)
    # A property may itself have that name.
    own = isinstance(fields.get(_MARK), str) or (_MARK in fields and "type" in fields)
    return int(own) + sum(_marks(item, depth + 1) for item in fields.values())


_LONGEST_NAME = 64
"""The least of what the vendors allow."""
_LONGEST_SERVER = 32
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_RULE = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LONGEST_TEXT = 8000
"""Characters of a description."""
_LARGEST_SCHEMA = 100_000
_DEEPEST = 40
_REFUSED_AT_TOP = ("oneOf", "anyOf", "allOf", "not", "enum", "if", "then", "else", "$schema", "$id")
"""What vendors refuse at the top of a schema; the server still checks it."""


class ServerToolSpec(Struct, frozen=True, kw_only=True):
    """A tool of a server, ready to be shown."""

    server: str
    tool: str
    """Its name at the server."""
    spec: ToolSpec
    """As the model sees it."""
    rule_name: str
    """As rules name it: its own name, or the model's where that cannot be written."""
    title: str
    hints: tuple[str, ...] = ()
    """What its server says of it, for people."""
    only_reads: bool = False
    """Its server says that it changes nothing."""
    mirrored: ArgumentHeaders = ()


class ToolList(Struct, frozen=True, kw_only=True):
    """The tools of a server, by name, and why others were left out."""

    tools: tuple[ServerToolSpec, ...] = ()
    problems: tuple[str, ...] = ()


def server_name(name: str) -> str:
    """A server's name as tool names and rules can have it."""
    plain = re.sub(r"_{2,}", "_", _OTHER.sub("_", name)).strip("_-")[:_LONGEST_SERVER]
    return plain or "server"


def tool_name(server: str, tool: str, *, is_taken: bool = False) -> str:
    """The name by which a model calls a tool; longer and doubtful ones end with a hash."""
    name = f"mcp__{server}__{_OTHER.sub('_', tool)}"
    if len(name) <= _LONGEST_NAME and not is_taken:
        return name
    mark = hashlib.sha256(tool.encode("utf-8", "replace")).hexdigest()[:6]
    return f"{name[: _LONGEST_NAME - 7]}_{mark}"


def read_tool_list(definition: ServerDefinition, listed: Iterable[Any]) -> ToolList:
    """Read what a server lists. Never raises: a tool that is no good costs only itself."""
    found: dict[str, ListedTool] = {}
    problems: list[str] = []
    for raw in listed:
        try:
            tool = convert(raw, ListedTool)
        except msgspec.ValidationError as error:
            problems.append(f"a tool cannot be read: {error}")
            continue
        if not _is_wanted(definition, tool.name):
            continue
        if not tool.name or tool.name in found:
            problems.append(f"{tool.name[:64]!r}: the name is empty or not unique")
            continue
        found[tool.name] = tool
    taken = Counter(tool_name(definition.name, name) for name in found)
    tools: list[ServerToolSpec] = []
    for name in sorted(found):
        plain = tool_name(definition.name, name)
        is_doubtful = taken[plain] > 1 and not plain.endswith(f"__{name}")
        try:
            tools.append(_lent(definition, found[name], is_taken=is_doubtful))
        except McpError as error:
            problems.append(f"{name[:64]!r}: {error}")
    return ToolList(tools=tuple(tools), problems=tuple(problems))


def _is_wanted(definition: ServerDefinition, name: str) -> bool:
    if any(fnmatchcase(name, pattern) for pattern in definition.without):
        return False
    return definition.tools is None or any(fnmatchcase(name, each) for each in definition.tools)


def _lent(definition: ServerDefinition, tool: ListedTool, *, is_taken: bool) -> ServerToolSpec:
    schema = _mended(tool.input_schema)
    notes = tool.annotations or {}
    given_title = tool.title or notes.get("title")
    title = " ".join(given_title.split()) if isinstance(given_title, str) else ""
    name = tool_name(definition.name, tool.name, is_taken=is_taken)
    is_plain = _RULE.fullmatch(tool.name) is not None
    return ServerToolSpec(
        server=definition.name,
        tool=tool.name,
        spec=ToolSpec(name=name, description=_description(tool, title), parameters=schema),
        rule_name=tool.name if is_plain else name.removeprefix(f"mcp__{definition.name}__"),
        title=(title or " ".join(tool.name.split()))[:100],
        hints=_hints(notes),
        only_reads=notes.get("readOnlyHint") is True,
        mirrored=argument_headers_in(schema) if definition.url else (),
    )


def _description(tool: ListedTool, title: str) -> str:
    text = (tool.description or title or tool.name).strip()
    if len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[:_LONGEST_TEXT]} […{len(text) - _LONGEST_TEXT} more characters]"


def _hints(notes: dict[str, Any]) -> tuple[str, ...]:
    words = {
        ("readOnlyHint", True): "only reads",
        ("destructiveHint", True): "may destroy",
        ("openWorldHint", True): "open world",
    }
    return tuple(text for (name, value), text in words.items() if notes.get(name) is value)


def _mended(schema: Any) -> dict[str, Any]:
    """A schema that every vendor takes. Raises McpError."""
    if schema is None:
        return {"type": "object", "properties": {}}
    if not isinstance(schema, dict):
        raise McpError("its schema is not an object")
    given = cast("dict[str, Any]", schema)
    kind = given.get("type", "object")
    kinds = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
    if "object" not in kinds:
        raise McpError(f"its arguments are not an object but {str(kinds)[:40]!r}")
    if _depth(given) > _DEEPEST or len(msgspec.json.encode(given)) > _LARGEST_SCHEMA:
        raise McpError("its schema is too large")
    kept = {key: value for key, value in given.items() if key not in _REFUSED_AT_TOP}
    properties = _properties(given.get("properties"))
    mended = {**kept, "type": "object", "properties": properties}
    required = given.get("required")
    mended.pop("required", None)
    if isinstance(required, list):
        names = cast("list[Any]", required)
        if known := [name for name in dict.fromkeys(map(str, names)) if name in properties]:
            mended["required"] = known
    return mended


def _properties(properties: Any) -> dict[str, Any]:
    if not isinstance(properties, dict):
        return {}
    given = cast("dict[str, Any]", properties)
    for name in given:
        if not _PROPERTY.fullmatch(name):
            raise McpError(f"no vendor accepts a parameter named {name[:40]!r}")
    return {name: each for name, each in given.items() if isinstance(each, dict)}


def _depth(node: Any, depth: int = 1) -> int:
    if depth > _DEEPEST or not isinstance(node, dict | list):
        return depth
    inner: Iterable[Any] = (
        cast("dict[str, Any]", node).values() if isinstance(node, dict) else cast("list[Any]", node)
    )
    return max((_depth(each, depth + 1) for each in inner), default=depth)
