"""What ``pi --mode json`` prints: every event of its session, and ``agent_settled`` at the end.

With ``--mode rpc`` it takes commands instead, by which its conversation goes back.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from quarterdeck.wire.errors import LinkEndedError, RpcError
from quarterdeck.wire.events import (
    CompactionChanged,
    CompactionStatus,
    Event,
    RetryScheduled,
    SessionChanged,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    TurnEnd,
    UnknownEvent,
)
from quarterdeck.wire.ids import CompactionId, ToolCallId, new_compaction_id, new_message_id
from quarterdeck.wire.tool_calls import ToolCallLocation
from quarterdeck.wire.usage import Cost, TokenUsage

from ..agent_process import AgentProcess
from ..foreign_json import (
    JsonLine,
    as_list,
    as_map,
    as_number,
    as_text,
    message,
    output_content,
    rate_limit,
    read_lines,
    read_pi_usage,
    thought,
    tool_kind,
)
from ..link import AgentExit, TurnOutcome
from .dialect import PipeDialect, TurnContext, failure_text

__all__ = ["PI", "PiReader", "rewind_pi"]

_QUIET = frozenset(
    (
        *("agent_start", "agent_end", "turn_start", "turn_end"),
        *("queue_update", "entry_appended", "auto_retry_end"),
    )
)
"""Lines that only repeat what other lines report."""
_STOPS: dict[str, TurnEnd] = {"length": "max_tokens", "aborted": "cancelled"}


class PiReader:
    """Reads one turn of ``pi --mode json``."""

    def __init__(self, asked: TurnContext) -> None:
        self._message = ""
        self._usage = TokenUsage()
        self._cost = 0.0
        self._stop = ""
        self._error = ""
        self._is_settled = False
        self._limited = False
        self._compaction: CompactionId | None = None

    def read(self, value: Mapping[str, Any]) -> Iterable[Event]:
        """The events of one line."""
        match value.get("type"):
            case "session":
                yield SessionChanged(agent_session=as_text(value.get("id")))
            case "message_start":
                self._message = new_message_id()
            case "message_update":
                yield from self._grow(as_map(value.get("assistantMessageEvent")))
            case "message_end":
                yield from self._read_message(as_map(value.get("message")))
            case str() as kind if kind.startswith("tool_execution_"):
                yield _call(kind, value)
            case "auto_retry_start":
                yield from self._retry(value)
            case "compaction_start" | "compaction_end":
                yield self._compact(value)
            case "agent_settled":
                self._is_settled = True
            case str() as kind if kind in _QUIET:
                pass
            case _:
                yield UnknownEvent(origin="pi", raw=dict(value))

    def outcome(self, left: AgentExit) -> TurnOutcome:
        """How the turn went; pi leaves with 0 also after a failure."""
        usage = self._usage if self._usage.total else None
        cost = Cost(amount=self._cost, currency="USD") if self._cost else None
        went_well = left.exit_code == 0 and bool(self._stop)
        if self._stop == "error" or not went_well:
            reason = failure_text(left, self._error)
            return TurnOutcome(stop="failed", reason=reason, usage=usage, cost=cost)
        return TurnOutcome(stop=_STOPS.get(self._stop, "end_turn"), usage=usage, cost=cost)

    def _grow(self, change: Mapping[str, Any]) -> Iterator[Event]:
        delta = as_text(change.get("delta"))
        if not delta:
            return
        if change.get("type") == "text_delta":
            yield message(delta, self._message)
        elif change.get("type") == "thinking_delta":
            yield thought(delta, self._message)

    def _read_message(self, data: Mapping[str, Any]) -> Iterator[Event]:
        """A message is complete; its text came in pieces before."""
        if data.get("role") != "assistant":
            return
        usage = as_map(data.get("usage"))
        self._usage = self._usage + read_pi_usage(usage)
        total = as_map(usage.get("cost")).get("total")
        self._cost += total if isinstance(total, int | float) else 0.0
        self._stop = as_text(data.get("stopReason"))
        self._error = as_text(data.get("errorMessage"))
        limited = rate_limit(self._error)
        if limited is not None and not self._limited:
            self._limited = True
            yield limited

    def _retry(self, value: Mapping[str, Any]) -> Iterator[Event]:
        yield RetryScheduled(
            attempt=as_number(value.get("attempt")) + 1,
            delay=as_number(value.get("delayMs")) / 1000,
            reason=as_text(value.get("errorMessage")),
        )

    def _compact(self, value: Mapping[str, Any]) -> Event:
        if value.get("type") == "compaction_start" or self._compaction is None:
            self._compaction = new_compaction_id()
        error = as_text(value.get("errorMessage"))
        status: CompactionStatus = "in_progress"
        if value.get("type") == "compaction_end":
            stopped = "cancelled" if value.get("aborted") is True else "completed"
            status = "failed" if error else stopped
        summary = as_text(as_map(value.get("result")).get("summary"))
        return CompactionChanged(
            compaction=self._compaction,
            status=status,
            summary=summary or None,
            error=error or None,
        )


def _call(kind: str, value: Mapping[str, Any]) -> Event:
    call = ToolCallId(as_text(value.get("toolCallId")))
    if kind == "tool_execution_end":
        output = _output(value.get("result"))
        failed = value.get("isError") is True
        return ToolCallEnded(
            call=call,
            status="failed" if failed else "completed",
            reason=output if failed else None,
            content=output_content(output),
            raw_output=value.get("result"),
        )
    if kind == "tool_execution_update":
        output = _output(value.get("partialResult"))
        return ToolCallUpdated(call=call, status="in_progress", content=output_content(output))
    name, given = as_text(value.get("toolName")), as_map(value.get("args"))
    path = as_text(given.get("path"))
    return ToolCallStarted(
        call=call,
        title=f"{name} {as_text(given.get('command')) or path}".strip(),
        name=name,
        kind=tool_kind(name),
        status="in_progress",
        locations=(ToolCallLocation(path=path),) if path else (),
        raw_input=value.get("args"),
    )


def _output(result: object) -> str:
    blocks = map(as_map, as_list(as_map(result).get("content")))
    return "\n".join(text for block in blocks if (text := as_text(block.get("text"))))


async def rewind_pi(child: AgentProcess, turns: int, prompts: Sequence[str]) -> str:
    """Copy the session up to its last turns; see ``PipeDialect.rewind``.

    A turn that was interrupted early may have left nothing in the session: what is to be taken out
    must be what was asked.
    """
    lines = read_lines(child.process)
    listed = await _command(child, lines, "get_fork_messages")
    messages = [as_map(one) for one in as_list(listed.get("messages"))]
    if len(messages) < turns:
        raise RpcError(0, f"Its session has {len(messages)} turns.")
    texts = [as_text(one.get("text")).strip() for one in messages[-turns:]]
    if prompts and texts[-len(prompts) :] != [one.strip() for one in prompts]:
        raise RpcError(0, "Its session has other prompts than those that were sent.")
    entry = as_text(messages[-turns].get("entryId"))
    if (await _command(child, lines, "fork", entryId=entry)).get("cancelled") is True:
        raise RpcError(0, "An extension of it did not allow that.")
    session = as_text((await _command(child, lines, "get_state")).get("sessionId"))
    if not session:
        raise RpcError(0, "It did not name the copy of its session.")
    return session


async def _command(
    child: AgentProcess, lines: "AsyncIterator[JsonLine]", name: str, **fields: str
) -> Mapping[str, Any]:
    """Raises RpcError, LinkError."""
    await child.process.send(json.dumps({"id": name, "type": name, **fields}).encode() + b"\n")
    async for line in lines:
        value = line.value or {}
        if value.get("type") != "response" or value.get("id") != name:
            continue
        if value.get("success") is not True:
            raise RpcError(0, as_text(value.get("error")) or f"It refused {name!r}.")
        return as_map(value.get("data"))
    raise LinkEndedError("it left")


PI = PipeDialect(name="pi", reader=PiReader, streams=True, rewind=rewind_pi)
