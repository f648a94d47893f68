"""``logs``: the transcript of an agent, as text for a plain terminal."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from quarterdeck.wire.content import ContentBlock
from quarterdeck.wire.event_text import describe_content, describe_event
from quarterdeck.wire.events import (
    CompactionChanged,
    Event,
    MessageChunk,
    NoticePosted,
    PermissionAnswered,
    PermissionApproved,
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

from ..command_io import as_json_option, plain_json, with_fleet
from ..output import escape_controls, escape_json, escape_to_line

if TYPE_CHECKING:
    from quarterdeck.fleet.client import HostClient

__all__ = ["RecordPrinter", "TranscriptPrinter", "logs", "write_flushed"]

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
    """Writes records as lines of JSON, and other messages to standard error."""

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
    described = describe_event(event) if sign else None
    if described is None:
        return ""
    if isinstance(event, Prompted):
        return f"{sign} " + escape_controls(described.text).replace("\n", f"\n{sign} ")
    if isinstance(event, QuestionAsked):
        return f"{sign} {escape_controls(described.text)}"
    first = described.text.strip().partition("\n")[0]
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
        case PermissionApproved():
            return "="
        case _:
            return ""


_REQUESTS = (
    *(PermissionAsked, PermissionApproved, PermissionAnswered),
    *(QuestionAsked, QuestionAnswered),
)


_PATIENCE = 60.0


@click.command()
@click.argument("agent")
@click.option("-f", "--follow", is_flag=True, help="Follow new output; Ctrl-C ends it.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(0),
    default=200,
    show_default=True,
    help="Number of records to go back; more if needed to start with a whole message.",
)
@as_json_option
def logs(agent: str, follow: bool, limit: int, as_json: bool) -> None:
    """Show the transcript of AGENT; with --json one record per line."""
    with_fleet(lambda fleet: _logs(fleet, agent, follow, limit, as_json))


def write_flushed(text: str) -> None:
    """Write to standard output, where it is seen at once: ``echo`` leaves nothing behind."""
    click.echo(text, nl=False)


async def _logs(fleet: "HostClient", agent: str, follow: bool, limit: int, as_json: bool) -> None:
    from quarterdeck.wire.record import encode_record

    from .agent_control import read_last_records

    transcript = TranscriptPrinter(write_flushed)
    show: Callable[[Any], None] = transcript.record
    if as_json:
        show = lambda record: write_flushed(plain_json(encode_record(record)) + "\n")  # noqa: E731
    info = await fleet.agent(agent)
    last = info.last_seq
    for record in await read_last_records(fleet, info, limit):
        show(record)
    if follow:
        async for record in fleet.follow(last, agent=info.session, patience=_PATIENCE):
            show(record)
    transcript.end_line()
