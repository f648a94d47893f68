"""What a child of the session asks, as a tool call that a client can show.

The call that needs leave is one of the child's, of which the client knows nothing: it is announced
for the time of the request, apart from the call that started the child.
"""

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.events import PermissionAnswered, PermissionAsked
from quarterdeck.wire.permissions import Selected

__all__ = ["announced", "settled", "shown_call"]


def shown_call(asked: PermissionAsked) -> str:
    """The tool call that a request is about, as the client knows it."""
    if asked.child is None:
        return asked.call
    return f"{asked.child.session}/{asked.child.call}"


def announced(asked: PermissionAsked) -> acp.ToolCall:
    """The child's call, before its request."""
    return acp.ToolCall(
        tool_call_id=shown_call(asked),
        title=asked.title,
        name=asked.name,
        kind=asked.kind,
        status="pending",
        content=asked.content,
        locations=asked.locations,
        raw_input=asked.raw_input,
    )


def settled(call: str, answered: PermissionAnswered) -> acp.ToolCallUpdate:
    """The end of what was announced: what becomes of the call is told in the child's session."""
    allowed = isinstance(answered.outcome, Selected) and (answered.kind or "").startswith("allow")
    return acp.ToolCallUpdate(tool_call_id=call, status="completed" if allowed else "failed")
