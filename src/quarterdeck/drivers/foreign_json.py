"""JSON of other programs: lines that may hold anything, and checked access to values."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from quarterdeck.wire.content import text
from quarterdeck.wire.errors import LinkBrokenError
from quarterdeck.wire.events import MessageChunk, RateLimited, ThoughtChunk
from quarterdeck.wire.ids import MessageId
from quarterdeck.wire.rpc.stream import ByteStream
from quarterdeck.wire.tool_calls import ContentItem, ToolCallContent, ToolKind
from quarterdeck.wire.usage import TokenUsage

__all__ = [
    "MAX_LINE",
    "JsonLine",
    "as_list",
    "as_map",
    "as_number",
    "as_text",
    "message",
    "output_content",
    "rate_limit",
    "read_lines",
    "read_pi_usage",
    "thought",
    "tool_kind",
]

_RATE_LIMIT = re.compile(
    r"\b429\b|too many requests|rate.?limit|RESOURCE_EXHAUSTED|usage limit", re.IGNORECASE
)
_KINDS: tuple[tuple[ToolKind, tuple[str, ...]], ...] = (
    ("execute", ("shell", "bash", "exec", "terminal", "command", "run_")),
    ("fetch", ("fetch", "web", "http")),
    ("edit", ("write", "edit", "patch", "replace", "create", "insert")),
    ("delete", ("delete", "remove")),
    ("move", ("move", "rename")),
    ("search", ("grep", "glob", "search", "find")),
    ("read", ("read", "view", "list", "ls", "cat")),
    ("think", ("todo", "plan", "think", "task")),
)
"""Words in a tool's name, and what they mean; the first that fits."""


def as_map(value: object) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: object) -> str:
    """The value if it is text, else nothing."""
    return value if isinstance(value, str) else ""


def as_number(value: object) -> int:
    """The value if it counts something, else 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value < 1 << 53 else 0


def read_pi_usage(data: Mapping[str, Any]) -> TokenUsage:
    """The tokens of a message of pi, as it prints and stores them."""
    cached, written = as_number(data.get("cacheRead")), as_number(data.get("cacheWrite"))
    return TokenUsage(
        input=as_number(data.get("input")) + cached + written,
        output=as_number(data.get("output")),
        cached=cached,
        cache_written=written,
        thought=as_number(data.get("reasoning")),
    )


def message(words: str, id_: str = "") -> MessageChunk:
    """A piece of what the agent says."""
    return MessageChunk(content=text(words), message=MessageId(id_) if id_ else None)


def thought(words: str, id_: str = "") -> ThoughtChunk:
    """A piece of what it thinks."""
    return ThoughtChunk(content=text(words), message=MessageId(id_) if id_ else None)


def output_content(output: str) -> tuple[ToolCallContent, ...]:
    """What a tool printed, as content of its call."""
    return (ContentItem(content=text(output)),) if output else ()


def rate_limit(reason: str, retry_after: float | None = None) -> RateLimited | None:
    """The event for a text that speaks of a rate limit; None for any other."""
    if not _RATE_LIMIT.search(reason):
        return None
    return RateLimited(reason=reason, retry_after=retry_after)


def tool_kind(name: str) -> ToolKind:
    """What a tool does, judged by its name."""
    lower = name.lower()
    for kind, words in _KINDS:
        if any(word in lower for word in words):
            return kind
    return "other"


MAX_LINE = 32 * 1024 * 1024
"""Bytes; a program that writes a longer line is not talking to us."""

_decoder = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class JsonLine:
    """One line: its object, or the text of what is none."""

    value: dict[str, Any] | None
    text: str = ""
    """What a line that holds no JSON object says, undecodable bytes replaced."""


async def read_lines(stream: ByteStream, *, limit: int = MAX_LINE) -> AsyncIterator[JsonLine]:
    """Each line, also a last one without a line end; empty ones are left out.

    The program is held back until the next line is taken.

    Raises:
        LinkBrokenError: a line is longer than ``limit``.
    """
    kept: list[bytes] = []
    size = 0
    while data := await stream.receive():
        *whole, rest = data.split(b"\n")
        for part in whole:
            if line := _line(b"".join((*kept, part))):
                yield line
            kept, size = [], 0
        if rest:
            kept.append(rest)
            size += len(rest)
            if size > limit:
                raise LinkBrokenError(f"a line is longer than {limit} bytes")
    if line := _line(b"".join(kept)):
        yield line


def _line(data: bytes) -> JsonLine | None:
    data = data.strip()
    if not data:
        return None
    try:
        value = _decode(data)
    except (ValueError, RecursionError):
        return JsonLine(None, data.decode("utf-8", "replace"))
    if isinstance(value, dict):
        return JsonLine(cast("dict[str, Any]", value))
    return JsonLine(None, data.decode("utf-8", "replace"))


def _decode(data: bytes) -> Any:
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError:
        if b"\\ud" not in data and b"\\uD" not in data:
            raise
    # Programs in JavaScript cut texts within a character and print one half of it.
    halved = json.dumps(json.loads(data), ensure_ascii=False)
    return _decoder.decode(halved.encode("utf-8", "replace"))
