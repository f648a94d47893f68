import json

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
from quarterdeck.models.openai_responses import ResponsesParser, build
from quarterdeck.models.remote import WireError
from quarterdeck.models.reply import encode
from quarterdeck.wire.conversation import (
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from quarterdeck.wire.usage import TokenUsage
from tests.support.model_histories import PIXEL, TOOLS, said
from tests.support.model_streams import cuts, named, play, recorded

SOL = named("openai/gpt-6-sol")
RAW = recorded("openai_responses_tools")
REASONING = {
    "id": "rs_6876cf02e0bc8192",
    "type": "reasoning",
    "summary": [
        {"type": "summary_text", "text": "**Looking**"},
        {"type": "summary_text", "text": "then listing ☃"},
    ],
    "encrypted_content": "gAAAAABoISQ24OyVRYbkYfukdJoqdzWT-3uiErKInHDC==",
}


def finished(raw: bytes) -> ReplyFinished:
    last = play(ResponsesParser(SOL), raw)[-1]
    assert isinstance(last, ReplyFinished)
    return last


def events(*lines: dict[str, object]) -> bytes:
    return b"".join(b"data: " + json.dumps(line).encode() + b"\n\n" for line in lines)


def test_recorded_stream_gives_its_deltas():
    assert play(ResponsesParser(SOL), RAW)[:-1] == [
        ThinkingDelta("**Look"),
        ThinkingDelta("ing**"),
        ThinkingDelta("\n\n"),
        ThinkingDelta("then listing ☃"),
        TextDelta("I will look"),
        TextDelta(" — now."),
        ToolUseStarted("call_fgL66kWTHYnZmCe4Q0n4", "bash"),
        ToolUseDelta("call_fgL66kWTHYnZmCe4Q0n4", '{"command":'),
        ToolUseDelta("call_fgL66kWTHYnZmCe4Q0n4", '"ls -la"}'),
    ]


def test_recorded_stream_gives_its_reply():
    done = finished(RAW)
    thinking, text, call = done.reply.parts
    assert isinstance(thinking, ThinkingPart)
    assert thinking.text == "**Looking**\n\nthen listing ☃"
    assert isinstance(text, TextPart)
    assert text.text == "I will look — now."
    assert call == ToolUsePart(
        id="call_fgL66kWTHYnZmCe4Q0n4", name="bash", arguments='{"command":"ls -la"}'
    )
    assert done.stop == "tool_use"


def test_cached_tokens_are_counted_once():
    assert finished(RAW).usage == TokenUsage(
        input=18556, output=97, cached=18204, cache_written=310, thought=31
    )


@settings(deadline=None, max_examples=60)
@given(cuts(RAW))
def test_any_cut_of_the_bytes_gives_the_same_deltas(places: list[int]):
    assert play(ResponsesParser(SOL), RAW, places) == play(ResponsesParser(SOL), RAW)


def test_reasoning_and_phase_go_back_unchanged():
    reply = finished(RAW).reply
    result = ToolResultPart(id="call_fgL66kWTHYnZmCe4Q0n4", content=(TextPart(text="a b"),))
    messages = (said("go"), reply, Message(role="user", parts=(result,)))
    body = json.loads(encode(build(ModelRequest(system="", messages=messages), SOL)))
    assert body["input"][1:] == [
        REASONING,
        {
            "type": "message",
            "role": "assistant",
            "content": "I will look — now.",
            "phase": "commentary",
        },
        {
            "type": "function_call",
            "call_id": "call_fgL66kWTHYnZmCe4Q0n4",
            "name": "bash",
            "arguments": '{"command":"ls -la"}',
        },
        {
            "type": "function_call_output",
            "call_id": "call_fgL66kWTHYnZmCe4Q0n4",
            "output": "a b",
        },
    ]


def test_reasoning_never_goes_to_another_model():
    reply = finished(RAW).reply
    body = build(ModelRequest(system="", messages=(said("go"), reply)), named("openai/gpt-6.1-sol"))
    assert [item["type"] for item in body["input"]][:2] == ["message", "message"]
    assert "phase" not in body["input"][1]


def test_nothing_is_stored_and_reasoning_comes_encrypted():
    body = build(ModelRequest(system="be brief", messages=(said("go"),), effort="high"), SOL)
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert body["instructions"] == "be brief"


@pytest.mark.parametrize(
    ("model", "effort"), [("gpt-6-sol", "none"), ("gpt-6.1-sol", "low"), ("gpt-4.1", None)]
)
def test_no_thinking_is_said_as_the_model_wants_it(model: str, effort: str | None):
    body = build(ModelRequest(system="", messages=(said("go"),)), named(f"openai/{model}"))
    assert body.get("reasoning", {}).get("effort") == effort


def test_cache_key_is_one_for_a_conversation_and_differs_between_two():
    def key(*messages: Message) -> str:
        return build(ModelRequest(system="s", messages=messages, tools=TOOLS), SOL)[
            "prompt_cache_key"
        ]

    assert key(said("a")) == key(said("a"), finished(RAW).reply, said("b"))
    assert key(said("a")) != key(said("b"))


def test_results_keep_their_images_and_their_errors():
    call = Message(role="assistant", parts=(ToolUsePart(id="t", name="see", arguments="{}"),))
    seen = (TextPart(text="look"), ImagePart(data=PIXEL, mime_type="image/png"))
    result = ToolResultPart(id="t", content=seen, is_error=True)
    messages = (said("go"), call, Message(role="user", parts=(result,)))
    output = build(ModelRequest(system="", messages=messages), SOL)["input"][2]["output"]
    assert [item["type"] for item in output] == ["input_text", "input_text", "input_image"]
    assert output[0]["text"] == "Error:"


def test_an_error_is_told_once():
    call = Message(role="assistant", parts=(ToolUsePart(id="t", name="x", arguments="{}"),))
    for text, told in (("no such file", "Error: no such file"), ("Error 7", "Error 7")):
        result = ToolResultPart(id="t", content=(TextPart(text=text),), is_error=True)
        messages = (said("go"), call, Message(role="user", parts=(result,)))
        assert build(ModelRequest(system="", messages=messages), SOL)["input"][2]["output"] == told


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("max_output_tokens", "max_tokens"), ("content_filter", "refusal"), ("whim", "other")],
)
def test_an_incomplete_response_says_why(reason: str, stop: str):
    response = {"status": "incomplete", "incomplete_details": {"reason": reason}, "output": []}
    done = finished(events({"type": "response.incomplete", "response": response}))
    assert (done.stop, done.raw_stop) == (stop, reason)


def test_a_refusal_is_one():
    item = {"type": "message", "role": "assistant", "content": []}
    whole = {**item, "content": [{"type": "refusal", "refusal": "I can't help."}]}
    raw = events(
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.refusal.delta", "output_index": 0, "delta": "I can't help."},
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "response.completed", "response": {"status": "completed", "output": [whole]}},
    )
    done = finished(raw)
    assert done.stop == "refusal"
    assert done.reply.parts == (TextPart(text="I can't help."),)


def test_items_that_come_only_with_the_end_are_kept():
    item = {"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"}
    raw = events({"type": "response.completed", "response": {"output": [item]}})
    done = finished(raw)
    assert done.reply.parts == (ToolUsePart(id="c", name="bash", arguments="{}"),)
    assert done.stop == "tool_use"


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (
            {"type": "response.failed", "response": {"error": {"code": "server_error"}}},
            {"code": "server_error"},
        ),
        (
            {"type": "error", "code": "rate_limit_exceeded", "message": "slow down"},
            {"code": "rate_limit_exceeded", "message": "slow down"},
        ),
        ({"type": "error", "error": {"code": "x", "message": "y"}}, {"code": "x", "message": "y"}),
    ],
)
def test_error_event_is_the_vendors(event: dict[str, object], error: dict[str, object]):
    with pytest.raises(WireError) as caught:
        play(ResponsesParser(SOL), events(event))
    assert caught.value.error == error


def test_stream_without_an_end_is_broken():
    parser = ResponsesParser(SOL)
    with pytest.raises(StreamBrokenError):
        play(parser, RAW[: RAW.index(b"event: response.completed")])
    partial = parser.partial()
    assert partial is not None
    assert [type(part) for part in partial.parts] == [ThinkingPart, TextPart]
