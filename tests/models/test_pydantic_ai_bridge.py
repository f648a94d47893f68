import importlib.util
from typing import Any

import pytest

from quarterdeck.models.errors import ModelSetupError, OverloadedError
from quarterdeck.models.model import (
    ModelInfo,
    ModelRequest,
    ReplyFinished,
    TextDelta,
    ThinkingDelta,
    ToolUseDelta,
    ToolUseStarted,
)
from quarterdeck.models.registry import make_model
from quarterdeck.wire.conversation import (
    Message,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    ToolUsePart,
)
from tests.support.model_histories import TOOLS, said

has_library = importlib.util.find_spec("pydantic_ai") is not None
needs_library = pytest.mark.skipif(not has_library, reason="pydantic-ai is not installed")


@pytest.mark.skipif(has_library, reason="pydantic-ai is installed")
def test_a_missing_library_says_how_to_get_it():
    with pytest.raises(ModelSetupError, match=r"pip install 'quarterdeck\[providers\]'"):
        make_model("pydantic-ai:groq:llama", {})


def bridged(function: Any) -> Any:
    import pydantic_ai  # pyright: ignore[reportMissingImports]
    from pydantic_ai.models.function import FunctionModel  # pyright: ignore[reportMissingImports]

    from quarterdeck.models.pydantic_ai_bridge import BridgedModel

    info = ModelInfo(vendor="pydantic-ai", id="x:y", window=1000, max_output=100)
    return BridgedModel(pydantic_ai, FunctionModel(stream_function=function), info)


@needs_library
async def test_a_whole_round_goes_over_the_bridge():
    from pydantic_ai.models.function import (  # pyright: ignore[reportMissingImports]
        DeltaThinkingPart,
        DeltaToolCall,
    )

    seen: list[Any] = []

    async def answer(messages: Any, info: Any) -> Any:
        seen.append((messages, info))
        if len(seen) == 1:
            yield {0: DeltaThinkingPart(content="hm", signature="sig")}
            yield {1: DeltaToolCall(name="bash", tool_call_id="c1", json_args='{"command":')}
            yield {1: DeltaToolCall(json_args='"ls"}', tool_call_id="c1")}
        else:
            yield "all "
            yield "done"

    model = bridged(answer)
    first = [
        d async for d in model.stream(ModelRequest(system="s", messages=(said("go"),), tools=TOOLS))
    ]
    assert first[:-1] == [
        ThinkingDelta("hm"),
        ToolUseStarted("c1", "bash"),
        ToolUseDelta("c1", '{"command":'),
        ToolUseDelta("c1", '"ls"}'),
    ]
    done = first[-1]
    assert isinstance(done, ReplyFinished)
    assert done.stop == "tool_use"
    assert isinstance(done.reply.parts[0], ThinkingPart)
    call = done.reply.parts[1]
    assert isinstance(call, ToolUsePart)
    assert (call.id, call.arguments) == ("c1", '{"command":"ls"}')

    result = ToolResultPart(id="c1", content=(TextPart(text="a b"),))
    history = (said("go"), done.reply, Message(role="user", parts=(result,)))
    second = [
        d async for d in model.stream(ModelRequest(system="s", messages=history, tools=TOOLS))
    ]
    assert second[:-1] == [TextDelta("all "), TextDelta("done")]
    sent = seen[1][0]
    assert [part.part_kind for part in sent[0].parts] == ["system-prompt", "user-prompt"]
    assert [part.part_kind for part in sent[1].parts] == ["thinking", "tool-call"]
    assert sent[1].parts[0].signature == "sig"
    assert sent[2].parts[0].content == "a b"
    assert [tool.name for tool in seen[0][1].function_tools] == ["bash", "now"]


@needs_library
async def test_errors_of_the_library_become_ours():
    from pydantic_ai.exceptions import ModelOverloadedError  # pyright: ignore[reportMissingImports]

    async def answer(messages: Any, info: Any) -> Any:
        yield "half"
        raise ModelOverloadedError(model_name="y", message="busy")

    with pytest.raises(OverloadedError) as caught:
        async for _ in bridged(answer).stream(ModelRequest(system="", messages=(said("go"),))):
            pass
    assert caught.value.partial == Message(role="assistant", parts=(TextPart(text="half"),))


@needs_library
def test_an_unknown_vendor_is_a_setup_error():
    with pytest.raises(ModelSetupError, match="no-such"):
        make_model("pydantic-ai:no-such:model", {})
