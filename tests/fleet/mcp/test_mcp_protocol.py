"""The server side of MCP: versions, tools, errors, cancelling; over plain messages."""

import asyncio
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta

from quarterdeck.agent.tools.tool import Arguments, ToolError
from quarterdeck.fleet.mcp.protocol import NEWEST, VERSIONS, McpEndpoint
from quarterdeck.fleet.mcp.tool import FleetTool, FleetToolResult, Toolset
from tests.support.deadlines import SOON


class EchoArguments(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    words: Annotated[str, Meta(description="What to say.")]
    times: int = 1


class Seat:
    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.waiting = asyncio.Event()


async def echo(seat: Seat, a: EchoArguments) -> FleetToolResult:
    match a.words:
        case "refuse":
            raise ToolError("this is refused; say something else")
        case "crash":
            raise RuntimeError("a secret of ours")
        case "wait":
            seat.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                seat.cancelled.set()
    return FleetToolResult(text=a.words * a.times, data={"times": a.times})


TOOL: FleetTool[Seat] = FleetTool(name="answer", arguments=EchoArguments, run=echo)


@pytest.fixture
async def seat() -> Seat:
    return Seat()


@pytest.fixture
async def endpoint(seat: Seat) -> McpEndpoint:
    return McpEndpoint(Toolset(seat, [TOOL], "Be kind."))


async def ask(endpoint: McpEndpoint, method: str, params: Any = None, id_: Any = 1) -> Any:
    message = {"jsonrpc": "2.0", "id": id_, "method": method}
    if params is not None:
        message["params"] = params
    async with asyncio.timeout(SOON):
        return await endpoint.handle(message)


async def call(endpoint: McpEndpoint, arguments: Any, id_: Any = 1) -> Any:
    answer = await ask(endpoint, "tools/call", {"name": "answer", "arguments": arguments}, id_)
    return answer.get("result") if answer else answer


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_version_that_is_asked_for_is_answered_if_it_is_known(
    endpoint: McpEndpoint, version: str
):
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x"}}
    result = (await ask(endpoint, "initialize", params))["result"]
    assert result["protocolVersion"] == version
    assert result["instructions"] == "Be kind." and "tools" in result["capabilities"]
    result = (await ask(endpoint, "initialize", {"protocolVersion": "1999-01-01"}))["result"]
    assert result["protocolVersion"] == NEWEST


async def test_tools_are_listed_with_tight_schemas(endpoint: McpEndpoint):
    (tool,) = (await ask(endpoint, "tools/list"))["result"]["tools"]
    schema = tool["inputSchema"]
    assert (tool["name"], schema["type"]) == ("answer", "object")
    assert schema["required"] == ["words"] and schema["additionalProperties"] is False
    assert schema["properties"]["words"]["description"] == "What to say."
    assert tool["description"]


async def test_a_call_gives_text_and_data(endpoint: McpEndpoint):
    assert await call(endpoint, {"words": "ab", "times": 2}) == {
        "content": [{"type": "text", "text": "abab"}],
        "isError": False,
        "structuredContent": {"times": 2},
    }


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "words"),
        ({"words": "a", "more": 1}, "more"),
        ({"words": "refuse"}, "say something else"),
    ],
)
async def test_what_the_model_can_mend_is_an_error_result(
    endpoint: McpEndpoint, arguments: Any, told: str
):
    result = await call(endpoint, arguments)
    assert result["isError"] and told in result["content"][0]["text"]


async def test_a_failure_of_ours_tells_no_details(endpoint: McpEndpoint, caplog: Any):
    answer = await ask(endpoint, "tools/call", {"name": "answer", "arguments": {"words": "crash"}})
    assert answer["error"]["code"] == -32603 and "secret" not in str(answer)
    assert "secret" in caplog.text


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("resources/list", None, -32601),
        ("tools/call", {"name": "nothing"}, -32602),
        ("tools/call", {"arguments": {}}, -32602),
        ("initialize", None, -32602),
    ],
)
async def test_what_is_wrong_with_a_request_is_told_by_its_code(
    endpoint: McpEndpoint, method: str, params: Any, code: int
):
    assert (await ask(endpoint, method, params))["error"]["code"] == code


async def test_notifications_and_answers_are_not_answered(endpoint: McpEndpoint):
    for message in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": []},
        {"jsonrpc": "2.0", "id": 3, "result": {}},
    ):
        assert await endpoint.handle(message) is None
    assert (await ask(endpoint, "ping"))["result"] == {}


async def test_a_cancelled_call_ends_and_is_not_answered(endpoint: McpEndpoint, seat: Seat):
    running = asyncio.create_task(call(endpoint, {"words": "wait"}, id_="a"))
    async with asyncio.timeout(SOON):
        await seat.waiting.wait()
        again = await ask(endpoint, "ping", id_="a")
        assert "already running" in again["error"]["message"]
        cancelled = {"requestId": "a", "reason": "no more"}
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}
        assert await endpoint.handle(message) is None
        assert await running is None
        await seat.cancelled.wait()
    assert (await ask(endpoint, "ping", id_="a"))["result"] == {}


async def test_whoever_leaves_cancels_the_call(endpoint: McpEndpoint, seat: Seat):
    running = asyncio.create_task(call(endpoint, {"words": "wait"}))
    async with asyncio.timeout(SOON):
        await seat.waiting.wait()
        running.cancel()
        await asyncio.wait([running])
        await seat.cancelled.wait()
    assert running.cancelled()


async def test_several_messages_at_once(endpoint: McpEndpoint):
    ping = {"jsonrpc": "2.0", "method": "ping"}
    answers = await endpoint.handle([{**ping, "id": 1}, {**ping, "id": 2}, ping])
    assert isinstance(answers, list) and [one["id"] for one in answers] == [1, 2]
    assert await endpoint.handle([ping]) is None
    empty = await endpoint.handle([])
    assert isinstance(empty, dict) and empty["error"]["code"] == -32600


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
NEAR = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": JSON,
        "method": st.sampled_from(["ping", "tools/call", "tools/list", "initialize"]) | JSON,
        "params": st.fixed_dictionaries({"name": st.just("answer"), "arguments": JSON}) | JSON,
    },
)


@settings(max_examples=150, deadline=None)
@given(NEAR | JSON)
def test_no_message_raises_and_every_request_has_one_answer(message: Any):
    async def handle() -> Any:
        return await McpEndpoint(Toolset(Seat(), [TOOL])).handle(message)

    answer = asyncio.run(handle())
    if isinstance(answer, dict):
        assert answer["jsonrpc"] == "2.0" and ("result" in answer) != ("error" in answer)
