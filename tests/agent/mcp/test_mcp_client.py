"""Talking to a server: over pipes and HTTP, in both eras, however it misbehaves."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.agent.mcp.client import McpClient
from quarterdeck.agent.mcp.protocol import McpError, ProbeRefusedError, UnusableServerError
from quarterdeck.agent.mcp.server import open_server
from quarterdeck.agent.mcp.tool_list import make_argument_headers, read_tool_list
from quarterdeck.agent.tool_servers import ServerDefinition
from quarterdeck.wire.errors import LinkError, RpcError
from tests.support.deadlines import SOON
from tests.support.mcp_servers import Person, hostile, http_hostile

WAYS = ["stdio-legacy", "stdio-modern", "http-legacy", "http-modern"]


@asynccontextmanager
async def reached(definition: ServerDefinition, **rest: Any) -> AsyncIterator[McpClient]:
    async with open_server(definition, roots=("/tmp",), environment={}, **rest) as client:
        yield client


@asynccontextmanager
async def way(name: str, *quirks: str) -> AsyncIterator[McpClient]:
    transport, _, era = name.partition("-")
    if transport == "stdio":
        async with reached(hostile(f"era={era}", *quirks)) as client:
            yield client
        return
    async with http_hostile(f"era={era}", *quirks) as definition, reached(definition) as client:
        tools = read_tool_list(definition, await client.tools()).tools
        byname = {tool.tool: tool.mirrored for tool in tools}
        client.mirror(lambda tool, given: make_argument_headers(byname.get(tool, ()), given))
        yield client


async def call(client: McpClient, tool: str, timeout: float = SOON, **arguments: Any) -> str:
    result = await client.call(tool, arguments, Person(), timeout)
    return "".join(str(block["text"]) for block in result.content if "text" in block)


@pytest.mark.parametrize("name", [*WAYS, "stdio-dual", "http-dual"])
async def test_a_server_is_greeted_listed_and_called(name: str):
    async with way(name) as client:
        assert client.agreement.is_modern is not name.endswith("legacy")
        assert client.agreement.server == "hostile 1"
        assert {tool["name"] for tool in await client.tools()} >= {"echo", "fail", "media"}
        assert await call(client, "echo", text="hä\n") == "echo: hä\n"
        with pytest.raises(RpcError, match="these arguments are no good"):
            await call(client, "refuse")


@pytest.mark.parametrize("name", WAYS)
async def test_calls_run_side_by_side_and_tell_their_progress(name: str):
    async with way(name) as client:
        person = Person()
        slow = asyncio.ensure_future(
            client.call("slow", {"seconds": 0.3, "steps": 3}, person, SOON)
        )
        assert await call(client, "echo", text="meanwhile") == "echo: meanwhile"
        assert not slow.done()
        await slow
        assert [each.message for each in person.heard] == ["step 1", "step 2", "step 3"]


@pytest.mark.parametrize("name", ["stdio-legacy", "stdio-modern", "http-legacy"])
async def test_a_cancelled_call_is_told_to_the_server_at_once(name: str):
    async with way(name) as client:
        hanging = asyncio.ensure_future(call(client, "hang"))
        await call(client, "echo")  # the other call has arrived by now
        hanging.cancel()
        async with asyncio.timeout(SOON):
            await asyncio.wait([hanging])
            while "cancelled" not in await call(client, "seen"):
                await asyncio.sleep(0.01)


async def test_a_modern_server_over_http_is_told_by_closing_the_stream():
    async with way("http-modern") as client:
        person = Person()
        slow = {"seconds": 20, "steps": 400}
        flood = asyncio.ensure_future(client.call("slow", slow, person, SOON))
        async with asyncio.timeout(SOON):
            while not person.heard:
                await asyncio.sleep(0.01)
            flood.cancel()
            while "left" not in await call(client, "seen"):
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("name", ["stdio-legacy", "http-modern"])
async def test_silence_ends_a_call_and_progress_keeps_it_alive(name: str):
    async with way(name) as client:
        with pytest.raises(TimeoutError):
            await call(client, "hang", timeout=0.2)
        assert await call(client, "slow", timeout=1.5, seconds=2, steps=40) == "done at last"


@pytest.mark.parametrize("name", WAYS)
async def test_the_person_is_asked_for_the_server(name: str):
    async with way(name) as client:
        person = Person("Grace")
        result = await client.call("ask", {}, person, SOON)
        assert "'action': 'accept'" in str(result.content) and "Grace" in str(result.content)
        (asked,) = person.asked
        assert asked == "The MCP server 'bad' asks: Who are you?"
        declined = await client.call("ask", {}, Person(None), SOON)
        assert "'action': 'decline'" in str(declined.content)


@pytest.mark.parametrize("name", ["stdio-legacy", "http-legacy"])
async def test_what_a_server_asks_is_answered_truthfully_or_refused(name: str):
    async with way(name) as client:
        assert "file:///tmp" in await call(client, "roots")
        assert "'result': {}" in await call(client, "pinged")
        refused = await call(client, "sample")
        assert "-32601" in refused and "does not offer" in refused


@pytest.mark.parametrize("name", WAYS)
async def test_a_change_of_tools_is_heard(name: str):
    async with way(name) as client:
        client.changed.clear()
        async with asyncio.timeout(SOON):
            for number in count():  # what changes before a listener has arrived is not told
                await call(client, "grow", name=f"extra{number}")
                with suppress(TimeoutError):
                    await asyncio.wait_for(client.changed.wait(), 0.2)
                    break
        assert "extra0" in {tool["name"] for tool in await client.tools()}


@pytest.mark.parametrize("quirk", ["garbage", "paged"])
async def test_oddities_are_borne(quirk: str):
    async with reached(hostile(quirk)) as client:
        assert len(await client.tools()) > 10
        assert await call(client, "mumble") == "clear at last"
        assert await call(client, "flood", count=2000) == "after the flood"


async def test_pages_without_end_have_one():
    async with reached(hostile("endless")) as client:
        assert len(await client.tools()) == 100


@pytest.mark.parametrize("tool", ["crash", "half"])
async def test_a_server_that_dies_in_a_call_is_told_with_its_last_words(tool: str):
    with pytest.raises(McpError, match="exit code 7; its output: fatal") as failed:
        async with reached(hostile()) as client:
            await call(client, tool)
    assert "hunter2" not in str(failed.value)


async def test_a_call_that_is_under_way_when_the_server_dies_ends_at_once():
    with pytest.raises(McpError):
        async with reached(hostile()) as client:
            hanging = asyncio.ensure_future(call(client, "hang"))
            with pytest.raises(LinkError):
                await call(client, "crash")
            async with asyncio.timeout(SOON):
                with pytest.raises(LinkError):
                    await hanging
            await client.tools()


async def test_a_server_that_leaves_when_probed_is_greeted_in_the_older_way():
    with pytest.raises(ProbeRefusedError):
        async with reached(hostile("leaves")):
            pass
    async with reached(hostile("leaves"), may_probe=False) as client:
        assert await call(client, "echo", text="x") == "echo: x"


@pytest.mark.parametrize("quirks", [("version=1999-01-01",), ("era=modern", "version=2099-01-01")])
async def test_a_server_of_another_version_is_refused_naming_both(quirks: tuple[str, ...]):
    with pytest.raises(UnusableServerError, match="2026-07-28, 2025-11-25"):
        async with reached(hostile(*quirks)):
            pass


async def test_a_program_that_is_not_there_is_named():
    with pytest.raises(UnusableServerError, match="no program 'no-such-program'"):
        async with reached(ServerDefinition(name="x", command=("no-such-program",))):
            pass


async def test_a_program_gets_a_clean_environment_and_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SECRET_OF_OURS", "x")
    async with reached(hostile(env={"MINE": "1"}, cwd=str(tmp_path))) as client:
        result = await client.call("environment", {}, Person(), SOON)
        seen = result.structured_content
        assert seen["MINE"] == "1" and seen["cwd"] == str(tmp_path)
        assert "SECRET_OF_OURS" not in seen and "PATH" in seen


async def test_nothing_of_a_server_is_left():
    async with reached(hostile()) as client:
        told = await client.call("environment", {}, Person(), SOON)
        pid = int(told.structured_content["pid"])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


# ---- HTTP alone


async def test_an_address_that_wants_a_token_says_what_to_do():
    async with http_hostile("token=t0k3n-value") as definition:
        with pytest.raises(McpError, match=r"HTTP 401.*headers\.Authorization"):
            async with reached(definition):
                pass
        good = ServerDefinition(
            name="x", url=definition.url, headers={"Authorization": "Bearer t0k3n-value"}
        )
        async with reached(good) as client:
            assert await call(client, "echo", text="in") == "echo: in"


async def test_the_old_transport_is_known_and_said():
    async with http_hostile("old") as definition:
        with pytest.raises(McpError, match=r"old HTTP.SSE transport.* not supported"):
            async with reached(definition):
                pass


async def test_an_address_where_nobody_is_says_so():
    with pytest.raises(McpError, match="no connection to"):
        async with reached(ServerDefinition(name="x", url="http://127.0.0.1:1/mcp")):
            pass


async def test_a_stream_that_breaks_is_taken_up_where_it_broke():
    async with way("http-legacy") as client:
        assert await call(client, "slow", seconds=0.1, steps=2, drop=True) == "done at last"
        assert "resumed" in await call(client, "seen")


async def test_a_modern_stream_that_breaks_ends_the_call_with_an_error():
    async with way("http-modern") as client:
        with pytest.raises(RpcError, match="ended without an answer"):
            await call(client, "slow", seconds=0.1, steps=2, drop=True)
        assert await call(client, "echo", text="on") == "echo: on"


async def test_a_session_is_ended_with_a_goodbye():
    async with http_hostile() as definition:
        async with reached(definition) as client:
            assert "deleted" not in await call(client, "seen")
        async with reached(definition) as client:
            assert "deleted" in await call(client, "seen")


async def test_a_server_that_has_forgotten_the_session_ends_the_connection():
    async with http_hostile("forgets") as definition:
        with pytest.raises(McpError, match="no longer knows our session"):
            async with reached(definition) as client:
                await call(client, "echo")
                await call(client, "echo")


async def test_arguments_are_shown_in_headers_where_the_schema_asks_for_it():
    async with way("http-modern") as client:
        result = await client.call("headers", {"text": "unused"}, Person(), SOON)
        headers = result.structured_content
        assert headers["mcp-method"] == "tools/call" and headers["mcp-name"] == "headers"
        assert headers["mcp-protocol-version"] == "2026-07-28"
        assert "mcp-param-text" not in headers
