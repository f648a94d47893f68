"""The values of a tool call, as in ACP."""

from typing import Literal, TypeAlias

from .content import ContentBlock
from .values import AcpValue

__all__ = [
    "ContentItem",
    "Diff",
    "TerminalItem",
    "ToolCallContent",
    "ToolCallEnd",
    "ToolCallLocation",
    "ToolCallStatus",
    "ToolKind",
]

ToolKind: TypeAlias = Literal[
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
]
ToolCallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
"""The states that ACP v1 knows."""
ToolCallEnd: TypeAlias = Literal["completed", "failed", "cancelled"]
"""The states in which a call can end; ACP v1 has no word for cancelled, we do."""


class ToolCallLocation(AcpValue, frozen=True, kw_only=True):
    """A place in a file that a call works on; ``line`` counts from 1."""

    path: str
    line: int | None = None


class ContentItem(AcpValue, frozen=True, kw_only=True, tag_field="type", tag="content"):
    """A content block as part of a call's output."""

    content: ContentBlock


class Diff(AcpValue, frozen=True, kw_only=True, tag_field="type", tag="diff"):
    """A change of one file; ``old_text`` is None for a new one."""

    path: str
    new_text: str
    old_text: str | None = None


class TerminalItem(AcpValue, frozen=True, kw_only=True, tag_field="type", tag="terminal"):
    """A terminal whose live output belongs to the call."""

    terminal_id: str


ToolCallContent: TypeAlias = ContentItem | Diff | TerminalItem
