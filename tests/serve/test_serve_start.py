"""The first words of a connection, and its end: versions, logins, imports, exits."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.errors import RpcError
from tests.serve.editor import introduction

COMMAND = [sys.executable, "-m", "quarterdeck", "acp"]
HEAVY = ("httpx2", "sqlite3", "textual", "mcp", "quarterdeck.agent", "quarterdeck.models")


@pytest.mark.parametrize(("asked", "answered"), [(1, 1), (65535, 1), (2, 1), (0, 1)])
async def test_the_version_is_one_that_we_speak(connected, asked: int, answered: int):
    async with connected() as editor:
        request = acp.InitializeRequest(protocol_version=asked)
        assert (await editor.connection.call(acp.INITIALIZE, request)).protocol_version == answered


async def test_what_is_offered_is_there(connected):
    async with connected() as editor:
        answer = await editor.connection.call(acp.INITIALIZE, introduction({}))
        offered = answer.agent_capabilities
        assert answer.agent_info is not None
        assert answer.agent_info.name == "quarterdeck"
        assert offered.load_session
        assert offered.prompt_capabilities.image
        assert not offered.prompt_capabilities.audio
        assert offered.mcp_capabilities.http and not offered.mcp_capabilities.sse
        assert [method.id for method in answer.auth_methods] == ["model-key"]
        with_terminal = introduction({"auth": {"terminal": True}})
        answer = await editor.connection.call(acp.INITIALIZE, with_terminal)
        assert [method.type for method in answer.auth_methods] == [None, "terminal"]


async def test_without_a_model_a_session_needs_a_login(
    connected, environment: dict[str, str], project: Path
):
    environment["QUARTERDECK_MODEL"] = "anthropic/claude-sonnet-5"
    async with connected() as editor:
        with pytest.raises(RpcError) as caught:
            await editor.new(project)
        assert caught.value.code == -32000
        assert "ANTHROPIC_API_KEY" in caught.value.message
        with pytest.raises(RpcError) as caught:
            await authenticate(editor, "model-key")
        assert caught.value.code == -32000
        environment["QUARTERDECK_MODEL"] = "scripted/default"
        await authenticate(editor, "model-key")
        assert await editor.new(project)


async def test_logging_out_holds_until_logging_in(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        await editor.connection.call(acp.LOGOUT, acp.LOGOUT.params())
        with pytest.raises(RpcError) as caught:
            await editor.prompt(session, "scene:text")
        assert caught.value.code == -32000
        with pytest.raises(RpcError) as caught:
            await authenticate(editor, "no-such-way")
        assert caught.value.code == -32602
        await authenticate(editor, "model-key")
        await editor.load(session, project)


async def test_what_is_no_method_is_told_so(connected):
    async with connected() as editor:
        for method in ("session/unheard_of", "_quarterdeck/nothing"):
            with pytest.raises(RpcError) as caught:
                await editor.connection.peer.request(method, {})
            assert caught.value.code == -32601


async def test_initialize_imports_nothing_of_the_agent(environment: dict[str, str]):
    program = f"""
import asyncio, json, sys
from quarterdeck.config.places import Places
from quarterdeck.serve.server import serve
from quarterdeck.wire.rpc import memory_pair, Peer
class Nothing:
    def on_request(self, *_): raise AssertionError
    def on_notification(self, *_): raise AssertionError
async def main():
    ours, theirs = memory_pair()
    serving = asyncio.create_task(serve(ours, Places.find(), {{}}))
    async with Peer(theirs, Nothing()) as peer:
        await peer.request("initialize", {{"protocolVersion": 1}})
        print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
    await serving
asyncio.run(main())
"""
    output, code = await run([sys.executable, "-c", program], environment, b"")
    assert (code, json.loads(output)) == (0, [])


async def test_it_ends_when_its_input_ends(environment: dict[str, str], project: Path):
    frames = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "session/new",
            "params": {"cwd": str(project), "mcpServers": []},
        },
    ]
    child = await asyncio.create_subprocess_exec(
        *COMMAND, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=environment
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))
    answers = [json.loads(await child.stdout.readline()) for _ in frames]
    assert [answer["id"] for answer in answers] == [1, 2]
    assert "sessionId" in answers[1]["result"]
    await child.communicate(b"")
    assert child.returncode == 0


async def test_setup_says_which_model_is_used(environment: dict[str, str]):
    output, code = await run([*COMMAND, "--setup"], environment, b"")
    assert (code, output) == (0, b"A session here uses the model scripted/default.\n")


async def authenticate(editor, method: str) -> None:
    request = acp.AuthenticateRequest(method_id=method)
    await editor.connection.call(acp.AUTHENTICATE, request)


async def run(command: list[str], environment: dict[str, str], sent: bytes) -> tuple[bytes, int]:
    extra = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment | extra,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(sent), 50)
    assert process.returncode is not None
    return output, process.returncode
