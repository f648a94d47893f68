"""Conversations as they come out of crashes, cancels, compactions and changes of vendor."""

from hypothesis import strategies as st

from quarterdeck.models.model import ModelRequest, ToolSpec
from quarterdeck.wire.conversation import (
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)

# A valid 1×1 PNG.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)

words = st.text(max_size=12) | st.sampled_from(["", " ", "\n", "hello", "naïve ☃", '"quoted"'])
ids = st.sampled_from(["a", "b", "c", "", "functions.bash:0", "toolu_01", "call/1", "x" * 80])
names = st.sampled_from(["bash", "read", "mcp__x__y", "not a name!", ""])
arguments = st.sampled_from(
    [
        "{}",
        '{"command":"ls"}',
        "",
        "{",
        "[1]",
        "null",
        '{"a": 1e999}',
        "nonsense",
        '{"a":{"b":[1]}}',
    ]
)
owners = st.sampled_from(
    ["anthropic/claude-opus-5-5", "openai/gpt-6-sol", "google/gemini-3.8-flash", "x/y"]
)

texts = st.builds(TextPart, text=words, signature=st.none() | st.just("other/model|sealed"))
images = st.builds(
    ImagePart, data=st.just(PIXEL), mime_type=st.sampled_from(["image/png", "image/tiff"])
)
uses = st.builds(
    ToolUsePart,
    id=ids,
    name=names,
    arguments=arguments,
    signature=st.none() | st.just("google/gemini-3.8-flash|c2ln"),
)
results = st.builds(
    ToolResultPart,
    id=ids,
    content=st.lists(texts | images, max_size=3).map(tuple),
    is_error=st.booleans(),
)


@st.composite
def thoughts(draw: st.DrawFn) -> ThinkingPart:
    owner = draw(owners)
    sealed = {"openai/gpt-6-sol": '{"type":"reasoning","id":"rs_1","summary":[]}'}.get(
        owner, "c2ln"
    )
    return ThinkingPart(
        text=draw(words),
        vendor=owner,
        signature=draw(st.none() | st.just(sealed)),
        redacted=draw(st.none() | st.just("cmVk")) if owner.startswith("anthropic") else None,
    )


user_messages = st.builds(
    Message,
    role=st.just("user"),
    parts=st.lists(texts | images | results, max_size=4).map(tuple),
)
assistant_messages = st.builds(
    Message,
    role=st.just("assistant"),
    parts=st.lists(texts | uses | thoughts(), max_size=4).map(tuple),
)
histories = st.lists(user_messages | assistant_messages, max_size=8).map(tuple)

TOOLS = (
    ToolSpec(
        name="bash",
        description="Run a command.",
        parameters={
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
            "additionalProperties": False,
        },
    ),
    ToolSpec(name="now", description="", parameters={}),
)

requests = st.builds(
    ModelRequest,
    system=words,
    messages=histories,
    tools=st.sampled_from([(), TOOLS]),
    max_output=st.none() | st.integers(1, 200_000),
    effort=st.sampled_from(["off", "low", "medium", "high"]),
)


def said(text: str) -> Message:
    return Message(role="user", parts=(TextPart(text=text),))
