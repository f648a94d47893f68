"""What is kept of a conversation between requests never shows in what is sent."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.models import anthropic, google, openai_chat, openai_responses
from quarterdeck.models.encoded_history import EncodedHistory
from quarterdeck.models.model import ModelInfo, ModelProfile, ModelRequest
from quarterdeck.models.reply import encode
from quarterdeck.wire.conversation import Message, TextPart, ToolResultPart, ToolUsePart
from tests.support.model_histories import histories

WIRES = [anthropic.build, openai_chat.build, openai_responses.build, google.build]


def profile(name: str) -> ModelProfile:
    vendor, _, id_ = name.partition("/")
    info = ModelInfo(vendor=vendor, id=id_, window=9_000, max_output=900, thinking=True)
    return ModelProfile(info=info)


PROFILES = [profile("anthropic/claude-opus-5-5"), profile("google/gemini-3.8-flash")]

changes = st.lists(
    st.tuples(
        st.sampled_from(["grow", "cut", "change", "other", "wish"]),
        st.integers(0, 30),
        st.integers(1, 4),
    ),
    min_size=2,
    max_size=12,
)


@settings(deadline=None, max_examples=150)
@given(
    said=histories,
    other=histories,
    played=changes,
    wire=st.sampled_from(WIRES),
    profile=st.sampled_from(PROFILES),
)
def test_a_kept_history_gives_the_bytes_of_a_fresh_one(said, other, played, wire, profile):
    history = EncodedHistory()
    pool = [*said, *other]
    told: list[Message] = []
    for what, place, count in played:
        match what:
            case "grow":
                told += [pool[(place + n) % len(pool)] for n in range(count)] if pool else []
            case "cut":
                del told[:count]
            case "change" if told:
                new = Message(role=told[place % len(told)].role, parts=(TextPart(text="new"),))
                told[place % len(told)] = new
            case "other" if told:
                told = told[: place % len(told)]
            case _:
                pass
        request = ModelRequest(system="s", messages=tuple(told))
        assert encode(wire(request, profile, history)) == encode(wire(request, profile))


def steps(count: int) -> list[Message]:
    found = [Message(role="user", parts=(TextPart(text="go"),))]
    for n in range(count):
        use = ToolUsePart(id=f"c{n}", name="read", arguments="{}")
        found.append(Message(role="assistant", parts=(use,)))
        result = ToolResultPart(id=f"c{n}", content=(TextPart(text=f"r{n}"),))
        found.append(Message(role="user", parts=(result,)))
    return found


@pytest.mark.parametrize("wire", WIRES)
def test_only_what_is_new_is_written(wire):
    history, told = EncodedHistory(), steps(20)
    for count in range(1, 22, 2):
        wire(ModelRequest(system="", messages=tuple(told[:count])), PROFILES[0], history)
    body = wire(ModelRequest(system="", messages=tuple(told[:23])), PROFILES[0], history)
    items = next(body[key] for key in ("messages", "input", "contents") if key in body)
    assert sum(isinstance(item, msgspec.Raw) for item in items) >= 16


@pytest.mark.parametrize("wire", WIRES)
def test_a_result_that_is_cleared_later_keeps_what_is_before_it(wire):
    history, told = EncodedHistory(), steps(20)
    wire(ModelRequest(system="", messages=tuple(told)), PROFILES[0], history)
    note = ToolResultPart(id="c9", content=(TextPart(text="cleared"),))
    told[20] = Message(role="user", parts=(note,))
    request = ModelRequest(system="", messages=tuple(told))
    assert encode(wire(request, PROFILES[0], history)) == encode(wire(request, PROFILES[0]))
