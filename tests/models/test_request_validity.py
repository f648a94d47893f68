"""Every request that we can send is one that the vendor's own types allow, and more."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.models import anthropic, google, openai_chat, openai_responses
from quarterdeck.models.catalogue import profile_of
from quarterdeck.models.model import ModelProfile, ModelRequest
from quarterdeck.models.reply import encode
from tests.support.model_histories import TOOLS, requests, said
from tests.support.vendor_types import (
    Judge,
    anthropic_judge,
    chat_judge,
    google_judge,
    responses_judge,
)

pytestmark = pytest.mark.timeout(60)
fuzzed = settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
CLAUDES = st.sampled_from(
    [
        "claude-opus-5-5",
        "claude-sonnet-5-5",
        "claude-sonnet-5",
        "claude-opus-4-6",
        "claude-haiku-4-5",
        "claude-unheard-of",
    ]
)
GPTS = st.sampled_from(["gpt-6-sol", "gpt-6.1-sol", "gpt-4.1", "gpt-unheard-of"])
CHATS = st.sampled_from(
    ["openai-chat/gpt-6-sol", "deepseek/deepseek-v4-pro", "openrouter/x/y", "ollama/qwen3.5"]
)
GEMINIS = st.sampled_from(["gemini-3.8-flash", "gemini-unheard-of"])


def written(
    build: Callable[..., dict[str, Any]], request: ModelRequest, name: str
) -> dict[str, Any]:
    profile = named(name)
    body = encode(build(request, profile))
    assert body == encode(build(request, profile)), "same request, same bytes"
    return json.loads(body)


def named(name: str) -> ModelProfile:
    vendor, _, id_ = name.partition("/")
    return profile_of(vendor, id_)


@pytest.fixture(scope="module")
def judge_anthropic() -> Judge:
    return anthropic_judge()


@pytest.fixture(scope="module")
def judge_responses() -> Judge:
    return responses_judge()


@pytest.fixture(scope="module")
def judge_chat() -> Judge:
    return chat_judge()


@pytest.fixture(scope="module")
def judge_google() -> Judge:
    return google_judge()


def anthropic_is_valid(judge: Judge, model: str, request: ModelRequest) -> None:
    body = written(anthropic.build, request, f"anthropic/{model}")
    judge(body)
    check_anthropic(body)


def check_anthropic(body: dict[str, Any]) -> None:
    messages = body["messages"]
    assert [m["role"] for m in messages] == ["user", "assistant"] * (len(messages) // 2) + ["user"]
    seen: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        assert message["content"]
        blocks = message["content"]
        given = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert given == waiting
        assert [b["type"] for b in blocks[: len(given)]] == ["tool_result"] * len(given)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert len(set(waiting)) == len(waiting) and not seen & set(waiting)
        seen |= set(waiting)
        for block in blocks:
            check_anthropic_block(block)
    marks = json.dumps(body).count('"cache_control"')
    assert marks <= 4
    thinking = body.get("thinking", {})
    if thinking.get("type") == "enabled":
        assert 1024 <= thinking["budget_tokens"] < body["max_tokens"]


def check_anthropic_block(block: dict[str, Any]) -> None:
    match block["type"]:
        case "text":
            assert block["text"].strip()
        case "tool_use":
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["id"])
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"])
            assert isinstance(block["input"], dict)
        case "tool_result":
            assert block["content"]
            for item in block["content"]:
                check_anthropic_block(item)
        case "image":
            assert block["source"]["media_type"] in {"image/png", "image/jpeg"}
        case "thinking":
            assert block["signature"]
        case kind:
            assert kind == "redacted_thinking"


def responses_is_valid(judge: Judge, model: str, request: ModelRequest) -> None:
    body = written(openai_responses.build, request, f"openai/{model}")
    judge(body)
    assert body["store"] is False
    assert "tool_choice" not in body
    calls = [item["call_id"] for item in body["input"] if item["type"] == "function_call"]
    outputs = [item["call_id"] for item in body["input"] if item["type"] == "function_call_output"]
    assert sorted(calls) == sorted(outputs)
    assert len(set(calls)) == len(calls)
    assert all(0 < len(call) <= 64 for call in calls)
    for item in body["input"]:
        if item["type"] == "message":
            assert item["content"]
        elif item["type"] == "function_call":
            assert isinstance(json.loads(item["arguments"]), dict)


def chat_is_valid(judge: Judge, name: str, request: ModelRequest) -> None:
    body = written(openai_chat.build, request, name)
    check_chat(body)
    for own in ("thinking", "reasoning"):  # what DeepSeek and OpenRouter add to the format
        body.pop(own, None)
    for message in body["messages"]:
        message.pop("reasoning_content", None)
        message.pop("reasoning_details", None)
    judge(body)


def check_chat(body: dict[str, Any]) -> None:
    waiting: list[str] = []
    seen: set[str] = set()
    for message in body["messages"]:
        if waiting:
            assert message["role"] == "tool" and message["tool_call_id"] == waiting.pop(0)
        elif message["role"] == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls", ())]
            assert not seen & set(waiting) and len(set(waiting)) == len(waiting)
            seen |= set(waiting)
            assert message.get("content") or waiting
            for call in message.get("tool_calls", ()):
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
                assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"])
        else:
            assert message["role"] in ("user", "system")
            assert message["content"] if message["role"] == "user" else True
    assert not waiting


def google_is_valid(judge: Judge, model: str, request: ModelRequest) -> None:
    body = written(google.build, request, f"google/{model}")
    judge(body)
    contents = body["contents"]
    assert [c["role"] for c in contents] == ["user", "model"] * (len(contents) // 2) + ["user"]
    waiting: list[tuple[str, str]] = []
    for content in contents:
        parts = content["parts"]
        assert parts
        answers = [p["functionResponse"] for p in parts if "functionResponse" in p]
        assert [(answer["id"], answer["name"]) for answer in answers] == waiting
        calls = [p for p in parts if "functionCall" in p]
        waiting = [(p["functionCall"]["id"], p["functionCall"]["name"]) for p in calls]
        assert not calls or calls[0]["thoughtSignature"]


@fuzzed
@given(model=CLAUDES, request=requests)
def test_anthropic_request_is_valid(judge_anthropic: Judge, model: str, request: ModelRequest):
    anthropic_is_valid(judge_anthropic, model, request)


@fuzzed
@given(model=GPTS, request=requests)
def test_responses_request_is_valid(judge_responses: Judge, model: str, request: ModelRequest):
    responses_is_valid(judge_responses, model, request)


@fuzzed
@given(model=CHATS, request=requests)
def test_chat_request_is_valid(judge_chat: Judge, model: str, request: ModelRequest):
    chat_is_valid(judge_chat, model, request)


@fuzzed
@given(model=GEMINIS, request=requests)
def test_google_request_is_valid(judge_google: Judge, model: str, request: ModelRequest):
    google_is_valid(judge_google, model, request)


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("judge", "is_valid", "models"),
    [
        ("judge_anthropic", anthropic_is_valid, CLAUDES),
        ("judge_responses", responses_is_valid, GPTS),
        ("judge_chat", chat_is_valid, CHATS),
        ("judge_google", google_is_valid, GEMINIS),
    ],
)
def test_requests_are_valid_over_many_more_histories(
    judge: str, is_valid: Callable[..., None], models: Any, request: pytest.FixtureRequest
):
    judging = request.getfixturevalue(judge)

    @settings(fuzzed, max_examples=1500)
    @given(model=models, asked=requests)
    def run(model: str, asked: ModelRequest) -> None:
        is_valid(judging, model, asked)

    run()


SIMPLE = ModelRequest(system="s", messages=(said("hello"),), tools=TOOLS)


def spoiled(body: dict[str, Any], *path: str | int, value: Any) -> dict[str, Any]:
    copy = json.loads(json.dumps(body))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return copy


def test_judge_of_anthropic_can_refuse(judge_anthropic: Judge):
    body = written(anthropic.build, SIMPLE, "anthropic/claude-opus-5-5")
    judge_anthropic(body)
    for bad in (
        spoiled(body, "unheard_of", value=1),
        spoiled(body, "messages", 0, "role", value="robot"),
        spoiled(body, "messages", 0, "content", 0, "type", value="txt"),
        spoiled(body, "messages", 0, "content", 0, "colour", value="red"),
        spoiled(body, "tools", 0, "cache_control", value="yes"),
    ):
        with pytest.raises(ValueError, match="validation error"):
            judge_anthropic(bad)


def test_judge_of_responses_can_refuse(judge_responses: Judge):
    body = written(openai_responses.build, SIMPLE, "openai/gpt-6-sol")
    judge_responses(body)
    for bad in (
        spoiled(body, "unheard_of", value=1),
        spoiled(body, "input", 0, "content", 0, "type", value="txt"),
        spoiled(body, "reasoning", "effort", value="enormous"),
    ):
        with pytest.raises(ValueError, match="validation error"):
            judge_responses(bad)


def test_judge_of_chat_can_refuse(judge_chat: Judge):
    body = written(openai_chat.build, SIMPLE, "openai-chat/gpt-6-sol")
    judge_chat(body)
    for bad in (
        spoiled(body, "unheard_of", value=1),
        spoiled(body, "messages", 1, "role", value="robot"),
        spoiled(body, "tools", 0, "function", "colour", value="red"),
    ):
        with pytest.raises(ValueError, match="validation error"):
            judge_chat(bad)


def test_judge_of_google_can_refuse(judge_google: Judge):
    body = written(google.build, SIMPLE, "google/gemini-3.8-flash")
    judge_google(body)
    for bad in (
        spoiled(body, "contents", 0, "parts", 0, "colour", value="red"),
        spoiled(body, "generationConfig", "thinkingConfig", "deep", value=True),
        spoiled(body, "tools", 0, "functionDeclarations", 0, "name", value=7),
    ):
        with pytest.raises(ValueError, match="validation error"):
            judge_google(bad)
