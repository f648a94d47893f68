"""Records as a person reads them in a plain terminal."""

import sys
from collections.abc import Callable
from typing import Any

from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.event_text import describe_content, describe_event
from quarterdeck.wire.events import (
    CompactionChanged,
    Event,
    MessageChunk,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    PermissionViolated,
    PromptDropped,
    Prompted,
    QuestionAnswered,
    QuestionAsked,
    RateLimited,
    RetryScheduled,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from quarterdeck.wire.record import Record, encode_record

from ..text_table import escape_controls, escape_json, escape_to_line

__all__ = ["RecordPrinter", "TranscriptPrinter"]

_LONGEST = 2000
"""Characters of a line that are shown."""


class TranscriptPrinter:
    """Writes records as text: what the agent says as it comes, all else in a line each."""

    def __init__(self, write: Callable[[str], Any], *, only_requests: bool = False) -> None:
        self._write = write
        self._only_requests = only_requests
        self._is_within = False  # a line of the agent's words is not ended yet
        self._message: str | None = None

    def record(self, record: Record) -> None:
        """Write one record, or nothing if it is none for people."""
        event = record.event
        if isinstance(event, MessageChunk):
            if event.role == "agent" and not self._only_requests:
                if event.message != self._message:
                    self.end_line()
                self._message = event.message
                self._say(event.content)
            return
        is_shown = not self._only_requests or isinstance(event, _REQUESTS)
        line = _line(event) if is_shown else ""
        if line:
            self.line(line)
        elif isinstance(event, TurnEnded):
            self.end_line()

    def line(self, text: str) -> None:
        """Write a line of its own."""
        self.end_line()
        self._write(f"{text}\n")

    def end_line(self) -> None:
        """End the line of the agent's words, if there is one."""
        if self._is_within:
            self._write("\n")
            self._is_within = False

    def _say(self, content: ContentBlock) -> None:
        shown = escape_controls(describe_content(content), keep="\n\t")
        if shown:
            self._write(shown)
            self._is_within = not shown.endswith("\n")


class RecordPrinter(TranscriptPrinter):
    """Writes records as lines of JSON, and what is said beside them to standard error."""

    def record(self, record: Record) -> None:
        """Write one record."""
        self._write(escape_json(encode_record(record).decode()) + "\n")

    def line(self, text: str) -> None:
        """Say something that is no record."""
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def _line(event: Event) -> str:
    """What is shown of an event, with its sign; empty for one that is none for people."""
    sign = _sign(event)
    told = describe_event(event) if sign else None
    if told is None:
        return ""
    if isinstance(event, Prompted):
        return f"{sign} " + escape_controls(told.text).replace("\n", f"\n{sign} ")
    if isinstance(event, QuestionAsked):
        return f"{sign} {escape_controls(told.text)}"
    first = told.text.strip().partition("\n")[0]
    return f"{sign} {escape_to_line(first[:_LONGEST])}"


def _sign(event: Event) -> str:
    match event:
        case Prompted():
            return ">"
        case PromptDropped() | ToolCallStarted() | ToolCallEnded(status="failed" | "cancelled"):
            return "-"
        case PermissionAsked() | QuestionAsked(to=None):
            return "?"
        case NoticePosted() | PermissionViolated() | RateLimited() | RetryScheduled():
            return "!"
        case TurnEnded(stop="end_turn"):
            return ""
        case SessionOpened() | SessionResumed() | SessionEnded() | TurnEnded():
            return "="
        case CompactionChanged(status="completed") | PermissionAnswered() | QuestionAnswered():
            return "="
        case _:
            return ""


_REQUESTS = (PermissionAsked, PermissionAnswered, QuestionAsked, QuestionAnswered)
