"""Messages and results of Claude Code: pieces as they come, whole blocks, the figures of a turn.

A block that came in pieces is not emitted twice. An answer that broke off (the agent asks the model
again, under another id) is not withdrawn: it was seen; a notice says that it does not count.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    Event,
    MessageChunk,
    NoticePosted,
    PlanChanged,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnd,
    UnknownEvent,
)
from quarterdeck.wire.ids import MessageId, ToolCallId
from quarterdeck.wire.usage import Cost, TokenUsage

from ...foreign_json import as_list, as_map, as_number, as_text
from ...link import TurnOutcome
from .tools import describe, plan_of

__all__ = [
    "ClaudeMessages",
    "ClaudeUsage",
    "as_amount",
    "call_started_event",
    "failure_of",
    "tokens_of",
]

_STOPS: dict[str, TurnEnd] = {
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
}
_LARGEST = 1e15
_LIMITS = {
    "error_max_turns": "its limit of model calls in one turn is reached",
    "error_max_budget_usd": "its cost limit is reached",
    "error_max_structured_output_retries": "its answer does not have the requested form",
}


class ClaudeUsage:
    """Keeps what was counted, so that each turn gets its own share once.

    ``usage`` of a result is the turn's, without sub-agents; the figures per model are of all, and
    ``total_cost_usd`` is of the whole session. Newer versions say the share themselves.
    """

    def __init__(self) -> None:
        self._cost = 0.0

    def outcome(self, result: Mapping[str, Any]) -> TurnOutcome:
        """How the turn went. Never raises."""
        usage = self._usage(result)
        stop, reason = _end(result)
        return TurnOutcome(stop=stop, reason=reason, usage=usage, cost=self._share(result))

    @staticmethod
    def _usage(result: Mapping[str, Any]) -> TokenUsage | None:
        if share := as_map(result.get("model_usage_since_last_result")):
            return sum((_of_model(as_map(one)) for one in share.values()), TokenUsage())
        usage = as_map(result.get("usage"))
        return tokens_of(usage) if usage else None

    def _share(self, result: Mapping[str, Any]) -> Cost | None:
        if "total_cost_usd" not in result:
            return None
        total = as_amount(result["total_cost_usd"])
        share, self._cost = max(0.0, total - self._cost), total
        if "model_usage_since_last_result" in result:
            # A resumed session goes on with its total; only this says what the turn cost.
            models = as_map(result["model_usage_since_last_result"])
            share = sum(as_amount(as_map(one).get("costUSD")) for one in models.values())
        return Cost(amount=share, currency="USD")


def failure_of(result: Mapping[str, Any]) -> str:
    """What a failed result says about why."""
    errors = result.get("errors")
    reasons = [str(one) for one in as_list(errors)]
    text = result.get("result")
    if isinstance(text, str) and text:
        reasons.append(text)
    return "; ".join(reasons) or str(result.get("subtype") or "no reason given")


def _end(result: Mapping[str, Any]) -> tuple[TurnEnd, str | None]:
    subtype = str(result.get("subtype"))
    if str(result.get("terminal_reason")).startswith("aborted"):
        return "cancelled", None
    if subtype == "error_max_turns":
        return "max_turn_requests", _LIMITS[subtype]
    if subtype in _LIMITS:
        return "failed", _LIMITS[subtype]
    if result.get("is_error") or subtype.startswith("error"):
        return "failed", failure_of(result)
    return _STOPS.get(str(result.get("stop_reason")), "end_turn"), None


def tokens_of(usage: Mapping[str, Any]) -> TokenUsage:
    """Tokens in the vendor's figures, where those of the cache are not in ``input_tokens``."""
    cached = _count(usage, "cache_read_input_tokens")
    written = _count(usage, "cache_creation_input_tokens")
    details = as_map(usage.get("output_tokens_details"))
    return TokenUsage(
        input=_count(usage, "input_tokens") + cached + written,
        output=_count(usage, "output_tokens"),
        cached=cached,
        cache_written=written,
        thought=_count(details, "thinking_tokens"),
    )


def _of_model(usage: Mapping[str, Any]) -> TokenUsage:
    cached = _count(usage, "cacheReadInputTokens")
    written = _count(usage, "cacheCreationInputTokens")
    return TokenUsage(
        input=_count(usage, "inputTokens") + cached + written,
        output=_count(usage, "outputTokens"),
        cached=cached,
        cache_written=written,
        thought=_count(usage, "thinkingTokens"),
    )


def _count(usage: Mapping[str, Any], field: str) -> int:
    return as_number(usage.get(field))


def as_amount(value: Any) -> float:
    """The value if it is a quantity of something, else 0."""
    return value if isinstance(value, int | float) and 0 < value < _LARGEST else 0.0


_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_QUIET_DELTAS = frozenset(("input_json_delta", "signature_delta", "citations_delta"))
_QUIET_BLOCKS = frozenset(("redacted_thinking",))
_BROKE_OFF = "The model's answer was interrupted; its text is discarded"


@dataclass(slots=True)
class _Block:
    kind: str
    pieces: list[str] = field(default_factory=list[str])
    call: str = ""
    is_whole: bool = False


@dataclass(slots=True)
class _Answer:
    """An answer of the model that is coming in pieces."""

    id: str
    blocks: dict[int, _Block] = field(default_factory=dict[int, _Block])
    stop: str | None = None
    was_whole: bool = False
    """A block that was whole had an index that another one has now, as with Qwen Code."""

    @property
    def has_whole_blocks(self) -> bool:
        return self.was_whole or any(block.is_whole for block in self.blocks.values())


class ClaudeMessages:
    """Turns stream events and whole messages of one conversation, or one sub-agent's, to events."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._answer: _Answer | None = None
        self.model = ""
        """The model that answered last."""
        self.usage: TokenUsage | None = None
        """Tokens of the model call that answered last: how full its window is."""

    def stream(self, event: Mapping[str, Any]) -> Iterator[Event]:
        """A piece of an answer, in the form of the vendor's API."""
        match event.get("type"):
            case "message_start":
                self._begin(as_map(event.get("message")))
            case "content_block_start":
                yield from self._begin_block(_index(event), as_map(event.get("content_block")))
            case "content_block_delta":
                yield from self._piece(_index(event), as_map(event.get("delta")), event)
            case "message_delta":
                self._note(event)
            case "message_stop":
                yield from self._end()
            case "content_block_stop" | "ping" | "goal_state":
                pass
            case "error":
                text = as_text(as_map(event.get("error")).get("message"))
                yield NoticePosted(title=text or "The model failed", severity="warning")
            case _:
                yield UnknownEvent(origin=self._origin, raw=event)

    def whole(self, message: Mapping[str, Any]) -> Iterator[Event]:
        """A message, or one block of it, complete."""
        id_ = as_text(message.get("id"))
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for raw in as_list(content):
            yield from self._whole_block(id_, as_map(raw))
        self._count(message)

    # Pieces

    def _begin(self, message: Mapping[str, Any]) -> None:
        self._answer = _Answer(as_text(message.get("id")))
        self._count(message)

    def _count(self, message: Mapping[str, Any]) -> None:
        model = as_text(message.get("model"))
        usage = as_map(message.get("usage"))
        if model and not model.startswith("<") and usage:
            self.model = model
            self.usage = tokens_of(usage)

    def _begin_block(self, index: int, block: Mapping[str, Any]) -> Iterator[Event]:
        if self._answer is None:
            self._answer = _Answer("")
        kind = as_text(block.get("type"))
        before = self._answer.blocks.get(index)
        self._answer.was_whole |= before is not None and before.is_whole
        made = self._answer.blocks[index] = _Block(kind)
        if kind in _CALLS:
            made.call = as_text(block.get("id"))
            name = as_text(block.get("name"))
            if made.call:
                yield call_started_event(made.call, name, {})
        elif first := as_text(block.get("text")) or as_text(block.get("thinking")):
            made.pieces.append(first)
            yield from _chunk(kind, first, self._answer.id)

    def _piece(
        self, index: int, delta: Mapping[str, Any], event: Mapping[str, Any]
    ) -> Iterator[Event]:
        kind = as_text(delta.get("type"))
        if kind in _QUIET_DELTAS:
            return
        piece = delta.get("text" if kind == "text_delta" else "thinking")
        if kind not in ("text_delta", "thinking_delta") or not isinstance(piece, str):
            yield UnknownEvent(origin=self._origin, raw=event)
            return
        if self._answer is None:
            self._answer = _Answer("")
        block = self._answer.blocks.setdefault(index, _Block(kind.removesuffix("_delta")))
        block.pieces.append(piece)
        yield from _chunk(kind.removesuffix("_delta"), piece, self._answer.id)

    def _note(self, event: Mapping[str, Any]) -> None:
        stop = as_map(event.get("delta")).get("stop_reason")
        if self._answer is not None and isinstance(stop, str):
            self._answer.stop = stop
        later = tokens_of(as_map(event.get("usage")))
        if self.usage is not None and later.output:
            self.usage = TokenUsage(input=max(self.usage.input, later.input), output=later.output)

    def _end(self) -> Iterator[Event]:
        answer = self._answer
        if answer is None or answer.stop is not None or answer.has_whole_blocks:
            return
        self._answer = None
        for block in answer.blocks.values():
            if block.call:
                yield ToolCallEnded(call=ToolCallId(block.call), status="failed", reason=_BROKE_OFF)
        if answer.blocks:
            yield NoticePosted(title=_BROKE_OFF, severity="warning")

    # Whole blocks

    def _whole_block(self, id_: str, block: Mapping[str, Any]) -> Iterator[Event]:
        kind = as_text(block.get("type"))
        if kind in ("text", "thinking"):
            text = as_text(block.get(kind))
            yield from _chunk(kind, self._unsaid(id_, kind, text), id_)
        elif kind in _CALLS and block.get("id"):
            yield from self._call(block)
        elif kind.endswith("_tool_result") and block.get("tool_use_id"):
            yield _server_result(block)
        elif kind not in _QUIET_BLOCKS:
            yield UnknownEvent(origin=self._origin, raw=block)

    def _unsaid(self, id_: str, kind: str, text: str) -> str:
        """The part of a whole block that did not come in pieces."""
        for block in self._pieces(id_):
            if block.kind == kind and not block.is_whole:
                block.is_whole = True
                sent = "".join(block.pieces)
                return text[len(sent) :] if text.startswith(sent) else ""
        for block in self._answer.blocks.values() if self._answer is not None else ():
            # Qwen Code gives each block of an answer an id of its own when it is whole.
            if block.kind == kind and not block.is_whole and "".join(block.pieces) == text:
                block.is_whole = True
                return ""
        return text

    def _call(self, block: Mapping[str, Any]) -> Iterator[Event]:
        call, name = as_text(block.get("id")), as_text(block.get("name"))
        for piece in self._answer.blocks.values() if self._answer is not None else ():
            if piece.call == call:
                piece.is_whole = True
        if not call:
            yield UnknownEvent(origin=self._origin, raw=block)
            return
        yield call_started_event(call, name, block.get("input"))
        plan = plan_of(name, block.get("input"))
        if plan is not None:
            yield PlanChanged(entries=plan)

    def _pieces(self, id_: str) -> list[_Block]:
        answer = self._answer
        return list(answer.blocks.values()) if answer is not None and answer.id == id_ else []


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0


def _chunk(kind: str, content: str, id_: str) -> Iterator[Event]:
    if not content:
        return
    message = MessageId(id_) if id_ else None
    if kind == "thinking":
        yield ThoughtChunk(content=text(content), message=message)
    else:
        yield MessageChunk(content=text(content), message=message)


def call_started_event(call: str, name: str, raw_input: Any) -> ToolCallStarted:
    """The beginning of a call."""
    described = describe(name, raw_input)
    return ToolCallStarted(
        call=ToolCallId(call),
        title=described.title,
        name=name or None,
        kind=described.kind,
        content=described.content,
        locations=described.locations,
        raw_input=raw_input or None,
    )


def _server_result(block: Mapping[str, Any]) -> ToolCallEnded:
    """The end of a call that the vendor's own servers ran."""
    content = block.get("content")
    failed = as_text(as_map(content).get("type")).endswith("_error")
    return ToolCallEnded(
        call=ToolCallId(as_text(block.get("tool_use_id")) or "unnamed"),
        status="failed" if failed else "completed",
        raw_output=content,
    )
