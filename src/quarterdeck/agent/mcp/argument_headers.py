"""Arguments that a server wants to see in headers too, so that what is between can route a call.

A property of a tool's schema may name a header by ``x-mcp-header``. It must be a text, a whole
number or a truth value, reached from the top by properties alone.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast

from .protocol import McpError

__all__ = ["ArgumentHeaders", "argument_headers_in", "header_value", "make_argument_headers"]

ArgumentHeaders: TypeAlias = tuple[tuple[tuple[str, ...], str], ...]
"""Where arguments are, and the headers that show them."""

_MARK = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?|")
_TYPES = frozenset(("string", "integer", "boolean"))
_LARGEST = 2**53 - 1
_DEEPEST = 32


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
    if not isinstance(properties, dict) or len(above) > _DEEPEST:
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
    if depth > 2 * _DEEPEST:
        return 0
    if isinstance(node, list):
        return sum(_marks(item, depth + 1) for item in cast("list[Any]", node))
    if not isinstance(node, dict):
        return 0
    fields = cast("dict[str, Any]", node)
    # A property may itself have that name.
    own = isinstance(fields.get(_MARK), str) or (_MARK in fields and "type" in fields)
    return int(own) + sum(_marks(item, depth + 1) for item in fields.values())
