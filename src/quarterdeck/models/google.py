"""Google's generateContent format.

Gemini seals its thoughts with signatures on text and on calls; they go back on the very part they
came with. ``contents`` stands last, so that a request begins with the bytes of the one before it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from quarterdeck.wire.conversation import (
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from quarterdeck.wire.decoders import json_decoder
from quarterdeck.wire.usage import TokenUsage

from .encoded_history import EncodedHistory
from .errors import StreamBrokenError
from .http_client import ServerEvent
from .model import (
    Delta,
    ModelProfile,
    ModelRequest,
    ModelStop,
    ReplyFinished,
    TextDelta,
    ThinkingDelta,
    ToolSpec,
    ToolUseDelta,
    ToolUseStarted,
)
from .remote import ModelWire, WireError
from .reply import UNSAID, PartDraft, Reply, json_object, new_call_id, read_counts

__all__ = ["WIRE", "GenerateParser", "GenerateUsage", "build"]

_NO_SIGNATURE = "skip_thought_signature_validator"
"""What Google wants in place of a signature on calls that Gemini did not make."""
_REFUSALS = frozenset(
    {"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY"}
)
_MISWRITTEN = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"})


def build(
    request: ModelRequest, profile: ModelProfile, history: EncodedHistory | None = None
) -> dict[str, Any]:
    """The body of a request; the same request gives the same bytes, whatever the history."""
    body: dict[str, Any] = {}
    if request.system.strip():
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools and profile.info.tools:
        body["tools"] = [{"functionDeclarations": [_tool(tool) for tool in request.tools]}]
    if config := _config(request, profile):
        body["generationConfig"] = config
    body["contents"] = (history or EncodedHistory()).written(request.messages, _written, profile)
    return body


def _config(request: ModelRequest, profile: ModelProfile) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if request.max_output:
        config["maxOutputTokens"] = min(request.max_output, profile.info.max_output)
    if profile.info.thinking:
        # Gemini 3 cannot stop thinking; "low" is the least that all of them know.
        level = "LOW" if request.effort == "off" else request.effort.upper()
        config["thinkingConfig"] = {"includeThoughts": True, "thinkingLevel": level}
    return config


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parametersJsonSchema": {"type": "object", **tool.parameters},
    }


def _written(
    message: Message, before: Message | None, profile: ModelProfile
) -> Iterable[dict[str, Any]]:
    if message.role == "user":
        calls = before.parts if before else ()
        names = {part.id: part.name for part in calls if isinstance(part, ToolUsePart)}
        return ({"role": "user", "parts": list(_user(message.parts, profile, names))},)
    parts = [part for item in message.parts for part in _encode_part(item)]
    if profile.info.thinking:
        _sign(parts)
    return ({"role": "model", "parts": parts or [{"text": "(No answer.)"}]},)


def _sign(parts: list[dict[str, Any]]) -> None:
    """Gemini 3 refuses a step whose first call bears no signature."""
    first = next((part for part in parts if "functionCall" in part), None)
    if first is not None and "thoughtSignature" not in first:
        first["thoughtSignature"] = _NO_SIGNATURE


def _encode_part(part: Part) -> Iterable[dict[str, Any]]:
    match part:
        case TextPart(text=text, signature=signature):
            yield _signed({"text": text}, signature)
        case ThinkingPart(text=text, signature=str(signature)):
            yield _signed({"text": text, "thought": True}, signature)
        case ToolUsePart(id=id_, name=name, arguments=arguments, signature=signature):
            call = {"id": id_, "name": name, "args": json_object(arguments)}
            yield _signed({"functionCall": call}, signature)
        case _:
            pass


def _signed(part: dict[str, Any], signature: str | None) -> dict[str, Any]:
    return {**part, "thoughtSignature": signature} if signature else part


def _user(
    parts: Sequence[Part], profile: ModelProfile, names: dict[str, str]
) -> Iterable[dict[str, Any]]:
    results = [part for part in parts if isinstance(part, ToolResultPart)]
    for result in results:
        yield _response(result, names)
    for result in results:
        if images := [item for item in result.content if isinstance(item, ImagePart)]:
            yield {"text": f"Images of the result of call {result.id}:"}
            for image in images:
                yield _image(image, profile)
    for part in parts:
        if isinstance(part, TextPart):
            yield {"text": part.text}
        elif isinstance(part, ImagePart):
            yield _image(part, profile)


def _response(result: ToolResultPart, names: dict[str, str]) -> dict[str, Any]:
    texts = [part.text for part in result.content if isinstance(part, TextPart)]
    text = "\n".join(texts) or "(The result is an image, shown below.)"
    response = {"error" if result.is_error else "output": text}
    name = names.get(result.id, "unknown")
    return {"functionResponse": {"id": result.id, "name": name, "response": response}}


def _image(part: ImagePart, profile: ModelProfile) -> dict[str, Any]:
    if not profile.info.images or not part.data:
        return {"text": f"(An image of type {part.mime_type!r}, which cannot be shown to you.)"}
    return {"inlineData": {"mimeType": part.mime_type, "data": part.data}}


class _Call(msgspec.Struct):
    id: str | None = None
    name: str = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Part(msgspec.Struct, rename="camel"):
    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    function_call: _Call | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


class GenerateUsage(msgspec.Struct, rename="camel"):
    """The counts of an answer, as the format has them."""

    prompt_token_count: int = 0
    cached_content_token_count: int = 0
    candidates_token_count: int = 0
    thoughts_token_count: int = 0
    tool_use_prompt_token_count: int = 0

    def normal(self) -> TokenUsage:
        """Our form; the prompt's count includes cached tokens already."""
        return TokenUsage(
            input=self.prompt_token_count + self.tool_use_prompt_token_count,
            output=self.candidates_token_count + self.thoughts_token_count,
            cached=self.cached_content_token_count,
            thought=self.thoughts_token_count,
        )


class _Chunk(msgspec.Struct, rename="camel"):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: msgspec.Raw = UNSAID
    error: Any = None


class GenerateParser:
    """Parses one streamed answer; ``new_id`` names calls that came without an id."""

    def __init__(self, profile: ModelProfile, new_id: Callable[[], str] = new_call_id) -> None:
        self._reply = Reply(profile.owner)
        self._decoder = json_decoder(_Chunk)
        self._new_id = new_id
        self._usage = TokenUsage()
        self._stop: str | None = None
        self._is_blocked = False

    @property
    def is_done(self) -> bool:
        """Never before the stream's end: parts and usage may follow the finish reason."""
        return False

    def feed(self, event: ServerEvent) -> Iterable[Delta]:
        """Take an event; only the first candidate is read."""
        chunk = self._decoder.decode(event.data)
        if chunk.error:
            raise WireError(chunk.error)
        if (usage := read_counts(chunk.usage_metadata, GenerateUsage)) is not None:
            self._usage = usage.normal()
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            self._stop = chunk.prompt_feedback.block_reason
            self._is_blocked = True
        for candidate in (chunk.candidates or ())[:1]:
            for part in (candidate.content and candidate.content.parts) or ():
                yield from self._take(part)
            self._stop = candidate.finish_reason or self._stop

    def finish(self) -> ReplyFinished:
        """The whole reply."""
        if self._stop is None:
            raise StreamBrokenError("the stream ended before the answer did")
        if self._stop in _MISWRITTEN:
            raise StreamBrokenError(f"the model's answer is malformed ({self._stop})")
        return ReplyFinished(
            reply=self._reply.message(),
            stop=self._kind(self._stop),
            usage=self._usage,
            raw_stop=self._stop,
        )

    def partial(self) -> Message | None:
        """What has arrived so far."""
        return self._reply.partial()

    def _kind(self, stop: str) -> ModelStop:
        if self._is_blocked or stop in _REFUSALS:
            return "refusal"
        if stop == "MAX_TOKENS":
            return "max_tokens"
        if stop == "STOP":
            return "tool_use" if self._reply.has_calls else "end_turn"
        return "other"

    def _take(self, part: _Part) -> Iterable[Delta]:
        if part.function_call is not None:
            yield from self._call(part.function_call, part.thought_signature)
            return
        text = part.text or ""
        if not text and not part.thought_signature:
            return
        kind = "thinking" if part.thought else "text"
        last = self._reply.last
        # A signed part is never joined with another: the signature seals exactly this text.
        if last is None or last.kind != kind or last.signature or part.thought_signature:
            last = self._reply.add(
                self._reply.size, PartDraft(kind, signature=part.thought_signature)
            )
        last.pieces.append(text)
        if text:
            yield ThinkingDelta(text) if part.thought else TextDelta(text)

    def _call(self, call: _Call, signature: str | None) -> Iterable[Delta]:
        arguments = bytes(call.args).decode()
        draft = PartDraft("tool", [arguments], signature=signature)
        draft.id, draft.name = call.id or self._new_id(), call.name
        self._reply.add(self._reply.size, draft)
        yield ToolUseStarted(draft.id, draft.name)
        yield ToolUseDelta(draft.id, arguments)


def _path(profile: ModelProfile) -> str:
    return f"/models/{profile.info.id}:streamGenerateContent?alt=sse"


WIRE = ModelWire(path=_path, build=build, parser=GenerateParser)
"""The generateContent format, for ``RemoteModel``."""
