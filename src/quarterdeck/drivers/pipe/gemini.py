"""What ``gemini -o stream-json`` prints: messages in pieces, tool uses and results, one result."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from quarterdeck.wire.events import (
    Event,
    NoticePosted,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
    UnknownEvent,
)
from quarterdeck.wire.ids import ToolCallId, new_message_id
from quarterdeck.wire.tool_calls import ToolCallLocation
from quarterdeck.wire.usage import TokenUsage

from ..foreign_json import (
    as_map,
    as_number,
    as_text,
    message,
    output_content,
    rate_limit,
    tool_kind,
)
from ..link import AgentExit, TurnOutcome
from .dialect import PipeDialect, TurnContext, failure_text

__all__ = ["GEMINI", "GeminiReader"]

_RETRY = re.compile(r"Attempt (\d+) failed with status (\d+)\. Retrying[^\n]*")
_TOO_MANY_TURNS = 53
"""The exit code for a session that reached its limit of turns."""
_TITLES = ("command", "file_path", "absolute_path", "path", "pattern", "query", "url")


class GeminiReader:
    """Reads one turn of ``gemini -o stream-json``."""

    def __init__(self, asked: TurnContext) -> None:
        self._message = ""
        self._error = ""
        self._result: Mapping[str, Any] | None = None

    def read(self, value: Mapping[str, Any]) -> Iterable[Event]:
        """The events of one line."""
        match value.get("type"):
            case "init":
                session, model = as_text(value.get("session_id")), as_text(value.get("model"))
                yield SessionChanged(agent_session=session, model=model)
            case "message":
                yield from self._read_message(value)
            case "tool_use":
                self._message = ""
                yield _started(value)
            case "tool_result":
                self._message = ""
                yield _ended(value)
            case "error":
                yield from self._trouble(value)
            case "result":
                self._result = value
                limited = rate_limit(self._error_text())
                if limited is not None and value.get("status") == "error":
                    yield limited
            case _:
                yield _unknown(value)

    def outcome(self, left: AgentExit) -> TurnOutcome:
        """How the turn went: gemini says so in its result, which is due."""
        usage = _usage(as_map((self._result or {}).get("stats")))
        if self._result is not None and self._result.get("status") == "success":
            return TurnOutcome(stop="end_turn", usage=usage)
        reason = failure_text(left, self._error_text())
        stop = "max_turn_requests" if left.exit_code == _TOO_MANY_TURNS else "failed"
        return TurnOutcome(stop=stop, reason=reason, usage=usage)

    def _error_text(self) -> str:
        """The text of the failure: in the result, or before it."""
        error = as_map((self._result or {}).get("error"))
        return as_text(error.get("message")) or self._error

    def _read_message(self, value: Mapping[str, Any]) -> Iterator[Event]:
        content = value.get("content")
        if value.get("role") == "user":  # our own prompt
            return
        if value.get("role") != "assistant" or not isinstance(content, str):
            yield _unknown(value)
            return
        if not self._message or value.get("delta") is not True:
            self._message = new_message_id()
        yield message(content, self._message)

    def _trouble(self, value: Mapping[str, Any]) -> Iterator[Event]:
        title = as_text(value.get("message"))
        if value.get("severity") == "error":
            self._error = title
            yield NoticePosted(title=title, severity="error")
        else:
            yield NoticePosted(title=title, severity="warning")


def _started(value: Mapping[str, Any]) -> ToolCallStarted:
    name, given = as_text(value.get("tool_name")), as_map(value.get("parameters"))
    about = next((text for key in _TITLES if (text := as_text(given.get(key)))), "")
    path = as_text(given.get("file_path")) or as_text(given.get("absolute_path"))
    return ToolCallStarted(
        call=ToolCallId(as_text(value.get("tool_id")) or name),
        title=f"{name} {about}".strip(),
        name=name,
        kind=tool_kind(name),
        status="in_progress",
        locations=(ToolCallLocation(path=path),) if path else (),
        raw_input=dict(given),
    )


def _ended(value: Mapping[str, Any]) -> ToolCallEnded:
    output, error = as_text(value.get("output")), as_map(value.get("error"))
    return ToolCallEnded(
        call=ToolCallId(as_text(value.get("tool_id"))),
        status="completed" if value.get("status") == "success" else "failed",
        reason=as_text(error.get("message")) or None,
        content=output_content(output),
        raw_output=value.get("output"),
    )


def _usage(stats: Mapping[str, Any]) -> TokenUsage | None:
    """The turn's tokens. What the total has beyond prompt and answer was thought."""
    if not stats:
        return None
    input_, answer = as_number(stats.get("input_tokens")), as_number(stats.get("output_tokens"))
    thought = max(as_number(stats.get("total_tokens")) - input_ - answer, 0)
    return TokenUsage(
        input=input_,
        output=answer + thought,
        cached=as_number(stats.get("cached")),
        thought=thought,
    )


def _retries(stderr: str, position: int) -> Iterator[tuple[int, Event]]:
    """The retries that are reported on standard error, from a position on.

    Only the end of standard error is kept, so a position is the number of the last attempt.
    """
    for found in _RETRY.finditer(stderr):
        attempt = int(found[1])
        if attempt <= position:
            continue
        if found[2] == "429":
            yield attempt, RateLimited(reason=found[0])
        yield attempt, RetryScheduled(attempt=attempt + 1, delay=0.0, reason=found[0])


def _unknown(value: Mapping[str, Any]) -> UnknownEvent:
    return UnknownEvent(origin="gemini", raw=dict(value))


GEMINI = PipeDialect(name="gemini", reader=GeminiReader, streams=True, stderr_events=_retries)
