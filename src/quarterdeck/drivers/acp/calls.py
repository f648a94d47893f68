"""Tool calls as an agent tells them, bit by bit."""

from typing import Any

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.events import ToolCallUpdated
from quarterdeck.wire.ids import ToolCallId
from quarterdeck.wire.toolcalls import ToolKind

from .extensions import streamed_input, tool_name

__all__ = ["details", "merged", "updated"]


def details(call: acp.ToolCall, name: str | None) -> acp.ToolCallDetails:
    """An announced call in the form of its updates."""
    return acp.ToolCallDetails(
        tool_call_id=call.tool_call_id,
        kind=call.kind,
        status=call.status,
        title=call.title,
        name=name,
        content=call.content or None,
        locations=call.locations or None,
        raw_input=call.raw_input,
    )


def merged(earlier: acp.ToolCallDetails, now: acp.ToolCallDetails) -> acp.ToolCallDetails:
    """All that is known of a call: what is said now goes before what was said earlier."""
    return acp.ToolCallDetails(
        tool_call_id=now.tool_call_id,
        kind=_kind(now) or earlier.kind or now.kind,
        status=now.status or earlier.status,
        title=now.title or earlier.title,
        name=now.name or tool_name(now.meta) or earlier.name,
        content=now.content or earlier.content,
        locations=now.locations or earlier.locations,
        raw_input=now.raw_input or earlier.raw_input or streamed_input(earlier.content or ()),
    )


def _kind(told: acp.ToolCallDetails) -> ToolKind | None:
    """What it is said to be; ``other`` says nothing, and does not go before what was said."""
    return told.kind if told.kind != "other" else None


def updated(update: acp.ToolCallUpdate) -> ToolCallUpdated:
    """The event for an update; what it leaves out is unchanged."""
    told: dict[str, Any] = {
        field: value
        for field in ("title", "kind", "status", "content", "locations", "raw_input", "raw_output")
        if (value := getattr(update, field)) is not None
    }
    if name := update.name:
        told["name"] = name
    return ToolCallUpdated(call=ToolCallId(update.tool_call_id), **told)
