"""Messages and parts of OpenCode: printed, from its server or its history they are the same."""

from collections.abc import Mapping
from typing import Any

from quarterdeck.wire.events import Event, RateLimited, ToolCallEnded, ToolCallStarted, TurnEnd
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.session_options import AgentMcpServer
from quarterdeck.wire.tool_calls import ToolCallLocation
from quarterdeck.wire.usage import TokenUsage

from .foreign_json import as_map, as_number, as_text, output_content, rate_limit, tool_kind

__all__ = [
    "STOPS",
    "amount_of",
    "call_ended",
    "call_id",
    "call_started",
    "error_text",
    "limit_of",
    "server_of",
    "tokens_of",
]

STOPS: dict[str, TurnEnd] = {"length": "max_tokens", "content-filter": "refusal"}
"""How a turn ended, by the reason of its last step; any other is ``end_turn``."""
_TOO_MANY = 429


# Tool calls


def call_id(part: Mapping[str, Any]) -> ToolCallId:
    """The id of a tool call."""
    return ToolCallId(as_text(part.get("callID")) or as_text(part.get("id")))


def call_started(part: Mapping[str, Any]) -> ToolCallStarted:
    """The start of a tool call."""
    name, state = as_text(part.get("tool")), as_map(part.get("state"))
    given = as_map(state.get("input"))
    path = as_text(given.get("filePath")) or as_text(given.get("path"))
    return ToolCallStarted(
        call=call_id(part),
        title=as_text(state.get("title")) or as_text(given.get("command")) or path or name,
        name=name,
        kind=tool_kind(name),
        status="pending" if state.get("status") == "pending" else "in_progress",
        locations=(ToolCallLocation(path=path),) if path else (),
        raw_input=dict(given) or None,
    )


def call_ended(part: Mapping[str, Any]) -> ToolCallEnded:
    """The end of a tool call that is over."""
    state = as_map(part.get("state"))
    has_failed = state.get("status") != "completed"
    output = as_text(state.get("error" if has_failed else "output"))
    return ToolCallEnded(
        call=call_id(part),
        status="failed" if has_failed else "completed",
        reason=output or "it failed" if has_failed else None,
        content=output_content(output),
        raw_output=state.get("output"),
    )


# Usage


def tokens_of(tokens: Mapping[str, Any]) -> TokenUsage:
    """The tokens of one step: what was cached or thought is counted apart from the rest."""
    cache = as_map(tokens.get("cache"))
    cached, written = as_number(cache.get("read")), as_number(cache.get("write"))
    thinking = as_number(tokens.get("reasoning"))
    return TokenUsage(
        input=as_number(tokens.get("input")) + cached + written,
        output=as_number(tokens.get("output")) + thinking,
        cached=cached,
        cache_written=written,
        thought=thinking,
    )


def amount_of(cost: object) -> float:
    """A cost in dollars; 0 where it is not one."""
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        return 0.0
    return max(float(cost), 0.0)


# Errors


def error_text(error: Mapping[str, Any]) -> str:
    """What an error says."""
    data = as_map(error.get("data"))
    reason = as_text(data.get("message")) or as_text(error.get("name"))
    return reason or "opencode reported a failure without a reason"


def limit_of(error: Mapping[str, Any]) -> Event | None:
    """The limit of a model that an error reports; None: it is another error."""
    data, reason = as_map(error.get("data")), error_text(error)
    after = _seconds(as_map(data.get("responseHeaders")).get("retry-after"))
    if data.get("statusCode") == _TOO_MANY:
        return RateLimited(reason=reason, retry_after=after)
    return rate_limit(reason, after)


def _seconds(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, str | int | float) else None
    except ValueError:
        return None


# What it is configured with


def server_of(server: AgentMcpServer) -> dict[str, Any]:
    """A tool server as opencode describes it."""
    if server.url:
        return {"type": "remote", "url": server.url, "headers": server.sent_headers}
    return {
        "type": "local",
        "command": list(server.command),
        "environment": server.variables,
    }
