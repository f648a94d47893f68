"""Google Gemini."""

import itertools
import re
from typing import TYPE_CHECKING, Any, assert_never
from urllib.parse import unquote

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
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.usage import TokenUsage

__all__ = ["GeminiWire"]

_HUMP = re.compile(r"[A-Z]")
_MODEL = re.compile(r"models/([^:/]+):")
_STOPS: dict[ModelStop, str] = {
    "end_turn": "STOP",
    "tool_use": "STOP",
    "max_tokens": "MAX_TOKENS",
    "refusal": "SAFETY",
    "other": "OTHER",
}
_BAD_CALL = "MALFORMED_FUNCTION_CALL"
"""Gemini reads the model's calls itself; one that is no JSON ends the reply with this."""
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_MESSAGES = {
    "overflow": "The input token count (1250000) exceeds the maximum number of tokens allowed "
    "(1048576).",
    "quota": "You exceeded your current quota, please check your plan and billing details.",
}


class GeminiWire:
    """``POST /v1beta/models/X:generateContent`` and ``:streamGenerateContent?alt=sse``."""

    name = "gemini"

    def __init__(self) -> None:
        self._ids = itertools.count(1)

    def read(self, path: str, body: dict[str, Any]) -> tuple[ScriptQuestion, bool]:
        """See ``ServerWire``."""
        history = ScriptConversation()
        for content in objects(body.get("contents")):
            _read_content(content, history)
        config = table(_get(body, "generationConfig"))
        system = table(_get(body, "systemInstruction"))
        model = _MODEL.search(path)
        question = history.question(
            system=text_of(system.get("parts")),
            tools=tuple(_tools(body)),
            schema=_get(config, "responseJsonSchema") or _get(config, "responseSchema"),
            max_output=_get(config, "maxOutputTokens"),
            model=unquote(model[1]) if model else "scripted",
            source=body,
        )
        return question, ":streamGenerateContent" in path

    def encoder(self, question: ScriptQuestion, body: dict[str, Any]) -> ReplyEncoder:
        """See ``ServerWire``."""
        return _GeminiEncoder(f"scripted{next(self._ids)}", question.model)

    def whole(
        self, question: ScriptQuestion, parts: tuple[Part, ...], usage: TokenUsage, stop: ModelStop
    ) -> dict[str, Any]:
        """See ``ServerWire``."""
        blocks = [_part(part) for part in parts]
        good = [block for block in blocks if block is not None]
        reason = _STOPS[stop] if len(good) == len(blocks) else _BAD_CALL
        return {
            "candidates": [_candidate(good, reason)],
            "usageMetadata": _usage(usage),
            "modelVersion": question.model,
            "responseId": f"scripted{next(self._ids)}",
        }

    def failure(self, failure: ScriptFailure) -> dict[str, Any]:
        """See ``ServerWire``."""
        return _error(failure)


def _get(fields: dict[str, Any], name: str) -> Any:
    """A field by its name; Gemini takes names in camel case and in snake case."""
    if name in fields:
        return fields[name]
    return fields.get(_HUMP.sub(lambda hump: "_" + hump[0].lower(), name))


def _tools(body: dict[str, Any]) -> list[OfferedTool]:
    return [
        OfferedTool(
            name=str(function.get("name")),
            parameters=table(_get(function, "parametersJsonSchema") or function.get("parameters")),
        )
        for tool in objects(body.get("tools"))
        for function in objects(_get(tool, "functionDeclarations"))
    ]


def _read_content(content: dict[str, Any], history: ScriptConversation) -> None:
    parts = list(objects(content.get("parts")))
    if content.get("role") == "model":
        history.add_answer(calls=any(_get(part, "functionCall") for part in parts))
        return
    for part in parts:
        if answer := table(_get(part, "functionResponse")):
            history.add_result(str(answer.get("id")), _result(answer.get("response")))
    images = [table(_get(part, "inlineData")) for part in parts]
    history.add_prompt(
        [str(part["text"]) for part in parts if "text" in part],
        [str(_get(image, "mimeType")) for image in images if image],
    )


def _result(response: object) -> str:
    """Gemini has results as objects; by custom the text is in ``output`` or ``result``."""
    for key in ("output", "result", "error"):
        if isinstance(text := table(response).get(key), str):
            return text
    return msgspec.json.encode(response).decode()


def _usage(usage: TokenUsage) -> dict[str, int]:
    """Gemini's candidates leave out what was thought."""
    return {
        "promptTokenCount": usage.input,
        "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output - usage.thought,
        "thoughtsTokenCount": usage.thought,
        "totalTokenCount": usage.total,
    }


def _error(failure: ScriptFailure) -> dict[str, Any]:
    message = failure.message or _MESSAGES.get(failure.kind or "") or "scripted failure"
    error: dict[str, Any] = {
        "code": failure.status,
        "message": message,
        "status": _STATUSES.get(failure.status, "INTERNAL"),
    }
    if failure.kind == "quota":
        kind = "type.googleapis.com/google.rpc.QuotaFailure"
        error["details"] = [{"@type": kind, "violations": [{"quotaId": "PerDayPerProject"}]}]
    return {"error": error}


def _part(part: Part) -> dict[str, Any] | None:
    """A part in Gemini's form; None for a call whose arguments are no object."""
    match part:
        case TextPart():
            return {"text": part.text}
        case ThinkingPart():
            return {"text": part.text, "thought": True}
        case ToolUsePart():
            return _call(part.id.removeprefix("call_"), part.name, part.arguments)
        case _:
            raise AssertionError(f"a script tells no {type(part).__name__}")


def _call(id: str, name: str, arguments: str) -> dict[str, Any] | None:
    try:
        args = decode_json(arguments or "{}", dict[str, Any])
    except msgspec.DecodeError:
        return None
    call = {"id": f"fc_{id}", "name": name, "args": args}
    return {"functionCall": call, "thoughtSignature": SIGNATURE}


def _candidate(parts: list[dict[str, Any]], reason: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if reason is not None:
        candidate["finishReason"] = reason
    return candidate


class _GeminiEncoder:
    """Calls are sent whole, because Gemini does not stream their arguments."""

    def __init__(self, id: str, model: str) -> None:
        self._tail = {"modelVersion": model, "responseId": id}
        self._prompt: dict[str, int] = {}
        self._call: ToolStartBeat | None = None
        self._pieces: list[str] = []
        self._is_malformed = False

    def begin(self, input_tokens: TokenUsage) -> bytes:
        tokens = input_tokens.input
        self._prompt = {"promptTokenCount": tokens, "totalTokenCount": tokens}
        return b""

    def beat(self, beat: TextBeat | ThinkingBeat | ToolStartBeat | ToolInputBeat) -> bytes:
        match beat:
            case TextBeat(text):
                return self._end_call() + self._chunk({"text": text})
            case ThinkingBeat(text):
                return self._end_call() + self._chunk({"text": text, "thought": True})
            case ToolStartBeat():
                ended = self._end_call()
                self._call = beat
                return ended
            case ToolInputBeat(_, text):
                self._pieces.append(text)
                return b""
            case _:
                assert_never(beat)

    def end(self, usage: TokenUsage, stop: ModelStop) -> bytes:
        ended = self._end_call()
        reason = _BAD_CALL if self._is_malformed else _STOPS[stop]
        candidates = [_candidate([{"text": ""}], reason)]
        return ended + event(
            {"candidates": candidates, "usageMetadata": _usage(usage), **self._tail}
        )

    def fail(self, fault: ScriptFault) -> bytes:
        return event(_error(ScriptFailure(status=fault.status, message=fault.message)))

    def _chunk(self, part: dict[str, Any]) -> bytes:
        candidates = [_candidate([part])]
        return event({"candidates": candidates, "usageMetadata": self._prompt, **self._tail})

    def _end_call(self) -> bytes:
        if self._call is None:
            return b""
        part = _call(self._call.id, self._call.name, "".join(self._pieces))
        self._call = None
        self._pieces.clear()
        if part is None:
            self._is_malformed = True
            return b""
        return self._chunk(part)


if TYPE_CHECKING:
    _: ServerWire = GeminiWire()
