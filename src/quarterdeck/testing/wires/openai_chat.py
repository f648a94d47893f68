"""OpenAI Chat Completions, as many other vendors and local servers speak it; errors of both
OpenAI formats.
"""

import itertools
from typing import TYPE_CHECKING, Any, assert_never

from quarterdeck.models.model import ModelStop
from quarterdeck.models.script import ScriptFailure, ScriptFault
from quarterdeck.models.script.performance import (
    TextBeat,
    ThinkingBeat,
    ToolInputBeat,
    ToolStartBeat,
)
from quarterdeck.models.script.question import ScriptConversation, ScriptQuestion
from quarterdeck.models.script.tools import OfferedTool
from quarterdeck.testing.wires.wire import (
    ReplyEncoder,
    ServerWire,
    event,
    media_type,
    objects,
    table,
    text_of,
)
from quarterdeck.wire.conversation import Part, TextPart, ThinkingPart, ToolUsePart
from quarterdeck.wire.usage import TokenUsage

__all__ = ["CREATED", "ChatWire", "error_body"]

CREATED = 1_767_225_600
"""The time that replies say they were made; scripts have no clock."""

_TYPES = {
    400: "invalid_request_error",
    401: "invalid_request_error",
    403: "permission_error",
    404: "invalid_request_error",
    429: "rate_limit_exceeded",
    503: "server_is_overloaded",
}
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


def error_body(failure: ScriptFailure) -> dict[str, Any]:
    """The body of an error."""
    kind, code = _TYPES.get(failure.status, "server_error"), _CODES.get(failure.status)
    message = failure.message or "scripted failure"
    if failure.kind == "overflow":
        code = "context_length_exceeded"
        message = failure.message or (
            "Your input exceeds the context window of this model. "
            "Please adjust your input and try again."
        )
    elif failure.kind == "quota":
        kind = code = "insufficient_quota"
        message = failure.message or (
            "You exceeded your current quota, please check your plan and billing details."
        )
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


_STOPS: dict[ModelStop, str] = {
    "end_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "refusal": "content_filter",
    "other": "stop",
}


class ChatWire:
    """``POST /v1/chat/completions``."""

    name = "chat"

    def __init__(self) -> None:
        self._ids = itertools.count(1)

    def read(self, path: str, body: dict[str, Any]) -> tuple[ScriptQuestion, bool]:
        """See ``ServerWire``."""
        history = ScriptConversation()
        system: list[str] = []
        for message in objects(body.get("messages")):
            if message.get("role") in ("system", "developer"):
                system.append(text_of(message.get("content")))
            else:
                _read_message(message, history)
        form = table(body.get("response_format"))
        functions = [table(t.get("function") or t) for t in objects(body.get("tools"))]
        question = history.question(
            system="\n".join(system),
            tools=tuple(
                OfferedTool(name=str(f.get("name")), parameters=table(f.get("parameters")))
                for f in functions
            ),
            schema=table(form.get("json_schema")).get("schema"),
            max_output=body.get("max_completion_tokens") or body.get("max_tokens"),
            model=str(body.get("model", "scripted")),
            source=body,
        )
        return question, bool(body.get("stream"))

    def encoder(self, question: ScriptQuestion, body: dict[str, Any]) -> ReplyEncoder:
        """See ``ServerWire``."""
        with_usage = bool(table(body.get("stream_options")).get("include_usage"))
        return _ChatEncoder(
            f"chatcmpl-{next(self._ids):020}", question.model, with_usage=with_usage
        )

    def whole(
        self, question: ScriptQuestion, parts: tuple[Part, ...], usage: TokenUsage, stop: ModelStop
    ) -> dict[str, Any]:
        """See ``ServerWire``."""
        text = "".join(p.text for p in parts if isinstance(p, TextPart))
        thinking = "".join(p.text for p in parts if isinstance(p, ThinkingPart))
        calls = [
            {
                "id": part.id,
                "type": "function",
                "function": {"name": part.name, "arguments": part.arguments},
            }
            for part in parts
            if isinstance(part, ToolUsePart)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if thinking:
            message["reasoning_content"] = thinking
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": _STOPS[stop]}
        return {
            "id": f"chatcmpl-{next(self._ids):020}",
            "object": "chat.completion",
            "created": CREATED,
            "model": question.model,
            "choices": [choice],
            "usage": _usage(usage),
        }

    def failure(self, failure: ScriptFailure) -> dict[str, Any]:
        """See ``ServerWire``."""
        return error_body(failure)


def _read_message(message: dict[str, Any], history: ScriptConversation) -> None:
    content = message.get("content")
    match message.get("role"):
        case "assistant":
            history.add_answer(calls=bool(message.get("tool_calls")))
        case "tool":
            history.add_result(str(message.get("tool_call_id")), text_of(content))
        case "user":
            blocks = [b for b in objects(content) if b.get("type") == "image_url"]
            images = [media_type(table(b.get("image_url")).get("url")) for b in blocks]
            history.add_prompt([text_of(content)], images)
        case _:
            pass


def _usage(usage: TokenUsage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.thought},
    }


class _ChatEncoder:
    def __init__(self, id: str, model: str, *, with_usage: bool) -> None:
        self._head = {
            "id": id,
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": model,
        }
        self._with_usage = with_usage
        self._calls = -1

    def begin(self, input_tokens: TokenUsage) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def beat(self, beat: TextBeat | ThinkingBeat | ToolStartBeat | ToolInputBeat) -> bytes:
        match beat:
            case TextBeat(text):
                return self._chunk({"content": text})
            case ThinkingBeat(text):
                return self._chunk({"reasoning_content": text})
            case ToolStartBeat(id, name):
                self._calls += 1
                function = {"name": name, "arguments": ""}
                return self._call({"id": f"call_{id}", "type": "function", "function": function})
            case ToolInputBeat(_, text):
                return self._call({"function": {"arguments": text}})
            case _:
                assert_never(beat)

    def end(self, usage: TokenUsage, stop: ModelStop) -> bytes:
        last = self._chunk({}, _STOPS[stop])
        if self._with_usage:
            last += event({**self._head, "choices": [], "usage": _usage(usage)})
        return last + b"data: [DONE]\n\n"

    def fail(self, fault: ScriptFault) -> bytes:
        return event(error_body(ScriptFailure(status=fault.status, message=fault.message)))

    def _call(self, call: dict[str, Any]) -> bytes:
        return self._chunk({"tool_calls": [{"index": self._calls, **call}]})

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return event({**self._head, "choices": [choice]})


if TYPE_CHECKING:
    _: ServerWire = ChatWire()
