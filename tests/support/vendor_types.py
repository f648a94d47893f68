"""Judges of requests, built from the types of the vendors' own libraries.

The libraries take seconds to load, so nothing is imported before a judge is asked for.
"""

import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

Judge = Callable[[dict[str, Any]], None]


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    yield package
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if info.ispkg or not info.name.endswith(("_param", "_params")):
            continue
        yield importlib.import_module(info.name)


def _forbid_unknown_fields(*packages: str) -> None:
    for name in packages:
        for module in _modules(importlib.import_module(name)):
            for value in vars(module).values():
                is_typed_dict = isinstance(value, type) and hasattr(value, "__total__")
                if is_typed_dict and not hasattr(value, "__pydantic_config__"):
                    value.__pydantic_config__ = {"extra": "forbid"}


def _consume(value: Any) -> None:
    """Look at everything: pydantic checks the items of an ``Iterable`` only when they are read."""
    if isinstance(value, str | bytes | int | float | None):
        return
    if hasattr(value, "model_fields_set"):
        raise ValueError(f"validation error: {value!r} is of an answer, not of a request")
    for item in value.values() if isinstance(value, dict) else value:
        _consume(item)


def _judge(adapter: Any) -> Judge:
    def judge(body: dict[str, Any]) -> None:
        _consume(adapter.validate_python(body))

    return judge


def anthropic_judge() -> Judge:
    from pydantic import TypeAdapter

    _forbid_unknown_fields("anthropic.types")
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    return _judge(TypeAdapter(MessageCreateParamsStreaming))


def responses_judge() -> Judge:
    from pydantic import TypeAdapter

    _forbid_unknown_fields("openai.types.responses", "openai.types.shared_params")
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    return _judge(TypeAdapter(ResponseCreateParamsStreaming))


def chat_judge() -> Judge:
    from pydantic import TypeAdapter

    _forbid_unknown_fields("openai.types.chat", "openai.types.shared_params")
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    return _judge(TypeAdapter(CompletionCreateParamsStreaming))


def google_judge() -> Judge:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from google.genai import types

    known = {"contents", "systemInstruction", "tools", "generationConfig"}

    def judge(body: dict[str, Any]) -> None:
        assert set(body) <= known
        for content in body["contents"]:
            types.Content.model_validate(content)
        for tool in body.get("tools", ()):
            types.Tool.model_validate(tool)
        if "systemInstruction" in body:
            types.Content.model_validate(body["systemInstruction"])
        types.GenerationConfig.model_validate(body.get("generationConfig", {}))

    return judge
