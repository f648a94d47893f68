"""What ``cursor-agent --print --output-format stream-json`` prints, as its vendor documents it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from quarterdeck.wire.events import (
    Event,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
    UnknownEvent,
)
from quarterdeck.wire.ids import ToolCallId, new_message_id
from quarterdeck.wire.tool_calls import ToolCallLocation
from quarterdeck.wire.usage import TokenUsage

from ..foreign_json import (
    as_list,
    as_map,
    as_number,
    as_text,
    message,
    output_content,
    rate_limit,
    thought,
    tool_kind,
)
from ..link import AgentExit, TurnOutcome
from .dialect import PipeDialect, TurnContext, failure_text

__all__ = ["CURSOR", "CursorReader"]


class CursorReader:
    """Reads one turn of ``cursor-agent``.

    With ``--stream-partial-output`` the text comes in pieces and once more as a whole; what was
    emitted in pieces is not emitted again.
    """

    def __init__(self, asked: TurnContext) -> None:
        self._message = ""
        self._pieces = ""
        self._result: Mapping[str, Any] | None = None

    def read(self, value: Mapping[str, Any]) -> Iterable[Event]:
        """The events of one line."""
        match value.get("type"):
            case "system" if value.get("subtype") == "init":
                yield SessionChanged(
                    agent_session=as_text(value.get("session_id")),
                    model=as_text(value.get("model")),
                )
            case "user":  # our own prompt
                pass
            case "assistant":
                yield from self._read_message(value)
            case "thinking":
                if text := as_text(value.get("text")):
                    yield thought(text)
            case "tool_call":
                self._message = self._pieces = ""
                yield from _call(value)
            case "result":
                self._result = value
                limited = rate_limit(as_text(value.get("result")))
                if limited is not None and value.get("is_error") is True:
                    yield limited
            case _:
                yield UnknownEvent(origin="cursor", raw=dict(value))

    def outcome(self, left: AgentExit) -> TurnOutcome:
        """How the turn went: a result is due, and a failed run prints none."""
        result = self._result or {}
        usage = _usage(as_map(result.get("usage")))
        if self._result is not None and result.get("is_error") is not True:
            return TurnOutcome(stop="end_turn", usage=usage)
        text = as_text(result.get("result"))
        return TurnOutcome(stop="failed", reason=failure_text(left, text), usage=usage)

    def _read_message(self, value: Mapping[str, Any]) -> Iterator[Event]:
        blocks = map(as_map, as_list(as_map(value.get("message")).get("content")))
        text = "".join(as_text(block.get("text")) for block in blocks)
        if not self._message:
            self._message = new_message_id()
        if "timestamp_ms" in value and "model_call_id" not in value:
            self._pieces += text
            yield message(text, self._message)
            return
        rest = text.removeprefix(self._pieces) if text.startswith(self._pieces) else text
        if rest:
            yield message(rest, self._message)
        self._message = self._pieces = ""


def _call(value: Mapping[str, Any]) -> Iterator[Event]:
    """A tool call: one key names the tool and holds its arguments and, later, its result."""
    call = ToolCallId(as_text(value.get("call_id")))
    data = as_map(value.get("tool_call"))
    key = next(iter(data), "")
    name, body = key.removesuffix("ToolCall") or "tool", as_map(data.get(key))
    given = as_map(body.get("args"))
    path = as_text(given.get("path"))
    if value.get("subtype") == "started":
        yield ToolCallStarted(
            call=call,
            title=f"{name} {as_text(given.get('command')) or path}".strip(),
            name=name,
            kind=tool_kind(name),
            status="in_progress",
            locations=(ToolCallLocation(path=path),) if path else (),
            raw_input=dict(given),
        )
    elif value.get("subtype") == "completed":
        result = as_map(body.get("result"))
        good = as_map(result.get("success"))
        output = as_text(good.get("content")) or as_text(good.get("stdout"))
        yield ToolCallEnded(
            call=call,
            status="completed" if "success" in result else "failed",
            reason=None if "success" in result else next(iter(result), None),
            content=output_content(output),
            raw_output=body.get("result"),
        )
    else:
        yield UnknownEvent(origin="cursor", raw=dict(value))


def _usage(data: Mapping[str, Any]) -> TokenUsage | None:
    if not data:
        return None
    cached, written = (
        as_number(data.get("cacheReadTokens")),
        as_number(data.get("cacheWriteTokens")),
    )
    return TokenUsage(
        input=as_number(data.get("inputTokens")) + cached + written,
        output=as_number(data.get("outputTokens")),
        cached=cached,
        cache_written=written,
    )


CURSOR = PipeDialect(name="cursor", reader=CursorReader, streams=True)
