"""The bridge: the host's tools over standard input and output."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from quarterdeck.fleet.mcp.http import serve_http
from quarterdeck.fleet.mcp.stdio import BridgeSetupError, run_bridge
from quarterdeck.wire.rpc.stream import ByteStream, memory_pair
from tests.fleet.mcp.test_mcp_http import PING, Rig, waiting
from tests.support.deadlines import SOON


class Agent:
    """The agent's end of the bridge."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.rest = b""

    async def write(self, *messages: Any) -> None:
        lines = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
        await self.stream.send(b"".join(line + b"\n" for line in lines))

    async def read(self) -> Any:
        async with asyncio.timeout(SOON):
            while b"\n" not in self.rest:
                self.rest += await self.stream.receive()
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    async with serve_http(rig.endpoint_of, quiet_seconds=0.05) as rig.http:
        yield rig


@pytest.fixture
async def agent(rig: Rig) -> AsyncIterator[Agent]:
    ours, theirs = memory_pair()
    task = asyncio.create_task(run_bridge(ours, rig.http.url, rig.token))
    yield Agent(theirs)
    await theirs.close()
    async with asyncio.timeout(SOON):
        await task


async def test_messages_go_through_side_by_side_and_calls_can_be_cancelled(rig: Rig, agent: Agent):
    await agent.write(waiting(), b"  ", {**PING, "id": 2})
    assert await agent.read() == {"jsonrpc": "2.0", "id": 2, "result": {}}
    await asyncio.wait_for(rig.seats["a"].waiting.wait(), SOON)
    params = {"requestId": 1}
    await agent.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    await asyncio.wait_for(rig.seats["a"].cancelled.wait(), SOON)
    call = {"name": "answer", "arguments": {"words": "a\nb"}}
    await agent.write({**PING, "id": "x", "method": "tools/call", "params": call})
    assert (await agent.read())["result"]["content"][0]["text"] == "a\nb"


async def test_an_agent_that_leaves_cancels_what_runs(rig: Rig, agent: Agent):
    await agent.write(waiting())
    await asyncio.wait_for(rig.seats["a"].waiting.wait(), SOON)
    await agent.stream.close()
    await asyncio.wait_for(rig.seats["a"].cancelled.wait(), SOON)


async def test_what_the_host_refuses_is_an_error_answer(rig: Rig, agent: Agent):
    rig.tokens.revoke(rig.tokens.holder(rig.token) or pytest.fail())
    await agent.write(b"{not json", {"jsonrpc": "2.0", "method": "notifications/initialized"}, PING)
    answer = await agent.read()
    assert answer["id"] == 1 and "401" in answer["error"]["message"]


async def test_a_host_that_is_gone_is_an_error_answer():
    ours, theirs = memory_pair()
    rig = Rig()
    async with serve_http(rig.endpoint_of) as rig.http:
        url = rig.http.url
    task = asyncio.create_task(run_bridge(ours, url, rig.token))
    agent = Agent(theirs)
    await agent.write(PING)
    assert "cannot be reached" in (await agent.read())["error"]["message"]
    await theirs.close()
    await task


@pytest.mark.parametrize("url", ["http://example.org:80/mcp", "https://127.0.0.1:1/", "x", ""])
async def test_a_token_goes_nowhere_else(url: str):
    with pytest.raises(BridgeSetupError):
        await run_bridge(memory_pair()[0], url, "secret")


async def test_the_command(rig: Rig):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "quarterdeck", "mcp"),
        env={
            "PATH": os.environ["PATH"],
            "QUARTERDECK_TOKEN": rig.token,
            "QUARTERDECK_MCP_URL": rig.http.url,
        },
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(SOON):
        out, _ = await process.communicate(json.dumps(PING).encode() + b"\n")
    assert process.returncode == 0 and json.loads(out)["result"] == {}


async def test_the_command_without_a_host_says_what_it_is_for():
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "quarterdeck", "mcp"),
        env={"PATH": os.environ["PATH"]},
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(SOON):
        _, err = await process.communicate()
    assert process.returncode == 1 and b"quarterdeck lead" in err
