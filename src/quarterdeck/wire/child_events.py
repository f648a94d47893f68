"""What happens to the agents that a session starts; part of ``events``, imported from there.

A child of our own agent is a session in the log of its parent. It asks nobody by itself: what it
asks stands in the session at the top, with a ``ChildRef`` that says who asks.
"""

from typing import Literal, TypeAlias

from .ids import SessionId, ToolCallId
from .usage import Cost, TokenUsage
from .values import Value

__all__ = ["ChildEnd", "ChildEnded", "ChildRef", "ChildStarted"]

ChildEnd: TypeAlias = Literal["completed", "limit", "failed", "cancelled"]
"""How a child ended: it answered, it reached a limit, something failed, or it was stopped."""


class ChildRef(Value, frozen=True, kw_only=True):
    """Which child asks."""

    session: SessionId
    name: str
    """Its profile."""
    path: tuple[str, ...] = ()
    """Names from the child of the session at the top down to this one."""
    call: ToolCallId | None = None
    """Its call that needs leave, in its own session."""


class ChildStarted(Value, frozen=True, kw_only=True, tag_field="type", tag="child_started"):
    """A tool call starts a child; once a child, while the call runs."""

    child: SessionId
    call: ToolCallId
    """The call that starts it, in this session."""
    name: str
    """Its profile."""
    task: str
    background: bool = False
    """The call does not wait for it; its answer comes as a prompt of the child's."""


class ChildEnded(Value, frozen=True, kw_only=True, tag_field="type", tag="child_ended"):
    """A child is over, once for each that started; before its call ends or, later, its answer."""

    child: SessionId
    call: ToolCallId
    how: ChildEnd
    answer: str = ""
    """What the model is told, cut to the size of a result."""
    usage: TokenUsage | None = None
    """With all that its own children took."""
    cost: Cost | None = None
