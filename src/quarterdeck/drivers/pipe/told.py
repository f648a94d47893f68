"""What readers of agents' lines share: careful looks into foreign values, signs of trouble."""

import re
from collections.abc import Mapping
from typing import Any, cast

from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk, RateLimited, ThoughtChunk
from quarterdeck.wire.ids import MessageId
from quarterdeck.wire.toolcalls import ContentItem, ToolCallContent, ToolKind

__all__ = [
    "as_list",
    "as_map",
    "as_number",
    "as_text",
    "message",
    "rate_limit",
    "shown",
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


def message(said: str, id_: str = "") -> MessageChunk:
    """A piece of what the agent says."""
    return MessageChunk(content=text(said), message=MessageId(id_) if id_ else None)


def thought(said: str, id_: str = "") -> ThoughtChunk:
    """A piece of what it thinks."""
    return ThoughtChunk(content=text(said), message=MessageId(id_) if id_ else None)


def shown(output: str) -> tuple[ToolCallContent, ...]:
    """What a tool printed, as content of its call."""
    return (ContentItem(content=text(output)),) if output else ()


def rate_limit(told: str, retry_after: float | None = None) -> RateLimited | None:
    """The event for a text that speaks of a rate limit; None for any other."""
    if not _RATE_LIMIT.search(told):
        return None
    return RateLimited(reason=told, retry_after=retry_after)


def tool_kind(name: str) -> ToolKind:
    """What a tool does, judged by its name."""
    lower = name.lower()
    for kind, words in _KINDS:
        if any(word in lower for word in words):
            return kind
    return "other"
