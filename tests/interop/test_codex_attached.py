"""A ``codex app-server`` that runs already and several clients of it, on the scripted model."""

import asyncio
import hashlib
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.agent_description import make_launch
from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.daemon.codex.link import CodexLink
from quarterdeck.drivers.daemon.codex.websocket_stream import WebSocketStream
from quarterdeck.drivers.errors import OpenFailedError
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.errors import LinkError
from quarterdeck.wire.events import (
    MessageChunk,
    PermissionAnswered,
    PermissionAsked,
    ToolCallEnded,
    ToolCallStarted,
    UnknownEvent,
)
from tests.support import real_agents
from tests.support.contract import judge
from tests.support.driver_rig import Driven, Rig, drive

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]
LONG = 60.0
HELLO = "Hello from the scripted model."
TICKS = "".join(f"tick {number} " for number in range(1, 41))
SCRIPT = files("quarterdeck.models.script") / "data" / "default.toml"
BRISK = """
[[scenes.brisk.replies]]
parts = [{ text = "tick {{n}} ", repeat = 40, pause = 0.05 }]
"""


@dataclass
class Server:
    """A server of codex, and how it is reached."""

    url: str
    command: list[str]
    environment: dict[str, str]
    project: Path
    password: str = ""
    processes: list[asyncio.subprocess.Process] = field(default_factory=list[Any])

    async def start(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *self.command,
            env=self.environment,
            cwd=self.project,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        self.processes.append(process)

    async def kill(self) -> None:
        for process in self.processes:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()

    def open(self, **options: Any) -> Any:
        launch = replace(self.launch, url=self.url, password=self.password)
        rig = Rig(name="codex", make=lambda: CodexLink(launch))
        return drive(rig, self.project, model=real_agents.model_of("codex"), **options)

    launch: Any = None


@asynccontextmanager
async def codex_server(tmp_path: Path, url: str, *words: str) -> AsyncGenerator[Server]:
    program = real_agents.find("codex")
    if program is None:
        pytest.skip("codex is not installed")
    project = tmp_path / "project"
    project.mkdir()
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT.read_text() + BRISK)
    async with ModelServer(script) as model:
        environment = real_agents.environment("codex", tmp_path / "home", model.url)
        command = [str(program), "app-server", "--listen", url, *words]
        server = Server(url, command, environment, project)
        server.launch = make_launch(await asyncio.to_thread(find_agent, "codex"), "daemon")
        try:
            await server.start()
            yield server
        finally:
            await server.kill()


async def until_there(server: Server) -> None:
    """Wait until it listens; a session fails at once where nobody does."""
    async with asyncio.timeout(LONG):
        while True:
            try:
                async with server.open():
                    return
            except OpenFailedError:
                await asyncio.sleep(0.1)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Server]:
    place = Path(tempfile.mkdtemp(dir="/tmp"))  # the path of a socket must be short
    try:
        async with codex_server(tmp_path, f"unix://{place}/s") as server:
            await until_there(server)
            yield server
    finally:
        await asyncio.to_thread(shutil.rmtree, place)


async def cut(driven: Driven) -> None:
    """Break the connection as a machine does that falls asleep: without a word."""
    link: Any = driven.session._link
    stream = link._connection._peer._stream
    assert isinstance(stream, WebSocketStream)
    stream._connection.transport.abort()


@pytest.mark.long
async def test_two_clients_with_threads_of_their_own(server: Server):
    async with server.open() as one, server.open() as two:
        first = asyncio.create_task(one.say("scene:brisk", within=LONG))
        second = asyncio.create_task(two.say("scene:shell", within=LONG))
        await two.answer("allow_once", within=LONG)
        assert (await second).stop == (await first).stop == "end_turn"
        assert (server.project / "made-by-shell.txt").exists()
    assert one.text == TICKS and "tick" not in two.text
    for driven in (one, two):
        assert not driven.all(UnknownEvent)
        judge(driven.heard)


async def test_two_clients_of_one_thread_hear_the_same_once(server: Server):
    async with server.open() as one:
        assert (await one.say("scene:text", within=LONG)).stop == "end_turn"
        async with server.open(resume=one.session.agent_session) as two:
            turn = asyncio.create_task(one.say("scene:shell", within=LONG))
            await one.seen(PermissionAsked, within=LONG)
            await two.answer("allow_once", within=LONG)
            assert (await turn).stop == "end_turn"
            await two.seen(MessageChunk, lambda one: "finished." in str(one.content), within=LONG)
        assert one.text == HELLO + two.text
    for driven in (one, two):
        assert len(driven.all(ToolCallStarted)) == len(driven.all(ToolCallEnded)) == 1
        assert len(driven.all(PermissionAsked)) == len(driven.all(PermissionAnswered)) == 1
        judge(driven.heard)


async def test_a_turn_goes_on_when_the_connection_breaks(server: Server):
    async with server.open() as driven:
        turn = asyncio.create_task(driven.say("scene:brisk", within=LONG))
        await driven.seen(MessageChunk, within=LONG)
        await cut(driven)
        await asyncio.sleep(0.5)
        await cut(driven)
        ended = await turn
        assert ended.stop == "end_turn" and driven.text == TICKS
        assert ended.usage is not None and ended.usage.output > 0
        assert (await driven.say("scene:text", within=LONG)).stop == "end_turn"
    assert driven.text == TICKS + HELLO
    judge(driven.heard)


@pytest.mark.long
@pytest.mark.parametrize("scene", ["shell", "write"])
async def test_a_question_outlives_the_connection(server: Server, scene: str):
    async with server.open() as driven:
        turn = asyncio.create_task(driven.say(f"scene:{scene}", within=LONG))
        await driven.seen(PermissionAsked, within=LONG)
        await cut(driven)
        await driven.answer("allow_once", within=LONG)
        assert (await turn).stop == "end_turn"
        assert len(list(server.project.iterdir())) == 1
    assert len(driven.all(PermissionAsked)) == len(driven.all(PermissionAnswered)) == 1
    judge(driven.heard)


@pytest.mark.long
async def test_an_end_in_the_gap_ends_the_turn(server: Server):
    async with server.open() as driven:
        assert (await driven.say("scene:text", within=LONG)).stop == "end_turn"
        told = len(driven.all(MessageChunk))
        turn = asyncio.create_task(driven.say("scene:text again", within=LONG))
        await driven.seen(MessageChunk, lambda _: len(driven.all(MessageChunk)) > told)
        await cut(driven)
        assert (await turn).stop == "end_turn"
    assert driven.text == HELLO * 2
    judge(driven.heard)


@pytest.mark.long
async def test_an_interrupt_and_closing_leave_the_server_at_rest(server: Server):
    async with server.open() as driven:
        turn = asyncio.create_task(driven.say("scene:slow", within=LONG))
        await driven.seen(MessageChunk, within=LONG)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        told = len(driven.all(MessageChunk))
        turn = asyncio.create_task(driven.say("scene:slow", within=LONG))
        await driven.seen(MessageChunk, lambda _: len(driven.all(MessageChunk)) > told)
    assert (await turn).stop == "cancelled"
    theirs = driven.session.agent_session
    async with server.open(resume=theirs) as again:
        assert (await again.say("scene:text", within=LONG)).stop == "end_turn"
        assert again.text == HELLO


@pytest.mark.long
async def test_a_server_that_is_started_anew_is_used_again(server: Server):
    async with server.open() as driven:
        assert (await driven.say("scene:text", within=LONG)).stop == "end_turn"
        turn = asyncio.create_task(driven.say("scene:slow", within=LONG))
        await driven.seen(MessageChunk, lambda one: "tick" in str(one.content), within=LONG)
        await server.kill()
        await server.start()
        assert (await turn).stop in ("failed", "cancelled")
        assert (await driven.say("scene:text again", within=LONG)).stop == "end_turn"
        assert driven.text.endswith(HELLO)
    judge(driven.heard)


@pytest.mark.long
async def test_a_thread_that_was_never_used_outlives_a_cut(server: Server):
    async with server.open() as driven:
        await cut(driven)
        ended = await driven.say("scene:text", within=LONG)
        if ended.stop == "failed":  # it was sent into the cut
            assert ended.reason == "the prompt was not delivered"
            assert (await driven.say("scene:text", within=LONG)).stop == "end_turn"
    assert driven.text == HELLO


@pytest.mark.long
async def test_one_that_is_down_fails_in_time(server: Server):
    await server.kill()
    async with asyncio.timeout(5):
        with pytest.raises((OpenFailedError, LinkError), match="no server at"):
            async with server.open():
                pass


@pytest.mark.long
async def test_over_a_port_with_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
):
    token = "a-token-of-the-test"
    digest = hashlib.sha256(token.encode()).hexdigest()
    words = ("--ws-auth", "capability-token", "--ws-token-sha256", digest)
    monkeypatch.setenv("MY_CODEX_TOKEN", token)
    url = f"ws://127.0.0.1:{unused_tcp_port}"
    async with codex_server(tmp_path, url, *words) as server:
        server.password = "MY_CODEX_TOKEN"
        await until_there(server)
        async with server.open() as driven:
            assert (await driven.say("scene:text", within=LONG)).stop == "end_turn"
        monkeypatch.setenv("MY_CODEX_TOKEN", "wrong")
        with pytest.raises(OpenFailedError, match="'MY_CODEX_TOKEN' is wrong"):
            async with server.open():
                pass
        server.password = ""
        with pytest.raises(OpenFailedError, match="requires a password"):
            async with server.open():
                pass
