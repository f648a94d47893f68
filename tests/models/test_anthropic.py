import json

import pytest
from hypothesis import given, settings

from quarterdeck.models.anthropic import MessagesParser, build
from quarterdeck.models.catalogue import profile_of
from quarterdeck.models.errors import StreamBrokenError
from quarterdeck.models.model import (
    ModelRequest,
    ReplyFinished,
    TextDelta,
    ThinkingDelta,
    ToolUseDelta,
    ToolUseStarted,
)
from quarterdeck.models.remote import WireError
from quarterdeck.models.reply import encode
from quarterdeck.wire.conversation import (
    ImagePart,
    Message,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from quarterdeck.wire.usage import TokenUsage
from tests.support.model_histories import PIXEL, TOOLS, said
from tests.support.model_streams import cuts, named, play, recorded

OPUS = named("anthropic/claude-opus-5-5")
RAW = recorded("anthropic_tools")


def events(*lines: dict[str, object]) -> bytes:
    return b"".join(b"data: " + json.dumps(line).encode() + b"\n\n" for line in lines)


def finished(raw: bytes) -> ReplyFinished:
    last = play(MessagesParser(OPUS), raw)[-1]
    assert isinstance(last, ReplyFinished)
    return last


def test_recorded_stream_gives_its_deltas():
    assert play(MessagesParser(OPUS), RAW)[:-1] == [
        ThinkingDelta("The user wants the files"),
        ThinkingDelta(" – naïvely: ls. ☃"),
        TextDelta("I will look"),
        TextDelta(" — “now”."),
        ToolUseStarted("toolu_01T1x1fJ34qAmk2tNTrN7Up6", "bash"),
        ToolUseDelta("toolu_01T1x1fJ34qAmk2tNTrN7Up6", '{"command":'),
        ToolUseDelta("toolu_01T1x1fJ34qAmk2tNTrN7Up6", ' "ls -la"}'),
        ToolUseStarted("toolu_01A09q90qw90lq917835lq9", "now"),
    ]


def test_recorded_stream_gives_its_reply():
    reply = finished(RAW).reply
    assert reply.parts == (
        ThinkingPart(
            text="The user wants the files – naïvely: ls. ☃",
            vendor="anthropic/claude-opus-5-5",
            signature="EqQBCgIYAhIM1gbcDa9GJwZA2b3h",
        ),
        ThinkingPart(
            text="",
            vendor="anthropic/claude-opus-5-5",
            redacted="EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpP",
        ),
        TextPart(text="I will look — “now”."),
        ToolUsePart(
            id="toolu_01T1x1fJ34qAmk2tNTrN7Up6", name="bash", arguments='{"command": "ls -la"}'
        ),
        ToolUsePart(id="toolu_01A09q90qw90lq917835lq9", name="now", arguments="{}"),
    )


def test_every_token_is_counted_once_though_the_stream_reports_them_twice():
    done = finished(RAW)
    assert done.usage == TokenUsage(
        input=42 + 310 + 18204, output=97, cached=18204, cache_written=310, thought=31
    )
    assert (done.stop, done.raw_stop) == ("tool_use", "tool_use")


@settings(deadline=None, max_examples=60)
@given(cuts(RAW))
def test_any_cut_of_the_bytes_gives_the_same_deltas(places: list[int]):
    assert play(MessagesParser(OPUS), RAW, places) == play(MessagesParser(OPUS), RAW)


def test_thinking_goes_back_unchanged():
    reply = finished(RAW).reply
    body = build(ModelRequest(system="", messages=(said("go"), reply)), OPUS)
    assert body["messages"][1]["content"][:2] == [
        {
            "type": "thinking",
            "thinking": "The user wants the files – naïvely: ls. ☃",
            "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3h",
        },
        {
            "type": "redacted_thinking",
            "data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpP",
        },
    ]


@pytest.mark.parametrize("other", ["claude-sonnet-5-5", "claude-haiku-4-5"])
def test_thinking_never_goes_to_another_model(other: str):
    reply = finished(RAW).reply
    body = encode(build(ModelRequest(system="", messages=(reply,)), named(f"anthropic/{other}")))
    assert b"thinking" not in body.replace(b'"thinking":{"type":"between_tools"}', b"")


def test_thinking_that_was_cut_off_before_its_signature_is_left_out():
    message = Message(
        role="assistant",
        parts=(ThinkingPart(text="hm", vendor=OPUS.owner), TextPart(text="so")),
    )
    body = build(ModelRequest(system="", messages=(said("go"), message)), OPUS)
    assert body["messages"][1]["content"] == [{"type": "text", "text": "so"}]


def test_a_message_of_nothing_but_unsigned_thinking_is_not_empty():
    message = Message(role="assistant", parts=(ThinkingPart(text="hm", vendor=OPUS.owner),))
    body = build(ModelRequest(system="", messages=(said("go"), message)), OPUS)
    assert body["messages"][1]["content"]


@pytest.mark.parametrize(
    ("stop", "ours"),
    [
        ("end_turn", "end_turn"),
        ("stop_sequence", "end_turn"),
        ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "max_tokens"),
        ("refusal", "refusal"),
        ("pause_turn", "other"),
        ("something_new", "other"),
    ],
)
def test_stop_reason_is_translated(stop: str, ours: str):
    raw = events(
        {"type": "message_delta", "delta": {"stop_reason": stop}}, {"type": "message_stop"}
    )
    assert (finished(raw).stop, finished(raw).raw_stop) == (ours, stop)


def test_stream_without_an_end_is_broken():
    raw = RAW[: RAW.index(b"event: message_delta")]
    parser = MessagesParser(OPUS)
    with pytest.raises(StreamBrokenError):
        play(parser, raw)
    partial = parser.partial()
    assert partial is not None
    assert [type(part) for part in partial.parts] == [ThinkingPart, ThinkingPart, TextPart]


def test_error_event_is_the_vendors():
    raw = events({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    with pytest.raises(WireError) as caught:
        play(MessagesParser(OPUS), raw)
    assert caught.value.error == {"type": "overloaded_error", "message": "Overloaded"}


def test_half_written_call_keeps_what_the_model_wrote():
    raw = events(
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "t", "name": "bash", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"comm'},
        },
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
        {"type": "message_stop"},
    )
    done = finished(raw)
    assert done.stop == "max_tokens"
    assert done.reply.parts == (ToolUsePart(id="t", name="bash", arguments='{"comm'),)


def test_arguments_that_are_not_streamed_are_kept():
    raw = events(
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "t", "name": "bash", "input": {"a": 1}},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    )
    (part,) = finished(raw).reply.parts
    assert isinstance(part, ToolUsePart)
    assert json.loads(part.arguments) == {"a": 1}


def test_unknown_blocks_go_back_as_they_came():
    block = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    raw = events(
        {"type": "content_block_start", "index": 0, "content_block": block},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"query": "x"}'},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    )
    reply = finished(raw).reply
    whole = {**block, "input": {"query": "x"}}
    assert reply.parts == (OpaquePart(vendor=OPUS.owner, raw=whole),)
    body = build(ModelRequest(system="", messages=(said("go"), reply)), OPUS)
    assert body["messages"][1]["content"] == [whole]


def test_results_keep_their_images_and_their_errors():
    call = Message(role="assistant", parts=(ToolUsePart(id="t", name="see", arguments="{}"),))
    seen = (TextPart(text="look"), ImagePart(data=PIXEL, mime_type="image/png"))
    result = ToolResultPart(id="t", content=seen, is_error=True)
    answer = Message(role="user", parts=(TextPart(text="and?"), result))
    body = build(ModelRequest(system="", messages=(said("go"), call, answer)), OPUS)
    first, second = body["messages"][2]["content"]
    assert first == {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [
            {"type": "text", "text": "look"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
            },
        ],
        "is_error": True,
    }
    assert second["text"] == "and?"


def test_images_are_described_to_a_model_that_cannot_see():
    blind = profile_of(
        "anthropic", "claude-opus-5-5", {"anthropic/claude-opus-5-5": {"images": False}}
    )
    message = Message(role="user", parts=(ImagePart(data=PIXEL, mime_type="image/png"),))
    (block,) = build(ModelRequest(system="", messages=(message,)), blind)["messages"][0]["content"]
    assert block["type"] == "text"
    assert "image/png" in block["text"]


@pytest.mark.parametrize(
    ("model", "effort", "fields"),
    [
        ("claude-opus-5-5", "off", {"output_config": {"effort": "low"}}),
        (
            "claude-opus-5-5",
            "high",
            {
                "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": "high"},
            },
        ),
        (
            "claude-sonnet-5-5",
            "off",
            {"thinking": {"type": "between_tools"}, "output_config": {"effort": "low"}},
        ),
        ("claude-sonnet-5", "off", {"thinking": {"type": "disabled"}}),
        ("claude-opus-4-6", "off", {}),
        ("claude-haiku-4-5", "off", {}),
        ("claude-haiku-4-5", "low", {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
        ("claude-unheard-of", "high", {}),
    ],
)
def test_effort_is_said_as_the_model_wants_it(model: str, effort: str, fields: dict[str, object]):
    request = ModelRequest(system="", messages=(said("go"),), effort=effort)  # type: ignore[arg-type]
    body = build(request, named(f"anthropic/{model}"))
    assert {key: body[key] for key in ("thinking", "output_config") if key in body} == fields


def test_a_budget_leaves_room_for_the_answer_or_is_left_out():
    haiku = named("anthropic/claude-haiku-4-5")
    tight = ModelRequest(system="", messages=(said("go"),), effort="high", max_output=4000)
    assert build(tight, haiku)["thinking"]["budget_tokens"] == 4000 - 1024
    tighter = ModelRequest(system="", messages=(said("go"),), effort="high", max_output=1500)
    assert "thinking" not in build(tighter, haiku)


def test_marks_stand_on_tools_system_and_the_two_newest_user_messages():
    messages = (said("1"), answer("2"), said("3"), answer("4"), said("5"))
    body = build(ModelRequest(system="s", messages=messages, tools=TOOLS), OPUS)
    assert [("cache_control" in tool) for tool in body["tools"]] == [False, True]
    assert "cache_control" in body["system"][-1]
    marked = ["cache_control" in m["content"][-1] for m in body["messages"]]
    assert marked == [False, False, True, False, True]


def test_whole_output_of_the_model_is_allowed_unless_the_caller_says_less():
    assert build(ModelRequest(system="", messages=()), OPUS)["max_tokens"] == 128_000
    assert build(ModelRequest(system="", messages=(), max_output=5), OPUS)["max_tokens"] == 5
    assert (
        build(ModelRequest(system="", messages=(), max_output=10**9), OPUS)["max_tokens"] == 128_000
    )


def answer(text: str) -> Message:
    return Message(role="assistant", parts=(TextPart(text=text),))
