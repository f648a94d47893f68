"""OpenAI's Responses format, without state on the server.

Nothing is stored there (``store`` is false): the model's reasoning comes back to us encrypted and
goes to it again unchanged, as the item it was. ``prompt_cache_key`` names what all requests of
one conversation share, and ``input`` stands last, so that a request begins with the bytes of the
one before it.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from quarterdeck.wire.conversation import (
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from quarterdeck.wire.decoders import decode_json, json_decoder
from quarterdeck.wire.usage import TokenUsage

from .encoded_history import EncodedHistory
from .errors import StreamBrokenError
from .http_client import ServerEvent
from .model import (
    Delta,
    Effort,
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
from .reply import UNSAID, PartDraft, Reply, json_object, read_counts

__all__ = ["WIRE", "ResponsesParser", "ResponsesUsage", "build"]

_LEAST_OUTPUT = 16


def build(
    request: ModelRequest, profile: ModelProfile, history: EncodedHistory | None = None
) -> dict[str, Any]:
    """The body of a request; the same request gives the same bytes, whatever the history."""
    info = profile.info
    history = history or EncodedHistory()
    items = history.written(request.messages, _items, profile, has_strict_ids=True)
    body: dict[str, Any] = {
        "model": info.id,
        "stream": True,
        "store": False,
        "prompt_cache_key": _cache_key(request, profile, history.first),
    }
    if request.max_output:
        body["max_output_tokens"] = max(_LEAST_OUTPUT, min(request.max_output, info.max_output))
    if info.thinking:
        body["include"] = ["reasoning.encrypted_content"]
        body["reasoning"] = _reasoning(request.effort, profile)
    if request.system.strip():
        body["instructions"] = request.system
    if request.tools and info.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    body["input"] = items
    return body


def _cache_key(request: ModelRequest, profile: ModelProfile, first: Message | None) -> str:
    # Of the tools the names will do, and hashing their texts too took a third of a request.
    tools = [tool.name for tool in request.tools]
    shared = (profile.info.id, request.system, tools, msgspec.to_builtins(first))
    import hashlib  # late: it loads the library of ciphers

    return hashlib.sha256(repr(shared).encode("utf-8", "replace")).hexdigest()[:32]


def _reasoning(effort: Effort, profile: ModelProfile) -> dict[str, Any]:
    if effort == "off":
        return {"effort": "low" if profile.reasoning == "always" else "none"}
    return {"effort": effort, "summary": "auto"}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": {"type": "object", **tool.parameters},
        "strict": False,
    }


def _items(
    message: Message, _: Message | None, profile: ModelProfile
) -> Iterable[dict[str, Any] | msgspec.Raw]:
    if message.role == "assistant":
        for part in message.parts:
            yield from _encode_part(part)
        return
    results = [part for part in message.parts if isinstance(part, ToolResultPart)]
    for result in results:
        yield _output(result, profile)
    content = _content(message.parts, profile)
    if content:
        yield {"type": "message", "role": "user", "content": content}


def _encode_part(part: Part) -> Iterable[dict[str, Any] | msgspec.Raw]:
    match part:
        case TextPart(text=text, signature=phase):
            if text.strip():
                item: dict[str, Any] = {"type": "message", "role": "assistant", "content": text}
                yield {**item, "phase": phase} if phase else item
        case ThinkingPart(signature=str(reasoning)):
            yield msgspec.Raw(reasoning.encode())
        case ToolUsePart(id=id_, name=name, arguments=arguments):
            yield {
                "type": "function_call",
                "call_id": id_,
                "name": name,
                "arguments": bytes(json_object(arguments)).decode(),
            }
        case OpaquePart(raw=raw):
            yield raw
        case _:
            pass


def _output(part: ToolResultPart, profile: ModelProfile) -> dict[str, Any]:
    content = _content(part.content, profile)
    output: str | list[dict[str, Any]] = content
    if all(item["type"] == "input_text" for item in content):
        output = "\n".join([item["text"] for item in content])
        # This format has no field for it, and the model must know that the call failed.
        if part.is_error and not output.lower().startswith("error"):
            output = f"Error: {output}"
    elif part.is_error:
        output = [{"type": "input_text", "text": "Error:"}, *content]
    return {"type": "function_call_output", "call_id": part.id, "output": output}


def _content(parts: Sequence[Part], profile: ModelProfile) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for part in parts:
        match part:
            case TextPart(text=text) if text.strip():
                content.append({"type": "input_text", "text": text})
            case ImagePart(data=data, mime_type=kind) if data and profile.info.images:
                url = f"data:{kind};base64,{data}"
                content.append({"type": "input_image", "detail": "auto", "image_url": url})
            case ImagePart(mime_type=kind):
                text = f"(An image of type {kind!r}, which cannot be shown to you.)"
                content.append({"type": "input_text", "text": text})
            case _:
                pass
    return content


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class ResponsesUsage(msgspec.Struct):
    """The counts of an answer, as the format has them."""

    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None

    def normal(self) -> TokenUsage:
        """Our form; the input's count includes cached tokens already."""
        read = self.input_tokens_details or _InputDetails()
        wrote = self.output_tokens_details or _OutputDetails()
        return TokenUsage(
            input=self.input_tokens,
            output=self.output_tokens,
            cached=read.cached_tokens or 0,
            cache_written=read.cache_write_tokens or 0,
            thought=wrote.reasoning_tokens or 0,
        )


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    status: str | None = None
    output: list[msgspec.Raw] = []
    usage: msgspec.Raw = UNSAID
    error: Any = None
    incomplete_details: _Incomplete | None = None


class _Text(msgspec.Struct):
    type: str = ""
    text: str = ""
    refusal: str = ""


class _Item(msgspec.Struct):
    type: str = ""
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    phase: str | None = None
    content: list[_Text] | None = None
    summary: list[_Text] | None = None


class _Event(msgspec.Struct):
    type: str = ""
    output_index: int = 0
    summary_index: int = 0
    delta: Any = None
    item: msgspec.Raw = msgspec.Raw(b"{}")
    response: _Response | None = None
    code: str | None = None
    message: str | None = None
    error: Any = None


class ResponsesParser:
    """Parses one streamed answer."""

    def __init__(self, profile: ModelProfile) -> None:
        self._reply = Reply(profile.owner)
        self._decoder = json_decoder(_Event)
        self._final: _Response | None = None
        self._has_refused = False

    @property
    def is_done(self) -> bool:
        """Whether the response is complete."""
        return self._final is not None

    def feed(self, event: ServerEvent) -> Iterable[Delta]:
        """Take an event; unknown kinds are passed over."""
        if event.data.strip() == "[DONE]":
            return ()
        data = self._decoder.decode(event.data)
        match data.type:
            case "response.output_item.added":
                return self._begin(data.output_index, data.item)
            case "response.output_item.done":
                self._settle(data.output_index, data.item)
            case "response.completed" | "response.incomplete":
                self._complete(data.response or _Response())
            case "response.failed":
                raise WireError(data.response.error if data.response else None)
            case "error":
                raise WireError(data.error or {"code": data.code, "message": data.message})
            case _:
                return self._change(data)
        return ()

    def finish(self) -> ReplyFinished:
        """The whole reply."""
        if self._final is None:
            raise StreamBrokenError("the stream ended before the response did")
        reason = self._final.incomplete_details and self._final.incomplete_details.reason
        usage = read_counts(self._final.usage, ResponsesUsage)
        return ReplyFinished(
            reply=self._reply.message(),
            stop=self._stop(reason),
            usage=usage.normal() if usage else TokenUsage(),
            raw_stop=reason or self._final.status,
        )

    def partial(self) -> Message | None:
        """What has arrived so far."""
        return self._reply.partial()

    def _stop(self, reason: str | None) -> ModelStop:
        if reason == "max_output_tokens":
            return "max_tokens"
        if reason == "content_filter" or self._has_refused:
            return "refusal"
        if reason:
            return "other"
        return "tool_use" if self._reply.has_calls else "end_turn"

    def _begin(self, index: int, raw: msgspec.Raw) -> Iterable[Delta]:
        item = decode_json(raw, _Item)
        match item.type:
            case "message":
                self._reply.add(index, PartDraft("text"))
            case "reasoning":
                self._reply.add(index, PartDraft("thinking"))
            case "function_call":
                self._reply.add(index, PartDraft("tool", id=item.call_id, name=item.name))
                return [ToolUseStarted(item.call_id, item.name)]
            case _:
                self._reply.add(index, PartDraft("opaque", raw=msgspec.json.decode(raw)))
        return []

    def _change(self, event: _Event) -> Iterable[Delta]:
        draft = self._reply.get(event.output_index)
        if event.type == "response.reasoning_summary_part.added" and event.summary_index and draft:
            draft.pieces.append("\n\n")
            return [ThinkingDelta("\n\n")]
        text = event.delta
        if not isinstance(text, str) or not text or draft is None:
            return []
        match event.type.removeprefix("response.").removesuffix(".delta"):
            case "output_text" | "refusal" as kind:
                self._has_refused = self._has_refused or kind == "refusal"
                draft.pieces.append(text)
                return [TextDelta(text)]
            case "reasoning_summary_text" | "reasoning_text":
                draft.pieces.append(text)
                return [ThinkingDelta(text)]
            case "function_call_arguments":
                draft.pieces.append(text)
                return [ToolUseDelta(draft.id, text)]
            case _:
                return []

    def _complete(self, response: _Response) -> None:
        for index, raw in enumerate(response.output):
            if self._reply.get(index) is None:
                list(self._begin(index, raw))
                self._settle(index, raw)
        self._final = response

    def _settle(self, index: int, raw: msgspec.Raw) -> None:
        """Take the item as the server has it now, complete; it may differ from its pieces."""
        draft = self._reply.get(index)
        if draft is None:
            list(self._begin(index, raw))
            draft = self._reply.get(index)
        assert draft is not None
        item = decode_json(raw, _Item)
        match draft.kind:
            case "text":
                content = item.content or []
                self._has_refused = self._has_refused or any(c.refusal for c in content)
                text = "".join(c.text or c.refusal for c in content)
                draft.pieces = [text or draft.text]
                draft.signature = item.phase
            case "thinking":
                texts = [s.text for s in (item.summary or item.content or [])]
                draft.pieces = ["\n\n".join(texts) or draft.text]
                draft.signature = bytes(raw).decode()
            case "tool":
                draft.pieces = [item.arguments or draft.text]
            case "opaque":
                draft.raw = msgspec.json.decode(raw)


def _path(_: ModelProfile) -> str:
    return "/responses"


WIRE = ModelWire(path=_path, build=build, parser=ResponsesParser)
"""The Responses format, for ``RemoteModel``."""
