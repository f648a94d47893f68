"""Records as a person reads them in a plain terminal."""

import sys
from collections.abc import Callable
from typing import Any

from quarterdeck.wire.content import ContentBlock, ResourceLink, TextContent
from quarterdeck.wire.events import (
    CompactionChanged,
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
from quarterdeck.wire.permissions import Decider, Selected
from quarterdeck.wire.record import Record, encode_record

from ..text_table import escape_controls, escape_json, escape_to_line

__all__ = ["RecordPrinter", "TranscriptPrinter"]


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
        line = _requests(event) or ("" if self._only_requests else _line(event))
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
        shown = escape_controls(_told(content), keep="\n\t")
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


def _told(content: ContentBlock) -> str:
    match content:
        case TextContent(text=text):
            return text
        case ResourceLink(uri=uri):
            return f"[{uri}]"
        case _:
            return f"[{type(content).__name__}]"


def _line(event: Any) -> str:
    match event:
        case Prompted(content=content, origin=origin):
            who = "" if origin == "person" else f"({origin}) "
            return (
                "> " + who + escape_controls("\n".join(map(_told, content))).replace("\n", "\n> ")
            )
        case PromptDropped(reason=reason):
            return f"- a prompt was dropped{_because(reason)}"
        case ToolCallStarted(title=title, name=name):
            return f"- {escape_to_line(name or 'tool')}: {escape_to_line(title)}"
        case ToolCallEnded(status="failed" | "cancelled" as status, reason=reason):
            return f"- {status}{_because(reason)}"
        case TurnEnded(stop=stop, reason=reason) if stop != "end_turn":
            return f"= the turn ended: {stop}{_because(reason)}"
        case _:
            return _about_session(event)


def _about_session(event: Any) -> str:
    match event:
        case SessionOpened(agent=agent, cwd=cwd):
            return f"= {escape_to_line(agent)} works in {escape_to_line(cwd)}"
        case SessionResumed():
            return "= resumed"
        case SessionEnded(how=how, reason=reason):
            return f"= {how}{_because(reason)}"
        case CompactionChanged(status="completed"):
            return "= compacted"
        case PermissionViolated(title=title, reason=reason):
            return f"! done without permission: {escape_to_line(title)}{_because(reason)}"
        case NoticePosted(title=title, severity=severity):
            return f"! {severity}: {escape_to_line(title)}"
        case RateLimited(reason=reason):
            return f"! rate limited by the vendor{_because(reason)}"
        case RetryScheduled(delay=delay, reason=reason):
            return f"! retrying in {delay:.0f} s{_because(reason)}"
        case _:
            return ""


def _requests(event: Any) -> str:
    match event:
        case PermissionAsked(title=title, name=name):
            return f"? {escape_to_line(name or 'tool')} needs permission: {escape_to_line(title)}"
        case PermissionAnswered(outcome=outcome, kind=kind, by=by):
            what = kind or "answered" if isinstance(outcome, Selected) else "cancelled"
            return f"= {escape_to_line(what)}, by {_who(by)}"
        case QuestionAsked(text=text, to=None):
            return f"? {escape_controls(text)}"
        case QuestionAnswered(action=action, by=by):
            return f"= {action}, by {_who(by)}"
        case _:
            return ""


def _who(by: Decider) -> str:
    return by.kind + (f" {escape_to_line(by.name)}" if by.name else "")


def _because(reason: str | None) -> str:
    return f": {escape_to_line(reason)}" if reason else ""
