"""A script says the same in process and through our own wires over the server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from quarterdeck.models.errors import CallError
from quarterdeck.models.model import Model, ModelRequest, ReplyFinished, ToolSpec
from quarterdeck.models.registry import make_model
from quarterdeck.models.script import load_script
from quarterdeck.models.scripted_model import ScriptedModel
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.conversation import Message, TextPart, ThinkingPart, ToolUsePart

DEFAULT = load_script("default")
VENDORS = {
    "anthropic/claude-sonnet-4-5": "ANTHROPIC",
    "openai/gpt-5": "OPENAI",
    "deepseek/deepseek-chat": "DEEPSEEK",
    "google/gemini-2.5-pro": "GEMINI",
}
PATHS = {"OPENAI": "/v1", "DEEPSEEK": "/v1"}
SAME = ["text", "think", "write", "shell", "twotools", "badtool", "badargs", "cut", "empty"]
FAILING = ["e400", "e401", "e429", "e500", "e529", "overflow", "quota", "hangup"]
BROKEN = ["badjson", "drop", "noend", "midfail", "unknown"]
TOOLS = tuple(
    ToolSpec(
        name=name,
        description=name,
        parameters={"type": "object", "properties": {p: {"type": "string"} for p in properties}},
    )
    for name, properties in {"bash": ["command"], "write": ["path", "content"]}.items()
)


def request(scene: str) -> ModelRequest:
    prompt = Message(role="user", parts=(TextPart(text=f"scene:{scene}"),))
    return ModelRequest(system="You help.", messages=(prompt,), tools=TOOLS)


def view(message: Message | None) -> list[tuple[str, ...]]:
    """What was said, without what differs by vendor: ids, seals and the layout of JSON."""
    parts: list[tuple[str, ...]] = []
    for part in message.parts if message else ():
        match part:
            case TextPart():
                parts.append(("text", part.text))
            case ThinkingPart():
                parts.append(("thinking", part.text))
            case ToolUsePart():
                parts.append(("call", part.name, part.arguments.replace(" ", "")))
            case _:
                parts.append((type(part).__name__,))
    return [p for p in parts if p != ("text", "")]


async def outcome(model: Model, scene: str) -> Any:
    try:
        async for delta in model.stream(request(scene)):
            if isinstance(delta, ReplyFinished):
                return view(delta.reply), delta.stop
    except CallError as error:
        return type(error).__name__, view(error.partial)
    raise AssertionError("no end")


@pytest.fixture(params=list(VENDORS))
async def model(request: pytest.FixtureRequest) -> AsyncIterator[Model]:
    prefix = VENDORS[request.param]
    async with ModelServer(DEFAULT) as server:
        environment = {
            f"{prefix}_API_KEY": "dummy",
            f"{prefix}_BASE_URL": server.url + PATHS.get(prefix, ""),
        }
        model = await asyncio.to_thread(make_model, request.param, environment)
        yield model
        await model.close()


@pytest.mark.parametrize("scene", SAME + FAILING + BROKEN)
async def test_the_wire_says_what_the_process_says(model: Model, scene: str) -> None:
    there = await outcome(model, scene)
    if scene == "badargs" and model.info.vendor == "google":
        assert there == ("StreamBrokenError", [("text", "Writing bad arguments.")])
        return  # Gemini cannot send them
    here = await outcome(ScriptedModel(DEFAULT), scene)
    assert there == here
