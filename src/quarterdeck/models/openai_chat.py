"""OpenAI's Chat Completions format, as OpenAI and the many who speak its dialects have it.

Servers differ: some give tool calls no id or index, some send no usage, some write reasoning into
a field of their own. The parser takes all of that; the builder sends what every server takes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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
from .reply import UNSAID, PartDraft, Reply, json_object, new_call_id, read_counts

__all__ = ["WIRE", "ChatDialect", "ChatParser", "ChatUsage", "build"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDialect:
    """Where servers of this format differ."""

    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    reasoning: Literal["effort", "deepseek", "openrouter"] = "effort"
    """How the effort is sent."""
    echo: Literal["none", "reasoning_content", "reasoning_details"] = "none"
    """The field in which the model wants its reasoning back."""


_DIALECTS = {
    "openai-chat": ChatDialect(max_tokens="max_completion_tokens"),
    "deepseek": ChatDialect(reasoning="deepseek", echo="reasoning_content"),
    "openrouter": ChatDialect(reasoning="openrouter", echo="reasoning_details"),
}
_STOPS: dict[str, ModelStop] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


def build(
    request: ModelRequest, profile: ModelProfile, history: EncodedHistory | None = None
) -> dict[str, Any]:
    """The body of a request; the same request gives the same bytes, whatever the history."""
    info = profile.info
    dialect = _DIALECTS.get(info.vendor, ChatDialect())
    body: dict[str, Any] = {
        "model": info.id,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.max_output:
        body[dialect.max_tokens] = min(request.max_output, info.max_output)
    body |= _reasoning(request.effort, profile, dialect)
    if request.tools and info.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    messages: list[Any] = []
    if request.system.strip():
        messages.append({"role": "system", "content": request.system})
    messages += (history or EncodedHistory()).written(request.messages, _written, profile)
    body["messages"] = messages
    return body


def _written(
    message: Message, _: Message | None, profile: ModelProfile
) -> Iterable[dict[str, Any]]:
    if message.role == "user":
        return _user(message.parts, profile)
    return (_assistant(message.parts, _DIALECTS.get(profile.info.vendor, ChatDialect())),)


def _reasoning(effort: Effort, profile: ModelProfile, dialect: ChatDialect) -> dict[str, Any]:
    if not profile.info.thinking:
        return {}
    match dialect.reasoning:
        case "deepseek":
            return {"thinking": {"type": "disabled" if effort == "off" else "enabled"}}
        case "openrouter":
            return {"reasoning": {"enabled": False} if effort == "off" else {"effort": effort}}
        case "effort":
            if effort != "off":
                return {"reasoning_effort": effort}
            return {"reasoning_effort": "low" if profile.reasoning == "always" else "none"}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": {"type": "object", **tool.parameters},
    }
    return {"type": "function", "function": function}


def _assistant(parts: Sequence[Part], dialect: ChatDialect) -> dict[str, Any]:
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    calls = [
        {
            "id": part.id,
            "type": "function",
            "function": {
                "name": part.name,
                "arguments": bytes(json_object(part.arguments)).decode(),
            },
        }
        for part in parts
        if isinstance(part, ToolUsePart)
    ]
    message: dict[str, Any] = {"role": "assistant"}
    if text.strip() or not calls:
        message["content"] = text if text.strip() else "(No answer.)"
    thoughts = [part for part in parts if isinstance(part, ThinkingPart)]
    if dialect.echo == "reasoning_content" and (thoughts or calls):
        # DeepSeek refuses a call whose reasoning is missing, also one of another vendor's making.
        message["reasoning_content"] = "".join(part.text for part in thoughts)
    if dialect.echo == "reasoning_details" and (details := _details(thoughts)):
        message["reasoning_details"] = details
    if calls:
        message["tool_calls"] = calls
    return message


def _details(thoughts: Iterable[ThinkingPart]) -> list[Any]:
    return [
        detail
        for part in thoughts
        if part.signature
        for detail in decode_json(part.signature, list[Any])
    ]


def _user(parts: Sequence[Part], profile: ModelProfile) -> Iterable[dict[str, Any]]:
    shown: list[TextPart | ImagePart] = []
    for part in parts:
        if isinstance(part, ToolResultPart):
            yield {"role": "tool", "tool_call_id": part.id, "content": _result_text(part)}
            if images := [item for item in part.content if isinstance(item, ImagePart)]:
                shown.append(TextPart(text=f"Images of the result of call {part.id}:"))
                shown.extend(images)
        elif isinstance(part, TextPart | ImagePart):
            shown.append(part)
    if not shown:
        return
    if all(isinstance(part, TextPart) for part in shown):
        text = "\n\n".join(part.text for part in shown if isinstance(part, TextPart))
        yield {"role": "user", "content": text}
    else:
        yield {"role": "user", "content": [_content(part, profile) for part in shown]}


def _result_text(part: ToolResultPart) -> str:
    texts = [item.text for item in part.content if isinstance(item, TextPart)]
    text = "\n".join(texts) or "(The result is an image, shown below.)"
    # This format has no field for it, and the model must know that the call failed.
    return f"Error: {text}" if part.is_error and not text.lower().startswith("error") else text


def _content(part: TextPart | ImagePart, profile: ModelProfile) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if not profile.info.images or not part.data:
        text = f"(An image of type {part.mime_type!r}, which cannot be shown to you.)"
        return {"type": "text", "text": text}
    url = f"data:{part.mime_type};base64,{part.data}"
    return {"type": "image_url", "image_url": {"url": url}}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Change(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    index: int | None = 0
    delta: _Change | None = None
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _CompletionDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class ChatUsage(msgspec.Struct):
    """The counts of an answer, as the format has them."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None

    def normal(self) -> TokenUsage:
        """Our form; the prompt's count includes cached tokens already."""
        prompt = self.prompt_tokens_details or _PromptDetails()
        details = self.completion_tokens_details or _CompletionDetails()
        return TokenUsage(
            input=self.prompt_tokens or 0,
            output=self.completion_tokens or 0,
            cached=prompt.cached_tokens or self.prompt_cache_hit_tokens or 0,
            cache_written=prompt.cache_write_tokens or 0,
            thought=details.reasoning_tokens or 0,
        )


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: msgspec.Raw = UNSAID
    error: Any = None


class ChatParser:
    """Parses one streamed answer; ``new_id`` names calls that the server left without an id."""

    def __init__(self, profile: ModelProfile, new_id: Callable[[], str] = new_call_id) -> None:
        self._reply = Reply(profile.owner)
        self._decoder = json_decoder(_Chunk)
        self._new_id = new_id
        self._calls: dict[int, PartDraft] = {}
        self._detailed: dict[int, PartDraft] = {}
        self._usage = TokenUsage()
        self._stop: str | None = None
        self._has_refused = False
        self._is_stopped = False

    @property
    def is_done(self) -> bool:
        """Whether ``[DONE]`` has come."""
        return self._is_stopped

    def feed(self, event: ServerEvent) -> Iterable[Delta]:
        """Take an event; only the first choice is read."""
        if event.data.strip() == "[DONE]":
            self._is_stopped = True
            return
        chunk = self._decoder.decode(event.data)
        if chunk.error:
            raise WireError(chunk.error)
        if (usage := read_counts(chunk.usage, ChatUsage)) is not None:
            self._usage = usage.normal()
        for choice in (chunk.choices or ())[:1]:
            if choice.delta is not None:
                yield from self._change(choice.delta)
            self._stop = choice.finish_reason or self._stop

    def finish(self) -> ReplyFinished:
        """The whole reply."""
        if self._stop is None and not self._is_stopped:
            raise StreamBrokenError("the stream ended before the answer did")
        if self._stop == "error":
            raise StreamBrokenError("the server aborted in the middle of its answer")
        for draft in self._detailed.values():
            draft.signature = msgspec.json.encode(draft.raw).decode()
        stop = _STOPS.get(self._stop or "stop", "other")
        if self._has_refused:
            stop = "refusal"
        elif stop == "end_turn" and self._reply.has_calls:
            stop = "tool_use"  # many servers say "stop" after calls
        return ReplyFinished(
            reply=self._reply.message(), stop=stop, usage=self._usage, raw_stop=self._stop
        )

    def partial(self) -> Message | None:
        """What has arrived so far."""
        return self._reply.partial()

    def _change(self, change: _Change) -> Iterable[Delta]:
        if change.reasoning_details:
            self._keep(change.reasoning_details)
        if thought := change.reasoning_content or change.reasoning:
            self._draft("thinking").pieces.append(thought)
            yield ThinkingDelta(thought)
        if text := _text(change.content):
            self._draft("text").pieces.append(text)
            yield TextDelta(text)
        if change.refusal:
            self._has_refused = True
            self._draft("text").pieces.append(change.refusal)
            yield TextDelta(change.refusal)
        for call in change.tool_calls or ():
            yield from self._call(call)

    def _draft(self, kind: Literal["text", "thinking"]) -> PartDraft:
        last = self._reply.last
        if last is not None and last.kind == kind:
            return last
        return self._reply.add(self._reply.size, PartDraft(kind))

    def _keep(self, details: list[dict[str, Any]]) -> None:
        draft = self._draft("thinking")
        draft.raw = draft.raw or []
        self._detailed[id(draft)] = draft
        for detail in details:
            _join(draft.raw, detail)

    def _call(self, call: _Call) -> Iterable[Delta]:
        function = call.function or _Function()
        draft = self._known(call, function)
        if draft is None:
            draft = PartDraft("tool", id=call.id or self._new_id(), name=function.name or "")
            self._calls[len(self._calls) if call.index is None else call.index] = draft
            self._reply.add(self._reply.size, draft)
            yield ToolUseStarted(draft.id, draft.name)
        arguments = function.arguments
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        if arguments:
            draft.pieces.append(arguments)
            yield ToolUseDelta(draft.id, arguments)

    def _known(self, call: _Call, function: _Function) -> PartDraft | None:
        """The call that this piece goes on with; None when it begins one."""
        if call.index is None:
            begins = bool(call.id or function.name)
            draft = None if begins else next(reversed(self._calls.values()), None)
        else:
            draft = self._calls.get(call.index)
        if draft is not None and call.id and call.id != draft.id and function.name:
            return None  # another call under the same index
        return draft


def _text(content: str | list[dict[str, Any]] | None) -> str:
    if isinstance(content, list):
        return "".join(item.get("text") or "" for item in content if item.get("type") == "text")
    return content or ""


def _join(details: list[dict[str, Any]], new: dict[str, Any]) -> None:
    """Add a piece of OpenRouter's reasoning details; pieces of one detail come one by one."""
    last: dict[str, Any] = details[-1] if details else {}
    if (last.get("type"), last.get("index")) != (new.get("type"), new.get("index")) or not last:
        details.append(dict(new))
        return
    for name, value in new.items():
        if name in ("text", "summary", "data") and isinstance(value, str):
            last[name] = (last.get(name) or "") + value
        elif value is not None:
            last[name] = value


def _path(_: ModelProfile) -> str:
    return "/chat/completions"


WIRE = ModelWire(path=_path, build=build, parser=ChatParser)
"""The Chat Completions format, for ``RemoteModel``."""
