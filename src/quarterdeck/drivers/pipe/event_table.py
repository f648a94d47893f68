"""The table that teaches us an agent's lines: its fields, and paths into foreign values."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

import msgspec

from ..errors import BadAgentFileError

__all__ = [
    "EventRule",
    "EventTable",
    "Meaning",
    "Path",
    "compile_table",
    "find",
    "matches",
    "parse_path",
]

Meaning: TypeAlias = Literal[
    "text",
    "thought",
    "tool",
    "tool_update",
    "tool_end",
    "plan",
    "session",
    "usage",
    "retry",
    "rate_limit",
    "notice",
    "error",
    "result",
    "ignore",
]
Path: TypeAlias = tuple[str | int, ...]
"""Keys and positions, one after another, into a value of JSON."""


class EventRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What lines of one shape mean. All but ``when``, ``where``, ``means``, ``adds`` are paths."""

    means: Meaning
    when: dict[str, Any] = {}
    """Paths and the values that a line must have there; of a list, one."""
    each: str = ""
    """A list in the line; the other paths then begin at each of its elements."""
    where: dict[str, Any] = {}
    """With ``each``: as ``when``, for an element."""
    text: str = ""
    """What is said, thought or told."""
    id: str = ""
    """Of a message, a tool call, the session."""
    name: str = ""
    """Of a tool."""
    title: str = ""
    """Of a tool call."""
    input: str = ""
    """Of a tool call; of usage: prompt tokens, without those of a cache."""
    output: str = ""
    """Of a tool call; of usage: answered tokens."""
    failed: str = ""
    """Of a tool's end and of a result: it failed if something is there but false or empty."""
    model: str = ""
    """Of the session."""
    cached: str = ""
    cache_written: str = ""
    thought: str = ""
    cost: str = ""
    """In US dollars."""
    adds: bool = False
    """Usage counts one step and not the whole turn."""
    includes_cache: bool = False
    """The prompt tokens of usage count those of the cache too."""
    attempt: str = ""
    delay: str = ""
    """Of a retry, in seconds."""
    delay_ms: str = ""
    status: str = ""
    """Of an entry of a plan."""


class EventTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the lines of one agent are read."""

    rules: tuple[EventRule, ...] = ()
    """Each that fits a line applies; a line that none fits is unknown."""
    result_is_due: bool = False
    """A turn without a result has failed, whatever the exit code."""
    streams: bool = False
    """Text comes in pieces."""
    obeys_sigint: bool = False
    """Leaves in good order on SIGINT."""


def compile_table(agent: str, events: Mapping[str, Any]) -> EventTable:
    """Make a table of what an agent's file says.

    Raises:
        BadAgentFileError: a field is unknown or wrong; names the agent and the place.
    """
    try:
        table = msgspec.convert(dict(events), EventTable)
    except msgspec.ValidationError as error:
        text = f"{agent}: transports.pipe.events: {error}. docs/agents-pipe.md has every field."
        raise BadAgentFileError(text) from error
    if not table.rules:
        text = f"{agent}: transports.pipe.events.rules is missing: it says what lines mean."
        raise BadAgentFileError(f"{text} docs/agents-pipe.md has every field.")
    return table


def parse_path(path: str) -> Path:
    """The steps of ``message.content.0.text``."""
    steps = path.split(".") if path else []
    return tuple(int(step) if step.lstrip("-").isdecimal() else step for step in steps)


def find(value: object, path: Path) -> Any:
    """What is at a path; None where there is nothing."""
    for step in path:
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value).get(str(step))
        elif isinstance(value, list) and isinstance(step, int):
            items = cast("list[Any]", value)
            value = items[step] if -len(items) <= step < len(items) else None
        else:
            return None
    return value


def matches(value: object, conditions: Mapping[Path, tuple[Any, ...]]) -> bool:
    """Whether a value has one of the wanted values at every path."""
    return all(_is_one_of(find(value, path), wanted) for path, wanted in conditions.items())


def _is_one_of(found: object, wanted: tuple[Any, ...]) -> bool:
    return any(type(found) is type(one) and found == one for one in wanted)
