"""The fake agent that ships: each of its commands does to a client what its name says."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.system.api import CommandSpec
from quarterdeck.system.local import LocalSystem
from quarterdeck.testing.acp_agent.commands import COMMANDS
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection, Router
from quarterdeck.wire.content import text
from quarterdeck.wire.errors import LinkError, RpcError
from quarterdeck.wire.permissions import Cancelled, Selected

FAKE = (sys.executable, "-m", "quarterdeck.testing.acp_agent")


class Client:
    """A client that writes down what it is told and allows what it is asked."""

    def __init__(self, connection: AcpConnection, updates: list[Any]) -> None:
        self.connection = connection
        self.updates = updates
        self.session = ""

    async def begin(self, cwd: str = "/") -> None:
        await self.connection.call(acp.INITIALIZE, acp.InitializeRequest(protocol_version=1))
        new = acp.NewSessionRequest(cwd=cwd, mcp_servers=())
        self.session = (await self.connection.call(acp.SESSION_NEW, new)).session_id

    async def prompt(self, said: str) -> str:
        request = acp.PromptRequest(session_id=self.session, prompt=(text(said),))
        return (await self.connection.call(acp.SESSION_PROMPT, request)).stop_reason

    @property
    def said(self) -> str:
        chunks = (u for u in self.updates if isinstance(u, acp.AgentMessageChunk))
        return "".join(getattr(chunk.content, "text", "<no text>") for chunk in chunks)


@asynccontextmanager
async def fake(
    *arguments: str, answer: Callable[[], Any] = lambda: Selected(option_id="yes")
) -> AsyncIterator[Client]:
    updates: list[Any] = []
    router = Router("client")
    router.on(acp.SESSION_UPDATE, lambda note: updates.append(note.update))

    async def permit(request: acp.RequestPermissionRequest) -> acp.RequestPermissionResponse:
        return acp.RequestPermissionResponse(outcome=answer())

    router.on(acp.SESSION_REQUEST_PERMISSION, permit)
    async with LocalSystem(["/"]) as system:
        process = await system.processes.spawn(CommandSpec(argv=(*FAKE, *arguments)))
        async with AcpConnection(process, router, answer_malformed=False) as connection:
            yield Client(connection, updates)


async def test_an_unknown_line_is_echoed():
    async with fake() as client:
        await client.begin()
        assert await client.prompt("hello there") == "end_turn"
        assert client.said == "hello there"


async def test_chunks_stream_in_order():
    async with fake() as client:
        await client.begin()
        await client.prompt("stream 500")
        assert client.said.split("\n")[:-1] == [f"chunk {n}" for n in range(500)]


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Selected(option_id="yes"), "permission: yes, allowed"),
        (Selected(option_id="no"), "permission: no, denied"),
        (Cancelled(), "permission: cancelled, denied"),
    ],
)
async def test_a_permission_is_asked_and_its_answer_obeyed(outcome: Any, said: str):
    async with fake(answer=lambda: outcome) as client:
        await client.begin()
        await client.prompt("ask rm -rf build")
        assert client.said == said


async def test_a_waiting_turn_ends_as_cancelled():
    async with fake() as client:
        await client.begin()
        turn = asyncio.create_task(client.prompt("wait"))
        while not client.said:
            await asyncio.sleep(0.005)
        cancel = acp.CancelNotification(session_id=client.session)
        await client.connection.send(acp.SESSION_CANCEL, cancel)
        assert await turn == "cancelled"
        assert await client.prompt("still here") == "end_turn"


async def test_garbage_and_a_chatty_stderr_do_not_stop_the_talk():
    async with fake("--banner", "Welcome!") as client:
        await client.begin()
        assert await client.prompt("garbage 5\nstderr 3000000\necho fine") == "end_turn"
        assert client.said.endswith("fine")
        assert client.connection.peer.counters.malformed == 6


async def test_a_crash_breaks_what_is_pending():
    async with fake() as client:
        await client.begin()
        with pytest.raises(LinkError):
            await client.prompt("crash 3")


async def test_a_session_is_remembered_by_the_next_process(tmp_path: Path):
    async with fake("--state", str(tmp_path)) as client:
        await client.begin()
        await client.prompt("remember the sea")
        session = client.session
    async with fake("--state", str(tmp_path)) as client:
        await client.connection.call(acp.INITIALIZE, acp.InitializeRequest(protocol_version=1))
        load = acp.LoadSessionRequest(session_id=session, cwd="/", mcp_servers=())
        await client.connection.call(acp.SESSION_LOAD, load)
        assert [type(update).__name__ for update in client.updates] == [
            "UserMessageChunk",
            "AgentMessageChunk",
        ]
        client.session = session
        await client.prompt("history")
        assert client.said.endswith("remember the sea")


async def test_login_is_needed_when_asked_for():
    async with fake("--needs-login") as client:
        with pytest.raises(RpcError) as refused:
            await client.begin()
        assert refused.value.code == -32000
        login = acp.AuthenticateRequest(method_id="pretend")
        await client.connection.call(acp.AUTHENTICATE, login)
        new = acp.NewSessionRequest(cwd="/", mcp_servers=())
        assert (await client.connection.call(acp.SESSION_NEW, new)).session_id == "fake-0"


async def test_a_second_prompt_in_a_turn_is_refused():
    async with fake() as client:
        await client.begin()
        turn = asyncio.create_task(client.prompt("wait 30"))
        while not client.said:
            await asyncio.sleep(0.005)
        with pytest.raises(RpcError, match="busy"):
            await client.prompt("me too")
        turn.cancel()


async def test_every_kind_of_update_is_spoken():
    async with fake() as client:
        await client.begin()
        await client.prompt(
            "think\ntool\nplan\nusage\nmode plan\ntitle x\ncommands\nimage\nunknown"
        )
        assert {type(update).__name__ for update in client.updates} == {
            "AgentThoughtChunk",
            "ToolCall",
            "ToolCallUpdate",
            "Plan",
            "UsageUpdate",
            "CurrentModeUpdate",
            "SessionInfoUpdate",
            "AvailableCommandsUpdate",
            "AgentMessageChunk",
            "UnknownUpdate",
        }


def test_every_command_is_in_the_manual():
    manual = (Path(__file__).parents[2] / "docs" / "fake-agent.md").read_text()
    assert [name for name in COMMANDS if f"`{name}" not in manual] == []


_SCRIPT = """
[[scenes]]
contains = "fix it"
commands = [
  "say-slowly I look first.",
  'change-file {"path": "PATH", "old": "1", "new": "2"}',
  "run-command echo ran && exit 3",
  "say-slowly All done.",
]
"""


@pytest.mark.parametrize(
    ("option", "content", "end"),
    [("yes", "x = 2", "All done."), ("no", "x = 1", "That was denied, so I stop here.")],
)
async def test_a_script_turns_prose_into_commands_and_a_denial_ends_the_turn(
    tmp_path: Path, option: str, content: str, end: str
):
    (tmp_path / "a.py").write_text("x = 1")
    script = tmp_path / "script.toml"
    script.write_text(_SCRIPT.replace("PATH", str(tmp_path / "a.py")))
    chosen = Selected(option_id=option)
    async with fake("--script", str(script), answer=lambda: chosen) as client:
        await client.begin()
        assert await client.prompt("please fix it") == "end_turn"
        assert client.said.startswith("I look first.") and client.said.strip().endswith(end)
        assert (tmp_path / "a.py").read_text() == content
        await client.prompt("hello")
        assert client.said.endswith("hello")
