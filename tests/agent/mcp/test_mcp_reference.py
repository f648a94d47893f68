"""The reference server, as npm has it: over pipes and over streamable HTTP."""

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.agent.mcp.server import try_server
from quarterdeck.agent.tool_servers import ServerDefinition
from quarterdeck.policy.gate import QuestionReply
from quarterdeck.wire.conversation import ImagePart
from quarterdeck.wire.events import QuestionAsked, ToolCallEnded, ToolCallUpdated
from tests.support.deadlines import SOON
from tests.support.mcp_servers import CLEAN
from tests.support.native_agents import PERSON, call, deck, results, says, told

FILE = (
    Path(__file__).parents[3]
    / "build/peers/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
)
FLAGS: dict[str, Any] = {
    "tools": {"mcp": {"wait": SOON}},
    "permissions": {"allow": ["mcp(everything)"]},
}
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        not FILE.is_file() or shutil.which("node") is None, reason="the server is not installed"
    ),
]


@pytest.fixture(params=["stdio", "http"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[ServerDefinition]:
    if request.param == "stdio":
        yield ServerDefinition(name="everything", command=("node", str(FILE), "stdio"))
        return
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        "node",
        str(FILE),
        "streamableHttp",
        env={**CLEAN, "PORT": str(port), "HOME": os.devnull},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await _answers(port)
        yield ServerDefinition(name="everything", url=f"http://127.0.0.1:{port}/mcp")
    finally:
        process.kill()
        await process.wait()


async def _answers(port: int) -> None:
    async with asyncio.timeout(SOON):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            await writer.wait_closed()
            return


def use(tool: str, **arguments: Any):
    return says(call(f"mcp__everything__{tool}", **arguments))


async def test_it_works_and_lists_its_tools(server: ServerDefinition):
    trial = await try_server(server, roots=("/tmp",), environment={})
    assert trial.works, trial.reason
    assert trial.version == "2025-11-25"
    assert {"echo", "get-sum", "get-tiny-image"} <= {tool.name for tool in trial.tools}
    assert trial.problems == ()


async def test_its_tools_are_called_in_a_turn(tmp_path: Path, server: ServerDefinition):
    script = (
        use("echo", message="hello"),
        use("get-sum", a=2, b=40),
        use("get-tiny-image"),
        use("get-structured-content", location="New York"),
        use("trigger-long-running-operation", duration=1, steps=2),
        use("get-roots-list"),
        use("get-sum", a="no number"),
        "bye",
    )
    async with deck(tmp_path, *script, servers=(server,), flags=FLAGS) as opened:
        assert (await opened.prompt()).stop == "end_turn"
        heard = [results(request.messages[-1])[0] for request in opened.requests[1:]]
        assert told(heard[0]) == "Echo: hello"
        assert "42" in told(heard[1])
        assert any(isinstance(part, ImagePart) for part in heard[2].content)
        assert "temperature" in told(heard[3])
        assert "completed" in told(heard[4])
        assert str(opened.cwd) in told(heard[5])
        ends = await opened.events(ToolCallEnded)
        assert [end.status for end in ends] == ["completed"] * 6 + ["failed"]
        assert ends[3].raw_output is not None
        shown = [e.content for e in await opened.events(ToolCallUpdated)]
        assert "of 2" in str(shown)


async def test_it_asks_the_person(tmp_path: Path, server: ServerDefinition):
    script = (use("trigger-elicitation-request"), "bye")
    async with deck(tmp_path, *script, servers=(server,), flags=FLAGS) as opened:
        turn = opened.start()
        (asked,) = await opened.seen(QuestionAsked)
        assert asked.form is not None and "name" in asked.form["properties"]
        reply = QuestionReply(action="accept", by=PERSON, content={"name": "Ada Lovelace"})
        opened.session.gate.reply(asked.request, reply)
        await turn
        assert "Ada Lovelace" in told(results(opened.requests[-1].messages[-1])[0])
