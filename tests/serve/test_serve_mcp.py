"""MCP servers that a client names for its session."""

import asyncio
import sys
from pathlib import Path

import pytest

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.errors import RpcError
from tests.support.deadlines import SOON
from tests.support.mcp_servers import http_hostile

SCRIPT = """
default = "echo"
[[scenes.echo.replies]]
parts = [{ call = "mcp__bad__echo", arguments = { text = "over" } }]
[[scenes.echo.replies]]
parts = [{ text = "done" }]
"""
PROGRAM = ("-m", "quarterdeck.testing.mcp_server")


def stdio(*quirks: str, name: str = "bad") -> acp.McpServer:
    variables = (acp.EnvVariable(name="MINE", value="1"),)
    return acp.McpServer(name=name, command=sys.executable, args=(*PROGRAM, *quirks), env=variables)


@pytest.fixture
def environment(environment: dict[str, str], home: Path) -> dict[str, str]:
    script = home / "mcp.toml"
    script.write_text(SCRIPT)
    return {
        **environment,
        "QUARTERDECK_MODEL": f"scripted/{script}",
        "QUARTERDECK_TOOLS_MCP_WAIT": str(SOON),
    }


async def new(editor, project: Path, *servers: acp.McpServer) -> str:
    request = acp.NewSessionRequest(cwd=str(project), mcp_servers=servers)
    return (await editor.connection.call(acp.SESSION_NEW, request)).session_id


def outputs(editor, session: str) -> str:
    return str([update.content for update in editor.of(acp.ToolCallUpdate, session)])


async def test_a_server_of_the_client_lends_its_tools(connected, project: Path):
    async with connected() as editor:
        session = await new(editor, project, stdio())
        await editor.prompt(session, "go")
        assert "echo: over" in outputs(editor, session)
        assert editor.asked[0].tool_call.title == "bad: echo (over)"


async def test_a_server_over_http_too(connected, project: Path):
    async with http_hostile("era=dual") as server, connected() as editor:
        given = acp.McpServer(name="bad", type="http", url=server.url, headers=())
        session = await new(editor, project, given)
        await editor.prompt(session, "go")
        assert "echo: over" in outputs(editor, session)


async def test_a_transport_that_was_not_offered_is_refused(connected, project: Path):
    async with connected() as editor:
        old = acp.McpServer(name="x", type="sse", url="http://127.0.0.1:1/sse", headers=())
        with pytest.raises(RpcError, match="'stdio' and 'http'"):
            await new(editor, project, old)


async def test_a_slow_server_of_one_session_does_not_delay_another(
    connected, project: Path, tmp_path: Path
):
    other = tmp_path / "other"
    await asyncio.to_thread(other.mkdir)
    async with connected() as editor:
        async with asyncio.timeout(SOON):
            stuck = await new(editor, project, stdio("silent"))
            quick = await new(editor, other, stdio())
            waiting = asyncio.ensure_future(editor.prompt(stuck, "go"))
            await editor.prompt(quick, "go")
        assert "echo: over" in outputs(editor, quick)
        assert not waiting.done()
        await editor.cancel(stuck)
        assert (await waiting).stop_reason == "cancelled"
