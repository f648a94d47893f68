import json

import pytest
from hypothesis import given, settings

from quarterdeck.models.errors import StreamBrokenError
from quarterdeck.models.google import WIRE, GenerateParser, build
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
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from quarterdeck.wire.usage import TokenUsage
from tests.support.model_histories import PIXEL, TOOLS, said
from tests.support.model_streams import cuts, named, numbered, play, recorded

FLASH = named("google/gemini-3.8-flash")
RAW = recorded("google_tools")


def finished(raw: bytes) -> ReplyFinished:
    last = play(GenerateParser(FLASH, numbered()), raw)[-1]
    assert isinstance(last, ReplyFinished)
    return last


def chunk(**fields: object) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def test_recorded_stream_gives_its_deltas():
    assert play(GenerateParser(FLASH, numbered()), RAW)[:-1] == [
        ThinkingDelta("**Looking**\n\n"),
        ThinkingDelta("listing ☃"),
        TextDelta("I will look"),
        TextDelta(" — now."),
        ToolUseStarted("fc_1", "bash"),
        ToolUseDelta("fc_1", '{"command":"ls -la"}'),
        ToolUseStarted("made_1", "now"),
        ToolUseDelta("made_1", "{}"),
    ]


def test_cached_tokens_are_counted_once_and_thoughts_are_output():
    done = finished(RAW)
    assert done.usage == TokenUsage(input=18556, output=66 + 31, cached=18204, thought=31)
    assert (done.stop, done.raw_stop) == ("tool_use", "STOP")


@settings(deadline=None, max_examples=60)
@given(cuts(RAW))
def test_any_cut_of_the_bytes_gives_the_same_deltas(places: list[int]):
    whole = play(GenerateParser(FLASH, numbered()), RAW)
    assert play(GenerateParser(FLASH, numbered()), RAW, places) == whole


def test_signatures_go_back_on_the_parts_that_they_came_with():
    reply = finished(RAW).reply
    body = json.loads(encode(build(ModelRequest(system="", messages=(said("go"), reply)), FLASH)))
    assert body["contents"][1] == {
        "role": "model",
        "parts": [
            {"text": "I will look — now."},
            {
                "functionCall": {"id": "fc_1", "name": "bash", "args": {"command": "ls -la"}},
                "thoughtSignature": "Et0CCtoCAXLI2nwTo+Zkk0Kp==",
            },
            {"functionCall": {"id": "made_1", "name": "now", "args": {}}},
            {"text": "", "thoughtSignature": "EqEBCp4BAXLI2nyS"},
        ],
    }


def test_signatures_never_go_to_another_model():
    reply = finished(RAW).reply
    request = ModelRequest(system="", messages=(said("go"), reply))
    body = encode(build(request, named("google/gemini-3.1-pro-preview")))
    assert b"Et0CCtoC" not in body
    assert b"EqEBCp4B" not in body


def test_a_call_that_gemini_did_not_make_bears_the_mark_for_that():
    call = Message(role="assistant", parts=(ToolUsePart(id="t", name="x", arguments="{}"),))
    body = build(ModelRequest(system="", messages=(said("go"), call)), FLASH)
    (part,) = body["contents"][1]["parts"]
    assert part["thoughtSignature"] == "skip_thought_signature_validator"


def test_results_name_their_call_and_say_whether_they_failed():
    calls = Message(
        role="assistant",
        parts=(
            ToolUsePart(id="a", name="see", arguments="{}"),
            ToolUsePart(id="b", name="bash", arguments="{}"),
        ),
    )
    seen = (TextPart(text="a picture"), ImagePart(data=PIXEL, mime_type="image/png"))
    results = Message(
        role="user",
        parts=(
            ToolResultPart(id="b", content=(TextPart(text="no"),), is_error=True),
            ToolResultPart(id="a", content=seen),
        ),
    )
    body = build(ModelRequest(system="", messages=(said("go"), calls, results)), FLASH)
    first, second, label, image = body["contents"][2]["parts"]
    assert first["functionResponse"] == {
        "id": "a",
        "name": "see",
        "response": {"output": "a picture"},
    }
    assert second["functionResponse"] == {"id": "b", "name": "bash", "response": {"error": "no"}}
    assert "call a" in label["text"]
    assert image == {"inlineData": {"mimeType": "image/png", "data": PIXEL}}


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "RECITATION", "SPII"])
def test_a_blocked_answer_is_a_refusal(reason: str):
    done = finished(chunk(candidates=[{"finishReason": reason}]))
    assert (done.stop, done.raw_stop) == ("refusal", reason)


def test_a_blocked_prompt_is_a_refusal():
    done = finished(
        chunk(promptFeedback={"blockReason": "SAFETY"}, usageMetadata={"promptTokenCount": 9})
    )
    assert (done.stop, done.usage.input) == ("refusal", 9)


def test_the_answers_limit_is_told():
    part = {"content": {"parts": [{"text": "a"}]}, "finishReason": "MAX_TOKENS"}
    assert finished(chunk(candidates=[part])).stop == "max_tokens"


def test_a_miswritten_call_may_be_tried_again():
    with pytest.raises(StreamBrokenError, match="MALFORMED_FUNCTION_CALL"):
        finished(chunk(candidates=[{"finishReason": "MALFORMED_FUNCTION_CALL"}]))


def test_stream_without_an_end_is_broken():
    parser = GenerateParser(FLASH)
    with pytest.raises(StreamBrokenError):
        play(parser, chunk(candidates=[{"content": {"parts": [{"text": "half"}]}}]))
    assert parser.partial() == Message(role="assistant", parts=(TextPart(text="half"),))


def test_error_in_the_stream_is_the_vendors():
    with pytest.raises(WireError) as caught:
        play(GenerateParser(FLASH), chunk(error={"code": 503, "status": "UNAVAILABLE"}))
    assert caught.value.error["status"] == "UNAVAILABLE"


def test_model_stands_in_the_path():
    assert WIRE.path(FLASH) == "/models/gemini-3.8-flash:streamGenerateContent?alt=sse"


def test_schema_of_a_tool_is_sent_whole():
    (tools,) = build(ModelRequest(system="", messages=(), tools=TOOLS), FLASH)["tools"]
    assert tools["functionDeclarations"][0]["parametersJsonSchema"] == TOOLS[0].parameters


def test_thoughts_are_not_told_again():
    message = Message(
        role="assistant",
        parts=(ThinkingPart(text="hm", vendor=FLASH.owner), TextPart(text="so")),
    )
    body = build(ModelRequest(system="", messages=(said("go"), message)), FLASH)
    assert body["contents"][1]["parts"] == [{"text": "so"}]
