"""Every other vendor, through pydantic-ai's model layer: ``pydantic-ai:VENDOR:MODEL``.

The library is an extra (``pip install 'quarterdeck[providers]'``) and is loaded when such a model
is made. It reads its vendors' keys from the process's own environment.
"""

import base64
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, cast

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
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.usage import TokenUsage

from .catalogue import profile_of
from .errors import (
    CallError,
    ContextOverflowError,
    ModelError,
    ModelSetupError,
    OverloadedError,
    QuotaExceededError,
    RateLimitedError,
    RequestRejectedError,
    StreamBrokenError,
    UnauthorizedError,
    VendorUnreachableError,
)
from .history_repair import repair_history
from .model import (
    Delta,
    ModelInfo,
    ModelRequest,
    ModelStop,
    ReplyFinished,
    TextDelta,
    ThinkingDelta,
    ToolUseDelta,
    ToolUseStarted,
)
from .reply import PartDraft, Reply, json_object

__all__ = ["BridgedModel"]

_INSTALL = "pip install 'quarterdeck[providers]'"
_KINDS: tuple[tuple[str, type[CallError]], ...] = (
    ("ModelContextWindowExceededError", ContextOverflowError),
    ("ModelQuotaExceededError", QuotaExceededError),
    ("ModelAuthenticationError", UnauthorizedError),
    ("ModelRateLimitError", RateLimitedError),
    ("ModelOverloadedError", OverloadedError),
    ("ModelServerError", OverloadedError),
    ("ModelUnavailableError", OverloadedError),
    ("ModelConnectionError", VendorUnreachableError),
    ("ModelTimeoutError", VendorUnreachableError),
    ("ModelRequestTimeout", VendorUnreachableError),
    ("ModelNotFoundError", RequestRejectedError),
    ("ModelRequestRejectedError", RequestRejectedError),
    ("ModelHTTPError", RequestRejectedError),
)
_STOPS: dict[str | None, ModelStop] = {
    "stop": "end_turn",
    "tool_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


class BridgedModel:
    """A model of pydantic-ai behind our port."""

    def __init__(self, library: Any, model: Any, info: ModelInfo) -> None:
        self._ai = library
        self._model = model
        self._info = info

    @classmethod
    def load(
        cls, name: str, overrides: Mapping[str, Mapping[str, Any]] | None = None
    ) -> "BridgedModel":
        """Load the library and let it make its model ``VENDOR:MODEL``.

        Raises:
            ModelSetupError: the library, the vendor's own package or its key is missing.
        """
        try:
            library = import_module("pydantic_ai")
            models = import_module("pydantic_ai.models")
        except ImportError:
            raise ModelSetupError(f"pydantic-ai is not installed: {_INSTALL}") from None
        try:
            model = models.infer_model(name)
        except (ImportError, ValueError, library.UserError) as error:
            raise ModelSetupError(f"pydantic-ai cannot make {name!r}: {error}") from None
        return cls(library, model, profile_of("pydantic-ai", name, overrides).info)

    @property
    def info(self) -> ModelInfo:
        """What is known of the model: the defaults, unless the user configured more."""
        return self._info

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Ask the model once; see ``Model.stream``."""
        direct = import_module("pydantic_ai.direct")
        reply = Reply(self._info.name)
        try:
            async with direct.model_request_stream(
                self._model,
                self._messages(request),
                model_settings=_settings(request),
                model_request_parameters=self._parameters(request),
            ) as answer:
                async for event in answer:
                    for delta in _deltas(event, reply):
                        yield delta
                whole = answer.get()
        except (self._ai.AgentRunError, self._ai.UserError) as error:
            raise _translated(error, reply.partial()) from error
        yield self._finished(whole)

    async def close(self) -> None:
        """The library owns its connections and shares them between models."""

    def _messages(self, request: ModelRequest) -> list[Any]:
        messages = repair_history(request.messages, owner=self._info.name, has_strict_ids=True)
        names = {
            part.id: part.name
            for message in messages
            for part in message.parts
            if isinstance(part, ToolUsePart)
        }
        written: list[Any] = []
        for message in messages:
            if message.role == "user":
                written.append(self._ai.ModelRequest(parts=self._encode_part(message.parts, names)))
            else:
                parts = [part for item in message.parts for part in self._answered(item)]
                written.append(self._ai.ModelResponse(parts=parts or [self._ai.TextPart("…")]))
        if request.system.strip():
            written[0].parts.insert(0, self._ai.SystemPromptPart(request.system))
        return written

    def _encode_part(self, parts: Sequence[Part], names: Mapping[str, str]) -> list[Any]:
        written: list[Any] = []
        prompt: list[Any] = []
        for part in parts:
            if isinstance(part, ToolResultPart):
                texts = [item.text for item in part.content if isinstance(item, TextPart)]
                images = [item for item in part.content if isinstance(item, ImagePart)]
                written.append(
                    self._ai.ToolReturnPart(
                        tool_name=names.get(part.id, "unknown"),
                        content="\n".join(texts) or "(The result is an image, shown below.)",
                        tool_call_id=part.id,
                        outcome="failed" if part.is_error else "success",
                    )
                )
                prompt += [self._image(image) for image in images]
            elif isinstance(part, TextPart):
                prompt.append(part.text)
            elif isinstance(part, ImagePart):
                prompt.append(self._image(part))
        return [*written, self._ai.UserPromptPart(content=prompt)] if prompt else written

    def _image(self, part: ImagePart) -> Any:
        if not self._info.images:
            return f"(An image of type {part.mime_type!r}, which cannot be shown to you.)"
        return self._ai.BinaryContent(base64.b64decode(part.data), media_type=part.mime_type)

    def _answered(self, part: Part) -> Iterable[Any]:
        match part:
            case TextPart(text=text) if text.strip():
                yield self._ai.TextPart(text)
            case ThinkingPart(text=text, signature=str(kept)):
                yield self._ai.ThinkingPart(text, **msgspec.json.decode(kept))
            case ToolUsePart(id=id_, name=name, arguments=arguments, signature=kept):
                extra = decode_json(kept or "{}", dict[str, Any])
                text = bytes(json_object(arguments)).decode()
                yield self._ai.ToolCallPart(name, text, tool_call_id=id_, **extra)
            case _:
                pass

    def _parameters(self, request: ModelRequest) -> Any:
        models = import_module("pydantic_ai.models")
        tools = [
            self._ai.ToolDefinition(
                name=tool.name,
                description=tool.description,
                parameters_json_schema={"type": "object", **tool.parameters},
            )
            for tool in request.tools
        ]
        return models.ModelRequestParameters(function_tools=tools, allow_text_output=True)

    def _finished(self, whole: Any) -> ReplyFinished:
        reply = Reply(self._info.name)
        for index, part in enumerate(whole.parts):
            draft = _draft(part)
            if draft is not None:
                reply.add(index, draft)
        stop = _STOPS.get(whole.finish_reason, "end_turn" if not whole.finish_reason else "other")
        if stop == "end_turn" and reply.has_calls:
            stop = "tool_use"
        usage = whole.usage
        return ReplyFinished(
            reply=reply.message(),
            stop=stop,
            usage=TokenUsage(
                input=usage.input_tokens or 0,
                output=usage.output_tokens or 0,
                cached=usage.cache_read_tokens or 0,
                cache_written=usage.cache_write_tokens or 0,
                thought=getattr(usage, "output_reasoning_tokens", None) or 0,
            ),
            raw_stop=whole.finish_reason,
        )


def _settings(request: ModelRequest) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if request.max_output:
        settings["max_tokens"] = request.max_output
    if request.effort != "off":
        settings["thinking"] = request.effort
    return settings


def _deltas(event: Any, reply: Reply) -> Iterable[Delta]:
    if event.event_kind == "part_start":
        draft = _draft(event.part)
        if draft is None:
            return
        reply.add(event.index, draft)
        if draft.kind == "tool":
            yield ToolUseStarted(draft.id, draft.name)
        if draft.text:
            yield _delta(draft, draft.text)
    elif event.event_kind == "part_delta" and (draft := reply.get(event.index)):
        delta = event.delta
        piece = delta.args_delta if draft.kind == "tool" else delta.content_delta
        if isinstance(piece, dict):
            piece = msgspec.json.encode(piece).decode()
        if isinstance(piece, str) and piece:
            draft.pieces.append(piece)
            yield _delta(draft, piece)


def _delta(draft: PartDraft, piece: str) -> Delta:
    if draft.kind == "tool":
        return ToolUseDelta(draft.id, piece)
    return ThinkingDelta(piece) if draft.kind == "thinking" else TextDelta(piece)


def _draft(part: Any) -> PartDraft | None:
    names = ("id", "signature", "provider_name", "provider_details")
    kept = {name: value for name in names if (value := getattr(part, name, None)) is not None}
    sealed = msgspec.json.encode(kept).decode() if kept else None
    match part.part_kind:
        case "text":
            return PartDraft("text", [part.content])
        case "thinking":
            return PartDraft("thinking", [part.content], signature=sealed or "{}")
        case "tool-call":
            arguments = part.args or ""
            if not isinstance(arguments, str):
                arguments = msgspec.json.encode(arguments).decode()
            draft = PartDraft("tool", [arguments], name=part.tool_name, signature=sealed)
            draft.id = part.tool_call_id
            return draft
        case _:
            return None


def _translated(error: Exception, partial: Message | None) -> ModelError:
    names = {kind.__name__ for kind in type(error).__mro__}
    if "UserError" in names:
        return ModelSetupError(f"pydantic-ai: {error}")
    kind = next((kind for name, kind in _KINDS if name in names), StreamBrokenError)
    status = cast("int | None", getattr(error, "status_code", None))
    wait = cast("float | None", getattr(error, "retry_after", None))
    return kind(f"pydantic-ai: {error}", status=status, retry_after=wait, partial=partial)
