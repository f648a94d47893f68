"""OpenAI Chat Completions, as many other vendors and local servers speak it too."""

import itertools
from typing import TYPE_CHECKING, Any, assert_never

from quarterdeck.models.model import ModelStop
from quarterdeck.models.script import Failure, Fault
from quarterdeck.models.script.beats import Say, Think, ToolPiece, ToolStart
from quarterdeck.models.script.question import History, Question
from quarterdeck.models.script.tools import OfferedTool
from quarterdeck.testing.wires.openai import CREATED, error_body
from quarterdeck.testing.wires.wire import Voice, Wire, event, media_type, objects, table, text_of
from quarterdeck.wire.conversation import Part, TextPart, ThinkingPart, ToolUsePart
from quarterdeck.wire.usage import TokenUsage

__all__ = ["ChatWire"]

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

    def read(self, path: str, body: dict[str, Any]) -> tuple[Question, bool]:
        """See ``Wire``."""
        history = History()
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

    def voice(self, question: Question, body: dict[str, Any]) -> Voice:
        """See ``Wire``."""
        with_usage = bool(table(body.get("stream_options")).get("include_usage"))
        return _ChatVoice(f"chatcmpl-{next(self._ids):020}", question.model, with_usage=with_usage)

    def whole(
        self, question: Question, parts: tuple[Part, ...], usage: TokenUsage, stop: ModelStop
    ) -> dict[str, Any]:
        """See ``Wire``."""
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

    def failure(self, failure: Failure) -> dict[str, Any]:
        """See ``Wire``."""
        return error_body(failure)


def _read_message(message: dict[str, Any], history: History) -> None:
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


class _ChatVoice:
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

    def beat(self, beat: Say | Think | ToolStart | ToolPiece) -> bytes:
        match beat:
            case Say(text):
                return self._chunk({"content": text})
            case Think(text):
                return self._chunk({"reasoning_content": text})
            case ToolStart(id, name):
                self._calls += 1
                function = {"name": name, "arguments": ""}
                return self._call({"id": f"call_{id}", "type": "function", "function": function})
            case ToolPiece(_, text):
                return self._call({"function": {"arguments": text}})
            case _:
                assert_never(beat)

    def end(self, usage: TokenUsage, stop: ModelStop) -> bytes:
        last = self._chunk({}, _STOPS[stop])
        if self._with_usage:
            last += event({**self._head, "choices": [], "usage": _usage(usage)})
        return last + b"data: [DONE]\n\n"

    def fail(self, fault: Fault) -> bytes:
        return event(error_body(Failure(status=fault.status, message=fault.message)))

    def _call(self, call: dict[str, Any]) -> bytes:
        return self._chunk({"tool_calls": [{"index": self._calls, **call}]})

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return event({**self._head, "choices": [choice]})


if TYPE_CHECKING:
    _: Wire = ChatWire()
