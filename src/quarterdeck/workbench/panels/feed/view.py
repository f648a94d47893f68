"""A record in a line: when, who, what."""

from typing import TYPE_CHECKING

from quarterdeck.wire.clock import format_local_time
from quarterdeck.wire.event_text import Severity, describe_event
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
from quarterdeck.wire.record import encode_event, event_type
from quarterdeck.wire.terminal_text import count_columns, cut_to_width

from ...rendering.lines import Line, clip
from ...sanitize import sanitize_line

if TYPE_CHECKING:
    from quarterdeck.wire.events import Event
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
    clock = format_local_time(record.time, form)
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


def _describe_event(event: "Event") -> tuple[str, str]:
    """What to show of an event, and its role."""
    text = describe_event(event)
    if text is None:
        return f"{event_type(event)} {_raw(event)}", "faint"
    sign, role = _look(event, text.severity)
    return f"{sign} {text.text}" if sign else text.text, role


def _look(event: "Event", severity: Severity) -> tuple[str, str]:
    is_good = severity == "info"
    match event:
        case ToolCallStarted():
            return "▸", "tool"
        case ToolCallEnded() | PermissionAnswered():
            return ("✓", "good") if is_good else ("✗", "bad")
        case PermissionAsked():
            return "?", "asking"
        case QuestionAnswered():
            return "!", "text"
        case SessionSpawned():
            return "+", "good"
        case SessionChanged() | CompactionChanged(status="in_progress"):
            return "~", "faint"
        case Prompted():
            return "❯", "prompt"
        case TurnStarted():
            return "●", "running"
        case TurnEnded(stop="end_turn"):
            return "○", "text"
        case _:
            return "", _NOTE_ROLES.get(severity, "asking")


def _raw(event: "Event") -> str:
    return encode_event(event)[:600].decode("utf-8", "replace")
