"""The play that every pair performs, with our codec as agent and as client.

The agent obeys its prompts: ``stream`` streams, ``tool`` asks for leave and then reads, writes
and runs through the client, ``wait`` waits to be cancelled. Who drives writes a report; it is the
same for every pair.
"""

import asyncio
from typing import Any

from msgspec import to_builtins

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.connection import AcpConnection, Router, negotiate
from quarterdeck.wire.content import TextContent, text
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.permissions import PermissionOption, Selected
from quarterdeck.wire.settings import ConfigChoice, ConfigOption, Mode, PlanEntry
from quarterdeck.wire.tool_calls import Diff, ToolCallLocation

REPORT: dict[str, Any] = {
    "version": 1,
    "session": "s1",
    "modes": ["ask", "plan"],
    "stream": {
        "stop": "end_turn",
        "text": "one two three",
        "thought": "hm",
        "plan": ["Look"],
        "used": 10,
    },
    "allowed": {
        "stop": "end_turn",
        "status": "completed",
        "asked": ["allow_once", "reject_once"],
        "written": {"/out.txt": "CONTENT OF /IN.TXT"},
        "diff": ["/out.txt", "content of /in.txt", "CONTENT OF /IN.TXT"],
        "output": {"output": "hello\n", "exitCode": 0},
        "released": ["t1"],
    },
    "rejected": {"stop": "end_turn", "status": "failed"},
    "cancelled": "cancelled",
    "mode": "plan",
    "model": "big",
    "sessions": ["s1"],
    "replay": ["user: stream", "agent: one two three"],
    "unknown": -32601,
}
INFO = acp.Implementation(name="quarterdeck-interop", version="1")


def config(model: str) -> tuple[ConfigOption, ...]:
    choices = (ConfigChoice(name="Small", value="small"), ConfigChoice(name="Big", value="big"))
    return (
        ConfigOption(id="model", name="Model", type="select", current_value=model, options=choices),
    )


class OurAgent:
    """The agent of the play."""

    def __init__(self) -> None:
        self.router = router = Router("agent")
        self.connection: AcpConnection | None = None
        self._cancelled = asyncio.Event()
        router.on(acp.INITIALIZE, self.initialize)
        router.on(acp.SESSION_NEW, self.new)
        router.on(acp.SESSION_LOAD, self.load)
        router.on(acp.SESSION_LIST, self.list)
        router.on(acp.SESSION_PROMPT, self.prompt)
        router.on(acp.SESSION_SET_MODE, self.set_mode)
        router.on(acp.SESSION_SET_CONFIG_OPTION, self.set_config)
        router.on(acp.SESSION_CANCEL, lambda _: self._cancelled.set())

    async def initialize(self, request: acp.InitializeRequest) -> acp.InitializeResponse:
        return acp.InitializeResponse(
            protocol_version=negotiate(request.protocol_version),
            agent_capabilities=acp.AgentCapabilities(
                load_session=True,
                session_capabilities=acp.SessionCapabilities(list=acp.Empty()),
            ),
            auth_methods=(acp.AuthMethod(id="none", name="No login"),),
            agent_info=INFO,
        )

    async def new(self, _: acp.NewSessionRequest) -> acp.NewSessionResponse:
        modes = (Mode(id="ask", name="Ask"), Mode(id="plan", name="Plan"))
        return acp.NewSessionResponse(
            session_id="s1",
            modes=acp.SessionModeState(current_mode_id="ask", available_modes=modes),
            config_options=config("small"),
        )

    async def load(self, _: acp.LoadSessionRequest) -> acp.LoadSessionResponse:
        await self._update(acp.UserMessageChunk(content=text("stream")))
        await self._update(acp.AgentMessageChunk(content=text("one two three")))
        return acp.LoadSessionResponse(config_options=config("small"))

    async def list(self, _: acp.ListSessionsRequest) -> acp.ListSessionsResponse:
        return acp.ListSessionsResponse(
            sessions=(acp.SessionInfo(session_id="s1", cwd="/", title="A title"),)
        )

    async def set_mode(self, request: acp.SetSessionModeRequest) -> acp.Empty:
        await self._update(acp.CurrentModeUpdate(current_mode_id=request.mode_id))
        return acp.Empty()

    async def set_config(
        self, request: acp.SetSessionConfigOptionRequest
    ) -> acp.SetSessionConfigOptionResponse:
        return acp.SetSessionConfigOptionResponse(config_options=config(str(request.value)))

    async def prompt(self, request: acp.PromptRequest) -> acp.PromptResponse:
        (block,) = request.prompt
        assert isinstance(block, TextContent)
        if block.text == "wait":
            self._cancelled.clear()
            await self._update(acp.AgentMessageChunk(content=text("waiting")))
            await self._cancelled.wait()
            return acp.PromptResponse(stop_reason="cancelled")
        await (self._stream() if block.text == "stream" else self._tool())
        return acp.PromptResponse(stop_reason="end_turn")

    async def _stream(self) -> None:
        entry = PlanEntry(content="Look", priority="high", status="pending")
        await self._update(acp.AgentThoughtChunk(content=text("hm")))
        await self._update(acp.Plan(entries=(entry,)))
        for word in ("one", " two", " three"):
            await self._update(acp.AgentMessageChunk(content=text(word), message_id="m1"))
        await self._update(acp.UsageUpdate(used=10, size=100))

    async def _tool(self) -> None:
        assert self.connection is not None
        call = self.connection.call
        await self._update(
            acp.ToolCall(
                tool_call_id="c1",
                title="Edit",
                kind="edit",
                locations=(ToolCallLocation(path="/out.txt", line=1),),
                raw_input={"path": "/out.txt"},
            )
        )
        options = (
            PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            PermissionOption(option_id="no", name="No", kind="reject_once"),
        )
        answer = await call(
            acp.SESSION_REQUEST_PERMISSION,
            acp.RequestPermissionRequest(
                session_id="s1",
                tool_call=acp.ToolCallDetails(tool_call_id="c1", title="Edit"),
                options=options,
            ),
        )
        if not isinstance(answer.outcome, Selected) or answer.outcome.option_id != "yes":
            await self._update(acp.ToolCallUpdate(tool_call_id="c1", status="failed"))
            return
        read = acp.ReadTextFileRequest(session_id="s1", path="/in.txt")
        before = (await call(acp.FS_READ_TEXT_FILE, read)).content
        write = acp.WriteTextFileRequest(session_id="s1", path="/out.txt", content=before.upper())
        await call(acp.FS_WRITE_TEXT_FILE, write)
        output = await self._run()
        diff = Diff(path="/out.txt", old_text=before, new_text=before.upper())
        await self._update(
            acp.ToolCallUpdate(
                tool_call_id="c1", status="completed", content=(diff,), raw_output=output
            )
        )

    async def _run(self) -> dict[str, Any]:
        assert self.connection is not None
        call = self.connection.call
        start = acp.CreateTerminalRequest(
            session_id="s1",
            command="echo",
            args=("hello",),
            env=(acp.EnvVariable(name="A", value="b"),),
            cwd="/",
            output_byte_limit=1000,
        )
        terminal = (await call(acp.TERMINAL_CREATE, start)).terminal_id
        place = {"session_id": "s1", "terminal_id": terminal}
        await call(acp.TERMINAL_KILL, acp.KillTerminalRequest(**place))
        ended = await call(acp.TERMINAL_WAIT_FOR_EXIT, acp.WaitForTerminalExitRequest(**place))
        shown = await call(acp.TERMINAL_OUTPUT, acp.TerminalOutputRequest(**place))
        await call(acp.TERMINAL_RELEASE, acp.ReleaseTerminalRequest(**place))
        return {"output": shown.output, "exitCode": ended.exit_code}

    async def _update(self, update: acp.SessionUpdate) -> None:
        assert self.connection is not None
        note = acp.SessionNotification(session_id="s1", update=update)
        await self.connection.send(acp.SESSION_UPDATE, note)


class OurClient:
    """The client of the play: answers from a script and drives the agent."""

    def __init__(self) -> None:
        self.router = router = Router("client")
        self.choice = "yes"
        self.asked: list[str] = []
        self.updates: list[acp.SessionUpdate] = []
        self.written: dict[str, str] = {}
        self.released: list[str] = []
        self._waiting = asyncio.Event()
        router.on(acp.SESSION_UPDATE, self.update)
        router.on(acp.SESSION_REQUEST_PERMISSION, self.ask)
        router.on(acp.FS_READ_TEXT_FILE, self.read)
        router.on(acp.FS_WRITE_TEXT_FILE, self.write)
        router.on(acp.TERMINAL_CREATE, self.create)
        router.on(acp.TERMINAL_KILL, self.kill)
        router.on(acp.TERMINAL_OUTPUT, self.output)
        router.on(acp.TERMINAL_WAIT_FOR_EXIT, self.exit)
        router.on(acp.TERMINAL_RELEASE, self.release)

    def update(self, note: acp.SessionNotification) -> None:
        self.updates.append(note.update)
        if said(note.update, acp.AgentMessageChunk) == "waiting":
            self._waiting.set()

    async def ask(self, request: acp.RequestPermissionRequest) -> acp.RequestPermissionResponse:
        self.asked = [option.kind for option in request.options]
        return acp.RequestPermissionResponse(outcome=Selected(option_id=self.choice))

    async def read(self, request: acp.ReadTextFileRequest) -> acp.ReadTextFileResponse:
        return acp.ReadTextFileResponse(content=f"content of {request.path}")

    async def write(self, request: acp.WriteTextFileRequest) -> acp.Empty:
        self.written[request.path] = request.content
        return acp.Empty()

    async def create(self, request: acp.CreateTerminalRequest) -> acp.CreateTerminalResponse:
        assert (request.command, request.args) == ("echo", ("hello",))
        return acp.CreateTerminalResponse(terminal_id="t1")

    async def kill(self, _: acp.KillTerminalRequest) -> acp.Empty:
        return acp.Empty()

    async def output(self, _: acp.TerminalOutputRequest) -> acp.TerminalOutputResponse:
        status = acp.TerminalExitStatus(exit_code=0)
        return acp.TerminalOutputResponse(output="hello\n", truncated=False, exit_status=status)

    async def exit(self, _: acp.WaitForTerminalExitRequest) -> acp.WaitForTerminalExitResponse:
        return acp.WaitForTerminalExitResponse(exit_code=0)

    async def release(self, request: acp.ReleaseTerminalRequest) -> acp.Empty:
        self.released.append(request.terminal_id)
        return acp.Empty()

    async def drive(self, connection: AcpConnection) -> dict[str, Any]:
        """Perform the play and return the report."""
        call = connection.call
        capabilities = acp.ClientCapabilities(
            fs=acp.FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
        )
        hello = acp.InitializeRequest(
            protocol_version=1, client_capabilities=capabilities, client_info=INFO
        )
        welcome = await call(acp.INITIALIZE, hello)
        opened = await call(acp.SESSION_NEW, acp.NewSessionRequest(cwd="/", mcp_servers=()))
        assert opened.modes is not None
        report: dict[str, Any] = {
            "version": welcome.protocol_version,
            "session": opened.session_id,
            "modes": [mode.id for mode in opened.modes.available_modes],
            "stream": await self._stream(connection),
            "allowed": await self._allowed(connection),
            "rejected": await self._rejected(connection),
            "cancelled": await self._cancel(connection),
        }
        return report | await self._settings(connection)

    async def _prompt(self, connection: AcpConnection, command: str) -> str:
        self.updates.clear()
        request = acp.PromptRequest(session_id="s1", prompt=(text(command),))
        return (await connection.call(acp.SESSION_PROMPT, request)).stop_reason

    async def _stream(self, connection: AcpConnection) -> dict[str, Any]:
        stop = await self._prompt(connection, "stream")
        plans = [each for each in self.updates if isinstance(each, acp.Plan)]
        usages = [each for each in self.updates if isinstance(each, acp.UsageUpdate)]
        return {
            "stop": stop,
            "text": "".join(said(each, acp.AgentMessageChunk) for each in self.updates),
            "thought": "".join(said(each, acp.AgentThoughtChunk) for each in self.updates),
            "plan": [entry.content for entry in plans[-1].entries],
            "used": usages[-1].used,
        }

    async def _allowed(self, connection: AcpConnection) -> dict[str, Any]:
        stop = await self._prompt(connection, "tool")
        last = [each for each in self.updates if isinstance(each, acp.ToolCallUpdate)][-1]
        (diff,) = last.content or ()
        assert isinstance(diff, Diff)
        return {
            "stop": stop,
            "status": last.status,
            "asked": self.asked,
            "written": self.written,
            "diff": [diff.path, diff.old_text, diff.new_text],
            "output": to_builtins(last.raw_output),
            "released": self.released,
        }

    async def _rejected(self, connection: AcpConnection) -> dict[str, Any]:
        self.choice = "no"
        stop = await self._prompt(connection, "tool")
        last = [each for each in self.updates if isinstance(each, acp.ToolCallUpdate)][-1]
        return {"stop": stop, "status": last.status}

    async def _cancel(self, connection: AcpConnection) -> str:
        async with asyncio.TaskGroup() as group:
            turn = group.create_task(self._prompt(connection, "wait"))
            await self._waiting.wait()
            await connection.send(acp.SESSION_CANCEL, acp.CancelNotification(session_id="s1"))
        return turn.result()

    async def _settings(self, connection: AcpConnection) -> dict[str, Any]:
        call = connection.call
        self.updates.clear()
        await call(acp.SESSION_SET_MODE, acp.SetSessionModeRequest(session_id="s1", mode_id="plan"))
        modes = [each for each in self.updates if isinstance(each, acp.CurrentModeUpdate)]
        set_model = acp.SetSessionConfigOptionRequest(
            session_id="s1", config_id="model", value="big"
        )
        options = (await call(acp.SESSION_SET_CONFIG_OPTION, set_model)).config_options
        listed = await call(acp.SESSION_LIST, acp.ListSessionsRequest())
        self.updates.clear()
        load = acp.LoadSessionRequest(session_id="s1", cwd="/", mcp_servers=())
        await call(acp.SESSION_LOAD, load)
        replay = [
            *(f"user: {t}" for each in self.updates if (t := said(each, acp.UserMessageChunk))),
            *(f"agent: {t}" for each in self.updates if (t := said(each, acp.AgentMessageChunk))),
        ]
        return {
            "mode": modes[-1].current_mode_id,
            "model": options[0].current_value,
            "sessions": [each.session_id for each in listed.sessions],
            "replay": replay,
            "unknown": await unknown_code(connection),
        }


async def unknown_code(connection: AcpConnection) -> int:
    try:
        await connection.peer.request("_quarterdeck/nothing", {})
    except RpcError as error:
        return error.code
    return 0


def said(update: acp.SessionUpdate, kind: type[acp.ContentChunk]) -> str:
    if isinstance(update, kind) and isinstance(update.content, TextContent):
        return update.content.text
    return ""
