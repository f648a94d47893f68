"""An editor in memory: the client's side of a connection with a server under test."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from quarterdeck.config.places import Places
from quarterdeck.serve.server import serve
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection, Router
from quarterdeck.wire.acp.errors import RESOURCE_NOT_FOUND
from quarterdeck.wire.content import ContentBlock, text
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.permissions import Cancelled, PermissionOutcome, Selected
from quarterdeck.wire.rpc import ByteStream, RpcLimits, memory_pair
from tests.support.acp_schema import FOLDER, FrameJudge

U = TypeVar("U", bound=acp.SessionUpdate)


class Editor:
    """Keeps updates and requests in order; answers permissions as ``leave`` says."""

    def __init__(self, connection: AcpConnection, router: Router, judge: FrameJudge) -> None:
        self.connection = connection
        self.judge = judge
        self.updates: list[acp.SessionNotification] = []
        self.asked: list[acp.RequestPermissionRequest] = []
        self.questions: list[acp.CreateElicitationRequest] = []
        self.buffers: dict[str, str] = {}
        """Unsaved text by path."""
        self.writes: dict[str, str] = {}
        self.terminals: dict[str, asyncio.subprocess.Process] = {}
        self.outputs: dict[str, str] = {}
        self.released: list[str] = []
        self.leave: str | None = "allow_once"
        """The kind of option to choose; None to leave the question open; ``late`` to allow it
        when ``answer_late`` says so, whatever the server wants by then."""
        self._late = asyncio.Event()
        self.form: dict[str, Any] | None = None
        self._changed = asyncio.Event()
        self._readers: list[asyncio.Task[None]] = []
        router.on(acp.SESSION_UPDATE, self._update)
        router.on(acp.SESSION_REQUEST_PERMISSION, self._permission)
        router.on(acp.ELICITATION_CREATE, self._elicit)
        router.on(acp.FS_READ_TEXT_FILE, self._read)
        router.on(acp.FS_WRITE_TEXT_FILE, self._write)
        router.on(acp.TERMINAL_CREATE, self._create)
        router.on(acp.TERMINAL_OUTPUT, self._output)
        router.on(acp.TERMINAL_WAIT_FOR_EXIT, self._wait)
        router.on(acp.TERMINAL_KILL, self._kill)
        router.on(acp.TERMINAL_RELEASE, self._release)

    # ---- what tests do

    async def new(self, cwd: Path) -> str:
        answer = await self.connection.call(
            acp.SESSION_NEW, acp.NewSessionRequest(cwd=str(cwd), mcp_servers=())
        )
        return answer.session_id

    async def load(self, session: str, cwd: Path) -> acp.LoadSessionResponse:
        request = acp.LoadSessionRequest(session_id=session, cwd=str(cwd), mcp_servers=())
        return await self.connection.call(acp.SESSION_LOAD, request)

    async def prompt(self, session: str, *content: str | ContentBlock) -> acp.PromptResponse:
        blocks = tuple(text(part) if isinstance(part, str) else part for part in content)
        request = acp.PromptRequest(session_id=session, prompt=blocks)
        return await self.connection.call(acp.SESSION_PROMPT, request)

    async def cancel(self, session: str) -> None:
        note = acp.CancelNotification(session_id=session)
        await self.connection.send(acp.SESSION_CANCEL, note)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds; looked at with every message that comes."""
        while not holds():
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), 10)

    def of(self, kind: type[U], session: str | None = None) -> list[U]:
        return [
            note.update
            for note in self.updates
            if isinstance(note.update, kind) and session in (None, note.session_id)
        ]

    def said(self, session: str | None = None) -> str:
        return "".join(
            getattr(chunk.content, "text", "") for chunk in self.of(acp.AgentMessageChunk, session)
        )

    def call_states(self, session: str | None = None) -> list[str]:
        return [update.status for update in self.of(acp.ToolCallUpdate, session) if update.status]

    def answer_late(self) -> None:
        self._late.set()

    def forget(self) -> None:
        self.updates.clear()

    async def close(self) -> None:
        for process in self.terminals.values():
            self._end(process)
            await process.wait()
        await asyncio.gather(*self._readers)

    # ---- what the server asks

    def _update(self, note: acp.SessionNotification) -> None:
        self.updates.append(note)
        self._changed.set()

    async def _permission(
        self, request: acp.RequestPermissionRequest
    ) -> acp.RequestPermissionResponse:
        self.asked.append(request)
        self._changed.set()
        if self.leave is None:
            await asyncio.get_running_loop().create_future()
        if self.leave == "late":
            while not self._late.is_set():
                with suppress(asyncio.CancelledError):
                    await self._late.wait()
            return acp.RequestPermissionResponse(outcome=Selected(option_id="allow-once"))
        return acp.RequestPermissionResponse(outcome=self._outcome(request))

    def _outcome(self, request: acp.RequestPermissionRequest) -> PermissionOutcome:
        if self.leave == "cancelled":
            return Cancelled()
        ids = [option.option_id for option in request.options if option.kind == self.leave]
        return Selected(option_id=ids[0] if ids else str(self.leave))

    async def _elicit(self, request: acp.CreateElicitationRequest) -> acp.CreateElicitationResponse:
        self.questions.append(request)
        if self.form is None:
            return acp.CreateElicitationResponse(action="decline")
        return acp.CreateElicitationResponse(action="accept", content=self.form)

    async def _read(self, request: acp.ReadTextFileRequest) -> acp.ReadTextFileResponse:
        if request.path in self.buffers:
            return acp.ReadTextFileResponse(content=self.buffers[request.path])
        path = Path(request.path)
        if not await asyncio.to_thread(path.is_file):
            raise RpcError(RESOURCE_NOT_FOUND, "no such file")
        return acp.ReadTextFileResponse(content=await asyncio.to_thread(path.read_text))

    async def _write(self, request: acp.WriteTextFileRequest) -> acp.Empty:
        self.writes[request.path] = request.content
        self.buffers.pop(request.path, None)
        await asyncio.to_thread(Path(request.path).write_text, request.content)
        return acp.Empty()

    async def _create(self, request: acp.CreateTerminalRequest) -> acp.CreateTerminalResponse:
        process = await asyncio.create_subprocess_exec(
            request.command,
            *request.args,
            cwd=request.cwd,
            env={"PATH": "/usr/bin:/bin", **{each.name: each.value for each in request.env}},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        id_ = f"t{len(self.terminals) + 1}"
        self.terminals[id_], self.outputs[id_] = process, ""
        self._readers.append(asyncio.create_task(self._collect(id_, process)))
        return acp.CreateTerminalResponse(terminal_id=id_)

    async def _collect(self, id_: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while data := await process.stdout.read(65536):
            self.outputs[id_] += data.decode()
            self._changed.set()

    async def _output(self, request: acp.TerminalOutputRequest) -> acp.TerminalOutputResponse:
        return acp.TerminalOutputResponse(output=self.outputs[request.terminal_id], truncated=False)

    async def _wait(
        self, request: acp.WaitForTerminalExitRequest
    ) -> acp.WaitForTerminalExitResponse:
        code = await self.terminals[request.terminal_id].wait()
        if code < 0:
            return acp.WaitForTerminalExitResponse(signal=f"SIG{-code}")
        return acp.WaitForTerminalExitResponse(exit_code=code)

    async def _kill(self, request: acp.KillTerminalRequest) -> acp.Empty:
        self._end(self.terminals[request.terminal_id])
        return acp.Empty()

    def _end(self, process: asyncio.subprocess.Process) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    async def _release(self, request: acp.ReleaseTerminalRequest) -> acp.Empty:
        self.released.append(request.terminal_id)
        return acp.Empty()


@asynccontextmanager
async def connect(
    environment: Mapping[str, str], capabilities: Mapping[str, Any], limits: RpcLimits
) -> AsyncIterator[Editor]:
    """Serve one editor; in the end every frame of the server's was valid, and it has ended."""
    ours, theirs = memory_pair()
    judge = FrameJudge(unstable=knows_unstable(capabilities), closed=True)
    serving = asyncio.create_task(
        serve(ours, Places.find(environment), environment, observers=[judge], limits=limits)
    )
    async with editor_on(theirs, judge, capabilities) as editor:
        yield editor
    await asyncio.wait_for(serving, 45)
    if FOLDER.is_dir():
        assert judge.faults() == []


def knows_unstable(capabilities: Mapping[str, Any]) -> bool:
    """Whether an editor shows that it knows more than the stable protocol."""
    return "subagents" in capabilities or "quarterdeck" in capabilities.get("_meta", {})


@asynccontextmanager
async def editor_on(
    stream: ByteStream, judge: FrameJudge, capabilities: Mapping[str, Any]
) -> AsyncIterator[Editor]:
    """An editor that has introduced itself."""
    router = Router("client", unstable=True)
    connection = AcpConnection(stream, router, name="agent")
    editor = Editor(connection, router, judge)
    async with connection:
        try:
            await connection.call(acp.INITIALIZE, introduction(capabilities))
            yield editor
        finally:
            await editor.close()


def introduction(capabilities: Mapping[str, Any]) -> acp.InitializeRequest:
    return acp.InitializeRequest(
        protocol_version=1,
        client_info=acp.Implementation(name="test-editor", version="1"),
        client_capabilities=msgspec.convert(capabilities, acp.ClientCapabilities),
    )
