"""A record in a line: when, who, what."""

import time
from typing import TYPE_CHECKING, Any

import msgspec

from quarterdeck.wire.events import (
    CompactionChanged,
    PermissionAnswered,
    PermissionAsked,
    Prompted,
    QuestionAnswered,
    SessionChanged,
    SessionSpawned,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.permissions import Decider, Selected
from quarterdeck.wire.record import encode_event, event_type
from quarterdeck.wire.terminal_text import count_columns, cut_to_width

from ...rendering.lines import Line, clip
from ...sanitize import sanitize_line
from ...stores.blocks import describe_content
from ...stores.notes import describe_event, describe_request

if TYPE_CHECKING:
    from quarterdeck.wire.record import Record

__all__ = ["activity_line"]

_NAME, _SHORT_NAME = 14, 8
_WIDE = 70
"""Cells from which on there is room for seconds and long names."""
_NOTE_ROLES = {"quiet": "faint", "info": "text", "warning": "warning", "error": "bad"}


def activity_line(record: "Record", name: str, width: int) -> Line:
    """One line of at most ``width`` cells."""
    is_wide = width >= _WIDE
    form = "%H:%M:%S" if is_wide else "%H:%M"
    clock = time.strftime(form, time.localtime(record.time / 1_000_000))
    words, role = _describe_event(record.event)
    room = _NAME if is_wide else _SHORT_NAME
    shown = cut_to_width(sanitize_line(name, room * 2), room)
    shown += " " * (room - count_columns(shown))
    line: Line = (
        (f"{clock} ", "faint"),
        (f"{shown} ", "strong"),
        (sanitize_line(words, 400), role),
    )
    return clip(line, width)


def _describe_event(event: Any) -> tuple[str, str]:
    match event:
        case ToolCallStarted(title=title, name=name, kind=kind):
            return f"▸ {name or kind}: {title}", "tool"
        case ToolCallEnded(status=status, reason=reason):
            is_good = status == "completed"
            sign = "✓" if is_good else "✗"
            return f"{sign} call {status}{_because(reason)}", "good" if is_good else "bad"
        case PermissionAsked(title=title, reason=reason):
            why = f" ({reason})" if reason else ""
            return f"? {describe_request(title)}{why}", "asking"
        case PermissionAnswered(outcome=outcome, by=by, kind=kind, feedback=feedback):
            return _decided(outcome, by, kind, feedback)
        case QuestionAnswered(action=action, by=by):
            return f"! question: {action} by {_who(by)}", "text"
        case _:
            return _of_agent(event)


def _changes(event: SessionChanged) -> str:
    facts: dict[str, Any] = msgspec.to_builtins(event)
    describe_content = (
        f"{key.replace('_', ' ')}: {value}" for key, value in facts.items() if key != "type"
    )
    return ", ".join(describe_content)


def _of_agent(event: Any) -> tuple[str, str]:
    match event:
        case SessionSpawned(agent=agent, cwd=cwd, parent_session=parent):
            spawner = " by another agent" if parent else ""
            return f"+ spawned{spawner}: {agent} in {cwd}", "good"
        case SessionChanged():
            return f"~ {_changes(event)}", "faint"
        case Prompted(content=content, origin=origin):
            return f"❯ {origin}: {' '.join(map(describe_content, content))}", "prompt"
        case TurnStarted():
            return "● turn started", "running"
        case TurnEnded(stop="end_turn"):
            return "○ turn finished", "text"
        case CompactionChanged(status="in_progress"):
            return "~ compacting the conversation", "faint"
        case _:
            note = describe_event(event)
            if note is not None:
                severity, words = note
                return words, _NOTE_ROLES.get(severity, "asking")
            return f"{event_type(event)} {_raw(event)}", "faint"


def _decided(outcome: Any, by: Decider, kind: str | None, feedback: str | None) -> tuple[str, str]:
    is_permission = isinstance(outcome, Selected) and not (kind or "").startswith("reject")
    sign = "✓ allowed" if is_permission else "✗ denied"
    how = f" ({kind.replace('_', ' ')})" if kind else ""
    return f"{sign} by {_who(by)}{how}{_because(feedback)}", "good" if is_permission else "bad"


def _who(by: Decider) -> str:
    return f"{by.kind} {by.name}" if by.name else by.kind


def _raw(event: Any) -> str:
    return encode_event(event)[:600].decode("utf-8", "replace")


def _because(words: str | None) -> str:
    return f": {words}" if words else ""
