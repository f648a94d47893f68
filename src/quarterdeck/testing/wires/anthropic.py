"""Anthropic Messages."""

import itertools
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from quarterdeck.models.model import ModelStop
from quarterdeck.models.script import ScriptFailure, ScriptFault
from quarterdeck.models.script.performance import (
    SIGNATURE,
    TextBeat,
    ThinkingBeat,
    ToolInputBeat,
    ToolStartBeat,
)
from quarterdeck.models.script.question import ScriptConversation, ScriptQuestion
from quarterdeck.models.script.tools import OfferedTool
from quarterdeck.testing.wires.wire import ReplyEncoder, ServerWire, event, objects, table, text_of
from quarterdeck.wire.conversation import Part, TextPart, ThinkingPart, ToolUsePart
from quarterdeck.wire.usage import TokenUsage

__all__ = ["AnthropicWire"]

_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_MESSAGES = {
    "overflow": "prompt is too long: 250000 tokens > 200000 maximum",
    "quota": "Your credit balance is too low to access the Anthropic API. "
    "Please go to Plans & Billing to upgrade or purchase credits.",
}
_STOPS: dict[ModelStop, str] = {"other": "pause_turn"}


class AnthropicWire:
    """``POST /v1/messages``."""

    name = "anthropic"

    def __init__(self) -> None:
        self._ids = itertools.count(1)

    def read(self, path: str, body: dict[str, Any]) -> tuple[ScriptQuestion, bool]:
        """See ``ServerWire``."""
        history = ScriptConversation()
        for message in objects(body.get("messages")):
            _read_message(message, history)
        output = table(body.get("output_config"))
        form = table(output.get("format") or body.get("output_format"))
        question = history.question(
            system=text_of(body.get("system")),
            tools=tuple(
                OfferedTool(name=str(t.get("name")), parameters=table(t.get("input_schema")))
                for t in objects(body.get("tools"))
            ),
            schema=form.get("schema"),
            max_output=body.get("max_tokens"),
            model=str(body.get("model", "scripted")),
            source=body,
        )
        return question, bool(body.get("stream"))

    def encoder(self, question: ScriptQuestion, body: dict[str, Any]) -> ReplyEncoder:
        """See ``ServerWire``."""
        return _AnthropicEncoder(f"msg_{next(self._ids):024}", question.model)

    def whole(
        self, question: ScriptQuestion, parts: tuple[Part, ...], usage: TokenUsage, stop: ModelStop
    ) -> dict[str, Any]:
        """See ``ServerWire``."""
        return {
            "id": f"msg_{next(self._ids):024}",
            "type": "message",
            "role": "assistant",
            "model": question.model,
            "content": [_block(part) for part in parts],
            "stop_reason": _STOPS.get(stop, stop),
            "stop_sequence": None,
            "usage": {**_input(usage), "output_tokens": usage.output},
        }

    def failure(self, failure: ScriptFailure) -> dict[str, Any]:
        """See ``ServerWire``."""
        kind = _ERRORS.get(failure.status, "api_error")
        message = failure.message or _MESSAGES.get(failure.kind or "") or "scripted failure"
        return {
            "type": "error",
            "error": {"type": kind, "message": message},
            "request_id": "req_scripted",
        }


def _read_message(message: dict[str, Any], history: ScriptConversation) -> None:
    content = message.get("content")
    blocks = objects([{"type": "text", "text": content}] if isinstance(content, str) else content)
    kinds = [block.get("type") for block in blocks]
    if message.get("role") == "assistant":
        history.add_answer(calls="tool_use" in kinds)
    if message.get("role") != "user":  # Claude Code has system messages in between
        return
    for block in blocks:
        if block.get("type") == "tool_result":
            history.add_result(str(block.get("tool_use_id")), text_of(block.get("content")))
    history.add_prompt(
        [str(b.get("text", "")) for b in blocks if b.get("type") == "text"],
        [
            str(table(b.get("source")).get("media_type", "image"))
            for b in blocks
            if b.get("type") == "image"
        ],
    )


def _input(usage: TokenUsage) -> dict[str, int]:
    """Anthropic's input tokens leave out those that have to do with the cache."""
    return {
        "input_tokens": usage.input - usage.cached - usage.cache_written,
        "cache_creation_input_tokens": usage.cache_written,
        "cache_read_input_tokens": usage.cached,
    }


def _block(part: Part) -> dict[str, Any]:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ThinkingPart():
            return {"type": "thinking", "thinking": part.text, "signature": SIGNATURE}
        case ToolUsePart():
            id = part.id.replace("call_", "toolu_")
            try:
                arguments = msgspec.json.decode(part.arguments)
            except msgspec.DecodeError:
                arguments = part.arguments
            return {"type": "tool_use", "id": id, "name": part.name, "input": arguments}
        case _:
            raise AssertionError(f"a script tells no {type(part).__name__}")


class _AnthropicEncoder:
    def __init__(self, id: str, model: str) -> None:
        self._id = id
        self._model = model
        self._index = -1
        self._open: type[TextBeat] | type[ThinkingBeat] | type[ToolStartBeat] | None = None

    def begin(self, input_tokens: TokenUsage) -> bytes:
        message: dict[str, Any] = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**_input(input_tokens), "output_tokens": 1, "service_tier": "standard"},
        }
        return _named({"type": "message_start", "message": message}) + _named({"type": "ping"})

    def beat(self, beat: TextBeat | ThinkingBeat | ToolStartBeat | ToolInputBeat) -> bytes:
        match beat:
            case TextBeat(text):
                block = {"type": "text", "text": ""}
                opening = b"" if self._open is TextBeat else self._begin_block(TextBeat, block)
                return opening + self._delta({"type": "text_delta", "text": text})
            case ThinkingBeat(text):
                block = {"type": "thinking", "thinking": "", "signature": ""}
                opening = (
                    b"" if self._open is ThinkingBeat else self._begin_block(ThinkingBeat, block)
                )
                return opening + self._delta({"type": "thinking_delta", "thinking": text})
            case ToolStartBeat(id, name):
                block: dict[str, Any] = {
                    "type": "tool_use",
                    "id": f"toolu_{id}",
                    "name": name,
                    "input": {},
                }
                return self._begin_block(ToolStartBeat, block)
            case ToolInputBeat(_, text):
                return self._delta({"type": "input_json_delta", "partial_json": text})
            case _:
                assert_never(beat)

    def end(self, usage: TokenUsage, stop: ModelStop) -> bytes:
        delta = {"stop_reason": _STOPS.get(stop, stop), "stop_sequence": None}
        tokens = {**_input(usage), "output_tokens": usage.output}
        return (
            self._end_block()
            + _named({"type": "message_delta", "delta": delta, "usage": tokens})
            + _named({"type": "message_stop"})
        )

    def fail(self, fault: ScriptFault) -> bytes:
        kind = _ERRORS.get(fault.status, "api_error")
        message = fault.message or "scripted failure in the middle"
        return _named({"type": "error", "error": {"type": kind, "message": message}})

    def _begin_block(
        self, kind: type[TextBeat] | type[ThinkingBeat] | type[ToolStartBeat], block: dict[str, Any]
    ) -> bytes:
        closing = self._end_block()
        self._index += 1
        self._open = kind
        start = {"type": "content_block_start", "index": self._index, "content_block": block}
        return closing + _named(start)

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _named({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _end_block(self) -> bytes:
        if self._open is None:
            return b""
        seal = b""
        if self._open is ThinkingBeat:
            seal = self._delta({"type": "signature_delta", "signature": SIGNATURE})
        self._open = None
        return seal + _named({"type": "content_block_stop", "index": self._index})


def _named(data: dict[str, Any]) -> bytes:
    return event(data, data["type"])


if TYPE_CHECKING:
    _: ServerWire = AnthropicWire()
