"""Anthropic's Messages format.

Cache marks: on the last tool, on the system prompt, and on the last block of the two newest user
messages. The newer one writes what this request adds, the older one is where the last request
wrote. Apart from the marks a request begins with the bytes of the one before it: everything that
changes stands in ``messages``, and ``messages`` stands last.
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

__all__ = ["WIRE", "MessagesCounts", "MessagesParser", "build"]

_MARK = {"type": "ephemeral"}
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_BUDGETS: dict[Effort, int] = {"low": 4_096, "medium": 12_288, "high": 32_768}
_LEAST_BUDGET = 1_024
_STOPS: dict[str, ModelStop] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
}


def build(
    request: ModelRequest, profile: ModelProfile, history: EncodedHistory | None = None
) -> dict[str, Any]:
    """The body of a request; the same request gives the same bytes, whatever the history."""
    info = profile.info
    most = min(request.max_output or info.max_output, info.max_output)
    body: dict[str, Any] = {"model": info.id, "max_tokens": most, "stream": True}
    body |= _thinking(request.effort, profile, most)
    if request.tools and info.tools:
        body["tools"] = _tools(request.tools)
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, "cache_control": _MARK}]
    history = history or EncodedHistory()
    messages = history.written(request.messages, _written, profile, has_strict_ids=True)
    body["messages"] = _marked(messages)
    return body


def _thinking(effort: Effort, profile: ModelProfile, most: int) -> dict[str, Any]:
    if not profile.info.thinking:
        return {}
    style = profile.reasoning
    if effort == "off":
        return _no_thinking(style)
    if style == "budget":
        budget = min(_BUDGETS[effort], most - _LEAST_BUDGET)
        if budget < _LEAST_BUDGET:
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}
    # Newer models leave the text of their thinking out unless asked for a summary.
    adaptive = {"type": "adaptive", "display": "summarized"}
    return {"thinking": adaptive, "output_config": {"effort": effort}}


def _no_thinking(style: str) -> dict[str, Any]:
    match style:
        case "switch":
            return {"thinking": {"type": "disabled"}}
        case "between_tools":
            return {"thinking": {"type": "between_tools"}, "output_config": {"effort": "low"}}
        case "always":
            return {"output_config": {"effort": "low"}}
        case _:
            return {}


def _tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    written = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": {"type": "object", **tool.parameters},
        }
        for tool in tools
    ]
    written[-1]["cache_control"] = _MARK
    return written


def _written(
    message: Message, _: Message | None, profile: ModelProfile
) -> Iterable[dict[str, Any]]:
    blocks = [block for part in message.parts for block in _blocks(part, profile)]
    if not blocks:  # nothing but thinking that was never signed
        blocks = [{"type": "text", "text": "(No answer.)"}]
    return ({"role": message.role, "content": blocks},)


def _blocks(part: Part, profile: ModelProfile) -> Iterable[dict[str, Any]]:
    match part:
        case TextPart(text=text):
            if text.strip():
                yield {"type": "text", "text": text}
        case ImagePart():
            yield _image(part, profile)
        case ThinkingPart(redacted=str(data)):
            yield {"type": "redacted_thinking", "data": data}
        case ThinkingPart(text=text, signature=str(signature)):
            yield {"type": "thinking", "thinking": text, "signature": signature}
        case ThinkingPart():
            pass  # cut off before it was signed: refused when sent back
        case ToolUsePart(id=id_, name=name, arguments=arguments):
            yield {"type": "tool_use", "id": id_, "name": name, "input": json_object(arguments)}
        case ToolResultPart():
            yield _result(part, profile)
        case OpaquePart(raw=raw):
            yield raw


def _result(part: ToolResultPart, profile: ModelProfile) -> dict[str, Any]:
    block: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": part.id,
        "content": [block for item in part.content for block in _blocks(item, profile)],
    }
    if part.is_error:
        block["is_error"] = True
    return block


def _image(part: ImagePart, profile: ModelProfile) -> dict[str, Any]:
    if not profile.info.images or part.mime_type not in _IMAGES or not part.data:
        text = f"(An image of type {part.mime_type!r}, which cannot be shown to you.)"
        return {"type": "text", "text": text}
    source = {"type": "base64", "media_type": part.mime_type, "data": part.data}
    return {"type": "image", "source": source}


def _marked(messages: list[Any]) -> list[Any]:
    marked = 0
    for place in range(len(messages) - 1, -1, -1):
        if marked == 2 or isinstance(messages[place], msgspec.Raw):
            break
        message: dict[str, Any] = messages[place]
        if message["role"] == "user":
            *blocks, last = message["content"]
            content = [*blocks, {**last, "cache_control": _MARK}]
            messages[place] = {"role": "user", "content": content}
            marked += 1
    return messages


class _OutputDetails(msgspec.Struct):
    thinking_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None


class MessagesCounts:
    """The counts of one answer, which come in several reports."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    @property
    def is_known(self) -> bool:
        """Whether there was a report."""
        return bool(self._counts)

    def add(self, raw: msgspec.Raw) -> None:
        """Take a report; each is cumulative, so that a later figure replaces an earlier one."""
        usage = read_counts(raw, _Usage)
        if usage is None:
            return
        for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"):
            if (value := getattr(usage, name)) is not None:
                self._counts[name] = value
        if usage.output_tokens is not None:
            self._counts["output"] = usage.output_tokens
        if usage.output_tokens_details and usage.output_tokens_details.thinking_tokens:
            self._counts["thought"] = usage.output_tokens_details.thinking_tokens

    def normal(self) -> TokenUsage:
        """Our form."""
        counts = self._counts
        cached = counts.get("cache_read_input_tokens", 0)
        written = counts.get("cache_creation_input_tokens", 0)
        return TokenUsage(
            # Anthropic's input_tokens are those outside the cache only.
            input=counts.get("input_tokens", 0) + cached + written,
            output=counts.get("output", 0),
            cached=cached,
            cache_written=written,
            thought=counts.get("thought", 0),
        )


class _Start(msgspec.Struct):
    usage: msgspec.Raw = UNSAID


class _Block(msgspec.Struct):
    type: str
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    data: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _Change(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Event(msgspec.Struct):
    type: str = ""
    index: int = 0
    message: _Start | None = None
    content_block: msgspec.Raw = msgspec.Raw(b"")
    delta: _Change | None = None
    usage: msgspec.Raw = UNSAID
    error: Any = None


class MessagesParser:
    """Parses one streamed answer."""

    def __init__(self, profile: ModelProfile) -> None:
        self._reply = Reply(profile.owner)
        self._decoder = json_decoder(_Event)
        self._counts = MessagesCounts()
        self._stop: str | None = None
        self._is_stopped = False

    @property
    def is_done(self) -> bool:
        """Whether the message has stopped."""
        return self._is_stopped

    def feed(self, event: ServerEvent) -> Iterable[Delta]:
        """Take an event; unknown kinds are passed over."""
        data = self._decoder.decode(event.data)
        match data.type:
            case "message_start" if data.message:
                self._counts.add(data.message.usage)
            case "content_block_start":
                return self._begin(data)
            case "content_block_delta" if data.delta:
                return self._change(data.index, data.delta)
            case "content_block_stop":
                self._end(data.index)
            case "message_delta":
                self._counts.add(data.usage)
                self._stop = (data.delta and data.delta.stop_reason) or self._stop
            case "message_stop":
                self._is_stopped = True
            case "error":
                raise WireError(data.error)
            case _:
                pass
        return ()

    def finish(self) -> ReplyFinished:
        """The whole reply."""
        if self._stop is None:
            raise StreamBrokenError("the stream ended before the message did")
        return ReplyFinished(
            reply=self._reply.message(),
            stop=_STOPS.get(self._stop, "other"),
            usage=self._counts.normal(),
            raw_stop=self._stop,
        )

    def partial(self) -> Message | None:
        """What has arrived so far."""
        return self._reply.partial()

    def _begin(self, event: _Event) -> Iterable[Delta]:
        block = decode_json(event.content_block, _Block)
        match block.type:
            case "text":
                self._reply.add(event.index, PartDraft("text", [block.text]))
                return [TextDelta(block.text)] if block.text else []
            case "thinking":
                signature = block.signature or None
                self._reply.add(
                    event.index, PartDraft("thinking", [block.thinking], signature=signature)
                )
                return [ThinkingDelta(block.thinking)] if block.thinking else []
            case "redacted_thinking":
                self._reply.add(event.index, PartDraft("thinking", redacted=block.data))
                return []
            case "tool_use":
                draft = PartDraft("tool", id=block.id, name=block.name, raw=bytes(block.input))
                self._reply.add(event.index, draft)
                return [ToolUseStarted(block.id, block.name)]
            case _:
                raw: Any = msgspec.json.decode(event.content_block)
                self._reply.add(event.index, PartDraft("opaque", raw=raw))
                return []

    def _change(self, index: int, change: _Change) -> Iterable[Delta]:
        draft = self._reply.get(index)
        if draft is None:
            raise msgspec.DecodeError(f"a change of block {index}, which has not begun")
        match change.type:
            case "text_delta":
                draft.pieces.append(change.text)
                return [TextDelta(change.text)]
            case "thinking_delta":
                draft.pieces.append(change.thinking)
                return [ThinkingDelta(change.thinking)] if change.thinking else []
            case "signature_delta":
                draft.signature = (draft.signature or "") + change.signature
                return []
            case "input_json_delta":
                draft.pieces.append(change.partial_json)
                if draft.kind == "tool" and change.partial_json:
                    return [ToolUseDelta(draft.id, change.partial_json)]
                return []
            case _:
                return []

    def _end(self, index: int) -> None:
        draft = self._reply.get(index)
        if draft is None:
            return
        if draft.kind == "tool" and not draft.text.strip():
            draft.pieces = [draft.raw.decode()]  # servers that do not stream arguments
        elif draft.kind == "opaque" and draft.pieces:
            draft.raw = {**draft.raw, "input": msgspec.json.decode(json_object(draft.text))}


def _path(_: ModelProfile) -> str:
    return "/messages"


WIRE = ModelWire(path=_path, build=build, parser=MessagesParser)
"""The Messages format, for ``RemoteModel``."""
