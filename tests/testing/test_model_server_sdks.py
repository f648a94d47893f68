"""What the server says is read by the vendors' own clients.

Each vendor's client is wrapped once, to one view of a reply; every test then runs over all forms,
streamed and whole.
"""

import asyncio
import json
import warnings
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from quarterdeck.models.script import Script, ScriptFault, ScriptReply, ScriptTextPart, load_script
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.usage import TokenUsage

DEFAULT = load_script("default")
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path", "content"],
}
SHELL = {"type": "object", "properties": {"command": {"type": "string"}}}


@dataclass
class Heard:
    """A reply, whoever's."""

    text: str = ""
    thinking: str = ""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """Id, name, arguments as JSON."""
    stop: str | None = None
    usage: TokenUsage = field(default_factory=TokenUsage)


class Caller(Protocol):
    """Asks through one vendor's client."""

    errors: type[Exception]

    async def ask(self, prompt: str, *, stream: bool, tools: bool = False) -> Heard: ...

    async def go_on(self, prompt: str, heard: Heard, results: list[str]) -> Heard: ...

    def status(self, error: Exception) -> int: ...


class AnthropicCaller:
    def __init__(self, url: str) -> None:
        import anthropic

        http = anthropic.DefaultAsyncHttpxClient(trust_env=False)
        self.client = anthropic.AsyncAnthropic(
            base_url=url, api_key="dummy", max_retries=0, http_client=http
        )
        self.errors = anthropic.APIError

    def status(self, error: Any) -> int:
        return error.status_code

    async def ask(self, prompt: str, *, stream: bool, tools: bool = False) -> Heard:
        return await self._say([{"role": "user", "content": prompt}], stream, tools)

    async def go_on(self, prompt: str, heard: Heard, results: list[str]) -> Heard:
        uses = [
            {"type": "tool_use", "id": i, "name": n, "input": json.loads(a)}
            for i, n, a in heard.calls
        ]
        told = [
            {"type": "tool_result", "tool_use_id": c[0], "content": r}
            for c, r in zip(heard.calls, results, strict=True)
        ]
        messages = [
            {"role": "user", "content": prompt},
            {"role": "assistant", "content": uses},
            {"role": "user", "content": told},
        ]
        return await self._say(messages, True, True)

    async def raw_arguments(self, prompt: str) -> str:
        events: Any = await self.client.messages.create(
            model="m",
            max_tokens=99,
            messages=[{"role": "user", "content": prompt}],
            tools=[{"name": "bash", "input_schema": SHELL}],  # type: ignore[typeddict-item]
            stream=True,
        )
        deltas = [e.delta async for e in events if e.type == "content_block_delta"]
        return "".join(d.partial_json for d in deltas if d.type == "input_json_delta")

    async def _say(self, messages: Any, stream: bool, tools: bool) -> Heard:
        offered = [
            {"name": "write", "input_schema": SCHEMA},
            {"name": "bash", "input_schema": SHELL},
        ]
        asked: Any = {"model": "m", "max_tokens": 99, "messages": messages}
        if tools:
            asked["tools"] = offered
        if stream:
            async with self.client.messages.stream(**asked) as events:
                reply = await events.get_final_message()
        else:
            reply = await self.client.messages.create(**asked)
        heard = Heard(stop=reply.stop_reason)
        for block in reply.content:
            if block.type == "text":
                heard.text += block.text
            elif block.type == "thinking":
                heard.thinking += block.thinking
                assert block.signature
            elif block.type == "tool_use":
                heard.calls.append((block.id, block.name, json.dumps(block.input)))
        usage = reply.usage
        cached = usage.cache_read_input_tokens or 0
        written = usage.cache_creation_input_tokens or 0
        heard.usage = TokenUsage(
            input=usage.input_tokens + cached + written,
            output=usage.output_tokens,
            cached=cached,
            cache_written=written,
        )
        return heard


class OpenAICaller:
    def __init__(self, url: str) -> None:
        import openai

        http = openai.DefaultAsyncHttpxClient(trust_env=False)
        self.client = openai.AsyncOpenAI(
            base_url=f"{url}/v1", api_key="dummy", max_retries=0, http_client=http
        )
        self.errors = openai.APIError

    def status(self, error: Any) -> int:
        return error.status_code


class ResponsesCaller(OpenAICaller):
    async def ask(self, prompt: str, *, stream: bool, tools: bool = False) -> Heard:
        return await self._say([{"role": "user", "content": prompt}], stream, tools)

    async def go_on(self, prompt: str, heard: Heard, results: list[str]) -> Heard:
        items: list[Any] = [{"role": "user", "content": prompt}]
        # Some clients put each result behind its call.
        for (id, name, arguments), result in zip(heard.calls, results, strict=True):
            call = {"call_id": id, "name": name, "arguments": arguments}
            items.append({"type": "function_call", **call})
            items.append({"type": "function_call_output", "call_id": id, "output": result})
        return await self._say(items, True, True)

    async def _say(self, items: Any, stream: bool, tools: bool) -> Heard:
        offered = [
            {"type": "function", "name": "write", "parameters": SCHEMA, "strict": False},
            {"type": "function", "name": "bash", "parameters": SHELL, "strict": False},
        ]
        asked: Any = {"model": "m", "input": items}
        if tools:
            asked["tools"] = offered
        if stream:
            events = [e async for e in await self.client.responses.create(**asked, stream=True)]
            assert [e.sequence_number for e in events] == list(range(len(events)))
            reply = events[-1].response
            if reply.status == "failed":
                raise self.errors(reply.error.message, request=None, body=None)  # type: ignore[arg-type]
        else:
            reply = await self.client.responses.create(**asked)
        details = reply.incomplete_details
        heard = Heard(stop=(details and details.reason) or reply.status)
        for item in reply.output:
            if item.type == "message":
                heard.text += "".join(c.text for c in item.content)
            elif item.type == "reasoning":
                heard.thinking += "".join(s.text for s in item.summary)
                assert item.encrypted_content
            elif item.type == "function_call":
                heard.calls.append((item.call_id, item.name, item.arguments))
        usage = reply.usage
        assert usage is not None
        heard.usage = TokenUsage(
            input=usage.input_tokens,
            output=usage.output_tokens,
            cached=usage.input_tokens_details.cached_tokens,
            thought=usage.output_tokens_details.reasoning_tokens,
        )
        return heard


class ChatCaller(OpenAICaller):
    async def ask(self, prompt: str, *, stream: bool, tools: bool = False) -> Heard:
        return await self._say([{"role": "user", "content": prompt}], stream, tools)

    async def go_on(self, prompt: str, heard: Heard, results: list[str]) -> Heard:
        calls = [
            {"id": i, "type": "function", "function": {"name": n, "arguments": a}}
            for i, n, a in heard.calls
        ]
        messages: list[Any] = [
            {"role": "system", "content": "Help."},
            {"role": "user", "content": prompt},
            {"role": "assistant", "tool_calls": calls},
        ]
        for call, result in zip(heard.calls, results, strict=True):
            messages.append({"role": "tool", "tool_call_id": call[0], "content": result})
        return await self._say(messages, True, True)

    async def _say(self, messages: Any, stream: bool, tools: bool) -> Heard:
        offered = [
            {"type": "function", "function": {"name": "write", "parameters": SCHEMA}},
            {"type": "function", "function": {"name": "bash", "parameters": SHELL}},
        ]
        asked: Any = {"model": "m", "messages": messages}
        if tools:
            asked["tools"] = offered
        thinking = ""
        if stream:
            asked["stream_options"] = {"include_usage": True}
            async with self.client.chat.completions.stream(**asked) as events:
                async for event in events:
                    if event.type == "chunk" and event.chunk.choices:
                        delta = event.chunk.choices[0].delta
                        thinking += getattr(delta, "reasoning_content", None) or ""
                reply = await events.get_final_completion()
        else:
            reply = await self.client.chat.completions.create(**asked)
            thinking = getattr(reply.choices[0].message, "reasoning_content", "")
        (choice,) = reply.choices
        heard = Heard(
            text=choice.message.content or "", thinking=thinking, stop=choice.finish_reason
        )
        for call in choice.message.tool_calls or ():
            heard.calls.append((call.id, call.function.name, call.function.arguments))
        usage = reply.usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        assert usage.completion_tokens_details is not None
        heard.usage = TokenUsage(
            input=usage.prompt_tokens,
            output=usage.completion_tokens,
            cached=usage.prompt_tokens_details.cached_tokens or 0,
            thought=usage.completion_tokens_details.reasoning_tokens or 0,
        )
        return heard


class GeminiCaller:
    def __init__(self, url: str) -> None:
        from google import genai
        from google.genai import errors, types

        options = types.HttpOptions(
            base_url=url, async_client_args={"trust_env": False}, client_args={"trust_env": False}
        )
        self.client = genai.Client(api_key="dummy", vertexai=False, http_options=options)
        self.types = types
        self.errors = errors.APIError

    def status(self, error: Any) -> int:
        return error.code

    async def ask(self, prompt: str, *, stream: bool, tools: bool = False) -> Heard:
        return await self._say([self._user([{"text": prompt}])], stream, tools)

    def _user(self, parts: list[Any]) -> Any:
        return {"role": "user", "parts": parts}

    async def go_on(self, prompt: str, heard: Heard, results: list[str]) -> Heard:
        calls = [
            {"function_call": {"id": i, "name": n, "args": json.loads(a)}}
            for i, n, a in heard.calls
        ]
        told = [
            {"function_response": {"id": c[0], "name": c[1], "response": {"output": r}}}
            for c, r in zip(heard.calls, results, strict=True)
        ]
        contents = [
            self._user([{"text": prompt}]),
            {"role": "model", "parts": calls},
            self._user(told),
        ]
        return await self._say(contents, True, True)

    async def _say(self, contents: Any, stream: bool, tools: bool) -> Heard:
        offered = [
            {"name": "write", "parameters_json_schema": SCHEMA},
            {"name": "bash", "parameters_json_schema": SHELL},
        ]
        config: Any = {"automatic_function_calling": {"disable": True}}
        if tools:
            config["tools"] = [{"function_declarations": offered}]
        asked: Any = {"model": "gemini-x", "contents": contents, "config": config}
        models = self.client.aio.models
        if stream:
            chunks = [c async for c in await models.generate_content_stream(**asked)]
        else:
            chunks = [await models.generate_content(**asked)]
        heard = Heard()
        for chunk in chunks:
            self._add(heard, chunk)
        return heard

    def _add(self, heard: Heard, chunk: Any) -> None:
        (candidate,) = chunk.candidates
        heard.stop = candidate.finish_reason and candidate.finish_reason.value
        for part in candidate.content.parts or ():
            if part.function_call:
                call = part.function_call
                heard.calls.append((call.id, call.name, json.dumps(call.args)))
            elif part.thought:
                heard.thinking += part.text
            else:
                heard.text += part.text or ""
        usage = chunk.usage_metadata
        thought = usage.thoughts_token_count or 0
        heard.usage = TokenUsage(
            input=usage.prompt_token_count,
            output=(usage.candidates_token_count or 0) + thought,
            cached=usage.cached_content_token_count or 0,
            thought=thought,
        )


CALLERS = {
    "anthropic": AnthropicCaller,
    "responses": ResponsesCaller,
    "chat": ChatCaller,
    "gemini": GeminiCaller,
}


@pytest.fixture(scope="module", autouse=True)
def sdks() -> Iterator[None]:
    """Import the vendors' packages once; what they warn of is not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import anthropic  # noqa: F401
        import google.genai  # noqa: F401
        import openai  # noqa: F401
    yield


@pytest.fixture(params=list(CALLERS))
def wire(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def stream(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(DEFAULT) as server:
        yield server
        assert server.failures == []


async def close(caller: Any) -> None:
    if isinstance(caller, GeminiCaller):
        await caller.client.aio.aclose()
        caller.client.close()
    else:
        await caller.client.close()


@pytest.fixture
async def caller(wire: str, server: ModelServer) -> AsyncIterator[Any]:
    caller = CALLERS[wire](server.url_for(wire))
    yield caller
    await close(caller)


async def test_text_is_heard(caller: Caller, stream: bool, server: ModelServer, wire: str) -> None:
    heard = await caller.ask("scene:text", stream=stream)
    assert heard.text == "Hello from the scripted model."
    assert (
        heard.stop
        == {
            "anthropic": "end_turn",
            "responses": "completed",
            "chat": "stop",
            "gemini": "STOP",
        }[wire]
    )
    (record,) = server.requests
    assert (record.agent, record.wire, record.scene) == (wire, wire, "text")
    assert heard.usage.input == -(-len(record.body) // 4)
    assert heard.usage.output == 8


async def test_thinking_is_heard(caller: Caller, stream: bool, wire: str) -> None:
    heard = await caller.ask("scene:think", stream=stream)
    assert (heard.thinking, heard.text) == ("Let me think about this.", "Thought and answered.")
    assert heard.usage.output == 12
    if wire != "anthropic":  # Anthropic does not say how much of it was thought
        assert heard.usage.thought == 6


async def test_calls_are_heard_and_the_turn_goes_on(
    caller: Caller, stream: bool, wire: str
) -> None:
    heard = await caller.ask("scene:write", stream=stream, tools=True)
    ((_, name, arguments),) = heard.calls
    assert heard.text == "I will write a file."
    assert (name, json.loads(arguments)) == (
        "write",
        {"path": "hello.txt", "content": "hello from script\n"},
    )
    ends = {"anthropic": "tool_use", "chat": "tool_calls"}
    assert heard.stop == ends.get(wire, heard.stop)
    done = await caller.go_on("scene:write", heard, ["ok"])
    assert (done.text, done.calls) == ("Wrote it. Done.", [])


async def test_two_calls_are_one_round(caller: Caller, stream: bool) -> None:
    heard = await caller.ask("scene:twotools", stream=stream, tools=True)
    assert [name for _, name, _ in heard.calls] == ["bash", "bash"]
    assert len({id for id, _, _ in heard.calls}) == 2
    assert (await caller.go_on("scene:twotools", heard, ["a", "b"])).text == "Both done."


async def test_results_are_told_back(caller: Caller) -> None:
    heard = await caller.ask("scene:badtool", stream=True, tools=True)
    done = await caller.go_on("scene:badtool", heard, ["no such tool"])
    assert done.text == "The tool said: no such tool"


async def test_empty_replies_are_heard(caller: Caller, stream: bool) -> None:
    heard = await caller.ask("scene:empty", stream=stream)
    assert (heard.text, heard.calls) == ("", [])


async def test_cut_replies_say_so(caller: Caller, stream: bool, wire: str) -> None:
    from openai import OpenAIError

    if wire == "chat" and stream:  # its helper takes that for an error
        with pytest.raises(OpenAIError, match="length"):
            await caller.ask("scene:cut", stream=stream)
        return
    heard = await caller.ask("scene:cut", stream=stream)
    assert (
        heard.stop
        == {
            "anthropic": "max_tokens",
            "responses": "max_output_tokens",
            "chat": "length",
            "gemini": "MAX_TOKENS",
        }[wire]
    )


async def test_usage_of_the_script_is_heard(wire: str, stream: bool) -> None:
    usage = TokenUsage(input=1000, output=50, cached=700, thought=20)
    reply = ScriptReply(parts=(ScriptTextPart(text="hi"),), usage=usage)
    async with ModelServer(Script.sequence(reply)) as server:
        caller: Any = CALLERS[wire](server.url)
        heard = await caller.ask("x", stream=stream)
        await close(caller)
    thought = 0 if wire == "anthropic" else 20
    assert heard.usage == TokenUsage(input=1000, output=50, cached=700, thought=thought)


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
async def test_errors_are_the_vendors(caller: Caller, stream: bool, status: int) -> None:
    with pytest.raises(caller.errors) as caught:
        await caller.ask(f"scene:e{status}", stream=stream)
    assert caller.status(caught.value) == status
    assert "scripted failure" in str(caught.value)


@pytest.mark.parametrize("scene", ["overflow", "quota"])
async def test_vendors_have_their_own_words(caller: Caller, scene: str, wire: str) -> None:
    with pytest.raises(caller.errors) as caught:
        await caller.ask(f"scene:{scene}", stream=True)
    words = {
        ("anthropic", "overflow"): "prompt is too long",
        ("anthropic", "quota"): "credit balance is too low",
        ("gemini", "overflow"): "exceeds the maximum number of tokens",
        ("gemini", "quota"): "exceeded your current quota",
    }
    openai = {"overflow": "context_length_exceeded", "quota": "insufficient_quota"}
    told = f"{caught.value} {getattr(caught.value, 'code', '')}"
    assert words.get((wire, scene), openai[scene]) in told


async def test_a_failure_in_the_middle_is_an_error(caller: Caller) -> None:
    with pytest.raises(caller.errors):
        await caller.ask("scene:midfail", stream=True)


async def test_a_stall_is_waited_for_until_the_caller_leaves(
    caller: Caller, server: ModelServer
) -> None:
    asking = asyncio.create_task(caller.ask("scene:stall", stream=True))
    async with asyncio.timeout(45):
        while not server.requests or server.requests[0].scene != "stall":
            await asyncio.sleep(0.001)
        asking.cancel()
        await asyncio.wait([asking])
        while server.requests[0].outcome is None:
            await asyncio.sleep(0.001)
    assert server.requests[0].outcome == "gone"


async def test_bad_arguments_are_heard_as_the_vendor_would_send_them(
    caller: Caller, wire: str
) -> None:
    if isinstance(caller, AnthropicCaller):  # its helper repairs them
        assert await caller.raw_arguments("scene:badargs") == '{"command": "echo never'
        return
    heard = await caller.ask("scene:badargs", stream=True, tools=True)
    if wire == "gemini":
        assert (heard.calls, heard.stop) == ([], "MALFORMED_FUNCTION_CALL")
    else:
        assert heard.calls[0][2] == '{"command": "echo never'


async def test_a_dropped_stream_is_an_error_of_the_transport(wire: str) -> None:
    reply = ScriptReply(
        parts=(ScriptTextPart(text="abc", chunks=3),), fault=ScriptFault(kind="drop", after=1)
    )
    async with ModelServer(Script.sequence(reply)) as server:
        caller: Any = CALLERS[wire](server.url)
        with pytest.raises(Exception, match=r"(?i)incomplete|closed|payload|connection"):
            await caller.ask("x", stream=True)
        await close(caller)


async def test_schemas_are_answered_past_the_script(server: ModelServer) -> None:
    import openai

    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="dummy", http_client=http)
    wanted: Any = {
        "type": "json_schema",
        "json_schema": {
            "name": "x",
            "schema": {"type": "object", "properties": {"allow": {"enum": ["yes", "no"]}}},
        },
    }
    reply = await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "scene:flood"}], response_format=wanted
    )
    assert json.loads(reply.choices[0].message.content or "") == {"allow": "yes"}
    await client.close()
