"""A server's lives: it dies, is started again, and is given up in the end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from quarterdeck.agent.mcp.protocol import McpError
from quarterdeck.agent.mcp.server import RestartPolicy, SessionServer
from quarterdeck.agent.tool_servers import ServerDefinition
from tests.support.deadlines import SOON
from tests.support.mcp_servers import Person, hostile, http_hostile

QUICK = RestartPolicy(pause=0.01, refresh=0.05)


@asynccontextmanager
async def kept(
    definition: ServerDefinition, patience: RestartPolicy = QUICK
) -> AsyncIterator[SessionServer]:
    server = SessionServer(definition, roots=("/tmp",), environment={}, patience=patience)
    task = asyncio.ensure_future(server.keep())
    try:
        async with asyncio.timeout(SOON):
            await server.settled.wait()
        yield server
    finally:
        task.cancel()
        await asyncio.wait([task])


def titles(server: SessionServer) -> list[str]:
    return [notice.title for notice in server.notices]


async def test_a_server_that_dies_after_its_list_is_started_again(tmp_path: Path):
    async with kept(hostile("dies", f"mark={tmp_path}/mark")) as server:
        async with asyncio.timeout(SOON):
            while "is being restarted" not in str(titles(server)) or server.state != "ready":
                await asyncio.sleep(0.01)
        client = await server.client()
        assert (await client.call("echo", {}, Person(), SOON)).is_error is False
        assert server.changes == 1  # the same tools as before: nothing to show anew


async def test_a_server_that_always_dies_is_given_up_and_its_tools_leave():
    async with kept(hostile("always-dies")) as server:
        async with asyncio.timeout(SOON):
            while server.state != "failed":
                await asyncio.sleep(0.01)
        assert server.listing.tools == ()
        assert len([title for title in titles(server) if "is being restarted" in title]) == 3
        assert "exit code 7" in titles(server)[-1] and "cannot be used" in titles(server)[-1]
        with pytest.raises(McpError, match="exit code 7"):
            await server.client()


async def test_a_server_that_leaves_when_probed_is_used_all_the_same():
    async with kept(hostile("leaves")) as server:
        assert server.state == "ready" and server.notices == []


async def test_a_server_that_never_tells_its_tools_is_given_up_with_the_reason():
    patience = RestartPolicy(restarts=1, pause=0.01)
    async with kept(hostile("silent", start_timeout=0.3), patience) as server:
        assert server.state == "failed" and "within 0.3 s" in server.reason


async def test_a_server_that_forgot_us_is_greeted_again():
    async with http_hostile("forgets") as definition, kept(definition) as server:
        client = await server.client()
        await client.call("echo", {}, Person(), SOON)
        with pytest.raises(Exception, match="no longer knows"):
            await client.call("echo", {}, Person(), SOON)
        async with asyncio.timeout(SOON):
            while server.state != "ready" or (await server.client()) is client:
                await asyncio.sleep(0.01)
        again = await server.client()
        assert not (await again.call("echo", {}, Person(), SOON)).is_error


async def test_a_storm_of_changes_makes_few_looks():
    async with kept(hostile("storm=500"), RestartPolicy(refresh=0.3)) as server:
        client = await server.client()
        looks = 0
        listing = client.tools

        async def counted():
            nonlocal looks
            looks += 1
            return await listing()

        client.tools = counted  # type: ignore[method-assign]
        for _ in range(5):
            await client.call("echo", {}, Person(), SOON)
        await server.caught_up(SOON)
        assert 1 <= looks <= 3


async def test_a_change_is_known_though_an_earlier_look_is_under_way():
    async with kept(hostile("tardy=0.3", "storm=3")) as server:
        client = await server.client()
        await client.call("echo", {}, Person(), SOON)  # a look begins
        await client.call("grow", {"name": "extra"}, Person(), SOON)
        await server.caught_up(SOON)
        assert "extra" in {tool.tool for tool in server.listing.tools}


async def test_a_server_that_does_not_list_again_is_waited_for_once():
    async with kept(hostile("tardy=60", "storm=1")) as server:
        client = await server.client()
        await client.call("echo", {}, Person(), SOON)
        await server.caught_up(0.05)
        async with asyncio.timeout(SOON):
            await server.caught_up(1000)


async def test_a_server_that_never_starts_is_given_up_with_its_last_words_masked():
    async with kept(hostile("broken")) as server:
        assert server.state == "failed"
        (title,) = titles(server)
        assert title.startswith("MCP server 'bad' cannot be used") and "API_TOKEN=…" in title
