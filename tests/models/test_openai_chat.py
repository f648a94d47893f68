import json
from typing import Any

import pytest
from hypothesis import given, settings

from quarterdeck.models.errors import StreamBrokenError
from quarterdeck.models.model import (
    ModelRequest,
    ReplyFinished,
    TextDelta,
    ThinkingDelta,
    ToolUseDelta,
    ToolUseStarted,
)
from quarterdeck.models.openai_chat import ChatParser, build
from quarterdeck.models.remote import WireError
from quarterdeck.wire.conversation import (
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from quarterdeck.wire.usage import TokenUsage
from tests.support.model_histories import PIXEL, said
from tests.support.model_streams import cuts, named, numbered, play, recorded

SOL = named("openai-chat/gpt-6-sol")
DEEPSEEK = named("deepseek/deepseek-v4-pro")
LOCAL = named("llamacpp/local")
RAW = recorded("openai_chat_tools")
STREAMS = ["openai_chat_tools", "deepseek_tools", "local_bare", "openrouter_reasoning"]


def finished(raw: bytes, profile: Any = SOL) -> ReplyFinished:
    last = play(ChatParser(profile, numbered()), raw)[-1]
    assert isinstance(last, ReplyFinished)
    return last


def chunks(*deltas: dict[str, object], finish: str | None = "stop") -> bytes:
    lines: list[dict[str, object]] = [{"choices": [{"index": 0, "delta": d}]} for d in deltas]
    lines.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return b"".join(b"data: " + json.dumps(line).encode() + b"\n\n" for line in lines)


def test_recorded_stream_gives_its_deltas():
    assert play(ChatParser(SOL), RAW)[:-1] == [
        TextDelta("I will look"),
        TextDelta(" — now. ☃"),
        ToolUseStarted("call_DdmO9pD3xa9XTPNJ32zg2hcA", "bash"),
        ToolUseDelta("call_DdmO9pD3xa9XTPNJ32zg2hcA", '{"command":'),
        ToolUseStarted("call_second", "now"),
        ToolUseDelta("call_second", "{}"),
        ToolUseDelta("call_DdmO9pD3xa9XTPNJ32zg2hcA", '"ls -la"}'),
    ]


def test_recorded_stream_gives_its_reply():
    done = finished(RAW)
    assert done.reply.parts == (
        TextPart(text="I will look — now. ☃"),
        ToolUsePart(
            id="call_DdmO9pD3xa9XTPNJ32zg2hcA", name="bash", arguments='{"command":"ls -la"}'
        ),
        ToolUsePart(id="call_second", name="now", arguments="{}"),
    )
    assert (done.stop, done.raw_stop) == ("tool_use", "tool_calls")


def test_cached_tokens_are_counted_once():
    assert finished(RAW).usage == TokenUsage(
        input=18556, output=97, cached=18204, cache_written=310, thought=31
    )
    assert finished(recorded("deepseek_tools"), DEEPSEEK).usage == TokenUsage(
        input=500, output=60, cached=448, thought=20
    )


@pytest.mark.parametrize("name", STREAMS)
@settings(deadline=None, max_examples=25)
@given(places=cuts(RAW))
def test_any_cut_of_the_bytes_gives_the_same_deltas(name: str, places: list[int]):
    raw = recorded(name)
    places = [place % len(raw) for place in places]
    whole = play(ChatParser(SOL, numbered()), raw)
    assert play(ChatParser(SOL, numbered()), raw, places) == whole


def test_reasoning_of_others_is_shown_as_thinking():
    raw = recorded("deepseek_tools")
    deltas = play(ChatParser(DEEPSEEK), raw)
    assert deltas[:3] == [
        ThinkingDelta("The user wants"),
        ThinkingDelta(" files."),
        TextDelta("Looking."),
    ]


def test_deepseek_gets_its_reasoning_back():
    reply = finished(recorded("deepseek_tools"), DEEPSEEK).reply
    body = build(ModelRequest(system="", messages=(said("go"), reply)), DEEPSEEK)
    assert body["messages"][1]["reasoning_content"] == "The user wants files."


def test_deepseek_gets_empty_reasoning_for_calls_of_another_vendor():
    reply = finished(RAW).reply
    body = build(ModelRequest(system="", messages=(said("go"), reply)), DEEPSEEK)
    assert body["messages"][1]["reasoning_content"] == ""


def test_openai_gets_no_reasoning_back():
    message = Message(
        role="assistant",
        parts=(ThinkingPart(text="hm", vendor=SOL.owner), TextPart(text="so")),
    )
    body = build(ModelRequest(system="", messages=(said("go"), message)), SOL)
    assert body["messages"][1] == {"role": "assistant", "content": "so"}


def test_openrouter_gets_its_reasoning_details_back_whole():
    router = named("openrouter/anthropic/claude")
    reply = finished(recorded("openrouter_reasoning"), router).reply
    body = build(ModelRequest(system="", messages=(said("go"), reply)), router)
    assert body["messages"][1]["reasoning_details"] == [
        {
            "type": "reasoning.text",
            "text": "Let me think.",
            "format": "anthropic-claude-v1",
            "index": 0,
            "signature": "EqQB",
        }
    ]


def test_a_server_that_gives_neither_ids_nor_indexes_nor_usage_is_understood():
    done = finished(recorded("local_bare"), LOCAL)
    assert done.reply.parts == (
        TextPart(text="Looking."),
        ToolUsePart(id="made_1", name="bash", arguments='{"command":"ls"}'),
        ToolUsePart(id="made_2", name="now", arguments="{}"),
    )
    assert done.stop == "tool_use"
    assert done.usage == TokenUsage()


def test_ids_that_we_make_are_never_the_same():
    raw = recorded("local_bare")
    last = [play(ChatParser(LOCAL), raw)[-1] for _ in range(2)]
    made = {p.id for done in last for p in done.reply.parts if isinstance(p, ToolUsePart)}  # type: ignore[union-attr]
    assert len(made) == 4


def test_two_whole_calls_under_one_index_are_two():
    calls = [
        {"index": 0, "id": id_, "function": {"name": "bash", "arguments": "{}"}} for id_ in "ab"
    ]
    done = finished(chunks({"tool_calls": calls[:1]}, {"tool_calls": calls[1:]}))
    assert [part.id for part in done.reply.parts if isinstance(part, ToolUsePart)] == ["a", "b"]


def test_a_server_that_repeats_id_and_name_with_every_piece_writes_one_call():
    pieces = [
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "bash", "arguments": text}}]}
        for text in ('{"a"', ":1}")
    ]
    (part,) = finished(chunks(*pieces)).reply.parts
    assert part == ToolUsePart(id="a", name="bash", arguments='{"a":1}')


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("whim", "other"),
    ],
)
def test_finish_reason_is_translated(finish: str, stop: str):
    done = finished(chunks({"content": "a"}, finish=finish))
    assert (done.stop, done.raw_stop) == (stop, finish)


def test_a_refusal_is_one():
    done = finished(chunks({"refusal": "I can't"}, {"refusal": " help."}))
    assert (done.stop, done.reply.parts) == ("refusal", (TextPart(text="I can't help."),))


def test_done_is_an_end_without_a_finish_reason():
    raw = chunks({"content": "a"}, finish=None) + b"data: [DONE]\n\n"
    assert finished(raw).stop == "end_turn"


def test_neither_done_nor_a_finish_reason_is_a_broken_stream():
    parser = ChatParser(SOL)
    with pytest.raises(StreamBrokenError):
        play(parser, chunks({"content": "half an ans"}, finish=None))
    assert parser.partial() == Message(role="assistant", parts=(TextPart(text="half an ans"),))


def test_error_in_the_stream_is_the_vendors():
    raw = b'data: {"error":{"code":502,"message":"Provider disconnected"}}\n\n'
    with pytest.raises(WireError) as caught:
        play(ChatParser(SOL), raw)
    assert caught.value.error["code"] == 502


def test_images_of_a_result_follow_in_a_users_message():
    call = Message(role="assistant", parts=(ToolUsePart(id="t", name="see", arguments="{}"),))
    seen = (ImagePart(data=PIXEL, mime_type="image/png"),)
    result = Message(role="user", parts=(ToolResultPart(id="t", content=seen),))
    body = build(ModelRequest(system="", messages=(said("go"), call, result)), SOL)
    assert [message["role"] for message in body["messages"][2:]] == ["tool", "user"]
    tool, user = body["messages"][2:]
    assert "image" in tool["content"]
    assert user["content"][1]["image_url"]["url"] == f"data:image/png;base64,{PIXEL}"


def test_an_error_is_told_in_words():
    call = Message(role="assistant", parts=(ToolUsePart(id="t", name="x", arguments="{}"),))
    bad = ToolResultPart(id="t", content=(TextPart(text="no such file"),), is_error=True)
    body = build(
        ModelRequest(system="", messages=(said("go"), call, Message(role="user", parts=(bad,)))),
        SOL,
    )
    assert body["messages"][2]["content"] == "Error: no such file"


@pytest.mark.parametrize(
    ("name", "effort", "fields"),
    [
        ("openai-chat/gpt-6-sol", "off", {"reasoning_effort": "none"}),
        ("openai-chat/gpt-6.1-sol", "off", {"reasoning_effort": "low"}),
        ("openai-chat/gpt-6-sol", "high", {"reasoning_effort": "high"}),
        ("deepseek/deepseek-v4-pro", "off", {"thinking": {"type": "disabled"}}),
        ("deepseek/deepseek-v4-pro", "low", {"thinking": {"type": "enabled"}}),
        ("ollama/qwen3-coder", "high", {}),
        ("vllm/unheard-of", "high", {}),
    ],
)
def test_effort_is_said_as_the_server_wants_it(name: str, effort: str, fields: dict[str, object]):
    request = ModelRequest(system="", messages=(said("go"),), effort=effort)  # type: ignore[arg-type]
    body = build(request, named(name))
    assert {
        k: body[k] for k in ("reasoning_effort", "thinking", "reasoning") if k in body
    } == fields


@pytest.mark.parametrize(
    ("name", "field"),
    [("openai-chat/gpt-6-sol", "max_completion_tokens"), ("vllm/x", "max_tokens")],
)
def test_limit_of_the_answer_has_the_name_that_the_server_knows(name: str, field: str):
    assert build(ModelRequest(system="", messages=(), max_output=7), named(name))[field] == 7
    assert field not in build(ModelRequest(system="", messages=()), named(name))


def test_usage_is_asked_for():
    body = build(ModelRequest(system="", messages=()), SOL)
    assert body["stream_options"] == {"include_usage": True}
