"""Request N+1 begins with request N's bytes: what prompt caches live on."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.models import anthropic, google, openai_chat, openai_responses
from quarterdeck.models.model import ModelRequest
from quarterdeck.models.reply import encode
from quarterdeck.wire.conversation import (
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from tests.support.model_histories import TOOLS, arguments, said
from tests.support.model_streams import named

MARK = b',"cache_control":{"type":"ephemeral"}'
WIRES = [
    (anthropic.build, "anthropic/claude-opus-5-5"),
    (openai_responses.build, "openai/gpt-6-sol"),
    (openai_chat.build, "openai-chat/gpt-6-sol"),
    (openai_chat.build, "deepseek/deepseek-v4-pro"),
    (google.build, "google/gemini-3.8-flash"),
]
plain = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """What a healthy session holds: the user speaks, the model answers or calls, results come."""
    messages = [said(draw(plain))]
    for number in range(draw(st.integers(1, 5))):
        parts: list[Part] = [TextPart(text=draw(plain))]
        if draw(st.booleans()):
            sealed = '{"type":"reasoning","id":"rs_1","summary":[]}'
            parts.insert(0, ThinkingPart(text="hm", vendor="openai/gpt-6-sol", signature=sealed))
        ids = [f"c{number}_{i}" for i in range(draw(st.integers(0, 3)))]
        parts += [ToolUsePart(id=i, name="bash", arguments=draw(arguments)) for i in ids]
        messages.append(Message(role="assistant", parts=tuple(parts)))
        results = [ToolResultPart(id=i, content=(TextPart(text=draw(plain)),)) for i in ids]
        messages.append(Message(role="user", parts=tuple(results)) if ids else said(draw(plain)))
    return messages


@pytest.mark.parametrize(("build", "name"), WIRES)
@settings(deadline=None, max_examples=40)
@given(messages=conversations())
def test_request_begins_with_the_bytes_of_the_one_before_it(
    build: Callable[..., dict[str, Any]], name: str, messages: list[Message]
):
    before = None
    for end in range(1, len(messages) + 1, 2):
        request = ModelRequest(
            system="You are brief.", messages=tuple(messages[:end]), tools=TOOLS, effort="medium"
        )
        body = encode(build(request, named(name))).replace(MARK, b"")
        json.loads(body)
        if before is not None:
            assert body.startswith(before)
        assert body.endswith(b"]}")
        before = body[:-2]  # the end of the list of messages and of the body


def test_anthropic_reads_the_cache_where_the_request_before_it_wrote():
    messages = [said("1")]
    written: set[int] = set()
    for number in range(4):
        request = ModelRequest(system="s", messages=tuple(messages), tools=TOOLS)
        body = anthropic.build(request, named("anthropic/claude-opus-5-5"))
        marked = {
            place
            for place, message in enumerate(body["messages"])
            if "cache_control" in message["content"][-1]
        }
        assert not written or marked & written
        written = {max(marked)}
        messages += [Message(role="assistant", parts=(TextPart(text="ok"),)), said(str(number))]
